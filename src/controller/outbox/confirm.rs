//! Ends are looked at again where something before them was told in doubt: a status that got no answer
//! may be applied after the end, and would show for ever what is over.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};

use crate::controller::Parts;
use crate::controller::outbox::door::Heard;
use crate::controller::outbox::quota::{HourlyQuota, QuotaDecision};
use crate::controller::outbox::{Sender, never_ended};
use crate::deployments::outcome::{EndCheck, NotDelivered, Remedy};
use crate::store::{Confirmation, StoreError};
use crate::support::time::saturating_add;

/// How many are looked at at once.
const TAKEN: u32 = 2;
/// What is not applied by then never is.
const LAST_LOOK: SignedDuration = SignedDuration::from_mins(10);
/// Between two looks, where one failed or found something.
const SOON: Duration = Duration::from_mins(1);
/// For longer nobody tries to look.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);

impl Parts {
    /// Looks at the ends that are to be looked at now; how many those were.
    pub(super) async fn confirm_some(&self, sender: &Sender) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let admitted = sender.admit(TAKEN, now);
        if admitted == 0 {
            return Ok(0);
        }
        let taken = self.store.take_confirmations(now, self.settings.lease, admitted).await;
        let came = taken.as_ref().map_or(0, |taken| u32::try_from(taken.len()).unwrap_or(admitted));
        sender.turned_back(admitted.saturating_sub(came));
        let taken = taken?;
        let quota = if taken.is_empty() { None } else { self.quota(&sender.family, now).await? };
        let quota = quota.map(Mutex::new);
        let checked = taken.iter().map(|one| self.confirm(sender, one, quota.as_ref()));
        join_all(checked).await.into_iter().collect::<Result<(), _>>()?;
        Ok(taken.len())
    }

    async fn confirm(
        &self,
        sender: &Sender,
        one: &Confirmation,
        quota: Option<&Mutex<HourlyQuota>>,
    ) -> Result<(), StoreError> {
        let (message, now) = (&one.message, self.clock.now());
        // The end may have to be told again: that is a call of the hour as every other.
        let decision = quota
            .map(|quota| quota.lock().unwrap_or_else(PoisonError::into_inner).decide(message, now));
        if let Some(QuotaDecision::Defer(until)) = decision {
            sender.turned_back(1);
            return self.store.confirmed(one, Some(until), None).await;
        }
        let longest = self.settings.lease / 2;
        let checked = tokio::time::timeout(longest, self.deployments.confirm(message, now)).await;
        let checked = checked.unwrap_or_else(|_elapsed| Err(never_ended(longest)));
        let now = self.clock.now();
        let reason = checked.as_ref().err().map_or("", |error| error.problem.message.as_str());
        match heard(&checked) {
            Some(heard) => sender.heard(heard, now, reason),
            None => sender.turned_back(1),
        }
        let retold_at = (checked == Ok(EndCheck::Retold)).then_some(now);
        if retold_at.is_some() {
            let (deployment, sink, state) =
                (&message.deployment, &message.sink, message.status.state.as_str());
            tracing::warn!(%deployment, %sink, state, "an older status was applied late; the end is told again");
        }
        self.store.confirmed(one, next_check(&checked, one.told_at, now), retold_at).await
    }
}

/// What a look says of the other side; nothing where nobody was asked.
fn heard(checked: &Result<EndCheck, NotDelivered>) -> Option<Heard> {
    match checked {
        Ok(EndCheck::Shown | EndCheck::Retold) => Some(Heard::Answer),
        Ok(EndCheck::Deferred { .. }) => None,
        Err(NotDelivered { problem, .. }) => Some(match problem.remedy {
            Remedy::Retry { after: None } => Heard::Silence,
            Remedy::Retry { after: Some(wish) } => Heard::Wait(wish),
            Remedy::Reject | Remedy::Late { .. } | Remedy::Doubt | Remedy::GiveUp => Heard::Answer,
        }),
    }
}

/// When it is looked again, if it is.
fn next_check(
    checked: &Result<EndCheck, NotDelivered>,
    told_at: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let last = saturating_add(told_at, LAST_LOOK);
    let soon = saturating_add(now, SOON);
    match checked {
        Ok(EndCheck::Shown) => (now < last).then_some(last),
        Ok(EndCheck::Retold) => Some(soon),
        Ok(EndCheck::Deferred { .. }) | Err(_) if now.duration_since(told_at) > PATIENCE => None,
        Ok(EndCheck::Deferred { until }) => Some(soon.max(*until)),
        Err(NotDelivered { problem, .. }) => match problem.remedy {
            Remedy::Retry { after: Some(wish) } => Some(
                soon.max(saturating_add(now, SignedDuration::try_from(wish).unwrap_or(LAST_LOOK))),
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
    use crate::deployments::outcome::Problem;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn failed(after: Option<Duration>) -> Result<EndCheck, NotDelivered> {
        let problem = Problem { remedy: Remedy::Retry { after }, message: String::new() };
        Err(NotDelivered { problem, unsure: false })
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
        let wish = failed(Some(Duration::from_mins(30)));
        assert_eq!(next_check(&wish, at(0), at(600)), Some(at(2400)));
        assert_eq!(next_check(&wish, at(0), at(25 * 3600)), None, "nobody looks for ever");
    }

    /// Or the next end would be sent to a host that does not answer, and wait for it.
    #[test]
    fn a_look_without_an_answer_closes_the_door() {
        assert_eq!(heard(&failed(None)), Some(Heard::Silence));
        let minute = Duration::from_mins(1);
        assert_eq!(heard(&failed(Some(minute))), Some(Heard::Wait(minute)));
        assert_eq!(heard(&Ok(EndCheck::Shown)), Some(Heard::Answer));
        assert_eq!(heard(&Ok(EndCheck::Deferred { until: at(0) })), None);
    }
}
