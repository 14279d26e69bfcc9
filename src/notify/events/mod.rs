//! Events about a deployment for programs: CloudEvents 1.0 with CDEvents 0.5.1 in them. Pure.
//!
//! A message of the outbox becomes the events of that change: a run is queued, started or finished, and a run that has
//! changed what is on its target has an event about the service, too. The content of an event depends only on settled
//! facts, so that a repeated event is the same. `docs/cloudevents.md` is for receivers.

mod record; // the record for a data warehouse
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::model::announcement::Announcement;
use crate::model::deployment::{Deployment, ForgeState, State};
use crate::model::id::AppKey;
use crate::model::status::one_line;
use record::Record;

/// The media type of an event in structured mode.
pub const MEDIA_TYPE: &str = "application/cloudevents+json";

/// The version of CDEvents; its schemas are in `tests/notify/cdevents/`.
const CDEVENTS: &str = "0.5.1";
/// The version that each type of event has in it.
const TYPES: &str = "0.3.0";

/// The largest event, in bytes: CloudEvents wants everybody to forward events up to this size.
pub const LARGEST: usize = 64 * 1024;

/// The longest text of the errors, for people; in characters.
const LONGEST_ERRORS: usize = 1000;

/// One event, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    /// The id, unique and stable: a repeated event has it again.
    pub id: String,
    /// The kind of event.
    pub kind: Announcement,
    /// The JSON text, no larger than [`LARGEST`].
    pub body: String,
}

/// A change of a deployment's state.
#[derive(Debug, Clone, Copy)]
pub struct StateChange<'a> {
    /// The deployment; by now it may have a later state.
    pub deployment: &'a Deployment,
    /// The state of this change.
    pub state: ForgeState,
    /// The same for people, in one sentence.
    pub sentence: &'a str,
    /// The change's place among those of the deployment, from 1.
    pub seq: i64,
    /// The time of the change.
    pub at: Timestamp,
}

/// The origin of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventOrigin {
    /// The service's address, without a slash at its end.
    pub url: String,
    /// The web address of the code host: `https://github.com`.
    pub forge: Option<String>,
}

/// The earlier state of the app on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviousState {
    /// The app was there, and changed.
    There,
    /// The app was not there.
    Absent,
}

/// Builds the events of a change, in their order; none where no run changed.
pub fn build_events(
    change: StateChange<'_>,
    origin: &EventOrigin,
    before: PreviousState,
) -> Vec<CloudEvent> {
    let StateChange { deployment, state, .. } = change;
    let finish = |outcome| Some(run(Announcement::Finished, change, origin, Some(outcome)));
    let run = match state {
        ForgeState::Queued => Some(run(Announcement::Queued, change, origin, None)),
        ForgeState::InProgress => Some(run(Announcement::Started, change, origin, None)),
        ForgeState::Success => finish("success"),
        ForgeState::Failure => finish("failure"),
        ForgeState::Error => finish("error"),
        ForgeState::Inactive => match deployment.state {
            State::Superseded | State::Cancelled => finish("cancel"),
            // Its run ended long ago.
            State::Queued
            | State::Running
            | State::Pushing
            | State::Syncing
            | State::Progressing
            | State::Succeeded
            | State::Failed => None,
        },
    };
    let service = match (state, deployment.state) {
        (ForgeState::Success, _) => service(change, origin, before),
        // Programs are told of what was live only when its app was removed: what replaces one
        // tells of itself.
        (ForgeState::Inactive, State::Succeeded) => removal(change, origin),
        _ => None,
    };
    run.into_iter().chain(service).collect()
}

fn run(
    kind: Announcement,
    change: StateChange<'_>,
    origin: &EventOrigin,
    outcome: Option<&str>,
) -> CloudEvent {
    let StateChange { deployment, .. } = change;
    let release = &deployment.request.release;
    let mut content = json!({
        "pipelineName": format!("deploy {} to {}", release.repository, deployment.request.target),
        "uri": page(deployment, origin),
    });
    if let (Some(outcome), Some(content)) = (outcome, content.as_object_mut()) {
        content.insert("outcome".to_owned(), outcome.into());
        if outcome != "success" {
            let errors = one_line(&deployment.summary, LONGEST_ERRORS);
            content.insert("errors".to_owned(), errors.into());
        }
    }
    let subject = json!({"id": deployment.id, "content": content});
    event(kind, "", &subject, change, origin, outcome.is_some())
}

/// Builds the event that another version is on the target now; nothing where it is the same as
/// before.
fn service(
    change: StateChange<'_>,
    origin: &EventOrigin,
    before: PreviousState,
) -> Option<CloudEvent> {
    let StateChange { deployment, .. } = change;
    let app = deployment.app.as_ref()?;
    deployment.pushed.as_ref().filter(|pushed| pushed.changed)?;
    let kind = match (before, &deployment.rollback) {
        (_, Some(_)) => Announcement::RolledBack,
        (PreviousState::There, None) => Announcement::Upgraded,
        (PreviousState::Absent, None) => Announcement::Deployed,
    };
    let content = json!({
        "environment": {"id": deployment.request.target},
        "artifactId": package(deployment, origin),
    });
    let subject = json!({"id": service_id(deployment, app), "content": content});
    Some(event(kind, "-service", &subject, change, origin, true))
}

/// Builds the event that the app is not on the target any more.
fn removal(change: StateChange<'_>, origin: &EventOrigin) -> Option<CloudEvent> {
    let StateChange { deployment, .. } = change;
    let content = json!({"environment": {"id": deployment.request.target}});
    let app = deployment.app.as_ref()?;
    let subject = json!({"id": service_id(deployment, app), "content": content});
    Some(event(Announcement::Removed, "-service", &subject, change, origin, true))
}

fn event(
    kind: Announcement,
    suffix: &str,
    subject: &Json,
    change: StateChange<'_>,
    origin: &EventOrigin,
    is_final: bool,
) -> CloudEvent {
    let StateChange { deployment, seq, at, .. } = change;
    let id = format!("{}-{seq}{suffix}", deployment.id);
    let name = format!("dev.cdevents.{}.{TYPES}", kind.as_str());
    let schema = kind.as_str().replace('.', "-");
    let body = json!({
        "specversion": "1.0",
        "id": id,
        "source": origin.url,
        "type": name,
        "subject": subject["id"],
        "time": at,
        "datacontenttype": "application/json",
        "dataschema": format!("https://cdevents.dev/{CDEVENTS}/schema/{schema}-event"),
        "data": {
            "context": {
                "specversion": CDEVENTS,
                "id": id,
                "source": origin.url,
                "type": name,
                "timestamp": at,
            },
            "subject": subject,
            "customData": Record::of(change, page(deployment, origin), is_final),
            "customDataContentType": "application/json",
        },
    });
    CloudEvent { id, kind, body: body.to_string() }
}

/// Returns the page that people look at.
fn page(deployment: &Deployment, origin: &EventOrigin) -> String {
    format!("{}/deployments/{}", origin.url, deployment.id)
}

fn service_id(deployment: &Deployment, app: &AppKey) -> String {
    format!("{}/{app}", deployment.request.target)
}

/// Returns the deployed app as a package URL: of the source, since the registry was not asked for the image's digest.
/// <https://github.com/package-url/purl-spec>
fn package(deployment: &Deployment, origin: &EventOrigin) -> String {
    let release = &deployment.request.release;
    let (repository, commit) = (&release.repository, &release.commit);
    match origin.forge.as_deref() {
        // Names are lower case there, says the type's definition.
        Some("https://github.com") => {
            format!("pkg:github/{}@{commit}", repository.as_str().to_lowercase())
        }
        Some(forge) => {
            format!(
                "pkg:generic/{repository}@{commit}?vcs_url=git%2B{forge}/{repository}%40{commit}"
            )
        }
        None => format!("pkg:generic/{repository}@{commit}"),
    }
}
