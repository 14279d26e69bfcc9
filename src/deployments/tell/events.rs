//! Programs are told: the events of a change, one after the other.
//!
//! What may have arrived is sent again: the receiver knows an event by its id. So nothing is looked
//! for first, and of two events of one change the first may come twice.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::config::event_webhooks::EventWebhookSettings;
use crate::deployments::Deployments;
use crate::deployments::outcome::{Delivered, NotDelivered, Problem, Remedy};
use crate::deployments::tell::not_delivered;
use crate::model::deployment::{Deployment, State};
use crate::notify::events::{self, Before, Change, Event, Origin};
use crate::notify::webhook::Receiver;
use crate::store::{Filter, Message, StoreError};

/// A receiver only has to store an event. Shorter than a lease: nobody else may take it meanwhile.
const LONGEST_CALL: Duration = Duration::from_secs(10);

/// Where events go. One client for all; it is to follow no redirects.
pub(crate) fn receivers(
    webhooks: &[EventWebhookSettings],
    client: &reqwest::Client,
) -> Arc<[Receiver]> {
    let receiver = |one: &EventWebhookSettings| Receiver {
        name: one.name.clone(),
        url: one.url.clone(),
        key: one.key.clone(),
        wants: one.events.clone(),
        client: client.clone(),
        timeout: LONGEST_CALL,
    };
    webhooks.iter().map(receiver).collect()
}

/// Sends the events of a message to the receiver of that name.
pub(super) async fn send(
    deployments: &Deployments,
    message: &Message,
    name: &str,
    now: Timestamp,
) -> Result<Delivered, NotDelivered> {
    let Some(receiver) = deployments.receivers.iter().find(|one| one.name == name) else {
        return Ok(Delivered::Nothing(format!("{} is not configured any more", message.sink)));
    };
    let wanted = match events_of(deployments, message, receiver).await {
        Ok(wanted) => wanted,
        Err(error) => return Err(unread(&error)),
    };
    for event in &wanted {
        receiver.send(event, now).await.map_err(|error| not_delivered(&error))?;
    }
    Ok(match wanted.into_iter().next() {
        Some(first) => Delivered::Yes { reference: Some(first.id) },
        None => Delivered::Nothing(format!("{name} wants no event of this")),
    })
}

async fn events_of(
    deployments: &Deployments,
    message: &Message,
    receiver: &Receiver,
) -> Result<Vec<Event>, StoreError> {
    let Some(deployment) = deployments.store.deployment(&message.deployment).await? else {
        return Ok(Vec::new());
    };
    let before = before(deployments, &deployment).await?;
    let Message { status, seq, at, .. } = message;
    let (state, sentence) = (status.state, status.description());
    let change = Change { deployment: &deployment, state, sentence, seq: *seq, at: *at };
    let origin =
        Origin { url: deployments.external_url.clone(), forge: deployments.forge_url.clone() };
    let mut events = events::of(change, &origin, before);
    events.retain(|event| receiver.wants.contains(&event.kind));
    Ok(events)
}

/// Whether the app was on the target before: deployed, and not removed since.
async fn before(deployments: &Deployments, deployment: &Deployment) -> Result<Before, StoreError> {
    let Some(app) = &deployment.app else { return Ok(Before::Absent) };
    let target = &deployment.request.target;
    let filter = Filter {
        state: Some(State::Succeeded),
        target: Some(target.clone()),
        app: Some(app.clone()),
        ..Filter::default()
    };
    let page = deployments.store.deployments(&filter, Some(&deployment.id), 1).await?;
    let Some(last) = page.deployments.into_iter().next() else { return Ok(Before::Absent) };
    let gone = deployments.store.removals(target, app).await?.into_iter().any(|removal| {
        let done = removal.ended.is_some_and(|ended| ended.commit.is_some());
        done && last.id < removal.id && removal.id < deployment.id
    });
    Ok(if gone { Before::Absent } else { Before::There })
}

fn unread(error: &StoreError) -> NotDelivered {
    let remedy = Remedy::Retry { after: None };
    NotDelivered { problem: Problem { remedy, message: error.to_string() }, unsure: false }
}
