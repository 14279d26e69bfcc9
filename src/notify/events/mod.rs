//! Events about a deployment for programs: CloudEvents 1.0 with CDEvents 0.5.1 in them. Pure.
//!
//! A message of the outbox becomes the events of that change: a run is queued, started or finished, and a run that has
//! changed what is on its target has an event about the service, too. In a watched cluster a run has tasks after its
//! push, one for each phase. The content of an event depends only on settled facts, so that a repeated event is the
//! same. `docs/cloudevents.md` is for receivers.

mod record; // the record for a data warehouse
pub mod rollout; // events about rollouts
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::model::announcement::Announcement;
use crate::model::deployment::{ClusterPhase, Deployment, ForgeState, State};
use crate::model::id::AppKey;
use crate::model::status::one_line;
use record::{Record, RecordPart};

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
    /// The phase in its cluster that begins with this change.
    pub phase: Option<ClusterPhase>,
    /// The phase that ends with it.
    pub open_phase: Option<ClusterPhase>,
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
    /// The app was there, and ran what was pushed last.
    There,
    /// The app was there, and what was pushed last did not run: the same again is a change.
    Failing,
    /// What was pushed last did not run, nor did anything before.
    NeverRan,
    /// The app was not there.
    Absent,
}

/// Builds the events of a change, in their order; none where no run changed.
pub fn build_events(
    change: StateChange<'_>,
    origin: &EventOrigin,
    before: PreviousState,
) -> Vec<CloudEvent> {
    let StateChange { deployment, state, phase, open_phase, .. } = change;
    let outcome = outcome(change);
    let run = match (state, phase, outcome) {
        (ForgeState::Queued, ..) => Some(run(Announcement::Queued, change, origin, None)),
        (ForgeState::InProgress, None, _) => Some(run(Announcement::Started, change, origin, None)),
        (ForgeState::InProgress, Some(phase), _) => Some(task(phase, change, origin, None)),
        (_, _, Some(outcome)) => Some(run(Announcement::Finished, change, origin, Some(outcome))),
        // Its run ended long ago.
        (_, _, None) => None,
    };
    // A phase that another one follows has done its part.
    let task_outcome = outcome.or(phase.map(|_| "success"));
    let ended_task = open_phase
        .zip(task_outcome)
        .map(|(phase, outcome)| task(phase, change, origin, Some(outcome)));
    let service = match (state, deployment.state) {
        (ForgeState::Success, _) => service(change, origin, before),
        // Programs are told of what was live only when its app was removed: what replaces one
        // tells of itself.
        (ForgeState::Inactive, State::Succeeded) => removal(change, origin),
        _ => None,
    };
    ended_task.into_iter().chain(run).chain(service).collect()
}

/// Returns the outcome of a run that ends with this change.
fn outcome(change: StateChange<'_>) -> Option<&'static str> {
    match change.state {
        ForgeState::Queued | ForgeState::InProgress => None,
        ForgeState::Success => Some("success"),
        ForgeState::Failure => Some("failure"),
        ForgeState::Error => Some("error"),
        ForgeState::Inactive => match change.deployment.state {
            State::Superseded | State::Cancelled => Some("cancel"),
            State::Queued
            | State::Running
            | State::Pushing
            | State::Syncing
            | State::Progressing
            | State::Succeeded
            | State::Failed => None,
        },
    }
}

/// Builds the event that a phase in the cluster begins, or ends with that outcome.
fn task(
    phase: ClusterPhase,
    change: StateChange<'_>,
    origin: &EventOrigin,
    outcome: Option<&str>,
) -> CloudEvent {
    let StateChange { deployment, sentence, .. } = change;
    let name = task_name(phase);
    let mut content = json!({
        "taskName": name,
        "uri": page(deployment, origin),
        "pipelineRun": {"id": deployment.id, "source": origin.url},
    });
    if let (Some(outcome), Some(content)) = (outcome, content.as_object_mut()) {
        content.insert("outcome".to_owned(), outcome.into());
        if outcome != "success" {
            content.insert("errors".to_owned(), one_line(sentence, LONGEST_ERRORS).into());
        }
    }
    let subject = json!({"id": format!("{}/{name}", deployment.id), "content": content});
    let (kind, suffix) = match outcome {
        Some(_) => (Announcement::TaskFinished, format!("-{name}")),
        None => (Announcement::TaskStarted, String::new()),
    };
    event(kind, &suffix, &subject, change, origin, RecordPart::Pushed)
}

/// Returns the name of the task that a phase is.
fn task_name(phase: ClusterPhase) -> &'static str {
    match phase {
        ClusterPhase::Syncing => "sync",
        ClusterPhase::Progressing => "rollout",
    }
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
    let part = if outcome.is_some() { RecordPart::Ended } else { RecordPart::Requested };
    event(kind, "", &subject, change, origin, part)
}

/// Builds the event that another version is on the target now; nothing where it is the same as
/// before, and ran.
fn service(
    change: StateChange<'_>,
    origin: &EventOrigin,
    before: PreviousState,
) -> Option<CloudEvent> {
    let StateChange { deployment, .. } = change;
    let app = deployment.app.as_ref()?;
    let is_repaired = matches!(before, PreviousState::Failing | PreviousState::NeverRan);
    deployment.pushed.as_ref().filter(|pushed| pushed.changed || is_repaired)?;
    let kind = match (before, &deployment.rollback) {
        (_, Some(_)) => Announcement::RolledBack,
        (PreviousState::There | PreviousState::Failing, None) => Announcement::Upgraded,
        (PreviousState::Absent | PreviousState::NeverRan, None) => Announcement::Deployed,
    };
    let content = json!({
        "environment": {"id": deployment.request.target},
        "artifactId": package(deployment, origin),
    });
    let subject = json!({"id": service_id(deployment, app), "content": content});
    Some(event(kind, "-service", &subject, change, origin, RecordPart::Ended))
}

/// Builds the event that the app is not on the target any more.
fn removal(change: StateChange<'_>, origin: &EventOrigin) -> Option<CloudEvent> {
    let StateChange { deployment, .. } = change;
    let content = json!({"environment": {"id": deployment.request.target}});
    let app = deployment.app.as_ref()?;
    let subject = json!({"id": service_id(deployment, app), "content": content});
    Some(event(Announcement::Removed, "-service", &subject, change, origin, RecordPart::Ended))
}

fn event(
    kind: Announcement,
    suffix: &str,
    subject: &Json,
    change: StateChange<'_>,
    origin: &EventOrigin,
    part: RecordPart,
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
            "customData": Record::of(change, page(deployment, origin), part),
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
