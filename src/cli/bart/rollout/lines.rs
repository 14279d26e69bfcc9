//! A rollout as lines: one for the whole, one for each target and gate with its state, its time and what it waits for.
//! Pure.

use anstyle::Style;
use jiff::{SignedDuration, Timestamp};

use crate::api::rollouts::{
    GateOutcome, GateReading, RolloutDetail, RolloutGateState, RolloutStatus, RolloutSummary,
    RolloutTargetStatus, RolloutTargetSummary, RolloutWaitSummary,
};
use crate::cli::live_lines::StyledLine;
use crate::cli::output::{BAD, BOLD, DIM, GOOD, NOTE};
use crate::cli::table::cut;
use crate::pipeline::weights::weights_text;

/// The longest name of a target that is shown whole.
const LONGEST_NAME: usize = 20;
/// The fewest lines of targets and gates that are left, however low the terminal is.
const MIN_ROWS: usize = 3;

/// The looks of one row: a target or a gate.
struct Row {
    sign: (Style, String),
    name: String,
    word: (Style, &'static str),
    time: String,
    detail: String,
    /// The place of the row in the sequence: before, in or behind what is under way.
    place: Place,
}

/// The place of a row in the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is over, and well.
    Complete,
    /// It is under way, or not well: it is always shown.
    Current,
    /// Its turn has not come.
    Pending,
}

/// Returns the lines of a rollout. Where a terminal is too low for all, targets that are complete, and those whose turn
/// has not come, share a line.
pub(super) fn lines(
    rollout: &RolloutDetail,
    now: Timestamp,
    spinner: &str,
    height: Option<usize>,
) -> Vec<StyledLine> {
    let mut rows = rows(rollout, now, spinner);
    let mut lines = vec![header(rollout, now, spinner)];
    lines.extend(reason_line(&rollout.summary));
    let room = height.map(|height| height.saturating_sub(lines.len() + 1).max(MIN_ROWS));
    let folded = room.map_or((0, 0), |room| fold(&rows, room));
    let (first, last) = (folded.0, rows.len().saturating_sub(folded.1));
    let names = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let pending = rows.split_off(last).len();
    let rows = rows.split_off(first);
    if first > 0 {
        lines.push(vec![(GOOD, "✓".to_owned()), (DIM, format!(" {first} before are complete"))]);
    }
    lines.extend(rows.into_iter().map(|row| row.line(names)));
    if pending > 0 {
        lines.push(vec![(DIM, format!("· {pending} more are pending"))]);
    }
    lines
}

/// Counts the rows at the beginning and at the end that are folded, so that the others and the lines for the folded
/// ones fit.
fn fold(rows: &[Row], room: usize) -> (usize, usize) {
    if rows.len() <= room {
        return (0, 0);
    }
    let complete = rows.iter().take_while(|row| row.place == Place::Complete).count();
    let pending = rows.iter().rev().take_while(|row| row.place == Place::Pending).count();
    let pending = pending.min(rows.len() - complete);
    // Two of the lines are for the folded ones.
    let too_many = rows.len() + 2 - room;
    let first = complete.min(too_many);
    // The next ones to come are of more interest than the last ones.
    (first, pending.min(too_many - first))
}

/// Returns the line of the whole: id, app, tag, state, how many targets have the release.
fn header(rollout: &RolloutDetail, now: Timestamp, spinner: &str) -> StyledLine {
    let RolloutSummary { id, app, tag, state, targets_count, complete, created_at, since, .. } =
        &rollout.summary;
    let sign = sign_of(*state, rollout.summary.needs_person, spinner);
    let end = if state.is_end() { *since } else { now };
    let time = span(end.duration_since(*created_at));
    vec![
        sign,
        (Style::new(), format!(" {id}  ")),
        (BOLD, format!("{app} {tag}  ")),
        (colour(*state), word(*state).to_owned()),
        (DIM, format!("  {complete} of {targets_count}, {time}")),
    ]
}

/// Returns the reason of a pause, an undo or a cancellation.
fn reason_line(summary: &RolloutSummary) -> Option<StyledLine> {
    let reason = summary.reason.as_deref().filter(|reason| !reason.is_empty())?;
    Some(vec![(Style::new(), format!("  {reason}"))])
}

fn rows(rollout: &RolloutDetail, now: Timestamp, spinner: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, step) in rollout.steps.iter().enumerate() {
        match &step.gate {
            Some(gate) => rows.push(gate_row(rollout, (number, gate), now, spinner)),
            None => rows.extend(targets_of(rollout, number).map(|target| {
                // Of several steps with the same target, the one that is under way waits.
                let is_current = number == rollout.summary.index || step.weights.is_empty();
                let wait = wait_of(rollout, Some(&target.target)).filter(|_| is_current);
                let row = target_row(target, wait, now, spinner);
                let weights = weights_text(&step.weights);
                let parts = [weights, row.detail].into_iter().filter(|part| !part.is_empty());
                Row { detail: parts.collect::<Vec<_>>().join(": "), ..row }
            })),
        }
    }
    rows
}

/// Returns the targets of a step, in their order.
fn targets_of(
    rollout: &RolloutDetail,
    number: usize,
) -> impl Iterator<Item = &RolloutTargetSummary> {
    rollout.targets.iter().filter(move |target| target.step == number)
}

/// Returns what a target, or the whole, waits for.
pub(super) fn wait_of<'a>(
    rollout: &'a RolloutDetail,
    target: Option<&String>,
) -> Option<&'a RolloutWaitSummary> {
    rollout.waits.iter().find(|wait| wait.target.as_ref() == target)
}

fn target_row(
    target: &RolloutTargetSummary,
    wait: Option<&RolloutWaitSummary>,
    now: Timestamp,
    spinner: &str,
) -> Row {
    let RolloutTargetSummary { target: name, state, since, started_at, .. } = target;
    let (sign, style, place) = match state {
        RolloutTargetStatus::Pending => ("·", DIM, Place::Pending),
        RolloutTargetStatus::Deploying | RolloutTargetStatus::Undoing => {
            (spinner, NOTE, Place::Current)
        }
        RolloutTargetStatus::Complete => ("✓", GOOD, Place::Complete),
        RolloutTargetStatus::Undone | RolloutTargetStatus::Unchanged => ("↩", GOOD, Place::Current),
        RolloutTargetStatus::Superseded | RolloutTargetStatus::Skipped => {
            ("-", DIM, Place::Current)
        }
        RolloutTargetStatus::UndoPending => ("·", NOTE, Place::Current),
        RolloutTargetStatus::Failed | RolloutTargetStatus::UndoFailed => ("✗", BAD, Place::Current),
    };
    let time = match state {
        RolloutTargetStatus::Deploying => span(now.duration_since(started_at.unwrap_or(*since))),
        RolloutTargetStatus::Undoing => span(now.duration_since(*since)),
        RolloutTargetStatus::Complete | RolloutTargetStatus::Failed => {
            started_at.map_or_else(String::new, |start| span(since.duration_since(start)))
        }
        RolloutTargetStatus::Pending
        | RolloutTargetStatus::Superseded
        | RolloutTargetStatus::Skipped
        | RolloutTargetStatus::UndoPending
        | RolloutTargetStatus::Undone
        | RolloutTargetStatus::Unchanged
        | RolloutTargetStatus::UndoFailed => String::new(),
    };
    Row {
        sign: (style, sign.to_owned()),
        name: shorten(name),
        word: (style, word_of_target(*state)),
        time,
        detail: detail(target, wait),
        place,
    }
}

/// Returns what a target waits for, or the reason of its state.
pub(super) fn detail(target: &RolloutTargetSummary, wait: Option<&RolloutWaitSummary>) -> String {
    let reason = remark(target).or(target.note.as_deref()).map(str::to_owned);
    wait.map(|wait| wait.waiting.what.clone()).or(reason).unwrap_or_default()
}

/// Returns what a person should know of a target: what to do, who has it, or why it failed.
pub(super) fn remark(target: &RolloutTargetSummary) -> Option<&str> {
    let RolloutTargetSummary { state, failure, note, .. } = target;
    match state {
        RolloutTargetStatus::UndoFailed
        | RolloutTargetStatus::Superseded
        | RolloutTargetStatus::Skipped => note.as_deref().or(failure.as_deref()),
        RolloutTargetStatus::Pending
        | RolloutTargetStatus::Deploying
        | RolloutTargetStatus::Complete
        | RolloutTargetStatus::Failed
        | RolloutTargetStatus::UndoPending
        | RolloutTargetStatus::Undoing
        | RolloutTargetStatus::Undone
        | RolloutTargetStatus::Unchanged => failure.as_deref(),
    }
}

fn gate_row(
    rollout: &RolloutDetail,
    (number, gate): (usize, &RolloutGateState),
    now: Timestamp,
    spinner: &str,
) -> Row {
    let RolloutGateState { condition, answer, approval, .. } = gate;
    let RolloutSummary { index, state, .. } = rollout.summary;
    let is_turn = number == index;
    let goes_on = matches!(state, RolloutStatus::RollingOut | RolloutStatus::Created);
    let (sign, word, style, place) = match (number < index, is_turn && goes_on) {
        (true, _) => ("✓", "passed", GOOD, Place::Complete),
        (false, true) => (spinner, "waiting", NOTE, Place::Current),
        (false, false) => ("·", "pending", DIM, Place::Pending),
    };
    let wait = wait_of(rollout, None).filter(|_| is_turn && goes_on);
    let time = wait.map_or_else(String::new, |wait| span(now.duration_since(wait.waiting.since)));
    let approved = approval.as_ref().map(|approval| format!("approved by {}", approval.by));
    let reading = answer.as_ref().map(|GateReading { result, value, .. }| match result {
        GateOutcome::Passed => value.clone(),
        GateOutcome::NotPassed => format!("not yet: {value}"),
        GateOutcome::Unanswered => format!("cannot be asked: {value}"),
    });
    let waits_for = wait.map(|wait| wait.waiting.what.clone());
    let detail = approved.or(reading).or(waits_for).unwrap_or_else(|| condition.clone());
    let sign = (style, sign.to_owned());
    Row { sign, name: gate_name(gate), word: (style, word), time, detail, place }
}

/// Returns the name of a gate in the column of targets.
fn gate_name(gate: &RolloutGateState) -> String {
    format!("[{}]", gate.kind.replace('_', " "))
}

impl Row {
    fn line(self, names: usize) -> StyledLine {
        let Self { sign, name, word: (style, word), time, detail, place: _ } = self;
        vec![
            sign,
            (BOLD, format!(" {name:<names$}  ")),
            (style, format!("{word:<11}")),
            (DIM, format!(" {time:>7}  ")),
            (Style::new(), detail),
        ]
    }
}

/// Returns a line for a log for each change since the rollout before, in the order of the rollout.
pub(super) fn news(before: Option<&RolloutDetail>, rollout: &RolloutDetail) -> Vec<String> {
    let mut lines = Vec::new();
    let key = |rollout: &RolloutDetail| {
        (rollout.summary.state, rollout.summary.reason.clone(), rollout.summary.needs_person)
    };
    if before.map(key) != Some(key(rollout)) {
        lines.push(whole(&rollout.summary));
    }
    for (number, gate) in gates(rollout) {
        let text = gate_text(rollout, number, gate);
        let earlier = before.and_then(|before| {
            let step = before.steps.get(number)?;
            Some(gate_text(before, number, step.gate.as_ref()?))
        });
        if let Some(text) = text.filter(|text| earlier.flatten().as_ref() != Some(text)) {
            lines.push(text);
        }
    }
    for (place, target) in rollout.targets.iter().enumerate() {
        let text = target_text(rollout, target);
        let earlier =
            before.and_then(|before| Some(target_text(before, before.targets.get(place)?)));
        let is_news = target.state != RolloutTargetStatus::Pending || before.is_some();
        if is_news && earlier.as_ref() != Some(&text) {
            lines.push(text);
        }
    }
    lines
}

fn gates(rollout: &RolloutDetail) -> impl Iterator<Item = (usize, &RolloutGateState)> {
    let steps = rollout.steps.iter().enumerate();
    steps.filter_map(|(number, step)| Some((number, step.gate.as_ref()?)))
}

fn whole(summary: &RolloutSummary) -> String {
    let RolloutSummary { id, state, reason, complete, targets_count, .. } = summary;
    let reason = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    format!("{id}: {}, {complete} of {targets_count} targets{reason}\n", word(*state))
}

/// Returns the line of a gate that is or was its turn.
fn gate_text(rollout: &RolloutDetail, number: usize, gate: &RolloutGateState) -> Option<String> {
    let RolloutGateState { condition, approval, answer, .. } = gate;
    let name = gate_name(gate);
    if number < rollout.summary.index {
        let by = approval.as_ref().map(|one| format!("approved by {}: {}", one.by, one.reason));
        let value = by.or_else(|| answer.as_ref().map(|answer| answer.value.clone()));
        let value = value.map_or(String::new(), |value| format!(": {value}"));
        return Some(format!("{name}: passed{value}\n"));
    }
    let is_turn = number == rollout.summary.index;
    let state = rollout.summary.state;
    (is_turn && state == RolloutStatus::RollingOut)
        .then(|| format!("{name}: waiting for {condition}\n"))
}

fn target_text(rollout: &RolloutDetail, target: &RolloutTargetSummary) -> String {
    let RolloutTargetSummary { target: name, state, since, started_at, deployment, undo, .. } =
        target;
    let detail = detail(target, wait_of(rollout, Some(name)));
    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
    let time = match (state, started_at) {
        (RolloutTargetStatus::Complete | RolloutTargetStatus::Failed, Some(start)) => {
            format!(" in {}", span(since.duration_since(*start)))
        }
        _ => String::new(),
    };
    let id = undo.as_ref().or(deployment.as_ref());
    let id = id.map_or(String::new(), |id| format!(" ({id})"));
    format!("{name}: {}{time}{detail}{id}\n", word_of_target(*state))
}

/// Returns the word of a state as people read it.
pub(super) fn word(state: RolloutStatus) -> &'static str {
    match state {
        RolloutStatus::RollingOut => "rolling out",
        RolloutStatus::UndoFailed => "undo failed",
        state => state.as_str(),
    }
}

pub(super) fn word_of_target(state: RolloutTargetStatus) -> &'static str {
    match state {
        RolloutTargetStatus::UndoPending => "to undo",
        RolloutTargetStatus::UndoFailed => "undo failed",
        state => state.as_str(),
    }
}

/// Returns the colour of a state.
pub(super) fn colour(state: RolloutStatus) -> Style {
    match state {
        RolloutStatus::Done => GOOD,
        RolloutStatus::Created | RolloutStatus::RollingOut | RolloutStatus::Paused => NOTE,
        RolloutStatus::Undoing
        | RolloutStatus::Undone
        | RolloutStatus::UndoFailed
        | RolloutStatus::Cancelled => BAD,
    }
}

fn sign_of(state: RolloutStatus, needs_person: bool, spinner: &str) -> (Style, String) {
    let sign = match state {
        RolloutStatus::Done => "✓",
        RolloutStatus::Paused if needs_person => "!",
        RolloutStatus::Created
        | RolloutStatus::RollingOut
        | RolloutStatus::Undoing
        | RolloutStatus::Paused => spinner,
        RolloutStatus::Undone | RolloutStatus::UndoFailed | RolloutStatus::Cancelled => "✗",
    };
    (colour(state), sign.to_owned())
}

/// Formats a span of time for people: the service's clock may be ahead of this machine's.
pub(super) fn span(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    match seconds {
        ..60 => format!("{seconds} s"),
        60..600 => match seconds % 60 {
            0 => format!("{} min", seconds / 60),
            rest => format!("{}m {rest:02}s", seconds / 60),
        },
        600..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => match seconds / 60 % 60 {
            0 => format!("{} h", seconds / 3_600),
            rest => format!("{}h {rest:02}m", seconds / 3_600),
        },
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Cuts the middle of a long name: names differ at their ends.
fn shorten(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    cut(name, LONGEST_NAME, (LONGEST_NAME - 1) / 2)
}

#[cfg(test)]
mod tests;
