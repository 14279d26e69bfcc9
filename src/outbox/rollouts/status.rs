//! Writes the commit status of a rollout: the whole of it, in one line. Pure.

use crate::forge::{CommitState, CommitStatus};
use crate::model::id::TargetName;
use crate::model::rollout_news::{RolloutNews, RolloutPhase, RolloutTargetNews, TargetProgress};
use crate::support::markdown::count;

/// The most targets that are named.
const MAX_NAMES: usize = 3;

/// Writes the status of the release's commit; `page` is the address of the rollout.
pub(super) fn commit_status(news: &RolloutNews, page: String) -> CommitStatus {
    CommitStatus {
        context: format!("rollout/{}", news.short_name()),
        state: commit_state(&news.phase),
        description: describe(news),
        target_url: Some(page),
    }
}

/// Returns the state of the commit. An approval is a step of the plan, so the commit waits; a pause by a failure is none,
/// and GitHub shows it as an error.
fn commit_state(phase: &RolloutPhase) -> CommitState {
    match phase {
        RolloutPhase::UnderWay
        | RolloutPhase::Approval(_)
        | RolloutPhase::Blocked(_)
        | RolloutPhase::Paused(_)
        | RolloutPhase::Undoing(_) => CommitState::Pending,
        RolloutPhase::Stopped(_) => CommitState::Error,
        RolloutPhase::Done => CommitState::Success,
        RolloutPhase::Undone | RolloutPhase::UndoFailed | RolloutPhase::Cancelled(_) => {
            CommitState::Failure
        }
    }
}

fn describe(news: &RolloutNews) -> String {
    let tally = tally(news);
    match &news.phase {
        RolloutPhase::UnderWay | RolloutPhase::Approval(_) => {
            if let Some(wait) = &news.wait {
                format!("{tally}, waits for {wait}")
            } else {
                let under_way = names(news.targets_at(TargetProgress::UnderWay));
                under_way.map_or(tally.clone(), |names| format!("{tally}, now {names}"))
            }
        }
        RolloutPhase::Blocked(reason) => format!("{tally}, waits: {reason}"),
        RolloutPhase::Paused(reason) => format!("{tally}, paused by a person: {reason}"),
        RolloutPhase::Stopped(reason) => format!("{tally}, a person must decide: {reason}"),
        RolloutPhase::Undoing(reason) => {
            let undone = news.count(TargetProgress::Undone);
            format!("is undone, {} so far: {reason}", count(undone, "target"))
        }
        RolloutPhase::Done => tally,
        RolloutPhase::Undone => match news.first_reason() {
            Some((target, reason)) => format!("undone: {target}: {reason}"),
            None => "undone".to_owned(),
        },
        RolloutPhase::UndoFailed => {
            let failed = names(news.targets_at(TargetProgress::UndoFailed)).unwrap_or_default();
            format!("the undo failed, a person must act: {failed}")
        }
        RolloutPhase::Cancelled(reason) => format!("cancelled after {tally}: {reason}"),
    }
}

/// Writes `3 of 10 targets, 1 failed`.
fn tally(news: &RolloutNews) -> String {
    let all = count(news.targets.len(), "target");
    let mut text = format!("{} of {all}", news.count(TargetProgress::Complete));
    for (progress, word) in
        [(TargetProgress::Failed, "failed"), (TargetProgress::Dropped, "left out")]
    {
        if let number @ 1.. = news.count(progress) {
            text += &format!(", {number} {word}");
        }
    }
    text
}

/// Names the first targets, and the number of the others; `None` where there are none.
fn names<'a>(targets: impl Iterator<Item = &'a RolloutTargetNews>) -> Option<String> {
    let targets: Vec<&TargetName> = targets.map(|one| &one.target).collect();
    let first: Vec<&str> = targets.iter().take(MAX_NAMES).map(|name| name.as_str()).collect();
    let more = targets.len() - first.len();
    let text = first.join(", ");
    match (first.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(text),
        (false, _) => Some(format!("{text} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::RolloutName;
    use crate::outbox::fixture::rollout_news;

    fn status(phase: RolloutPhase, targets: &str) -> (CommitState, String) {
        let CommitStatus { context, state, description, target_url } =
            commit_status(&rollout_news(phase, targets), "https://d.example.com/r".to_owned());
        assert_eq!(context, "rollout/0a1b2c");
        assert_eq!(target_url.as_deref(), Some("https://d.example.com/r"));
        (state, description)
    }

    #[test]
    fn each_phase_says_how_far_it_is_and_why() {
        use CommitState::{Error, Failure, Pending, Success};
        let reason = || "prod-2: cannot pull the image".to_owned();
        for (phase, targets, state, text) in [
            (RolloutPhase::UnderWay, "....", Pending, "0 of 4 targets"),
            (RolloutPhase::UnderWay, "cc>.", Pending, "2 of 4 targets, now prod-3"),
            (
                RolloutPhase::UnderWay,
                "c>>>>>f-",
                Pending,
                "1 of 8 targets, 1 failed, 1 left out, now prod-2, prod-3, prod-4 and 2 more",
            ),
            (
                RolloutPhase::Blocked("prod-2: locked".to_owned()),
                "c...",
                Pending,
                "1 of 4 targets, waits: prod-2: locked",
            ),
            (
                RolloutPhase::Paused("lunch".to_owned()),
                "c...",
                Pending,
                "1 of 4 targets, paused by a person: lunch",
            ),
            (
                RolloutPhase::Stopped(reason()),
                "cf..",
                Error,
                "1 of 4 targets, 1 failed, a person must decide: prod-2: cannot pull the image",
            ),
            (
                RolloutPhase::Undoing(reason()),
                "cu..",
                Pending,
                "is undone, 1 target so far: prod-2: cannot pull the image",
            ),
            (RolloutPhase::Done, "cccc", Success, "4 of 4 targets"),
            (RolloutPhase::Undone, "uu..", Failure, "undone"),
            (
                RolloutPhase::UndoFailed,
                "ux..",
                Failure,
                "the undo failed, a person must act: prod-2",
            ),
            (
                RolloutPhase::Cancelled("wrong tag".to_owned()),
                "cc..",
                Failure,
                "cancelled after 2 of 4 targets: wrong tag",
            ),
        ] {
            assert_eq!(status(phase, targets), (state, text.to_owned()));
        }
    }

    #[test]
    fn a_gate_is_waited_for_by_name() {
        let news = RolloutNews {
            wait: Some("the bake time until 10:40 UTC".to_owned()),
            name: RolloutName::parse("production").ok(),
            ..rollout_news(RolloutPhase::UnderWay, "ccc.......")
        };
        let status = commit_status(&news, String::new());
        assert_eq!(status.context, "rollout/production");
        assert_eq!(status.description, "3 of 10 targets, waits for the bake time until 10:40 UTC");
    }

    #[test]
    fn an_end_names_the_first_target_that_failed() {
        let mut news = rollout_news(RolloutPhase::Undone, "uu..");
        news.targets[1].reason = Some("cannot pull the image".to_owned());
        let status = commit_status(&news, String::new());
        assert_eq!(status.description, "undone: prod-2: cannot pull the image");
    }
}
