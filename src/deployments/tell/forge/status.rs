//! A deployment's own statuses.

use crate::deployments::Deployments;
use crate::deployments::outcome::{Delivered, EndCheck};
use crate::deployments::tell::forge::{ReportError, page, yes};
use crate::forge::{Begun, Status};
use crate::model::deployment::{Deployment, ForgeState};
use crate::model::event::DeploymentRequest;
use crate::store::Message;

/// The next status of a deployment.
pub(in crate::deployments::tell) async fn status(
    deployments: &Deployments,
    message: &Message,
) -> Result<Delivered, ReportError> {
    let Message { repository, unsure, .. } = message;
    let Some(forge_id) = number(deployments, message).await? else {
        return Ok(Delivered::Nothing("the code host has no deployments".to_owned()));
    };
    let status = compose_status(deployments, message).await?;
    let has = || deployments.forge.has_status(repository, forge_id, &status);
    if *unsure && has().await? {
        return Ok(yes());
    }
    let told = deployments.forge.report(repository, forge_id, &status).await;
    told.map(|()| yes()).map_err(ReportError::from)
}

/// Tells the end of a deployment again, if the newest status that we wrote is another one.
/// What others wrote after it is theirs.
pub(in crate::deployments::tell) async fn confirm_status(
    deployments: &Deployments,
    message: &Message,
) -> Result<EndCheck, ReportError> {
    let Message { repository, .. } = message;
    let record = deployments.store.deployment(&message.deployment).await?;
    let Some(forge_id) = record.and_then(|record| record.request.number()) else {
        return Ok(EndCheck::Shown);
    };
    let page = page(deployments, message);
    let shown = deployments.forge.statuses(repository, forge_id).await?;
    let ours = shown.iter().find(|one| one.log_url.as_deref() == Some(page.as_str()));
    if ours.is_none_or(|newest| newest.state == message.status.state.as_str()) {
        return Ok(EndCheck::Shown);
    }
    let status = compose_status(deployments, message).await?;
    let told = deployments.forge.report(repository, forge_id, &status).await;
    told.map(|()| EndCheck::Retold).map_err(ReportError::from)
}

async fn compose_status(
    deployments: &Deployments,
    message: &Message,
) -> Result<Status, ReportError> {
    Ok(Status {
        state: message.status.state,
        description: message.status.description().to_owned(),
        log_url: Some(page(deployments, message)),
        environment_url: address(deployments, message).await?,
    })
}

/// The forge's number of the deployment. One that began here is made there with its first status; it
/// is looked for first where it may be there already.
async fn number(deployments: &Deployments, message: &Message) -> Result<Option<i64>, ReportError> {
    if message.forge_id > 0 {
        return Ok(Some(message.forge_id));
    }
    let record = deployments.store.deployment(&message.deployment).await?;
    let Some(record) = record else { return Ok(None) };
    if let Some(number) = record.request.number() {
        return Ok(Some(number));
    }
    let begun = begun(record);
    let found = if message.attempts > 1 || message.seq > 1 {
        deployments.forge.find_begun(&begun).await?
    } else {
        None
    };
    let number = match found {
        Some(number) => Some(number),
        None => deployments.forge.begin(&begun).await?,
    };
    if let Some(number) = number {
        let noted = deployments.store.number_rollback(&message.deployment, number).await;
        noted?;
    }
    Ok(number)
}

fn begun(record: Deployment) -> Begun {
    let DeploymentRequest { release, target, production, description, actor, .. } = record.request;
    let description = format!("rolled back by {actor}: {description}");
    Begun { id: record.id, release, target, description, production }
}

/// Where the app is reached: as this deployment made it once it is there, until then as the one
/// before it did.
async fn address(
    deployments: &Deployments,
    message: &Message,
) -> Result<Option<String>, ReportError> {
    let own = match message.status.state {
        ForgeState::Success | ForgeState::Inactive => {
            let record = deployments.store.deployment(&message.deployment).await?;
            record.and_then(|record| record.address)
        }
        ForgeState::Queued | ForgeState::InProgress | ForgeState::Failure | ForgeState::Error => {
            None
        }
    };
    if own.is_some() || message.status.state == ForgeState::Success {
        return Ok(own);
    }
    deployments.store.last_address(message).await.map_err(ReportError::from)
}
