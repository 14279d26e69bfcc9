//! The check run that shows on the commit why it was not deployed, and that it was later.

use crate::deployments::Deployments;
use crate::deployments::outcome::Delivered;
use crate::deployments::tell::forge::{ReportError, context, page, said_by_a_newer_one, words};
use crate::forge::check::CheckRun;
use crate::forge::error::ForgeError;
use crate::model::deployment::{Deployment, ForgeState};
use crate::store::Message;

/// The check run of a deployment that has ended.
pub(in crate::deployments::tell) async fn check(
    deployments: &Deployments,
    message: &Message,
) -> Result<Delivered, ReportError> {
    if let Some(nothing) = said_by_a_newer_one(deployments, message).await? {
        return Ok(nothing);
    }
    let run = match message.status.state {
        ForgeState::Failure | ForgeState::Error => failure(deployments, message).await?,
        ForgeState::Success => success(deployments, message).await?,
        ForgeState::Queued | ForgeState::InProgress | ForgeState::Inactive => None,
    };
    let Some(run) = run else {
        return Ok(Delivered::Nothing("no failed check run is there to be closed".to_owned()));
    };
    match written(deployments, message, &run).await {
        Ok(id) => Ok(Delivered::Yes { reference: Some(id.to_string()) }),
        Err(error) if lacks_right(&error) => Ok(Delivered::Nothing(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

async fn failure(
    deployments: &Deployments,
    message: &Message,
) -> Result<Option<CheckRun>, ReportError> {
    let record = deployments.store.deployment(&message.deployment).await?;
    Ok(record.map(|deployment| {
        let said = words::failed(&deployment, &page(deployments, message), &deployments.waml.path);
        run(deployments, message, &deployment, said)
    }))
}

/// A success is shown only where a failure is: the commit status says it anyway.
async fn success(
    deployments: &Deployments,
    message: &Message,
) -> Result<Option<CheckRun>, ReportError> {
    let before = deployments.store.last_check(message).await?;
    if !matches!(before, Some(ForgeState::Failure | ForgeState::Error)) {
        return Ok(None);
    }
    let record = deployments.store.deployment(&message.deployment).await?;
    Ok(record.map(|deployment| {
        let said = words::succeeded(&deployment, &page(deployments, message));
        run(deployments, message, &deployment, said)
    }))
}

fn run(
    deployments: &Deployments,
    message: &Message,
    deployment: &Deployment,
    said: words::Said,
) -> CheckRun {
    let words::Said { conclusion, title, summary, annotations } = said;
    CheckRun {
        name: context(message),
        head: message.commit.clone(),
        external_id: deployment.id.to_string(),
        conclusion: Some(conclusion),
        title,
        summary,
        text: None,
        details_url: Some(page(deployments, message)),
        annotations,
    }
}

/// Writes it, or completes the one that an earlier attempt wrote.
async fn written(
    deployments: &Deployments,
    message: &Message,
    run: &CheckRun,
) -> Result<i64, ForgeError> {
    let Message { repository, commit, unsure, .. } = message;
    if *unsure {
        let found =
            deployments.forge.find_check(repository, commit, &run.name, &run.external_id).await?;
        if let Some(id) = found {
            deployments.forge.update_check(repository, id, run).await?;
            return Ok(id);
        }
    }
    deployments.forge.create_check(repository, run).await
}

/// Whether it is the App that may not, which is the operator's choice and no alarm.
fn lacks_right(error: &ForgeError) -> bool {
    matches!(error, ForgeError::MissingPermission { .. } | ForgeError::NeedsApp { .. })
}
