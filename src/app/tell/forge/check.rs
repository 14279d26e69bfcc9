//! The check run that shows on the commit why it was not deployed, and that it was later.

use crate::app::outside::World;
use crate::app::tell::forge::{ReportError, context, page, said_by_a_newer_one, words};
use crate::controller::outside::Delivered;
use crate::forge::check::CheckRun;
use crate::forge::error::ForgeError;
use crate::model::deployment::{Deployment, ForgeState};
use crate::store::Message;

/// The check run of a deployment that has ended.
pub(in crate::app::tell) async fn check(
    world: &World,
    message: &Message,
) -> Result<Delivered, ReportError> {
    if let Some(nothing) = said_by_a_newer_one(world, message).await? {
        return Ok(nothing);
    }
    let run = match message.status.state {
        ForgeState::Failure | ForgeState::Error => failure(world, message).await?,
        ForgeState::Success => success(world, message).await?,
        ForgeState::Queued | ForgeState::InProgress | ForgeState::Inactive => None,
    };
    let Some(run) = run else {
        return Ok(Delivered::Nothing("no failed check run is there to be closed".to_owned()));
    };
    match written(world, message, &run).await {
        Ok(id) => Ok(Delivered::Yes { reference: Some(id.to_string()) }),
        Err(error) if lacks_right(&error) => Ok(Delivered::Nothing(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

async fn failure(world: &World, message: &Message) -> Result<Option<CheckRun>, ReportError> {
    let record = world.store.deployment(&message.deployment).await?;
    Ok(record.map(|deployment| {
        let said = words::failed(&deployment, &page(world, message), &world.waml.path);
        run(world, message, &deployment, said)
    }))
}

/// A success is shown only where a failure is: the commit status says it anyway.
async fn success(world: &World, message: &Message) -> Result<Option<CheckRun>, ReportError> {
    let before = world.store.last_check(message).await?;
    if !matches!(before, Some(ForgeState::Failure | ForgeState::Error)) {
        return Ok(None);
    }
    let record = world.store.deployment(&message.deployment).await?;
    Ok(record.map(|deployment| {
        let said = words::succeeded(&deployment, &page(world, message));
        run(world, message, &deployment, said)
    }))
}

fn run(world: &World, message: &Message, deployment: &Deployment, said: words::Said) -> CheckRun {
    let words::Said { conclusion, title, summary, annotations } = said;
    CheckRun {
        name: context(message),
        head: message.commit.clone(),
        external_id: deployment.id.to_string(),
        conclusion: Some(conclusion),
        title,
        summary,
        text: None,
        details_url: Some(page(world, message)),
        annotations,
    }
}

/// Writes it, or completes the one that an earlier attempt wrote.
async fn written(world: &World, message: &Message, run: &CheckRun) -> Result<i64, ForgeError> {
    let Message { repository, commit, unsure, .. } = message;
    if *unsure {
        let found = world.forge.find_check(repository, commit, &run.name, &run.external_id).await?;
        if let Some(id) = found {
            world.forge.update_check(repository, id, run).await?;
            return Ok(id);
        }
    }
    world.forge.create_check(repository, run).await
}

/// Whether it is the App that may not, which is the operator's choice and no alarm.
fn lacks_right(error: &ForgeError) -> bool {
    matches!(error, ForgeError::MissingPermission { .. } | ForgeError::NeedsApp { .. })
}
