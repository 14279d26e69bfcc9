//! What is live on a fleet, for a rollout that has one as a target: the newest deployment of the fleet, as long as each
//! cluster has the revision of its part.

use std::collections::BTreeMap;

use crate::deployments::history::{HistoryError, repository_error};
use crate::deployments::rollouts::live::{LiveState, revision_of};
use crate::deployments::{BackendError, Deployments};
use crate::git::layout::REVISIONS_KEPT;
use crate::git::writer::ManifestRepository;
use crate::model::app_instance::AppInstance;
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::live_history::AppFolders;
use crate::model::rollback::TreeId;
use crate::rollout::facts::LiveFact;
use crate::store::{Filter, StoreError};

/// The number of a fleet's deployments among which those are found that can be made live again.
const SEARCHED: u32 = 20;

impl Deployments {
    /// Explains why a rollout does not bring an app to a fleet for the first time: it could not take it away again.
    pub(super) fn first_on_fleet(&self, target: &TargetName, live: &LiveFact) -> Option<String> {
        (self.fleets.is_fleet(target) && *live == LiveFact::Absent).then(|| {
            "nothing of the app is deployed to the fleet yet, and an undo could not take it away again: deploy it once"
                .to_owned()
        })
    }

    /// Finds out what is live on a fleet. Its revisions are its deployments: those that each of its clusters still keeps.
    pub(super) async fn look_at_fleet(
        &self,
        instance: &AppInstance,
        newest: Option<&Deployment>,
        is_ours: &(dyn Fn(&DeployId) -> bool + Sync),
    ) -> Result<LiveState, HistoryError> {
        let AppInstance { target, app } = instance;
        let fault = |error: StoreError| HistoryError::Fault(BackendError::new(error));
        let Some(newest) = newest else {
            return Ok(LiveState { live: LiveFact::Absent, folders: AppFolders::default() });
        };
        let clusters = self.clusters_of(target);
        let names: Vec<&TargetName> = clusters.iter().collect();
        let alone = self.store.newest_pushed(app, &names).await.map_err(fault)?;
        let repository = &self
            .manifests_of(target)
            .map_err(|problem| HistoryError::Repository(problem.message))?
            .repository;
        let parts = self.store.fleet_parts(revision_of(newest)).await.map_err(fault)?;
        let mut folders = read_folders(repository, &clusters, app, false).await?;
        let mut live = decide(newest, &parts, &alone, &folders, is_ours);
        if live == LiveFact::Edited {
            // What was read may be of a moment ago.
            folders = read_folders(repository, &clusters, app, true).await?;
            live = decide(newest, &parts, &alone, &folders, is_ours);
        }
        let page = self.store.deployments(&Filter::pushed(target, app), None, SEARCHED).await;
        let past = page.map_err(fault)?.deployments;
        let past: Vec<DeployId> =
            past.into_iter().filter(|one| one.rollback.is_none()).map(|one| one.id).collect();
        let mut revisions = Vec::new();
        for id in past.into_iter().take(REVISIONS_KEPT) {
            let parts = self.store.fleet_parts(&id).await.map_err(fault)?;
            if is_kept(&parts, &folders) {
                // The trees are those of its clusters.
                revisions.push((id, TreeId(String::new())));
            }
        }
        Ok(LiveState { live, folders: AppFolders { revisions, latest: None } })
    }
}

/// Reads the revisions of an app on each cluster: those that are known now, or those of the server.
async fn read_folders(
    repository: &ManifestRepository,
    clusters: &[TargetName],
    app: &AppKey,
    is_current: bool,
) -> Result<BTreeMap<TargetName, AppFolders>, HistoryError> {
    let mut folders = BTreeMap::new();
    for cluster in clusters {
        let history = if is_current {
            repository.history(cluster, app).await
        } else {
            repository.read_history_beside(cluster, app).await
        };
        folders.insert(cluster.clone(), history.map_err(|error| repository_error(&error))?);
    }
    Ok(folders)
}

/// Decides what is live by the newest deployment of a fleet, the parts of the revision that it made live, and the newest
/// deployment on each cluster. What a cluster got by its own name since is another's.
fn decide(
    newest: &Deployment,
    parts: &[Deployment],
    alone: &[Deployment],
    folders: &BTreeMap<TargetName, AppFolders>,
    is_ours: &(dyn Fn(&DeployId) -> bool + Sync),
) -> LiveFact {
    let fact = |revision: &DeployId, by: &DeployId| {
        let (revision, by) = (revision.clone(), by.clone());
        LiveFact::Revision { is_ours: is_ours(&by), revision, by }
    };
    for part in parts {
        let cluster = &part.request.target;
        let Some(history) = folders.get(cluster) else { continue };
        let own = history.revisions.iter().find(|(id, _)| *id == part.id).map(|(_, tree)| tree);
        let is_live = match own {
            Some(tree) => history.latest.as_ref() == Some(tree),
            // It changed nothing: an older revision has the same files.
            None => history.live().is_some(),
        };
        let later = alone.iter().find(|one| one.request.target == *cluster);
        let by = later.map(|later| later.fleet.as_ref().unwrap_or(&later.id));
        match by.filter(|by| **by > newest.id) {
            Some(by) => return fact(by, by),
            None if is_live => {}
            None => return LiveFact::Edited,
        }
    }
    fact(revision_of(newest), &newest.id)
}

/// Checks that each cluster keeps the revision of its part. A part that changed nothing has none of its own; its undo looks
/// for the older one with the same files.
fn is_kept(parts: &[Deployment], folders: &BTreeMap<TargetName, AppFolders>) -> bool {
    let mut of_fleet =
        parts.iter().filter_map(|part| Some((part, folders.get(&part.request.target)?))).peekable();
    of_fleet.peek().is_some()
        && of_fleet.all(|(part, history)| {
            part.pushed.as_ref().is_some_and(|pushed| !pushed.changed)
                || history.revisions.iter().any(|(id, _)| *id == part.id)
        })
}
