//! The attempt at a rollback: writes a former revision to the manifest repository.

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::outcome::{DeployError, WriteOutcome, describe_push};
use crate::deployments::rollback::data::{self, Judgement};
use crate::git::layout;
use crate::git::writer::{
    DriftPolicy, ManifestRepository, PushOutcome, Restore, RollbackNote, WriteError,
};
use crate::manifests::files;
use crate::model::deployment::{Deployment, Pushed};
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::revision::Digest;
use crate::model::rollback::Rollback;
use crate::support::lease::Lease;

/// The number of tries, where another commit changes what is live before the push.
pub(super) const LOOKS: u32 = 3;

impl Deployments {
    /// Makes a former revision live again in the manifest repository, unless the lease has ended.
    /// One that is live already is not pushed again.
    pub(crate) async fn restore_revision(
        &self,
        deployment: &Deployment,
        rollback: &Rollback,
        at: Timestamp,
        lease: &Lease,
    ) -> WriteOutcome {
        let target = &deployment.request.target;
        let (repository, app) = match self.rollback_place(deployment) {
            Ok(place) => place,
            Err(problem) => return problem.into(),
        };
        let policy = self.clusters.find(target).map(|target| target.policies.hand_edits);
        let watch = DriftPolicy::new(policy.unwrap_or_default());
        let number = deployment.request.identity.map(|identity| identity.repository);
        let note = build_note(deployment, app, rollback, (number, None));
        let restore = Restore::new(&note, rollback.tree.clone(), watch.clone());
        let mut look = 1;
        let result = loop {
            let judgement = data::judge_again(repository, (deployment, app), rollback).await;
            let Judgement { latest, application } = match judgement {
                Ok(judgement) => judgement,
                Err(problem) => break Err(problem),
            };
            let restore = restore.clone().expecting_latest(latest).with_application(application);
            match repository.roll_back(restore, at, lease).await {
                Ok(push) => {
                    self.facts.note_push();
                    break read_pushed(repository, deployment, app, rollback, push).await;
                }
                Err(WriteError::Moved { .. }) if look < LOOKS => look += 1,
                Err(error) => break Err(error.into()),
            }
        };
        WriteOutcome { result, hand_edit: watch.read_hand_edit(), parts: Vec::new() }
    }

    /// Returns the repository that a rollback writes to, and its app.
    pub(super) fn rollback_place<'a>(
        &'a self,
        deployment: &'a Deployment,
    ) -> Result<(&'a ManifestRepository, &'a AppKey), DeployError> {
        let repository = &self.manifests_of(&deployment.request.target)?.repository;
        let app = deployment.app.as_ref().ok_or_else(|| {
            let fault = "the rollback's record names no app: a fault in the-deployer itself";
            DeployError::give_up(fault)
        })?;
        Ok((repository, app))
    }

    /// Returns the push of an earlier attempt, if its commit is there.
    pub(crate) async fn find_earlier_restore(
        &self,
        deployment: &Deployment,
        rollback: &Rollback,
    ) -> Result<Option<(Pushed, Option<HandEdit>)>, DeployError> {
        let target = &deployment.request.target;
        let repository = &self.manifests_of(target)?.repository;
        let Some(app) = &deployment.app else { return Ok(None) };
        let Some(commit) = repository.commit_of(&deployment.id).await? else { return Ok(None) };
        let push = PushOutcome::AlreadyPushed { commit };
        let pushed = read_pushed(repository, deployment, app, rollback, push).await?;
        Ok(Some((pushed, repository.replaced_edit(target, app, &deployment.id).await?)))
    }
}

/// Returns the record of a revision that is live again: the digest of its files is the old one.
pub(super) async fn read_pushed(
    repository: &ManifestRepository,
    deployment: &Deployment,
    app: &AppKey,
    rollback: &Rollback,
    push: PushOutcome,
) -> Result<Pushed, DeployError> {
    let folder = layout::revision_folder(&deployment.request.target, app, &rollback.to).to_string();
    let files = repository.files(&folder).await?;
    // Files that the service did not write have no digest; their tree id names them as well.
    let digest =
        files::digest_of(&files).unwrap_or_else(|| Digest(format!("git-tree:{}", rollback.tree)));
    Ok(describe_push(push, digest, files.into_iter().map(|file| file.name).collect()))
}

pub(super) fn build_note(
    deployment: &Deployment,
    app: &AppKey,
    rollback: &Rollback,
    (repository_number, fleet): (Option<i64>, Option<(DeployId, TargetName)>),
) -> RollbackNote {
    let request = &deployment.request;
    RollbackNote {
        id: deployment.id.clone(),
        app: app.clone(),
        target: request.target.clone(),
        to: rollback.to.clone(),
        from: rollback.from.clone(),
        tag: request.release.tag.clone(),
        repository: request.release.repository.clone(),
        repository_number,
        app_name: request.release.app.clone(),
        commit: request.release.commit.clone(),
        actor: request.actor.clone(),
        reason: rollback.reason.clone(),
        fleet,
    }
}
