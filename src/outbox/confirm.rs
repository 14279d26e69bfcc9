//! Confirms final statuses that followed a status in doubt: a status without an answer may be
//! applied after the final one, and would hide it for ever.

use std::sync::Mutex;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::Remedy;
use crate::outbox::circuit_breaker::Observation;
use crate::outbox::delivery::{DeliveryFailure, EndCheck};
use crate::outbox::quota::{HourlyQuota, QuotaDecision};
use crate::outbox::relay::{Outbox, Sender};
use crate::store::{Confirmation, StoreError};
use crate::support::sync::lock;
use crate::support::time::saturating_add;

/// The number of final statuses that are checked at the same time.
const BATCH: u32 = 2;
/// The time after which a status in doubt is not applied any more.
const LAST_LOOK: SignedDuration = SignedDuration::from_mins(10);
/// The delay between two checks, where one failed or found something.
const RECHECK_DELAY: Duration = Duration::from_mins(1);
/// The time after which checks that fail or are deferred are given up.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);

impl Outbox {
    /// Checks the final statuses that are due; returns their number.
    pub(super) async fn confirm_some(&self, sender: &Sender) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let take = |limit| self.store.take_confirmations(now, self.settings.lease, limit);
        let (confirmations, quota) = self.take(sender, BATCH, now, take).await?;
        let checks = confirmations
            .iter()
            .map(|confirmation| self.confirm(sender, confirmation, quota.as_ref()));
        join_all(checks).await.into_iter().collect::<Result<(), _>>()?;
        Ok(confirmations.len())
    }

    async fn confirm(
        &self,
        sender: &Sender,
        confirmation: &Confirmation,
        quota: Option<&Mutex<HourlyQuota>>,
    ) -> Result<(), StoreError> {
        let (message, now) = (&confirmation.message, self.clock.now());
        // The final status may have to be sent again: that call counts in the hourly quota.
        let decision = quota.map(|quota| lock(quota).decide(message, now));
        if let Some(QuotaDecision::Defer(until)) = decision {
            sender.breaker().release(1);
            return self.store.record_confirmation(confirmation, Some(until), None).await;
        }
        let longest = self.settings.lease / 2;
        let check = self.sinks.confirm(message, now).boxed();
        let result = tokio::time::timeout(longest, check).await;
        let result = result.unwrap_or_else(|_elapsed| Err(DeliveryFailure::never_ended(longest)));
        let now = self.clock.now();
        let reason = result.as_ref().err().map_or("", |error| error.problem.message.as_str());
        match observation(&result) {
            Some(observation) => sender.observe(observation, now, reason),
            None => sender.breaker().release(1),
        }
        let retold_at = (result == Ok(EndCheck::Retold)).then_some(now);
        if retold_at.is_some() {
            let (deployment, sink, state) =
                (&message.deployment, &message.sink, message.status.state.as_str());
            tracing::warn!(%deployment, %sink, state, "an older status was applied late, final status sent again");
        }
        self.store
            .record_confirmation(
                confirmation,
                next_check(&result, confirmation.told_at, now),
                retold_at,
            )
            .await
    }
}

/// Returns the observation of a check; `None` where no call was made.
fn observation(result: &Result<EndCheck, DeliveryFailure>) -> Option<Observation> {
    match result {
        Ok(EndCheck::Shown | EndCheck::Retold) => Some(Observation::Answer),
        Ok(EndCheck::Deferred { .. }) => None,
        Err(DeliveryFailure { problem, .. }) => Some(match problem.remedy {
            Remedy::Retry { after: None } => Observation::Silence,
            Remedy::Retry { after: Some(wait) } => Observation::Wait(wait),
            Remedy::Reject | Remedy::Late { .. } | Remedy::Doubt | Remedy::GiveUp => {
                Observation::Answer
            }
        }),
    }
}

/// Returns the time of the next check, if there is one.
fn next_check(
    result: &Result<EndCheck, DeliveryFailure>,
    told_at: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let last = saturating_add(told_at, LAST_LOOK);
    let soon = saturating_add(now, RECHECK_DELAY);
    match result {
        Ok(EndCheck::Shown) => (now < last).then_some(last),
        Ok(EndCheck::Retold) => Some(soon),
        Ok(EndCheck::Deferred { .. }) | Err(_) if now.duration_since(told_at) > PATIENCE => None,
        Ok(EndCheck::Deferred { until }) => Some(soon.max(*until)),
        Err(DeliveryFailure { problem, .. }) => match problem.remedy {
            Remedy::Retry { after: Some(wait) } => Some(
                soon.max(saturating_add(now, SignedDuration::try_from(wait).unwrap_or(LAST_LOOK))),
            ),
            Remedy::Retry { after: None }
            | Remedy::Reject
            | Remedy::Late { .. }
            | Remedy::Doubt
            | Remedy::GiveUp => Some(soon),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::outcome::DeployError;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn failed(after: Option<Duration>) -> Result<EndCheck, DeliveryFailure> {
        let problem = DeployError { remedy: Remedy::Retry { after }, message: String::new() };
        Err(DeliveryFailure { problem, unsure: false })
    }

    #[test]
    fn an_end_is_looked_at_twice_and_after_whatever_was_found() {
        let shown = Ok(EndCheck::Shown);
        assert_eq!(next_check(&shown, at(0), at(60)), Some(at(600)));
        assert_eq!(next_check(&shown, at(0), at(600)), None);
        assert_eq!(next_check(&Ok(EndCheck::Retold), at(0), at(600)), Some(at(660)));
        assert_eq!(next_check(&failed(None), at(0), at(600)), Some(at(660)));
        let deferred = Ok(EndCheck::Deferred { until: at(2400) });
        assert_eq!(next_check(&deferred, at(0), at(600)), Some(at(2400)));
        let failure = failed(Some(Duration::from_mins(30)));
        assert_eq!(next_check(&failure, at(0), at(600)), Some(at(2400)));
        assert_eq!(next_check(&failure, at(0), at(25 * 3600)), None, "nobody looks for ever");
    }

    /// Otherwise the next final status would be sent to a host that does not answer, and wait for
    /// it.
    #[test]
    fn a_look_without_an_answer_opens_the_breaker() {
        assert_eq!(observation(&failed(None)), Some(Observation::Silence));
        let minute = Duration::from_mins(1);
        assert_eq!(observation(&failed(Some(minute))), Some(Observation::Wait(minute)));
        assert_eq!(observation(&Ok(EndCheck::Shown)), Some(Observation::Answer));
        assert_eq!(observation(&Ok(EndCheck::Deferred { until: at(0) })), None);
    }
}
