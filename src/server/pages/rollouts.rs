//! The pages of rollouts: the list, and one with its sequence, gates, progress and undo. Pure.

use askama::Template;

use crate::api::rollouts::{
    GateReadings, RolloutCommand, RolloutDetail, RolloutGateState, RolloutStatus, RolloutStepState,
    RolloutSummary, RolloutTargetStatus, RolloutTargetSummary, RolloutWaitSummary,
};
use crate::deployments::checks::Notice;
use crate::model::rollout_words::GateOutcome;
use crate::model::waiting::WaitingOn;
use crate::server::pages::acts::links::ActLinks;
use crate::server::pages::document::{Frame, LivePage, PageError, PageSection};
use crate::server::pages::words::{self, Part, RelativeTime};
use crate::support::time_text::format_micros;

/// The length of the progress bar.
const WHOLE: usize = 1000;

#[derive(Template)]
#[template(path = "rollouts.html")]
struct RolloutsPage {
    frame: Frame,
    filter: RolloutsFilter,
    states: Vec<&'static str>,
    is_filtered: bool,
    rows: Vec<RolloutRow>,
    /// The query of the next page.
    older: Option<String>,
}

/// The texts of the filter, as the address has them.
#[derive(Default)]
struct RolloutsFilter {
    state: String,
    app: String,
    target: String,
}

/// A rollout in a list, and at the head of its page.
struct RolloutRow {
    id: String,
    title: String,
    tag: String,
    state: String,
    look: &'static str,
    reason: String,
    progress: String,
    creator: String,
    created: RelativeTime,
}

#[derive(Template)]
#[template(path = "rollout.html")]
struct RolloutPage {
    frame: Frame,
    acts: ActLinks,
    row: RolloutRow,
    parts: Vec<ProgressPart>,
    waits: Vec<WaitView>,
    since: RelativeTime,
    repository: String,
    commit: String,
    name: String,
    description: String,
    policy: String,
    steps: Vec<StepView>,
    commands: Vec<RolloutCommand>,
}

/// A part of the progress bar.
#[derive(Debug, PartialEq, Eq)]
struct ProgressPart {
    look: &'static str,
    begin: usize,
    length: usize,
}

struct WaitView {
    target: String,
    subject: String,
    since: RelativeTime,
    last_event: Option<String>,
    gives_up: Option<RelativeTime>,
}

struct StepView {
    title: String,
    look: &'static str,
    is_current: bool,
    gate: Option<GateView>,
    targets: Vec<TargetView>,
}

struct GateView {
    condition: Vec<Part>,
    team: String,
    /// The time that it has: `2 h 0 min`; empty where it may take as long as it takes.
    limit: String,
    wait: Option<GateWait>,
    approval: Option<ApprovalView>,
    passed: Option<RelativeTime>,
    answers_title: String,
    /// The newest first.
    answers: Vec<AnswerRow>,
}

/// The wait of the gate at which the rollout is.
struct GateWait {
    since: RelativeTime,
    /// The time at which it passes by itself.
    passes: Option<RelativeTime>,
    gives_up: Option<RelativeTime>,
}

struct ApprovalView {
    by: String,
    reason: String,
    at: RelativeTime,
}

/// An answer of a gate to questions in a row.
struct AnswerRow {
    result: String,
    look: &'static str,
    value: Vec<Part>,
    first: RelativeTime,
    /// The time of the last question, where there were several.
    last: Option<RelativeTime>,
    asked: u32,
}

struct TargetView {
    name: String,
    state: String,
    look: &'static str,
    deployment: Option<String>,
    undo: Option<String>,
    notes: Vec<String>,
}

/// Renders the list.
///
/// # Errors
/// [`PageError`]
pub(crate) fn list(
    rollouts: &[RolloutSummary],
    pairs: &[(String, String)],
    older: Option<String>,
    live: Option<LivePage>,
    notices: Vec<Notice>,
) -> Result<String, PageError> {
    let text = |name: &str| {
        let pair = pairs.iter().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let page = RolloutsPage {
        frame: Frame {
            title: "rollouts".to_owned(),
            section: PageSection::Rollouts,
            refresh: live.is_some().then_some(30),
            live,
            notices,
            ..Frame::default()
        },
        filter: RolloutsFilter { state: text("state"), app: text("app"), target: text("target") },
        states: RolloutStatus::ALL.map(RolloutStatus::as_str).into(),
        is_filtered: !pairs.is_empty(),
        rows: rollouts.iter().map(row).collect(),
        older,
    };
    Ok(page.render()?)
}

/// Renders one rollout.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    rollout: RolloutDetail,
    live: Option<LivePage>,
    notices: Vec<Notice>,
    acts: ActLinks,
) -> Result<String, PageError> {
    let RolloutDetail {
        summary, description, on_failure, max_failures, steps, targets, waits, ..
    } = rollout;
    let row = row(&summary);
    let accepted = match max_failures {
        0 => "a target has failed".to_owned(),
        count => format!("more than {} failed", words::count(count, "target")),
    };
    let policy = format!("{}, once {accepted}", on_failure.as_str());
    let page = RolloutPage {
        frame: Frame {
            title: format!("{} as {}: {}", row.title, row.tag, row.state),
            section: PageSection::Rollouts,
            look: row.look,
            refresh: live.is_some().then_some(5),
            live,
            notices,
            is_wide: false,
        },
        acts,
        parts: parts(&targets),
        steps: step_views(steps, targets, &waits, &summary),
        waits: waits.into_iter().map(wait).collect(),
        since: words::moment(summary.since),
        repository: summary.repository.clone(),
        commit: summary.commit.chars().take(8).collect(),
        name: summary.name.clone().unwrap_or_default(),
        description,
        policy,
        commands: rollout.commands,
        row,
    };
    Ok(page.render()?)
}

fn row(rollout: &RolloutSummary) -> RolloutRow {
    let targets = words::count(rollout.targets_count, "target");
    let failed = match rollout.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    RolloutRow {
        id: rollout.id.clone(),
        title: rollout.app.clone(),
        tag: rollout.tag.clone(),
        state: words::plain(rollout.state.as_str()),
        look: look_of_state(rollout.state, rollout.needs_person),
        reason: rollout.reason.clone().unwrap_or_default(),
        progress: format!("{} of {targets} complete{failed}", rollout.complete),
        creator: rollout.created_by.clone(),
        created: words::moment(rollout.created_at),
    }
}

fn look_of_state(state: RolloutStatus, needs_person: bool) -> &'static str {
    match state {
        RolloutStatus::Done => "good",
        RolloutStatus::Undone | RolloutStatus::UndoFailed => "bad",
        RolloutStatus::Cancelled => "gone",
        RolloutStatus::Paused if needs_person => "warn",
        RolloutStatus::Created
        | RolloutStatus::RollingOut
        | RolloutStatus::Paused
        | RolloutStatus::Undoing => "going",
    }
}

fn look_of_target(state: RolloutTargetStatus) -> &'static str {
    match state {
        RolloutTargetStatus::Complete | RolloutTargetStatus::Unchanged => "good",
        RolloutTargetStatus::Failed | RolloutTargetStatus::UndoFailed => "bad",
        RolloutTargetStatus::Deploying
        | RolloutTargetStatus::UndoPending
        | RolloutTargetStatus::Undoing => "going",
        RolloutTargetStatus::Pending
        | RolloutTargetStatus::Superseded
        | RolloutTargetStatus::Skipped
        | RolloutTargetStatus::Undone => "gone",
    }
}

/// Makes the parts of the progress bar: what is complete, what failed, what is under way.
fn parts(targets: &[RolloutTargetSummary]) -> Vec<ProgressPart> {
    let all = targets.len().max(1);
    let mut before = 0;
    let mut parts = Vec::new();
    for look in ["good", "bad", "going"] {
        let count = targets.iter().filter(|target| look_of_target(target.state) == look).count();
        let (begin, end) = (before * WHOLE / all, (before + count) * WHOLE / all);
        before += count;
        if end > begin {
            parts.push(ProgressPart { look, begin, length: end - begin });
        }
    }
    parts
}

fn wait(wait: RolloutWaitSummary) -> WaitView {
    let RolloutWaitSummary { target, waiting } = wait;
    let WaitingOn { what, since, last_event, gives_up_at } = waiting;
    WaitView {
        target: target.unwrap_or_default(),
        subject: what,
        since: words::moment(since),
        last_event: last_event.map(|event| event.text),
        gives_up: gives_up_at.map(words::moment),
    }
}

fn step_views(
    steps: Vec<RolloutStepState>,
    targets: Vec<RolloutTargetSummary>,
    waits: &[RolloutWaitSummary],
    summary: &RolloutSummary,
) -> Vec<StepView> {
    let has_ended = matches!(
        summary.state,
        RolloutStatus::Done | RolloutStatus::Undone | RolloutStatus::Cancelled
    );
    let mut of_steps: Vec<Vec<TargetView>> = steps.iter().map(|_| Vec::new()).collect();
    for target in targets {
        if let Some(step) = of_steps.get_mut(target.step) {
            step.push(target_view(target));
        }
    }
    let view = |((number, step), targets): ((usize, RolloutStepState), Vec<TargetView>)| {
        let is_current = number == summary.index && !has_ended;
        let title = match (&step.gate, step.parallel) {
            (Some(gate), _) => format!("Gate: {}", words::plain(&gate.kind)),
            (None, Some(parallel)) if parallel > 1 => {
                format!("{}, {parallel} at a time", words::count(targets.len(), "target"))
            }
            (None, _) => words::count(targets.len(), "target"),
        };
        let look = match () {
            () if number < summary.index => "good",
            () if is_current => "going",
            () => "gone",
        };
        // Of the whole, which at a gate is the gate.
        let wait = waits.iter().find(|wait| is_current && wait.target.is_none());
        StepView {
            title,
            look,
            is_current,
            gate: step.gate.map(|gate| gate_view(gate, wait)),
            targets,
        }
    };
    steps.into_iter().enumerate().zip(of_steps).map(view).collect()
}

fn gate_view(gate: RolloutGateState, wait: Option<&RolloutWaitSummary>) -> GateView {
    let RolloutGateState {
        kind: _,
        condition,
        team,
        timeout_seconds,
        answer,
        mut answers,
        passes_at,
        passed_at,
        approval,
    } = gate;
    // A former version kept the last answer only.
    answers.extend(answer.filter(|_| answers.is_empty()).map(|answer| GateReadings {
        first_at: answer.at,
        last_at: answer.at,
        asked: 1,
        result: answer.result,
        value: answer.value,
    }));
    let limit = timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    GateView {
        condition: words::parts(&condition),
        team: team.unwrap_or_default(),
        limit: limit
            .map(|seconds| format_micros(seconds.saturating_mul(1_000_000)))
            .unwrap_or_default(),
        wait: wait.map(|RolloutWaitSummary { waiting, .. }| GateWait {
            since: words::moment(waiting.since),
            passes: passes_at.map(words::moment),
            gives_up: waiting.gives_up_at.map(words::moment),
        }),
        approval: approval.map(|approval| ApprovalView {
            by: approval.by,
            reason: approval.reason,
            at: words::moment(approval.at),
        }),
        passed: passed_at.map(words::moment),
        answers_title: words::count(answers.len(), "answer"),
        answers: answers.into_iter().rev().map(answer_row).collect(),
    }
}

fn answer_row(answer: GateReadings) -> AnswerRow {
    let GateReadings { first_at, last_at, asked, result, value } = answer;
    AnswerRow {
        result: words::plain(result.as_str()),
        look: match result {
            GateOutcome::Passed => "good",
            GateOutcome::NotPassed => "bad",
            GateOutcome::Unanswered => "going",
        },
        value: words::parts(&value),
        first: words::moment(first_at),
        last: (asked > 1).then(|| words::moment(last_at)),
        asked,
    }
}

fn target_view(target: RolloutTargetSummary) -> TargetView {
    let mut notes = Vec::new();
    notes.extend(target.failure.map(|failure| format!("failed: {failure}")));
    notes.extend(target.note);
    notes.extend(target.before.map(|before| format!("before: {before}")));
    if target.attempts > 1 {
        notes.push(format!("{} attempts", target.attempts));
    }
    TargetView {
        name: target.target,
        state: words::plain(target.state.as_str()),
        look: look_of_target(target.state),
        deployment: target.deployment,
        undo: target.undo,
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(state: RolloutTargetStatus) -> RolloutTargetSummary {
        RolloutTargetSummary {
            target: "prod".to_owned(),
            step: 0,
            state,
            since: "2026-11-21T05:48:12Z".parse().unwrap(),
            deployment: None,
            started_at: None,
            undo: None,
            before: None,
            attempts: 1,
            failure: None,
            note: None,
        }
    }

    #[test]
    fn the_progress_bar_has_what_is_complete_then_what_failed_and_goes_on() {
        use RolloutTargetStatus::{Complete, Deploying, Failed, Pending};
        let targets = [Failed, Complete, Complete, Deploying, Pending].map(target);
        let part = |look, begin, length| ProgressPart { look, begin, length };
        let expected = [part("good", 0, 400), part("bad", 400, 200), part("going", 600, 200)];
        assert_eq!(parts(&targets), expected);
        assert_eq!(parts(&[]), []);
    }
}
