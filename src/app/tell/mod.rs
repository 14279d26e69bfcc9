//! Who is told what became of a deployment: each sink's adapter, behind one door.

pub(super) mod events; // programs: events of every change
pub(super) mod argocd; // a cluster's Argo CD: what was pushed for it
mod forge; // the forge: statuses of deployments and commits, check runs
pub(super) mod slack; // people: the team's channel, and who started it

use jiff::Timestamp;

use crate::app::outside::World;
use crate::controller::outside::{Delivered, EndCheck, NotDelivered, Problem, Remedy};
use crate::model::notice::Sink;
use crate::notify::delivery::DeliveryError;
use crate::store::Message;

/// Tells the message's sink.
pub(super) async fn tell(
    world: &World,
    message: &Message,
    now: Timestamp,
) -> Result<Delivered, NotDelivered> {
    let told = match &message.sink {
        Sink::Forge => forge::status(world, message).await,
        Sink::Commit => forge::commit(world, message).await,
        Sink::Check => forge::check(world, message).await,
        Sink::Events(name) => return events::send(world, message, name, now).await,
        Sink::ArgoCd(cluster) => return argocd::send(world, message, cluster, now).await,
        Sink::Channel => return slack::channel(world, message, now).await,
        Sink::Person => return slack::person(world, message, now).await,
    };
    let later = |at| Delivered::Later { at };
    forge::defer_limited_account(world, told, now, later)
}

/// Tells the message's sink again what is not shown any more, although it was told last. Only what the forge
/// shows of a deployment and a commit can be overtaken.
pub(super) async fn confirm(
    world: &World,
    message: &Message,
    now: Timestamp,
) -> Result<EndCheck, NotDelivered> {
    let checked = match &message.sink {
        Sink::Forge => forge::confirm_status(world, message).await,
        Sink::Commit => forge::confirm_commit(world, message).await,
        Sink::Check | Sink::Channel | Sink::Person | Sink::Events(_) | Sink::ArgoCd(_) => {
            return Ok(EndCheck::Shown);
        }
    };
    forge::defer_limited_account(world, checked, now, |until| EndCheck::Deferred { until })
}

/// What a person must mend first is waited for like an outage, as long as for everything; only
/// what would be refused for ever is put aside at once.
fn not_delivered(error: &DeliveryError) -> NotDelivered {
    let (remedy, unsure) = match error {
        DeliveryError::Unreachable { .. } => (Remedy::Retry { after: None }, true),
        DeliveryError::Later { after, .. } => (Remedy::Retry { after: *after }, false),
        DeliveryError::Refused { .. } => (Remedy::GiveUp, false),
        DeliveryError::Unfit { .. } => (Remedy::Reject, false),
    };
    NotDelivered { problem: Problem { remedy, message: error.to_string() }, unsure }
}
