//! Who is told what became of a deployment: each sink's adapter, behind one door.

mod forge; // the forge: statuses of deployments and commits, check runs

use jiff::Timestamp;

use crate::app::outside::World;
use crate::controller::outside::{Delivered, NotDelivered};
use crate::model::notice::Sink;
use crate::store::Message;

/// Tells the message's sink.
pub(super) async fn tell(
    world: &World,
    message: &Message,
    _now: Timestamp,
) -> Result<Delivered, NotDelivered> {
    match &message.sink {
        Sink::Forge => forge::status(world, message).await,
        Sink::Commit => forge::commit(world, message).await,
        Sink::Check => forge::check(world, message).await,
        Sink::Channel | Sink::Person | Sink::Events(_) => {
            Ok(Delivered::Nothing(format!("{} is not configured any more", message.sink)))
        }
    }
}
