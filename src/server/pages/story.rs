//! The log of a deployment: one sentence for each event, in order. Pure.

use jiff::Timestamp;

use crate::model::deployment::{Deployment, ForgeState, Pushed, State};
use crate::model::notice::Sink;
use crate::model::rollback::Rollback;
use crate::model::violation::{Severity, Violation};
use crate::server::pages::deployment::{DeploymentStory, total, whom};
use crate::server::pages::words;
use crate::store::Notification;

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimelineEntry {
    /// The time.
    pub(crate) at: Timestamp,
    /// One sentence. Names and code stand between backticks.
    pub(crate) text: String,
}

/// Returns all entries so far.
pub(crate) fn lines(log: &DeploymentStory) -> Vec<TimelineEntry> {
    let DeploymentStory { deployment, told, places: _ } = log;
    let mut lines =
        vec![TimelineEntry { at: deployment.received_at, text: describe_request(deployment) }];
    lines.extend(told.iter().filter_map(step));
    lines.extend(ended(deployment));
    lines.extend(told.iter().filter_map(delivered));
    // Entries of the same time stay in the order above.
    lines.sort_by_key(|line| line.at);
    lines
}

fn describe_request(deployment: &Deployment) -> String {
    let request = &deployment.request;
    let release = &request.release;
    if let Some(Rollback { to, reason, .. }) = &deployment.rollback {
        let (who, target) = (&request.actor, &request.target);
        return format!(
            "{who} requested a rollback to `{}` on {target}, revision {to}: {reason}",
            release.tag
        );
    }
    let why = match request.description.trim() {
        "" => String::new(),
        why => format!(": {why}"),
    };
    format!(
        "{} requested `{}` of {} on {}, commit {}{why}",
        request.actor,
        release.tag,
        release.repository,
        request.target,
        release.commit.short(),
    )
}

/// Returns the entry for a status of the code host; the end of a deployment has entries of its own.
fn step(told: &Notification) -> Option<TimelineEntry> {
    let text = match (&told.sink, told.status.state) {
        (Sink::Forge, ForgeState::InProgress) => "a worker started".to_owned(),
        (Sink::Forge, ForgeState::Inactive) => told.status.description().to_owned(),
        _ => return None,
    };
    Some(TimelineEntry { at: told.at, text })
}

/// Returns the entries about the progress and the end.
fn ended(deployment: &Deployment) -> Vec<TimelineEntry> {
    let Some(at) = deployment.finished_at else { return Vec::new() };
    let mut texts = Vec::new();
    texts.extend(read(deployment));
    texts.extend(deployment.hand_edit.as_ref().map(|edit| format!("edited by hand: {edit}")));
    texts.extend(deployment.violations.iter().map(violation));
    texts.extend(match deployment.violations.left_out() {
        0 => None,
        more => Some(format!("and {more} more violations and warnings, which are not stored")),
    });
    texts.extend(deployment.pushed.as_ref().map(pushed));
    texts.extend(took(deployment));
    texts.push(end(deployment));
    texts.into_iter().map(|text| TimelineEntry { at, text }).collect()
}

fn read(deployment: &Deployment) -> Option<String> {
    let (app, template) = (deployment.app.as_ref()?, deployment.template.as_ref()?);
    Some(format!("the app is {app}, rendered by the template `{template}`"))
}

fn violation(violation: &Violation) -> String {
    let what = match violation.severity {
        Severity::Error => "violation",
        Severity::Warning => "warning",
    };
    let help = violation.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
    format!("{what}: {violation}{help}")
}

fn pushed(pushed: &Pushed) -> String {
    let Pushed { commit, changed, digest: _, files } = pushed;
    let files = words::count(files.len(), "file");
    if *changed {
        format!("{files} pushed with commit {} of the manifest repository", commit.short())
    } else {
        format!("the manifest repository had these {files} already: no commit was made")
    }
}

fn took(deployment: &Deployment) -> Option<String> {
    let each = deployment.stages.iter().filter(|time| time.micros > 0);
    let each = each.map(|time| format!("{} {}", time.stage.as_str(), words::duration(time.micros)));
    let each: Vec<_> = each.collect();
    let total = words::duration(total(&deployment.stages));
    let attempts = match deployment.attempts {
        0 | 1 => String::new(),
        more => format!(", at the last of {more} attempts"),
    };
    (!each.is_empty()).then(|| format!("it took {total}{attempts}: {}", each.join(", ")))
}

fn end(deployment: &Deployment) -> String {
    let state = deployment.state.as_str();
    match (deployment.state, deployment.summary.trim()) {
        (_, "") => state.to_owned(),
        // The summary has it all.
        (State::Superseded | State::Cancelled, summary) => summary.to_owned(),
        (_, summary) => format!("{state}: {summary}"),
    }
}

/// Returns the entry for a message that was delivered, or given up.
fn delivered(told: &Notification) -> Option<TimelineEntry> {
    let whom = whom(&told.sink);
    let what = told.status.state.as_str();
    match (told.sent_at, &told.parked) {
        (Some(at), _) => Some(TimelineEntry { at, text: format!("{whom}: `{what}` sent") }),
        (None, Some(why)) => Some(TimelineEntry {
            at: told.at,
            text: format!("{whom}: `{what}` not delivered, {why}"),
        }),
        (None, None) => None,
    }
}
