//! The forge is told: the deployment's statuses.

use crate::app::outside::World;
use crate::app::problem;
use crate::controller::outside::{Delivered, NotDelivered};
use crate::forge::Status;
use crate::forge::error::ForgeError;
use crate::store::Message;

/// The next status of a deployment.
pub(super) async fn status(world: &World, message: &Message) -> Result<Delivered, NotDelivered> {
    let Message { deployment, repository, forge_id, status, .. } = message;
    let status = Status {
        state: status.state,
        description: status.description().to_owned(),
        log_url: Some(format!("{}/api/v1/deployments/{deployment}", world.external_url)),
        environment_url: None,
    };
    let told = world.forge.report(repository, *forge_id, &status).await;
    told.map(|()| Delivered::Yes { reference: None }).map_err(|error| trouble(&error))
}

/// Without an answer nobody knows whether it has arrived.
fn trouble(error: &ForgeError) -> NotDelivered {
    let unsure = matches!(error, ForgeError::Unreachable { .. });
    NotDelivered { problem: problem::of_forge(error), unsure }
}
