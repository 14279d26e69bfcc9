//! Decides what a commit is told about a workload of others. Pure.

use jiff::SignedDuration;

use crate::forge::{CommitState, CommitStatus};
use crate::model::environment::{EnvironmentState, EnvironmentWorkload};
use crate::outbox::report_outcome::SentReport;
use crate::store::EnvironmentStatusClaim;

/// The next step with a claimed status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatusStep {
    /// None, for this reason.
    Nothing(&'static str),
    /// Send it.
    Send {
        /// True if the code host is asked first whether it has it already.
        verify: bool,
    },
}

/// Decides what is done with a claimed status.
///
/// A commit that was superseded or removed needs an end only where people may see that it waits.
pub(super) fn next_step(claim: &EnvironmentStatusClaim) -> StatusStep {
    let Some(news) = &claim.news else { return StatusStep::Nothing("it is counted, and not told") };
    if claim.refused {
        return StatusStep::Nothing("the code host takes no status for this commit");
    }
    let verify = claim.unsure || claim.doubted;
    if claim.told.as_ref() == Some(news) && !verify {
        return StatusStep::Nothing("it was sent before");
    }
    let waits = EnvironmentState::Waiting.as_str();
    let is_seen_waiting = claim.unsure
        || claim.told.as_ref().is_some_and(|sent| sent.starts_with(waits) || sent == news);
    match claim.workload.state {
        EnvironmentState::Superseded | EnvironmentState::Removed if !is_seen_waiting => {
            StatusStep::Nothing("nobody was told that it waits")
        }
        EnvironmentState::Waiting
        | EnvironmentState::Ready
        | EnvironmentState::Failed
        | EnvironmentState::Superseded
        | EnvironmentState::Removed => StatusStep::Send { verify },
    }
}

/// Writes the commit status of a workload.
pub(super) fn commit_status(workload: &EnvironmentWorkload) -> CommitStatus {
    let state = match workload.state {
        EnvironmentState::Waiting => CommitState::Pending,
        EnvironmentState::Ready => CommitState::Success,
        EnvironmentState::Failed => CommitState::Failure,
        // It says nothing about the commit, and is no success.
        EnvironmentState::Superseded | EnvironmentState::Removed => CommitState::Error,
    };
    let is_ready = workload.state == EnvironmentState::Ready;
    let description = match rollout_time(workload).filter(|_| is_ready) {
        Some(time) => format!("{}, after {time:#}", workload.sentence),
        None => workload.sentence.clone(),
    };
    CommitStatus {
        context: workload.context.clone(),
        state,
        description,
        target_url: workload.commit.link.clone().filter(|_| is_ready),
    }
}

/// Returns the time that the last rollout took, by the service's clock, in whole seconds; `None` where the service has
/// not seen its start and its end.
pub(super) fn rollout_time(workload: &EnvironmentWorkload) -> Option<SignedDuration> {
    let milliseconds = workload.ended_at?.checked_sub(workload.began_at)?;
    (milliseconds >= 1000).then(|| SignedDuration::from_secs(milliseconds / 1000))
}

/// Returns what was sent, as far as the outcome depends on it.
pub(super) fn sent_report(claim: &EnvironmentStatusClaim) -> SentReport {
    SentReport {
        is_end: claim.workload.state != EnvironmentState::Waiting,
        is_repeat: claim.told == claim.news,
        unsure: claim.unsure,
        doubted: claim.doubted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::fixture::environment_workload;
    use crate::outbox::report_outcome::sent_outcome;
    use crate::store::StateOutcome;

    fn at(seconds: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(seconds).unwrap()
    }

    fn claim(state: EnvironmentState, told: Option<&str>) -> EnvironmentStatusClaim {
        EnvironmentStatusClaim {
            workload: environment_workload("web", state),
            news: Some(state.as_str().to_owned()),
            told: told.map(str::to_owned),
            changed_at: at(0),
            unsure: false,
            doubted: false,
            refused: false,
            failures: 0,
            turn: 1,
            claims: 1,
        }
    }

    const SEND: StatusStep = StatusStep::Send { verify: false };

    fn is_sent(state: EnvironmentState, told: Option<&str>) -> bool {
        next_step(&claim(state, told)) == SEND
    }

    #[test]
    fn each_state_is_told_once() {
        use EnvironmentState::{Failed, Ready, Waiting};
        assert!(is_sent(Waiting, None) && is_sent(Ready, None) && is_sent(Failed, Some("waiting")));
        assert!(is_sent(Waiting, Some("ready")), "it is rolled out again");
        assert!(!is_sent(Waiting, Some("waiting")) && !is_sent(Ready, Some("ready")));
        let silent = EnvironmentStatusClaim { news: None, ..claim(Ready, None) };
        assert!(matches!(next_step(&silent), StatusStep::Nothing(_)));
        let refused = EnvironmentStatusClaim { refused: true, ..claim(Ready, None) };
        assert!(matches!(next_step(&refused), StatusStep::Nothing(_)));
    }

    #[test]
    fn an_end_without_result_is_told_where_people_see_that_it_waits() {
        use EnvironmentState::{Removed, Superseded};
        for state in [Superseded, Removed] {
            assert!(is_sent(state, Some("waiting")) && is_sent(state, Some("waiting:2")));
            assert!(!is_sent(state, None) && !is_sent(state, Some("ready")));
            let unsure = EnvironmentStatusClaim { unsure: true, ..claim(state, None) };
            assert_eq!(next_step(&unsure), StatusStep::Send { verify: true });
        }
    }

    #[test]
    fn what_may_have_arrived_is_looked_for_and_an_end_after_it_is_checked() {
        let ready = EnvironmentState::Ready;
        let unsure = EnvironmentStatusClaim { unsure: true, ..claim(ready, Some("ready")) };
        assert_eq!(next_step(&unsure), StatusStep::Send { verify: true });
        let checked = StateOutcome::Sent { check_at: Some(at(60)), doubted: true };
        assert_eq!(sent_outcome(sent_report(&unsure), at(0)), checked);
        let doubted = EnvironmentStatusClaim { doubted: true, ..claim(ready, Some("ready")) };
        assert_eq!(next_step(&doubted), StatusStep::Send { verify: true });
        let settled = StateOutcome::Sent { check_at: None, doubted: false };
        assert_eq!(sent_outcome(sent_report(&doubted), at(60)), settled);
        assert_eq!(sent_outcome(sent_report(&claim(ready, None)), at(0)), settled);
        // The doubt about a state that passes stays until an end was checked.
        let waiting = claim(EnvironmentState::Waiting, None);
        let passing = EnvironmentStatusClaim { unsure: true, ..waiting };
        let doubt = StateOutcome::Sent { check_at: None, doubted: true };
        assert_eq!(sent_outcome(sent_report(&passing), at(0)), doubt);
        let end = EnvironmentStatusClaim { doubted: true, ..claim(ready, Some("waiting")) };
        assert_eq!(sent_outcome(sent_report(&end), at(0)), checked);
    }

    #[test]
    fn a_status_has_the_time_and_the_link_of_what_is_ready() {
        let mut ready = environment_workload("web", EnvironmentState::Ready);
        ready.commit.link = Some("https://pr-12.example.com".to_owned());
        let status = commit_status(&ready);
        assert_eq!(status.description, "2 of 2 available, after 42s");
        assert_eq!(status.target_url.as_deref(), Some("https://pr-12.example.com"));
        let waiting = EnvironmentWorkload { state: EnvironmentState::Waiting, ..ready };
        assert_eq!(commit_status(&waiting).target_url, None);
    }
}
