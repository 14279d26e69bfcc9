//! Sends events about rollouts to the programs that subscribe to them, in the order of each rollout's changes. A receiver
//! knows an event by its id, so that one without an answer is sent again.

use jiff::Timestamp;

use crate::model::notice::SinkFamily;
use crate::notify::events::CloudEvent;
use crate::outbox::circuit_breaker::Observation;
use crate::outbox::delivery::DeliveryFailure;
use crate::outbox::outcome::{MessageAttempt, RETRY, failure_outcome, word};
use crate::outbox::relay::{Outbox, Sender};
use crate::outbox::report::warn_of_loss;
use crate::store::{DeliveryOutcome, RolloutEvent, RolloutEventClaim, StoreError};
use crate::support::lease::Lease;

impl Outbox {
    /// Returns the time at which the next event about a rollout may be sent to a receiver, if one waits.
    pub(in crate::outbox) async fn next_rollout_event(
        &self,
        receiver: &str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let Some(due) = self.store.next_rollout_event(receiver).await? else { return Ok(None) };
        let sender = self.sender(SinkFamily::Events(receiver.to_owned()));
        Ok(Some(due.max(sender.breaker().next_call(now))))
    }

    /// Sends the next event about a rollout to a receiver. Returns false where there is none, or it may not be sent now.
    pub(in crate::outbox) async fn send_rollout_event(
        &self,
        receiver: &str,
    ) -> Result<bool, StoreError> {
        let asked_at = self.clock.moment();
        let (now, length) = (asked_at.wall, self.settings.lease);
        let due = self.store.next_rollout_event(receiver).await?;
        if due.is_none_or(|due| due > now) {
            return Ok(false);
        }
        let sender = self.sender(SinkFamily::Events(receiver.to_owned()));
        if sender.breaker().try_acquire(1, now) == 0 {
            return Ok(false);
        }
        let claim = match self.store.claim_rollout_event(receiver, now, length).await {
            Ok(Some(claim)) => claim,
            result => {
                sender.breaker().release(1);
                return result.map(|_none| false);
            }
        };
        let held = Lease::requested_at(asked_at, length);
        let outcome = self.deliver_rollout_event(&sender, &claim, &held).await;
        self.metrics.rollout_report("event", word(&outcome));
        let RolloutEventClaim { rollout, event, .. } = &claim;
        if let DeliveryOutcome::Parked(reason) = &outcome {
            tracing::warn!(%rollout, receiver, event = event.id, reason, "event about a rollout parked");
        }
        let lease = self.store.record_rollout_event(&claim, &outcome, self.clock.now()).await?;
        warn_of_loss(lease, &event.id);
        Ok(true)
    }

    async fn deliver_rollout_event(
        &self,
        sender: &Sender,
        claim: &RolloutEventClaim,
        held: &Lease,
    ) -> DeliveryOutcome {
        let RolloutEventClaim { event: RolloutEvent { id, kind, body }, .. } = claim;
        let receivers = &self.sinks.receivers;
        let receiver = receivers.iter().find(|receiver| receiver.name == claim.receiver);
        let skip = |reason: String| {
            sender.breaker().release(1);
            DeliveryOutcome::Skipped(reason)
        };
        let Some(receiver) = receiver else {
            return skip(format!("{} is not configured any more", claim.receiver));
        };
        if !receiver.wants.contains(kind) {
            return skip(format!("{} does not subscribe to this event", receiver.name));
        }
        let event = CloudEvent { id: id.clone(), kind: *kind, body: body.clone() };
        let call = async { receiver.send(&event, self.clock.now()).await };
        let result = match self.run_call(held, call).await {
            Ok(result) => result.map_err(DeliveryFailure::from),
            Err(failure) => Err(failure),
        };
        let now = self.clock.now();
        match result {
            Ok(()) => {
                sender.observe(Observation::Answer, now, "");
                DeliveryOutcome::Sent { reference: None }
            }
            Err(failure) => {
                let RolloutEventClaim { at, attempts, failures, .. } = *claim;
                let attempt = MessageAttempt { at, attempts, failures, unsure: false };
                let reason = failure.problem.message.clone();
                let (outcome, observation) = failure_outcome(attempt, failure, &RETRY, now);
                sender.observe(observation, now, &reason);
                outcome
            }
        }
    }
}
