//! Decides what is recorded of an attempt to tell people of a present state: of a preview environment or a rollout. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::Remedy;
use crate::outbox::circuit_breaker::Observation;
use crate::outbox::delivery::DeliveryFailure;
use crate::outbox::outcome::RETRY;
use crate::store::StateOutcome;
use crate::support::retry::{LONGEST_RETRY_AFTER, RetryPolicy, deferral};
use crate::support::time::saturating_add;

/// The retries of a refusal where people see something outdated meanwhile: a right may be granted again.
const REFUSAL: RetryPolicy =
    RetryPolicy { first: Duration::from_mins(1), longest: Duration::from_hours(1), failures: 24 };
/// The delay until the code host is asked again for what it may not know yet.
const LATE_RETRY: SignedDuration = SignedDuration::from_secs(20);
/// The delay of the check of an end that followed a report without an answer.
const CHECK_DELAY: SignedDuration = SignedDuration::from_mins(1);

/// A report that was sent, as far as its outcome depends on it.
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on each other")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentReport {
    /// True if nothing follows it that would replace an outdated report.
    pub(super) is_end: bool,
    /// True if the receiver had the same before.
    pub(super) is_repeat: bool,
    /// True if an attempt before may have arrived.
    pub(super) unsure: bool,
    /// True if an earlier report may be applied after the one that was sent.
    pub(super) doubted: bool,
}

/// Returns the outcome of a report that was sent. A report before it that got no answer may be applied later than this
/// one; an end is checked again for it.
pub(super) fn sent_outcome(report: SentReport, now: Timestamp) -> StateOutcome {
    let SentReport { is_end, is_repeat, unsure, doubted } = report;
    let is_check = doubted && !unsure && is_repeat;
    let doubted = (unsure || doubted) && !(is_end && is_check);
    let check_at = (doubted && is_end).then(|| saturating_add(now, CHECK_DELAY));
    StateOutcome::Sent { check_at, doubted }
}

/// An attempt that failed, as far as its outcome depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailedAttempt {
    /// The number of attempts that failed before.
    pub(super) failures: u32,
    /// The time since which there is something to tell.
    pub(super) changed_at: Timestamp,
    /// True if people see something outdated meanwhile.
    pub(super) is_outdated: bool,
    /// True if an attempt before may have arrived: the doubt stays.
    pub(super) unsure: bool,
}

/// Decides what follows an attempt that failed, and what it says about the receiver.
pub(super) fn failure_outcome(
    attempt: FailedAttempt,
    failure: DeliveryFailure,
    now: Timestamp,
) -> (StateOutcome, Observation) {
    let DeliveryFailure { problem, unsure } = failure;
    let (unsure, reason) = (unsure || attempt.unsure, problem.message);
    let later = |at, failed| StateOutcome::Later { at, unsure, failed, reason: reason.clone() };
    let retry = |policy: &RetryPolicy| match policy.next_attempt(attempt.failures, None, now) {
        Some(at) => later(at, true),
        None => StateOutcome::Refused(reason.clone()),
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
            (StateOutcome::Refused(reason), Observation::Answer)
        }
    }
}

/// Returns the word that the metric counts.
pub(super) fn word(outcome: &StateOutcome) -> &'static str {
    match outcome {
        StateOutcome::Sent { .. } => "sent",
        StateOutcome::Nothing(_) => "skipped",
        StateOutcome::Later { failed: true, .. } => "put_off",
        StateOutcome::Later { failed: false, .. } => "waits",
        StateOutcome::Refused(_) => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::outcome::DeployError;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn failed(remedy: Remedy, is_outdated: bool, now: i64) -> StateOutcome {
        let problem = DeployError { remedy, message: "no".to_owned() };
        let attempt = FailedAttempt { failures: 0, changed_at: at(0), is_outdated, unsure: false };
        failure_outcome(attempt, DeliveryFailure { problem, unsure: false }, at(now)).0
    }

    fn later(seconds: i64, failed: bool) -> StateOutcome {
        let reason = "no".to_owned();
        StateOutcome::Later { at: at(seconds), unsure: false, failed, reason }
    }

    #[test]
    fn a_refusal_ends_a_report_unless_people_see_something_else() {
        let refused = StateOutcome::Refused("no".to_owned());
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
