//! Sends push events to a cluster's Argo CD.
//!
//! The changes of the commit are read from the repository when the event is sent. An event that
//! arrives twice does no harm, because Argo CD reads the branch each time; so the sink does not
//! search for an earlier one.

mod paths; // the paths that a push event names, pure

use std::time::Duration;

use jiff::Timestamp;

use crate::git::writer::ManifestRepository;
use crate::manifests::argocd::application::Source;
use crate::model::deployment::{Deployment, ForgeState};
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::notify::argocd::event::{self, PreviousCommit, PushNotice, TouchedPaths};
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::sinks::{Sinks, not_configured};
use crate::store::OutboxMessage;

/// The time for reading the commit: longer than a repository takes that answers. After that the
/// record is used.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

impl Sinks {
    /// Sends the event of a message's commit to the cluster's Argo CD.
    pub(super) async fn push_event(
        &self,
        message: &OutboxMessage,
        cluster: &TargetName,
        now: Timestamp,
    ) -> Result<Delivered, DeliveryFailure> {
        let Some(hook) = self.argocd.get(cluster) else { return Ok(not_configured(message)) };
        let Some(commit) = message.status.commit() else {
            return Ok(Delivered::Nothing("the message names no commit".to_owned()));
        };
        let manifests = self.deployments.manifests_of(cluster)?;
        let deployment = self.deployments.store.deployment(&message.deployment).await?;
        let Some(deployment) = deployment else {
            return Ok(Delivered::Nothing("its deployment is not known".to_owned()));
        };
        let is_removed = message.status.state == ForgeState::Inactive;
        let touched = touched_paths(&manifests.repository, &deployment, &commit, is_removed).await;
        let Source { url, branch } = &manifests.source;
        let push = PushNotice { url, branch, commit: &commit, touched: &touched, at: message.at };
        let id = format!("{}-{}", message.deployment, message.seq);
        hook.send(&id, event::body(&push), now).await?;
        Ok(Delivered::Yes { reference: Some(id) })
    }
}

/// Returns the paths that the commit changed or, where they cannot be read, those of the record.
async fn touched_paths(
    repository: &ManifestRepository,
    deployment: &Deployment,
    commit: &CommitSha,
    is_removed: bool,
) -> TouchedPaths {
    let target = &deployment.request.target;
    let Some(app) = &deployment.app else { return paths::unknown_paths() };
    if let Some(touched) = read_change(repository, commit, target, app).await {
        return touched;
    }
    // Another process may have pushed it: then a fetch brings it.
    let own_commit = fetch_commit(repository, (!is_removed).then_some(&deployment.id)).await;
    if let Some(touched) = read_change(repository, commit, target, app).await {
        return touched;
    }
    // After a crash the record may name a later commit than its own.
    if let Some(own_commit) = own_commit.filter(|own_commit| own_commit != commit)
        && let Some(touched) = read_change(repository, &own_commit, target, app).await
    {
        return TouchedPaths { before: PreviousCommit::Unknown, ..touched };
    }
    let files = deployment.pushed.as_ref().map(|pushed| pushed.files.as_slice());
    paths::of_record(files.unwrap_or_default(), target, app, is_removed)
}

async fn read_change(
    repository: &ManifestRepository,
    commit: &CommitSha,
    target: &TargetName,
    app: &AppKey,
) -> Option<TouchedPaths> {
    match repository.change_of(commit).await {
        Ok(change) => change.and_then(|change| paths::of_commit(change, target, app)),
        Err(error) => {
            let commit = commit.short();
            tracing::warn!(%error, commit, "commit cannot be read, the event names the recorded paths");
            None
        }
    }
}

/// Fetches from the server; returns the commit of that deployment.
async fn fetch_commit(
    repository: &ManifestRepository,
    deployment: Option<&DeployId>,
) -> Option<CommitSha> {
    let lookup = async {
        match deployment {
            Some(id) => repository.commit_of(id).await,
            None => repository.tip().await.map(|_| None),
        }
    };
    tokio::time::timeout(LONGEST_LOOK, lookup).await.ok()?.ok()?
}
