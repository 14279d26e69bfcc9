//! The commit status `deploy/<target>`: how the commit stands on that target.

use jiff::SignedDuration;

use crate::deployments::Deployments;
use crate::deployments::outcome::{Delivered, EndCheck};
use crate::deployments::tell::forge::{ReportError, context, page, said_by_a_newer_one, yes};
use crate::forge::error::ForgeError;
use crate::forge::{CommitState, CommitStatus};
use crate::model::deployment::ForgeState;
use crate::store::Message;

/// The commit status beside a deployment's status.
pub(in crate::deployments::tell) async fn commit(
    deployments: &Deployments,
    message: &Message,
) -> Result<Delivered, ReportError> {
    if let Some(nothing) = said_by_a_newer_one(deployments, message).await? {
        return Ok(nothing);
    }
    let Message { repository, commit, unsure, .. } = message;
    let status = compose_status(deployments, message);
    let has = || deployments.forge.has_commit_status(repository, commit, &status);
    if *unsure && has().await? {
        return Ok(yes());
    }
    let told = deployments.forge.commit_status(repository, commit, &status).await;
    match told {
        Ok(()) => Ok(yes()),
        Err(error) if has_no_commit(&error) && is_old(deployments, message) => {
            Ok(Delivered::Nothing(format!("GitHub knows no commit {commit}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells the end of a commit again, if its newest status of that context is another one.
pub(in crate::deployments::tell) async fn confirm_commit(
    deployments: &Deployments,
    message: &Message,
) -> Result<EndCheck, ReportError> {
    if said_by_a_newer_one(deployments, message).await?.is_some() {
        return Ok(EndCheck::Shown);
    }
    let Message { repository, commit, .. } = message;
    let status = compose_status(deployments, message);
    let has = deployments.forge.has_commit_status(repository, commit, &status).await;
    if has? {
        return Ok(EndCheck::Shown);
    }
    let told = deployments.forge.commit_status(repository, commit, &status).await;
    told.map(|()| EndCheck::Retold).map_err(ReportError::from)
}

fn compose_status(deployments: &Deployments, message: &Message) -> CommitStatus {
    CommitStatus {
        context: context(message),
        state: state(message.status.state),
        description: message.status.description().to_owned(),
        target_url: Some(page(deployments, message)),
    }
}

/// GitHub's own parts agree within minutes: a commit that it does not know by then never comes.
const AGREED: SignedDuration = SignedDuration::from_mins(2);

fn is_old(deployments: &Deployments, message: &Message) -> bool {
    deployments.clock.now().duration_since(message.at) > AGREED
}

/// As GitHub words it: `No commit found for SHA: …`.
fn has_no_commit(error: &ForgeError) -> bool {
    match error {
        ForgeError::NoCommit { .. } => true,
        ForgeError::Refused { status: 422, message, .. } => message.contains("No commit found"),
        _ => false,
    }
}

/// A commit status knows no `inactive`. One that was superseded before it was deployed gets an end
/// that is no success: the commit is not on the target.
fn state(state: ForgeState) -> CommitState {
    match state {
        ForgeState::Queued | ForgeState::InProgress => CommitState::Pending,
        ForgeState::Success => CommitState::Success,
        ForgeState::Failure => CommitState::Failure,
        ForgeState::Error | ForgeState::Inactive => CommitState::Error,
    }
}
