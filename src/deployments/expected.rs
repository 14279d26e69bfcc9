//! Reads from the manifest repository the objects that a pushed deployment should bring about in its cluster.

use jiff::Timestamp;

use crate::cluster::expected::{ExpectedRevision, ExpectedWorkload};
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::deployments::Deployments;
use crate::deployments::outcome::DeployError;
use crate::git::history::live::RevisionInCommit;
use crate::git::layout;
use crate::manifests::argocd::application::application_name;
use crate::manifests::files;
use crate::manifests::parse;
use crate::manifests::parse::workloads::{ManifestWorkload, read_workloads};
use crate::model::app_instance::AppInstance;
use crate::model::deployment::State;
use crate::model::facts::LiveCanary;
use crate::model::id::{CommitSha, TargetName};
use crate::store::PushedDeployment;

/// The most commits that are known to hold a revision, the newest ones: Argo CD syncs the newest.
const MAX_COMMITS: u32 = 500;

impl Deployments {
    /// Reads the workloads of a pushed deployment from the manifest repository, with its own commit alone. `None` where another revision is live
    /// there by now, or the app is gone: nothing of the deployment is to be expected then.
    ///
    /// # Errors
    /// When the repository or the database cannot be read; a later attempt may succeed.
    pub(crate) async fn expected_revision(
        &self,
        deployment: &PushedDeployment,
    ) -> Result<Option<ExpectedRevision>, DeployError> {
        let PushedDeployment { id, place, pushed, pushed_at, state, is_announced: _ } = deployment;
        let AppInstance { target, app } = place;
        let repository = &self.manifests_of(target)?.repository;
        let folder = layout::latest_folder(target, app).to_string();
        let files = repository.files_beside(&folder).await?;
        // Files that the service did not write have no digest.
        let is_own = files::digest_of(&files).is_none_or(|digest| digest == pushed.digest);
        if files.is_empty() || !is_own {
            return Ok(None);
        }
        let namespace = app.namespace.as_str();
        let workloads = read_workloads(&files);
        let canaries = parse::live_app(&files).0.canaries;
        let is_own =
            |workload: &&ManifestWorkload| workload.digest.as_ref() == Some(&pushed.digest.0);
        let workloads = workloads.iter().filter(is_own);
        let argocd = self.clusters.find(target).map(|target| {
            let name = application_name(app, &target);
            ObjectKey::new(WatchedKind::Application, target.argocd.namespace.as_str(), &name)
        });
        Ok(Some(ExpectedRevision {
            app: app.clone(),
            deploy_id: id.clone(),
            digest: pushed.digest.clone(),
            workloads: workloads
                .filter_map(|workload| expected_workload(workload, namespace, &canaries))
                .collect(),
            application: argocd,
            commits: vec![pushed.commit.to_string()],
            changed: pushed.changed,
            awaiting: matches!(state, State::Syncing | State::Progressing),
            pushed_at: *pushed_at,
        }))
    }

    /// Returns the time of the newest push to the manifest repository of a target.
    pub(crate) async fn newest_push(
        &self,
        target: &TargetName,
    ) -> Result<Option<Timestamp>, DeployError> {
        Ok(self.store.newest_push(&self.targets_beside(target)?).await?)
    }

    /// Returns the commits that were pushed to the manifest repository of a target since that time, with their times.
    pub(crate) async fn commits_since(
        &self,
        target: &TargetName,
        since: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, DeployError> {
        let targets = self.targets_beside(target)?;
        let commits = self.store.commits_since(&targets, since, MAX_COMMITS).await?;
        Ok(commits.into_iter().map(|(at, commit)| (at, commit.to_string())).collect())
    }

    /// Finds out whether a commit that Argo CD names, and that no deployment pushed, holds a revision; `None` where the
    /// manifest repository does not have the commit, yet.
    pub(crate) async fn commit_holds(
        &self,
        deployment: &PushedDeployment,
        commit: &CommitSha,
    ) -> Result<Option<bool>, DeployError> {
        let PushedDeployment { place: AppInstance { target, app }, pushed, .. } = deployment;
        let repository = &self.manifests_of(target)?.repository;
        let finding = repository.find_revision_in(commit, &pushed.commit, (target, app)).await?;
        Ok(match finding {
            RevisionInCommit::Held => Some(true),
            RevisionInCommit::NotHeld => Some(false),
            RevisionInCommit::Unknown => None,
            RevisionInCommit::AtTip(files) => {
                Some(files::digest_of(&files).as_ref() == Some(&pushed.digest))
            }
        })
    }

    /// Lists the targets whose manifests are in the repository of this one.
    fn targets_beside(&self, target: &TargetName) -> Result<Vec<TargetName>, DeployError> {
        let served = self.manifests_of(target)?;
        let is_served = |target: &&TargetName| served.targets.is_match(target.as_str());
        Ok(self.clusters.names().into_iter().filter(is_served).cloned().collect())
    }
}

/// Returns the commits that hold a revision: its own, and those of later pushes.
pub(crate) fn commits_with(
    deployment: &PushedDeployment,
    pushes: &[(Timestamp, String)],
) -> Vec<String> {
    let later = pushes.iter().filter(|(at, _)| *at >= deployment.pushed_at);
    let own_commit = deployment.pushed.commit.to_string();
    std::iter::once(own_commit).chain(later.map(|(_, commit)| commit.clone())).collect()
}

fn expected_workload(
    workload: &ManifestWorkload,
    namespace: &str,
    canaries: &[LiveCanary],
) -> Option<ExpectedWorkload> {
    let kind = WatchedKind::parse(&workload.kind).filter(|kind| kind.is_workload())?;
    let namespace = workload.namespace.as_deref().unwrap_or(namespace);
    let key = ObjectKey::new(kind, namespace, &workload.name);
    let has_canary = kind == WatchedKind::Deployment
        && canaries.iter().any(|canary| canary.workload == workload.name);
    Some(ExpectedWorkload { key, replicas: workload.replicas, has_canary })
}
