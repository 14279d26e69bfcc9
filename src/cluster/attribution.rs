//! Finds the release that a workload carries, and the deployment that brought it.
//!
//! A workload of ours carries the digest of its revision and not the deploy id, so that the same result stays the same
//! bytes. The deployment is found among those that were pushed: the newest one with that digest. A rollback brings a
//! former digest back under a new deploy id. A former digest that no newer deployment brings back is somebody's
//! `kubectl rollout undo`, which restores the annotations of the release before as well.
//!
//! A workload of somebody else that names a commit is told apart by that commit and its pod template.

use std::sync::Arc;

use crate::cluster::expected::ExpectedRevision;
use crate::cluster::object::{CommitAnnotations, Marks};
use crate::cluster::record::ProgressRecord;
use crate::cluster::watched::WatchedObject;
use crate::model::id::DeployId;

/// A release that a workload carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CarriedRelease {
    pub(super) digest: String,
    /// The commit that a workload of somebody else names.
    pub(super) commit: Option<CommitAnnotations>,
}

/// The result of comparing what a workload carries with its newest record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attribution {
    /// It carries the release of the newest record.
    Unchanged,
    /// It carries a release that is not recorded yet.
    New {
        /// The deployment that brought it; `None` for somebody else's, and where nothing is known.
        deploy_id: Option<DeployId>,
        /// That deployment waits for its end.
        awaiting: bool,
    },
    /// It carries a digest that no deployment after the newest record has brought.
    Unattributed,
}

impl CarriedRelease {
    /// Reads the release of a workload. `None` where it is none of ours and names no commit, where another object
    /// controls it (Flagger's primary copy, the Jobs of a `CronJob`), and where it is being deleted.
    pub(super) fn read(object: &WatchedObject) -> Option<Self> {
        let meta = object.meta();
        if meta.controller.is_some() || meta.deleting {
            return None;
        }
        match &meta.marks {
            Marks::Revision { digest, .. } => Some(Self { digest: digest.0.clone(), commit: None }),
            Marks::Commit(commit) => {
                let digest = format!("commit:{} template:{}", commit.commit, object.template().0);
                Some(Self { digest, commit: Some((**commit).clone()) })
            }
            Marks::Unmarked => None,
        }
    }

    /// Compares the release with the newest record and with what was pushed, oldest first.
    pub(super) fn attribute(
        &self,
        uid: &str,
        newest: Option<&ProgressRecord>,
        expected: &[Arc<ExpectedRevision>],
    ) -> Attribution {
        let is_recorded =
            |record: &ProgressRecord| *record.key.uid == *uid && record.key.digest == self.digest;
        if let Some(commit) = &self.commit {
            let is_of_repository = |record: &ProgressRecord| {
                record.commit.as_ref().is_none_or(|before| before.repository == commit.repository)
            };
            return match newest {
                Some(record) if is_recorded(record) && is_of_repository(record) => {
                    Attribution::Unchanged
                }
                _ => Attribution::New { deploy_id: None, awaiting: false },
            };
        }
        let recorded_id = newest.and_then(|record| record.key.deploy_id.as_ref());
        let is_not_before = |one: &&Arc<ExpectedRevision>| {
            one.digest.0 == self.digest && recorded_id.is_none_or(|id| *id <= one.deploy_id)
        };
        match (expected.iter().rev().find(is_not_before), newest) {
            (Some(revision), Some(record))
                if is_recorded(record) && recorded_id == Some(&revision.deploy_id) =>
            {
                Attribution::Unchanged
            }
            (Some(revision), _) => Attribution::New {
                deploy_id: Some(revision.deploy_id.clone()),
                awaiting: revision.awaiting,
            },
            (None, Some(record)) if is_recorded(record) => Attribution::Unchanged,
            // The workload was deleted and made again.
            (None, Some(record)) if record.key.digest == self.digest => {
                Attribution::New { deploy_id: recorded_id.cloned(), awaiting: false }
            }
            (None, None) => Attribution::New { deploy_id: None, awaiting: false },
            (None, Some(_)) => Attribution::Unattributed,
        }
    }
}
