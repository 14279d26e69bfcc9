//! An app's revisions: which there are is in the manifest repository; who made them and why is in the
//! database, or else in their commits.

use std::collections::BTreeMap;

use crate::app::backend::Backend;
use crate::facts::NotKnown;
use crate::git::revisions::{Found, Kept, Revisions, Said};
use crate::git::writer::{ManifestRepository, WriteError};
use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::model::placed::Spot;
use crate::model::revision::ManifestFile;
use crate::pipeline::diff::{self, Change};
use crate::server::ports::{Fault, History, NotShown, Revision, RevisionFiles};

/// Lines around those that differ.
const CONTEXT: usize = 2;

impl Backend {
    /// The manifest repository of a target as its server has it now, or had a moment ago, and whether it
    /// had the branch then. `None` for a target that there is none for.
    pub(super) async fn repository(
        &self,
        spot: &Spot,
    ) -> Result<Option<(&ManifestRepository, bool)>, NotShown> {
        let Ok(manifests) = self.world.manifests_of(&spot.target) else { return Ok(None) };
        let current = self.world.facts.current(&spot.target).await;
        let branch = current.map_err(|NotKnown(why)| NotShown::Repository(why))?;
        Ok(Some((&manifests.repository, branch)))
    }

    /// The app's history; empty where the repository has nothing of it.
    pub(super) async fn history_of(&self, spot: &Spot) -> Result<History, NotShown> {
        let Some((repository, branch)) = self.repository(spot).await? else {
            return Ok(History::default());
        };
        let found = match repository.revisions(&spot.target, &spot.app).await {
            // Nothing was ever pushed to its server.
            Err(_) if !branch => return Ok(History::default()),
            found => found,
        };
        let Revisions { kept, live, hand_edited } = found.map_err(|error| unread(&error))?;
        let mut known = BTreeMap::new();
        for Kept { id, .. } in &kept {
            if let Some(record) = self.store.deployment(id).await.map_err(Fault::new)? {
                known.insert(id.clone(), record);
            }
        }
        let unknown = kept.iter().map(|one| &one.id).filter(|id| !known.contains_key(id));
        let said = repository.said_of(unknown.cloned().collect()).await;
        let mut said = said.map_err(|error| unread(&error))?;
        let revisions = kept.into_iter().map(|Kept { id, tree }| {
            let live = live.as_ref() == Some(&id);
            match (known.remove(&id), said.remove(&id)) {
                (Some(record), _) => of_record(id, tree, live, record),
                (None, said) => of_commit(id, tree, live, said),
            }
        });
        Ok(History { revisions: revisions.collect(), hand_edited })
    }

    /// One revision with its files, against what is live.
    pub(super) async fn revision_of(
        &self,
        spot: &Spot,
        id: &DeployId,
    ) -> Result<Option<RevisionFiles>, NotShown> {
        let history = self.history_of(spot).await?;
        let found = history.revisions.into_iter().find(|one| one.id == *id);
        let (Some(revision), Some((repository, _))) = (found, self.repository(spot).await?) else {
            return Ok(None);
        };
        let files = repository.files_of(&spot.target, &spot.app, Some(id)).await;
        let latest = repository.files_of(&spot.target, &spot.app, None).await;
        let (files, latest) =
            (files.map_err(|error| unread(&error))?, latest.map_err(|error| unread(&error))?);
        // Somebody may have pruned it since.
        let Some(files) = files else { return Ok(None) };
        let changes = changes(&latest.unwrap_or_default(), &files);
        Ok(Some(RevisionFiles { revision, files, changes }))
    }
}

/// What differs between two sets of files; `None` where some are not such as we write.
pub(super) fn changes(before: &[ManifestFile], after: &[ManifestFile]) -> Option<Vec<Change>> {
    let (before, after) = (diff::objects(before)?, diff::objects(after)?);
    Some(diff::changes(&before, &after, CONTEXT).0)
}

fn of_record(id: DeployId, tree: String, live: bool, record: Deployment) -> Revision {
    let Deployment { request, finished_at, received_at, pushed, template, .. } = record;
    Revision {
        id,
        tree,
        live,
        tag: Some(request.release.tag),
        commit: Some(request.release.commit),
        repository: Some(request.release.repository),
        actor: Some(request.actor),
        reason: Some(request.description).filter(|text| !text.is_empty()),
        at: Some(finished_at.unwrap_or(received_at)),
        template,
        digest: pushed.map(|pushed| pushed.digest),
    }
}

fn of_commit(id: DeployId, tree: String, live: bool, found: Option<Found>) -> Revision {
    let (said, at) = found.map_or((Said::default(), None), |one| (one.said, Some(one.at)));
    let Said { tag, repository, commit, actor, template, digest, reason } = said;
    Revision { id, tree, live, tag, commit, repository, actor, reason, at, template, digest }
}

fn unread(error: &WriteError) -> NotShown {
    NotShown::Repository(error.to_string())
}
