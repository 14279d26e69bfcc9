//! A deployment's own statuses.

use crate::app::outside::World;
use crate::app::tell::forge::{page, trouble, unread, yes};
use crate::controller::outside::{Delivered, NotDelivered};
use crate::forge::Status;
use crate::model::deployment::ForgeState;
use crate::store::Message;

/// The next status of a deployment.
pub(in crate::app::tell) async fn status(
    world: &World,
    message: &Message,
) -> Result<Delivered, NotDelivered> {
    let Message { repository, forge_id, unsure, .. } = message;
    let status = Status {
        state: message.status.state,
        description: message.status.description().to_owned(),
        log_url: Some(page(world, message)),
        environment_url: address(world, message).await?,
    };
    let has = || world.forge.has_status(repository, *forge_id, &status);
    if *unsure && has().await.map_err(|error| trouble(&error))? {
        return Ok(yes());
    }
    let told = world.forge.report(repository, *forge_id, &status).await;
    told.map(|()| yes()).map_err(|error| trouble(&error))
}

/// Where the app is reached: as this deployment made it once it is there, until then as the one
/// before it did.
async fn address(world: &World, message: &Message) -> Result<Option<String>, NotDelivered> {
    let own = match message.status.state {
        ForgeState::Success | ForgeState::Inactive => {
            let record = world
                .store
                .deployment(&message.deployment)
                .await
                .map_err(|error| unread(&error))?;
            record.and_then(|record| record.address)
        }
        ForgeState::Queued | ForgeState::InProgress | ForgeState::Failure | ForgeState::Error => {
            None
        }
    };
    if own.is_some() || message.status.state == ForgeState::Success {
        return Ok(own);
    }
    world.store.last_address(message).await.map_err(|error| unread(&error))
}
