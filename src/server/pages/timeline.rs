//! The log of a deployment: one sentence for each event, in order. Pure.

use jiff::Timestamp;

use crate::model::deploy_clock::{DeployMark, IntervalTime, MarkClock, MarkTime};
use crate::model::deployment::{Deployment, ForgeState, Pushed, State};
use crate::model::notice::Sink;
use crate::model::rollback::Rollback;
use crate::model::status::ForgeStatus;
use crate::model::violation::{Severity, Violation};
use crate::server::pages::deployment::{DeploymentStory, name_receiver};
use crate::server::pages::steps::total;
use crate::server::pages::words;
use crate::store::Notification;
use crate::support::time_text::format_micros;

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
    let DeploymentStory { deployment, notifications, parts: _, places: _ } = log;
    let mut lines =
        vec![TimelineEntry { at: deployment.received_at, text: describe_request(deployment) }];
    lines.extend(notifications.iter().filter_map(status_entry));
    lines.extend(end_entries(deployment));
    lines.extend(deployment.marks.iter().filter_map(mark_entry));
    lines.extend(clock_entry(deployment));
    lines.extend(notifications.iter().filter_map(delivery_entry));
    // Entries of the same time stay in the order above.
    lines.sort_by_key(|line| line.at);
    lines
}

fn describe_request(deployment: &Deployment) -> String {
    let request = &deployment.request;
    let release = &request.release;
    if let Some(Rollback { to, reason, .. }) = &deployment.rollback {
        let (actor, target) = (&request.actor, &request.target);
        return format!(
            "{actor} requested a rollback to `{}` on {target}, revision {to}: {reason}",
            release.tag
        );
    }
    let description = match request.description.trim() {
        "" => String::new(),
        description => format!(": {description}"),
    };
    format!(
        "{} requested `{}` of {} on {}, commit {}{description}",
        request.actor,
        release.tag,
        release.repository,
        request.target,
        release.commit.short(),
    )
}

/// Returns the entry for a status of the code host; the end of a deployment has entries of its own.
fn status_entry(notification: &Notification) -> Option<TimelineEntry> {
    let text = match (&notification.sink, notification.status.state) {
        (Sink::Forge, ForgeState::InProgress) if is_first(&notification.status) => {
            "a worker started".to_owned()
        }
        (Sink::Forge, ForgeState::InProgress | ForgeState::Inactive) => {
            notification.status.description().to_owned()
        }
        _ => return None,
    };
    Some(TimelineEntry { at: notification.at, text })
}

/// Checks that a status is the one of a worker that begins.
fn is_first(status: &ForgeStatus) -> bool {
    *status == ForgeStatus::in_progress() || *status == ForgeStatus::rolling_back()
}

/// Returns the entries about the push and the end. In a cluster that is watched the end comes later.
fn end_entries(deployment: &Deployment) -> Vec<TimelineEntry> {
    let finished_at = deployment.finished_at;
    let Some(at) = deployment.pushed_at.or(finished_at) else { return Vec::new() };
    let mut texts = Vec::new();
    texts.extend(format_app(deployment));
    texts.extend(deployment.hand_edit.as_ref().map(|edit| format!("edited by hand: {edit}")));
    texts.extend(deployment.violations.iter().map(format_violation));
    texts.extend(match deployment.violations.left_out() {
        0 => None,
        count => Some(format!("and {count} more violations and warnings, which are not stored")),
    });
    texts.extend(deployment.pushed.as_ref().map(format_push));
    texts.extend(format_times(deployment));
    let mut entries: Vec<_> = texts.into_iter().map(|text| TimelineEntry { at, text }).collect();
    let log = deployment.log_tail.iter().map(|line| format!("the container's log: {line}"));
    let texts = log.chain(std::iter::once(format_end(deployment)));
    if let Some(at) = finished_at {
        entries.extend(texts.map(|text| TimelineEntry { at, text }));
    }
    entries
}

/// Returns the entry for a step that no other entry tells of.
fn mark_entry(time: &MarkTime) -> Option<TimelineEntry> {
    let text = match (time.mark, time.clock) {
        (
            DeployMark::CommitSeen
            | DeployMark::SyncBegan
            | DeployMark::Synced
            | DeployMark::RolloutBegan,
            clock,
        ) => format!("{}, by the clock of {}", time.mark.sentence(), clock.owner()),
        (
            DeployMark::Requested
            | DeployMark::Received
            | DeployMark::Planned
            | DeployMark::Pushed
            | DeployMark::ArgocdNotified
            | DeployMark::Finished,
            _,
        ) => return None,
    };
    Some(TimelineEntry { at: time.at, text })
}

/// Returns the entry with the intervals of the deploy clock, at the time of the last step by the service's own clock.
fn clock_entry(deployment: &Deployment) -> Option<TimelineEntry> {
    let marks = &deployment.marks;
    let own = marks.iter().filter(|time| time.clock == MarkClock::Service);
    let at = own.map(|time| time.at).max()?;
    let format =
        |time: &IntervalTime| format!("{} {}", time.interval.title(), words::lapse(time.lapse()));
    let intervals: Vec<String> = marks.intervals().iter().map(format).collect();
    let text = format!("deploy clock: {}", intervals.join(", "));
    (!intervals.is_empty()).then_some(TimelineEntry { at, text })
}

fn format_app(deployment: &Deployment) -> Option<String> {
    let (app, template) = (deployment.app.as_ref()?, deployment.template.as_ref()?);
    Some(format!("the app is {app}, rendered by the template `{template}`"))
}

fn format_violation(violation: &Violation) -> String {
    let kind = match violation.severity {
        Severity::Error => "violation",
        Severity::Warning => "warning",
    };
    let help = violation.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
    format!("{kind}: {violation}{help}")
}

fn format_push(pushed: &Pushed) -> String {
    let Pushed { commit, changed, digest: _, files } = pushed;
    let files = words::count(files.len(), "file");
    if *changed {
        format!("{files} pushed with commit {} of the manifest repository", commit.short())
    } else {
        format!("the manifest repository had these {files} already: no commit was made")
    }
}

fn format_times(deployment: &Deployment) -> Option<String> {
    let times = deployment.stages.iter().filter(|time| time.micros > 0);
    let times = times.map(|time| format!("{} {}", time.stage.as_str(), format_micros(time.micros)));
    let times: Vec<_> = times.collect();
    let total = format_micros(total(&deployment.stages));
    let attempts = match deployment.attempts {
        0 | 1 => String::new(),
        count => format!(", at the last of {count} attempts"),
    };
    (!times.is_empty()).then(|| format!("it took {total}{attempts}: {}", times.join(", ")))
}

fn format_end(deployment: &Deployment) -> String {
    let state = deployment.state.as_str();
    match (deployment.state, deployment.summary.trim()) {
        (_, "") => state.to_owned(),
        // The summary has it all.
        (State::Superseded | State::Cancelled, summary) => summary.to_owned(),
        (_, summary) => format!("{state}: {summary}"),
    }
}

/// Returns the entry for a message that was delivered, or given up.
fn delivery_entry(notification: &Notification) -> Option<TimelineEntry> {
    let receiver = name_receiver(&notification.sink);
    let state = notification.status.state.as_str();
    match (notification.sent_at, &notification.parked) {
        (Some(at), _) => Some(TimelineEntry { at, text: format!("{receiver}: `{state}` sent") }),
        (None, Some(reason)) => Some(TimelineEntry {
            at: notification.at,
            text: format!("{receiver}: `{state}` not delivered, {reason}"),
        }),
        (None, None) => None,
    }
}
