//! Decides what is recorded of a message that was delivered, was not delivered, or is not needed
//! any more. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::{DeployError, Remedy};
use crate::model::notice::SinkFamily;
use crate::outbox::circuit_breaker::Observation;
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::quota::QuotaDecision;
use crate::store::{DeliveryOutcome, OutboxMessage};
use crate::support::retry::{LONGEST_RETRY_AFTER, RetryPolicy, deferral};
use crate::support::time::saturating_add;

/// An attempt at a message, as far as its outcome depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageAttempt {
    /// The time of the change.
    pub(super) at: Timestamp,
    /// The number of attempts, with this one.
    pub(super) attempts: u32,
    /// The number of attempts that failed.
    pub(super) failures: u32,
    /// True if an earlier attempt may have arrived.
    pub(super) unsure: bool,
}

impl From<&OutboxMessage> for MessageAttempt {
    fn from(message: &OutboxMessage) -> Self {
        let OutboxMessage { at, attempts, failures, unsure, .. } = *message;
        Self { at, attempts, failures, unsure }
    }
}

/// The retry policies of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RetryPolicies {
    /// The policy where the receiver does not answer, or with a server error.
    pub(super) silence: RetryPolicy,
    /// The policy where the receiver wants a right that a person may grant.
    refusal: RetryPolicy,
}

const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Two days at least in both cases: longer than a day's outage, and than a weekend without a person
/// who grants rights.
pub(super) const RETRY: RetryPolicies = RetryPolicies {
    silence: RetryPolicy { first: FIRST_RETRY, longest: Duration::from_mins(5), failures: 600 },
    refusal: RetryPolicy { first: FIRST_RETRY, longest: Duration::from_hours(1), failures: 60 },
};

/// The age after which a status is skipped if a newer one waits behind it: the sender lags, and the
/// code host's quota is better spent on the present state.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// The longest wait on the receiver's request. Waiting is no failure; after a week the message is
/// parked nevertheless.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The fewest attempts before that, or a service that was off for a week would park messages at
/// once.
const FEWEST_ATTEMPTS: u32 = 20;

/// Returns the reason why a message is not needed any more, if there is one.
pub(super) fn skip_reason(message: &OutboxMessage, now: Timestamp) -> Option<String> {
    let is_old = now.duration_since(message.at) > FRESH;
    let (is_forge, state) =
        (message.sink.family() == SinkFamily::Forge, message.status.state.as_str());
    (is_forge && is_old && message.followed)
        .then(|| format!("{state} was not sent: a newer status replaced it"))
}

/// Returns what is recorded of a message for which the hourly quota has no call left; `None` where
/// it has.
pub(super) fn quota_outcome(
    message: &OutboxMessage,
    decision: QuotaDecision,
) -> Option<DeliveryOutcome> {
    match decision {
        QuotaDecision::Send => None,
        QuotaDecision::Shed(reason) => Some(DeliveryOutcome::Skipped(reason)),
        QuotaDecision::Defer(at) => {
            Some(DeliveryOutcome::Again { at, unsure: message.unsure, failed: false })
        }
    }
}

/// Returns the outcome that releases the message as if it had not been claimed.
pub(super) fn release_outcome(message: &OutboxMessage) -> DeliveryOutcome {
    DeliveryOutcome::Again { at: message.due_at, unsure: message.unsure, failed: false }
}

/// Returns what is recorded of a message that was delivered, or had nothing to send.
pub(super) fn delivery_outcome(
    message: &OutboxMessage,
    delivery: Delivered,
    now: Timestamp,
) -> DeliveryOutcome {
    match delivery {
        Delivered::Yes { reference } => DeliveryOutcome::Sent { reference },
        Delivered::Nothing(reason) => DeliveryOutcome::Skipped(reason),
        Delivered::Later { .. } if has_waited_long(message.into(), now) => {
            park(message.into(), "it had to wait for more than a week")
        }
        Delivered::Later { at } => {
            // Later than now, or the message would be tried in an endless loop.
            let at = at.max(saturating_add(now, SignedDuration::from_millis(1)));
            let at = at.min(saturating_add(now, LONGEST_RETRY_AFTER));
            DeliveryOutcome::Again { at, unsure: message.unsure, failed: false }
        }
    }
}

/// Returns what is recorded of a message that was not delivered, and the observation of the
/// receiver.
pub(super) fn failure_outcome(
    message: MessageAttempt,
    failure: DeliveryFailure,
    policies: &RetryPolicies,
    now: Timestamp,
) -> (DeliveryOutcome, Observation) {
    let DeliveryFailure { problem: DeployError { remedy, message: reason }, unsure } = failure;
    // A doubt of an earlier attempt stays until a search for the message has ended it.
    let unsure = unsure || message.unsure;
    let retry = |policy: &RetryPolicy| match policy.next_attempt(message.failures, None, now) {
        Some(at) => DeliveryOutcome::Again { at, unsure, failed: true },
        None => park(message, &reason),
    };
    match remedy {
        Remedy::Reject => (DeliveryOutcome::Parked(reason), Observation::Answer),
        Remedy::Late { until, .. } => {
            let until = SignedDuration::try_from(until).unwrap_or(SignedDuration::MAX);
            let is_young = now.duration_since(message.at) < until;
            // Later this counts as a refusal: the right to see it may be granted again.
            let policy = if is_young { &policies.silence } else { &policies.refusal };
            (retry(policy), Observation::Answer)
        }
        Remedy::Doubt | Remedy::GiveUp => (retry(&policies.refusal), Observation::Answer),
        Remedy::Retry { after: None } => (retry(&policies.silence), Observation::Silence),
        Remedy::Retry { after: Some(wait) } => {
            (defer(message, unsure, wait, &reason, now), Observation::Wait(wait))
        }
    }
}

/// Returns the result for a receiver that asks to wait, which is no failure.
fn defer(
    message: MessageAttempt,
    unsure: bool,
    wait: Duration,
    reason: &str,
    now: Timestamp,
) -> DeliveryOutcome {
    if has_waited_long(message, now) {
        return park(message, reason);
    }
    DeliveryOutcome::Again { at: deferral(wait, now), unsure, failed: false }
}

/// Returns the word that the metric counts.
pub(super) fn word(answer: &DeliveryOutcome) -> &'static str {
    match answer {
        DeliveryOutcome::Sent { .. } => "sent",
        DeliveryOutcome::Skipped(_) => "skipped",
        DeliveryOutcome::Again { failed: true, .. } => "put_off",
        DeliveryOutcome::Again { failed: false, .. } => "waits",
        DeliveryOutcome::Parked(_) => "parked",
    }
}

fn has_waited_long(message: MessageAttempt, now: Timestamp) -> bool {
    now.duration_since(message.at) > LONGEST_WAIT && message.attempts > FEWEST_ATTEMPTS
}

fn park(message: MessageAttempt, reason: &str) -> DeliveryOutcome {
    DeliveryOutcome::Parked(format!("given up after {} attempts: {reason}", message.attempts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::deployment::ForgeState;
    use crate::model::notice::Sink;
    use crate::model::status::ForgeStatus;
    use crate::outbox::fixture;

    const PATIENCE: RetryPolicy = RetryPolicy {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(10),
        failures: 6,
    };
    const PATIENCES: RetryPolicies = RetryPolicies {
        silence: PATIENCE,
        refusal: RetryPolicy { longest: Duration::from_secs(100), ..PATIENCE },
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn message(sink: Sink) -> OutboxMessage {
        OutboxMessage { due_at: at(3), ..fixture::message(sink, ForgeState::Queued, at(0)) }
    }

    fn trouble(remedy: Remedy, failures: u32, now: i64) -> (DeliveryOutcome, Observation) {
        let message = OutboxMessage { failures, attempts: failures + 1, ..message(Sink::Forge) };
        let problem = DeployError { remedy, message: "no answer".to_owned() };
        let trouble = DeliveryFailure { problem, unsure: false };
        failure_outcome((&message).into(), trouble, &PATIENCES, at(now))
    }

    fn again(seconds: i64, failed: bool) -> DeliveryOutcome {
        DeliveryOutcome::Again { at: at(seconds), unsure: false, failed }
    }

    #[test]
    fn silence_is_waited_out_and_opens_the_breaker() {
        let silence = Remedy::Retry { after: None };
        assert_eq!(trouble(silence, 0, 0), (again(1, true), Observation::Silence));
        assert_eq!(trouble(silence, 4, 0), (again(10, true), Observation::Silence));
        let parked = DeliveryOutcome::Parked("given up after 6 attempts: no answer".to_owned());
        assert_eq!(trouble(silence, 5, 0), (parked, Observation::Silence));
    }

    #[test]
    fn a_refusal_is_an_answer_and_a_right_may_be_given_later() {
        assert_eq!(trouble(Remedy::GiveUp, 4, 0), (again(16, true), Observation::Answer));
        let parked = DeliveryOutcome::Parked("no answer".to_owned());
        assert_eq!(trouble(Remedy::Reject, 0, 0), (parked, Observation::Answer));
    }

    #[test]
    fn what_the_forge_may_not_know_yet_is_told_while_it_is_young() {
        let late = Remedy::Late { what: "the repository", until: Duration::from_mins(2) };
        assert_eq!(trouble(late, 2, 7), (again(11, true), Observation::Answer));
        let as_refused = trouble(Remedy::GiveUp, 2, 120);
        assert_eq!(trouble(late, 2, 120), as_refused, "the right to see it may be given back");
    }

    #[test]
    fn a_wish_to_wait_is_no_failure_until_a_week_is_over() {
        let minute = Duration::from_mins(1);
        let retry = Remedy::Retry { after: Some(minute) };
        assert_eq!(trouble(retry, 0, 7), (again(67, false), Observation::Wait(minute)));
        let week = 7 * 24 * 3600;
        assert_eq!(trouble(retry, 0, 2 * week).0, again(2 * week + 60, false), "tried too seldom");
        assert!(matches!(trouble(retry, 20, 2 * week).0, DeliveryOutcome::Parked(_)));
        let absurd = Remedy::Retry { after: Some(Duration::from_hours(9999)) };
        assert_eq!(trouble(absurd, 0, 0).0, again(2 * 3600, false));
    }

    #[test]
    fn a_day_without_an_answer_is_outlasted_by_far() {
        let RetryPolicies { silence, refusal } = RETRY;
        for policy in [silence, refusal] {
            let mut now = at(0);
            let mut failures = 0;
            while let Some(next) = policy.next_attempt(failures, None, now) {
                (now, failures) = (next, failures + 1);
            }
            let hours = now.as_second() / 3600;
            assert!((47..72).contains(&hours), "{hours} hours");
        }
    }

    #[test]
    fn what_may_have_arrived_stays_doubtful_until_somebody_has_looked() {
        let message = OutboxMessage { unsure: true, ..message(Sink::Forge) };
        let problem = DeployError { remedy: Remedy::Retry { after: None }, message: String::new() };
        let trouble = DeliveryFailure { problem, unsure: false };
        let (answer, _) = failure_outcome((&message).into(), trouble, &PATIENCES, at(0));
        assert_eq!(answer, DeliveryOutcome::Again { at: at(1), unsure: true, failed: true });
        let back = DeliveryOutcome::Again { at: at(3), unsure: true, failed: false };
        assert_eq!(release_outcome(&message), back);
    }

    #[test]
    fn a_message_that_asks_for_later_is_no_failure() {
        let message = message(Sink::Channel);
        assert_eq!(
            delivery_outcome(&message, Delivered::Later { at: at(9) }, at(7)),
            again(9, false)
        );
        let now = delivery_outcome(&message, Delivered::Later { at: at(7) }, at(7));
        let DeliveryOutcome::Again { at: next, .. } = now else { panic!("{now:?}") };
        assert!(next > at(7), "never at the same moment");
    }

    #[test]
    fn a_message_that_asks_for_later_for_more_than_a_week_is_given_up() {
        let week = 7 * 24 * 3600;
        let later = |attempts, now| {
            let message = OutboxMessage { attempts, ..message(Sink::Forge) };
            delivery_outcome(&message, Delivered::Later { at: at(now + 9) }, at(now))
        };
        assert!(matches!(later(21, 2 * week), DeliveryOutcome::Parked(_)));
        assert_eq!(later(20, 2 * week), again(2 * week + 9, false), "tried too seldom");
        assert_eq!(later(99, week), again(week + 9, false));
    }

    #[test]
    fn an_old_status_with_a_newer_one_behind_it_is_left_out() {
        let followed = |sink| OutboxMessage { followed: true, ..message(sink) };
        let forge = followed(Sink::Forge);
        assert_eq!(skip_reason(&forge, at(5)), None, "on an idle system all go out");
        let reason = "queued was not sent: a newer status replaced it";
        assert_eq!(skip_reason(&forge, at(6)).as_deref(), Some(reason));
        assert!(skip_reason(&followed(Sink::Commit), at(6)).is_some());
        assert_eq!(skip_reason(&message(Sink::Forge), at(99)), None, "the last is always told");
        let events = Sink::Events("warehouse".to_owned());
        for sink in [events, Sink::Channel, Sink::Person, Sink::BigQuery] {
            assert_eq!(skip_reason(&followed(sink), at(99)), None, "a record has no gaps");
        }
        assert_eq!(ForgeStatus::queued().state, ForgeState::Queued);
    }
}
