//! Who is told what became of a deployment: each sink's adapter, behind one door.

pub(super) mod events; // programs: events of every change
pub(super) mod argocd; // a cluster's Argo CD: what was pushed for it
mod forge; // the forge: statuses of deployments and commits, check runs
pub(super) mod slack; // people: the team's channel, and who started it

use jiff::Timestamp;

use crate::app::outside::World;
use crate::controller::outside::{Delivered, NotDelivered};
use crate::model::notice::Sink;
use crate::store::Message;

/// Tells the message's sink.
pub(super) async fn tell(
    world: &World,
    message: &Message,
    now: Timestamp,
) -> Result<Delivered, NotDelivered> {
    match &message.sink {
        Sink::Forge => forge::by_account(world, forge::status(world, message).await, now),
        Sink::Commit => forge::by_account(world, forge::commit(world, message).await, now),
        Sink::Check => forge::by_account(world, forge::check(world, message).await, now),
        Sink::Events(name) => events::send(world, message, name, now).await,
        Sink::ArgoCd(cluster) => argocd::send(world, message, cluster, now).await,
        Sink::Channel => slack::channel(world, message, now).await,
        Sink::Person => slack::person(world, message, now).await,
    }
}

/// Tells the message's sink again what is not shown any more, although it was told last; whether it was
/// so. Only what the forge shows of a deployment and a commit can be overtaken.
pub(super) async fn confirm(world: &World, message: &Message) -> Result<bool, NotDelivered> {
    match &message.sink {
        Sink::Forge => forge::confirm_status(world, message).await,
        Sink::Commit => forge::confirm_commit(world, message).await,
        Sink::Check | Sink::Channel | Sink::Person | Sink::Events(_) | Sink::ArgoCd(_) => Ok(false),
    }
}
