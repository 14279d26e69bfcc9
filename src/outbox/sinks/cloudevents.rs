//! Sends the CloudEvents of a change to a program, one after the other.
//!
//! A message in doubt is sent again, because the receiver knows an event by its id. So the sink
//! does not search for an earlier one, and of two events of one change the first may arrive twice.

use jiff::Timestamp;

use crate::model::deployment::{Deployment, State};
use crate::notify::events::{self, CloudEvent, EventOrigin, PreviousState, StateChange};
use crate::notify::webhook::Receiver;
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::sinks::{Sinks, not_configured};
use crate::store::{Filter, OutboxMessage, StoreError};

impl Sinks {
    /// Sends the events of a message to the receiver of that name.
    pub(super) async fn events(
        &self,
        message: &OutboxMessage,
        name: &str,
        now: Timestamp,
    ) -> Result<Delivered, DeliveryFailure> {
        let Some(receiver) = self.receivers.iter().find(|receiver| receiver.name == name) else {
            return Ok(not_configured(message));
        };
        let events = self.events_of(message, receiver).await?;
        for event in &events {
            receiver.send(event, now).await?;
        }
        Ok(match events.into_iter().next() {
            Some(event) => Delivered::Yes { reference: Some(event.id) },
            None => Delivered::Nothing(format!("{name} does not subscribe to this event")),
        })
    }

    async fn events_of(
        &self,
        message: &OutboxMessage,
        receiver: &Receiver,
    ) -> Result<Vec<CloudEvent>, StoreError> {
        let store = &self.deployments.store;
        let Some(deployment) = store.deployment(&message.deployment).await? else {
            return Ok(Vec::new());
        };
        let previous = self.previous_state(&deployment).await?;
        let OutboxMessage { status, seq, at, .. } = message;
        let change = StateChange {
            deployment: &deployment,
            state: status.state,
            phase: status.phase,
            open_phase: store.open_phase(message).await?,
            sentence: status.description(),
            seq: *seq,
            at: *at,
        };
        let origin = EventOrigin {
            url: self.deployments.external_url.clone(),
            forge: self.deployments.forge_url.clone(),
        };
        let mut events = events::build_events(change, &origin, previous);
        events.retain(|event| receiver.wants.contains(&event.kind));
        Ok(events)
    }

    /// Returns the state of the app on the target before: present if it was deployed and not
    /// removed since. In a watched cluster it was deployed if it ran.
    async fn previous_state(&self, deployment: &Deployment) -> Result<PreviousState, StoreError> {
        let (Some(app), store) = (&deployment.app, &self.deployments.store) else {
            return Ok(PreviousState::Absent);
        };
        let target = &deployment.request.target;
        let filter = Filter::pushed(target, app);
        let page = store.deployments(&filter, Some(&deployment.id), 1).await?;
        let Some(newest) = page.deployments.into_iter().next() else {
            return Ok(PreviousState::Absent);
        };
        let removals = store.removals(target, app).await?;
        let is_removed_since = |earlier: &Deployment| {
            removals.iter().any(|removal| {
                let has_commit = removal.ended.as_ref().is_some_and(|end| end.commit.is_some());
                has_commit && earlier.id < removal.id && removal.id < deployment.id
            })
        };
        if is_removed_since(&newest) {
            return Ok(PreviousState::Absent);
        }
        if newest.state == State::Succeeded {
            return Ok(PreviousState::There);
        }
        let filter = Filter { state: Some(State::Succeeded), ..filter };
        let page = store.deployments(&filter, Some(&deployment.id), 1).await?;
        let has_run = page.deployments.first().is_some_and(|ran| !is_removed_since(ran));
        Ok(if has_run { PreviousState::Failing } else { PreviousState::NeverRan })
    }
}
