//! A cluster's Argo CD is told of what was pushed for it.
//!
//! What the commit changed is read from the repository when it is sent. An event that came twice
//! does no harm: Argo CD looks at the branch each time. So nothing is looked for first.

mod paths; // what a push is told to have changed, pure

use std::time::Duration;

use jiff::Timestamp;

use crate::git::writer::ManifestRepository;
use crate::manifests::argocd::application::Source;
use crate::model::deployment::{Deployment, ForgeState};
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::notify::argocd::event::{self, PreviousCommit, PushNotice, TouchedPaths};
use crate::outbox::delivery::{Delivered, NotDelivered};
use crate::outbox::sinks::{Sinks, not_configured};
use crate::store::OutboxMessage;

/// Longer than a repository takes that answers; what is known does otherwise.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

impl Sinks {
    /// Sends the event of a message's commit to the cluster's Argo CD.
    pub(super) async fn push_event(
        &self,
        message: &OutboxMessage,
        cluster: &TargetName,
        now: Timestamp,
    ) -> Result<Delivered, NotDelivered> {
        let Some(hook) = self.argocd.get(cluster) else { return Ok(not_configured(message)) };
        let Some(commit) = message.status.commit() else {
            return Ok(Delivered::Nothing("the message names no commit".to_owned()));
        };
        let manifests = self.deployments.manifests_of(cluster)?;
        let deployment = self.deployments.store.deployment(&message.deployment).await?;
        let Some(deployment) = deployment else {
            return Ok(Delivered::Nothing("its deployment is not known".to_owned()));
        };
        let gone = message.status.state == ForgeState::Inactive;
        let touched = touched(&manifests.repository, &deployment, &commit, gone).await;
        let Source { url, branch } = &manifests.source;
        let push = PushNotice { url, branch, commit: &commit, touched: &touched, at: message.at };
        let id = format!("{}-{}", message.deployment, message.seq);
        hook.send(&id, event::body(&push), now).await?;
        Ok(Delivered::Yes { reference: Some(id) })
    }
}

/// Returns what the commit changed; or, where that cannot be found, what the record says.
async fn touched(
    repository: &ManifestRepository,
    deployment: &Deployment,
    commit: &CommitSha,
    gone: bool,
) -> TouchedPaths {
    let target = &deployment.request.target;
    let Some(app) = &deployment.app else { return paths::nothing() };
    if let Some(exact) = change_of(repository, commit, target, app).await {
        return exact;
    }
    // Another process may have pushed it: it is here when the server was asked.
    let own = fetched(repository, (!gone).then_some(&deployment.id)).await;
    if let Some(exact) = change_of(repository, commit, target, app).await {
        return exact;
    }
    // After a crash the record may name a later commit than its own.
    if let Some(own) = own.filter(|own| own != commit)
        && let Some(exact) = change_of(repository, &own, target, app).await
    {
        return TouchedPaths { before: PreviousCommit::Unknown, ..exact };
    }
    let files = deployment.pushed.as_ref().map(|pushed| pushed.files.as_slice());
    paths::of_record(files.unwrap_or_default(), target, app, gone)
}

async fn change_of(
    repository: &ManifestRepository,
    commit: &CommitSha,
    target: &TargetName,
    app: &AppKey,
) -> Option<TouchedPaths> {
    match repository.change_of(commit).await {
        Ok(change) => change.and_then(|change| paths::of_commit(change, target, app)),
        Err(error) => {
            let commit = commit.short();
            tracing::warn!(%error, commit, "a commit cannot be read; Argo CD is told what is known");
            None
        }
    }
}

/// Asks the server what is new; the commit of that deployment.
async fn fetched(
    repository: &ManifestRepository,
    deployment: Option<&DeployId>,
) -> Option<CommitSha> {
    let looking = async {
        match deployment {
            Some(id) => repository.commit_of(id).await,
            None => repository.tip().await.map(|_| None),
        }
    };
    tokio::time::timeout(LONGEST_LOOK, looking).await.ok()?.ok()?
}
