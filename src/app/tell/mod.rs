//! Who is told what became of a deployment: each sink's adapter, behind one door.

mod events; // programs: events of every change
mod forge; // the forge: statuses of deployments

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
        Sink::Forge => forge::status(world, message).await,
        Sink::Events(name) => events::send(world, message, name, now).await,
        Sink::Commit | Sink::Check | Sink::Channel | Sink::Person => {
            Ok(Delivered::Nothing(format!("{} is not configured any more", message.sink)))
        }
    }
}
