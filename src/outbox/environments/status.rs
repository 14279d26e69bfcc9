//! Decides what a commit is told about a workload of others. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::Remedy;
use crate::forge::{CommitState, CommitStatus};
use crate::model::environment::{EnvironmentState, EnvironmentWorkload};
use crate::outbox::circuit_breaker::Observation;
use crate::outbox::delivery::DeliveryFailure;
use crate::outbox::outcome::RETRY;
use crate::store::{EnvironmentOutcome, EnvironmentStatusClaim};
use crate::support::retry::{LONGEST_RETRY_AFTER, RetryPolicy, deferral};
use crate::support::time::saturating_add;

/// The retries of a refusal where people see an outdated status meanwhile: a right may be granted again.
const REFUSAL: RetryPolicy =
    RetryPolicy { first: Duration::from_mins(1), longest: Duration::from_hours(1), failures: 24 };
/// The delay until it is asked for such a commit again.
const LATE_RETRY: SignedDuration = SignedDuration::from_secs(20);
/// The delay of the check of an end that followed a status without an answer.
const CHECK_DELAY: SignedDuration = SignedDuration::from_mins(1);

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

/// Returns the outcome of a status that was sent. A status before it that got no answer may be applied later than this
/// one; an end is checked again for it.
pub(super) fn sent_outcome(claim: &EnvironmentStatusClaim, now: Timestamp) -> EnvironmentOutcome {
    let is_end = claim.workload.state != EnvironmentState::Waiting;
    let is_check = claim.doubted && !claim.unsure && claim.told == claim.news;
    let doubted = (claim.unsure || claim.doubted) && !(is_end && is_check);
    let check_at = (doubted && is_end).then(|| saturating_add(now, CHECK_DELAY));
    EnvironmentOutcome::Sent { check_at, doubted }
}

/// An attempt that failed, as far as its outcome depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailedAttempt {
    /// The number of attempts that failed before.
    pub(super) failures: u32,
    /// The time since which there is something to tell.
    pub(super) changed_at: Timestamp,
    /// True if people see an outdated status or comment meanwhile.
    pub(super) is_outdated: bool,
    /// True if an attempt before may have arrived: the doubt stays.
    pub(super) unsure: bool,
}

/// Decides what follows an attempt that failed, and what it says about the code host.
pub(super) fn failure_outcome(
    attempt: FailedAttempt,
    failure: DeliveryFailure,
    now: Timestamp,
) -> (EnvironmentOutcome, Observation) {
    let DeliveryFailure { problem, unsure } = failure;
    let (unsure, reason) = (unsure || attempt.unsure, problem.message);
    let later =
        |at, failed| EnvironmentOutcome::Later { at, unsure, failed, reason: reason.clone() };
    let retry = |policy: &RetryPolicy| match policy.next_attempt(attempt.failures, None, now) {
        Some(at) => later(at, true),
        None => EnvironmentOutcome::Refused(reason.clone()),
    };
    let age = now.duration_since(attempt.changed_at);
    let is_young = |until: Duration| SignedDuration::try_from(until).is_ok_and(|until| age < until);
    match problem.remedy {
        Remedy::Retry { after: None } => (retry(&RETRY.silence), Observation::Silence),
        Remedy::Retry { after: Some(wait) } => {
            let wait = wait.min(LONGEST_RETRY_AFTER);
            (later(deferral(wait, now), false), Observation::Wait(wait))
        }
        Remedy::Late { until, .. } if is_young(until) => {
            (later(saturating_add(now, LATE_RETRY), true), Observation::Answer)
        }
        Remedy::GiveUp | Remedy::Doubt if attempt.is_outdated => {
            (retry(&REFUSAL), Observation::Answer)
        }
        Remedy::Late { .. } | Remedy::GiveUp | Remedy::Doubt | Remedy::Reject => {
            (EnvironmentOutcome::Refused(reason), Observation::Answer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::outcome::DeployError;
    use crate::outbox::fixture::environment_workload;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
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
        let checked = EnvironmentOutcome::Sent { check_at: Some(at(60)), doubted: true };
        assert_eq!(sent_outcome(&unsure, at(0)), checked);
        let doubted = EnvironmentStatusClaim { doubted: true, ..claim(ready, Some("ready")) };
        assert_eq!(next_step(&doubted), StatusStep::Send { verify: true });
        let settled = EnvironmentOutcome::Sent { check_at: None, doubted: false };
        assert_eq!(sent_outcome(&doubted, at(60)), settled);
        assert_eq!(sent_outcome(&claim(ready, None), at(0)), settled);
        // The doubt about a state that passes stays until an end was checked.
        let waiting = claim(EnvironmentState::Waiting, None);
        let passing = EnvironmentStatusClaim { unsure: true, ..waiting };
        let doubt = EnvironmentOutcome::Sent { check_at: None, doubted: true };
        assert_eq!(sent_outcome(&passing, at(0)), doubt);
        let end = EnvironmentStatusClaim { doubted: true, ..claim(ready, Some("waiting")) };
        assert_eq!(sent_outcome(&end, at(0)), checked);
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

    fn failed(remedy: Remedy, is_outdated: bool, now: i64) -> EnvironmentOutcome {
        let problem = DeployError { remedy, message: "no".to_owned() };
        let attempt = FailedAttempt { failures: 0, changed_at: at(0), is_outdated, unsure: false };
        failure_outcome(attempt, DeliveryFailure { problem, unsure: false }, at(now)).0
    }

    fn later(seconds: i64, failed: bool) -> EnvironmentOutcome {
        let reason = "no".to_owned();
        EnvironmentOutcome::Later { at: at(seconds), unsure: false, failed, reason }
    }

    #[test]
    fn a_refusal_ends_a_report_unless_people_see_something_else() {
        let refused = EnvironmentOutcome::Refused("no".to_owned());
        assert_eq!(failed(Remedy::GiveUp, false, 0), refused);
        assert_eq!(failed(Remedy::GiveUp, true, 0), later(60, true));
        assert_eq!(failed(Remedy::Reject, true, 0), refused);
        let late = Remedy::Late { what: "the commit", until: Duration::from_mins(2) };
        assert_eq!(failed(late, false, 30), later(50, true));
        assert_eq!(failed(late, false, 120), refused);
    }

    #[test]
    fn an_outage_is_waited_out() {
        assert_eq!(failed(Remedy::Retry { after: None }, false, 0), later(1, true));
        let wait = Remedy::Retry { after: Some(Duration::from_mins(10)) };
        assert_eq!(failed(wait, false, 0), later(600, false));
    }
}
