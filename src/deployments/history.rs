//! Reads an app's revisions. The manifest repository has the list; the database, or else their
//! commits, have the actor and the reason.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::deployments::{BackendError, Deployments};
use crate::git::history::revisions::{CommitNote, RevisionTrailers};
use crate::git::layout::REVISIONS_KEPT;
use crate::git::writer::{ManifestRepository, WriteError};
use crate::lookups::FactUnavailable;
use crate::manifests::diff;
use crate::manifests::diff::Change;
use crate::model::app_instance::AppInstance;
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, AppName, CommitSha, DeployId, ImageTag, RepoName, TargetName};
use crate::model::live_history::{ClusterFailure, LiveHistory, RevisionEnd, RollbackMark};
use crate::model::revision::{Digest, ManifestFile};
use crate::model::rollback::TreeId;
use crate::store::Filter;

/// An entry of an app's history. A field that neither the database nor the commit has is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Its deploy id.
    pub id: DeployId,
    /// The id of its tree in git.
    pub tree: String,
    /// True if it is live.
    pub live: bool,
    /// The image tag that was deployed.
    pub tag: Option<ImageTag>,
    /// The app, where the repository has several.
    pub app_name: Option<AppName>,
    /// The commit whose WAML was read.
    pub commit: Option<CommitSha>,
    /// The service's repository.
    pub repository: Option<RepoName>,
    /// The person or program that deployed it.
    pub actor: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The time at which it was created.
    pub at: Option<Timestamp>,
    /// The template and its version.
    pub template: Option<String>,
    /// The digest of its files.
    pub digest: Option<Digest>,
    /// The rollback away from this revision, if there was one and it is not live again since.
    pub rolled_back: Option<RollbackMark>,
    /// Its failure in the cluster, if its last end there was one.
    pub failure: Option<ClusterFailure>,
}

/// An app's history on a target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The revisions that are kept, newest first.
    pub revisions: Vec<HistoryEntry>,
    /// True if `latest` has manual edits, so that no revision is live.
    pub hand_edited: bool,
}

/// One revision with its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionFiles {
    /// The revision.
    pub revision: HistoryEntry,
    /// Its files, by name.
    pub files: Vec<ManifestFile>,
    /// The changes if it were live; `None` where some files are not in the form that the service
    /// writes.
    pub changes: Option<Vec<Change>>,
}

/// The difference between two revisions of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionComparison {
    /// The one before.
    pub from: DeployId,
    /// The one after.
    pub to: DeployId,
    /// The changes from the one to the other; `None` where some files are not in the form that the service writes, or
    /// one of them is not kept.
    pub changes: Option<Vec<Change>>,
}

/// The unchanged lines shown around a change.
const CONTEXT: usize = 2;
/// The number of past live revisions that are read: five revisions are kept, and some may have been
/// live again and again.
const HISTORY_LENGTH: u32 = 100;

/// The reason why an app cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The manifest repository cannot be read now; the text is for callers.
    #[error("{0}")]
    Repository(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

impl Deployments {
    /// Returns the manifest repository of a target with its server's present state, or that of a
    /// moment ago, and whether it had the branch then. `None` for a target without a manifest
    /// repository.
    pub(super) async fn repository(
        &self,
        instance: &AppInstance,
    ) -> Result<Option<(&ManifestRepository, bool)>, HistoryError> {
        let Ok(manifests) = self.manifests_of(&instance.target) else { return Ok(None) };
        let current = self.facts.current(&instance.target).await;
        let branch = current.map_err(|FactUnavailable(why)| HistoryError::Repository(why))?;
        Ok(Some((&manifests.repository, branch)))
    }

    /// Returns the app's history; empty where the repository has nothing of it.
    pub(super) async fn history_of(&self, instance: &AppInstance) -> Result<History, HistoryError> {
        if self.fleets.is_fleet(&instance.target) {
            return Ok(self.fleet_history(instance).await?);
        }
        let Some((repository, branch)) = self.repository(instance).await? else {
            return Ok(History::default());
        };
        let result = match repository.revisions(&instance.target, &instance.app).await {
            // The server has no branch: nothing was ever pushed.
            Err(_) if !branch => return Ok(History::default()),
            result => result,
        };
        let folders = result.map_err(|error| repository_error(&error))?;
        let live = folders.live().cloned();
        let hand_edited = folders.latest.is_some() && live.is_none();
        let mut records = BTreeMap::new();
        for (id, _) in &folders.revisions {
            if let Some(record) = self.store.deployment(id).await.map_err(BackendError::new)? {
                records.insert(id.clone(), record);
            }
        }
        let unknown =
            folders.revisions.iter().map(|(id, _)| id).filter(|id| !records.contains_key(id));
        let notes = repository.read_messages(unknown.cloned().collect()).await;
        let mut notes = notes.map_err(|error| repository_error(&error))?;
        let past = self.live_history(&instance.target, &instance.app).await?;
        let (rollbacks, ends) = (past.rolled_back_from(&folders), past.last_ends(&folders));
        let revisions = folders.revisions.into_iter().map(|(id, tree)| {
            let live = live.as_ref() == Some(&id);
            let rolled_back = rollbacks.get(&tree).cloned();
            let failure = match ends.get(&tree) {
                Some(RevisionEnd::Failed(failure)) => Some(failure.clone()),
                Some(RevisionEnd::Ran) | None => None,
            };
            let TreeId(tree) = tree;
            let revision = match (records.remove(&id), notes.remove(&id)) {
                (Some(record), _) => entry_of_record(id, tree, live, record),
                (None, notes) => entry_of_commit(id, tree, live, notes),
            };
            HistoryEntry { rolled_back, failure, ..revision }
        });
        Ok(History { revisions: revisions.collect(), hand_edited })
    }

    /// Returns the history of a fleet: its newest deployments, each of which made a revision on every cluster that it had
    /// then. A cluster may keep fewer of them, and may have been deployed to alone since.
    async fn fleet_history(&self, instance: &AppInstance) -> Result<History, BackendError> {
        let filter = Filter::pushed(&instance.target, &instance.app);
        let page = self.store.deployments(&filter, None, HISTORY_LENGTH).await;
        let past = page.map_err(BackendError::new)?.deployments;
        let newest = past.first().cloned();
        let live = newest.map(|newest| newest.rollback.map_or(newest.id, |rollback| rollback.to));
        let revisions = past.into_iter().filter(|deployment| deployment.rollback.is_none());
        let revisions = revisions.take(REVISIONS_KEPT).map(|record| {
            let is_live = live.as_ref() == Some(&record.id);
            entry_of_record(record.id.clone(), String::new(), is_live, record)
        });
        Ok(History { revisions: revisions.collect(), hand_edited: false })
    }

    /// Returns the live revisions of an app on a target in their order, as far back as a rollback
    /// looks.
    pub(crate) async fn live_history(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<LiveHistory, BackendError> {
        let filter = Filter::pushed(target, app);
        let page = self
            .store
            .deployments(&filter, None, HISTORY_LENGTH)
            .await
            .map_err(BackendError::new)?;
        Ok(LiveHistory::of(&page.deployments))
    }

    /// Returns one revision with its files and the changes against the live ones; `None` if it is
    /// not kept.
    pub(crate) async fn find_revision(
        &self,
        instance: &AppInstance,
        id: &DeployId,
    ) -> Result<Option<RevisionFiles>, HistoryError> {
        let history = self.history_of(instance).await?;
        let revision = history.revisions.into_iter().find(|entry| entry.id == *id);
        let (Some(revision), Some((repository, _))) = (revision, self.repository(instance).await?)
        else {
            return Ok(None);
        };
        let files = repository.files_of(&instance.target, &instance.app, Some(id)).await;
        let latest = repository.files_of(&instance.target, &instance.app, None).await;
        let (files, latest) = (
            files.map_err(|error| repository_error(&error))?,
            latest.map_err(|error| repository_error(&error))?,
        );
        // It may have been pruned since.
        let Some(files) = files else { return Ok(None) };
        let changes = changes(&latest.unwrap_or_default(), &files);
        Ok(Some(RevisionFiles { revision, files, changes }))
    }

    /// Compares two revisions of an app.
    pub(crate) async fn compare_revisions(
        &self,
        instance: &AppInstance,
        from: DeployId,
        to: DeployId,
    ) -> Result<RevisionComparison, HistoryError> {
        let Some((repository, _)) = self.repository(instance).await? else {
            return Ok(RevisionComparison { from, to, changes: None });
        };
        let files = async |id: &DeployId| {
            let files = repository.files_of(&instance.target, &instance.app, Some(id)).await;
            files.map_err(|error| repository_error(&error))
        };
        let (before, after) = (files(&from).await?, files(&to).await?);
        let both = before.zip(after);
        // Comparing takes milliseconds of computing.
        let compare = tokio::task::spawn_blocking(move || {
            both.and_then(|(before, after)| changes(&before, &after))
        });
        let changes = compare.await.map_err(BackendError::new)?;
        Ok(RevisionComparison { from, to, changes })
    }
}

/// Returns the differences between two sets of files, without the contents of Secrets; `None` where
/// some files are not in the form that the service writes.
pub(super) fn changes(before: &[ManifestFile], after: &[ManifestFile]) -> Option<Vec<Change>> {
    let (before, after) = (diff::objects(before)?, diff::objects(after)?);
    Some(diff::changes(&before, &after, CONTEXT).0)
}

fn entry_of_record(id: DeployId, tree: String, live: bool, record: Deployment) -> HistoryEntry {
    let Deployment { request, finished_at, received_at, pushed, template, .. } = record;
    HistoryEntry {
        id,
        tree,
        live,
        app_name: request.release.app,
        tag: Some(request.release.tag),
        commit: Some(request.release.commit),
        repository: Some(request.release.repository),
        actor: Some(request.actor),
        reason: Some(request.description).filter(|text| !text.is_empty()),
        at: Some(finished_at.unwrap_or(received_at)),
        template,
        digest: pushed.map(|pushed| pushed.digest),
        rolled_back: None,
        failure: None,
    }
}

fn entry_of_commit(
    id: DeployId,
    tree: String,
    live: bool,
    note: Option<CommitNote>,
) -> HistoryEntry {
    let (trailers, at) =
        note.map_or((RevisionTrailers::default(), None), |note| (note.said, Some(note.at)));
    let RevisionTrailers { tag, repository, app_name, commit, actor, template, digest, reason } =
        trailers;
    HistoryEntry {
        id,
        tree,
        live,
        tag,
        app_name,
        commit,
        repository,
        actor,
        reason,
        at,
        template,
        digest,
        rolled_back: None,
        failure: None,
    }
}

pub(super) fn repository_error(error: &WriteError) -> HistoryError {
    HistoryError::Repository(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_object_by_object_but_for_secrets() {
        let file = |name: &str, text: &str| ManifestFile {
            name: name.to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        let object = |kind: &str, text: &str| {
            file(
                &format!("{kind}.yaml"),
                &format!(
                    "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: a\ndata:\n  b: {text}\n"
                ),
            )
        };
        let before = [object("ConfigMap", "one"), object("Secret", "hunter2")];
        let after = [object("ConfigMap", "two"), object("Secret", "hunter3")];
        let differences = changes(&before, &after).unwrap();
        let diffs: Vec<_> =
            differences.iter().map(|change| (change.kind.as_str(), change.diff.as_str())).collect();
        let [("ConfigMap", visible), ("Secret", hidden)] = diffs[..] else { panic!("{diffs:?}") };
        assert!(visible.contains("-  b: one\n+  b: two\n"), "{visible}");
        assert_eq!(hidden, "@@ a secret is not shown @@\n");
        assert_eq!(changes(&[file("a.yaml", "a: [\n")], &after), None);
    }
}
