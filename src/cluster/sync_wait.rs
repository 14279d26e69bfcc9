//! Limits the time for which the service waits for Argo CD to bring a deployment to the cluster.
//!
//! The time runs only while the cluster is seen, so that an hour without the API server fails nothing.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::expected::ExpectedRevision;
use crate::model::id::DeployId;
use crate::support::time::saturating_add;

/// The time for which the service waits for a deployment that no workload carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncWait {
    /// The time at which the service gives it up; `None` where that is not known.
    pub gives_up_at: Option<Timestamp>,
    /// That time has passed, and the cluster was seen all the while.
    pub is_over: bool,
}

/// The deployments that are waited for too long.
#[derive(Debug)]
pub(super) struct SyncWaits {
    /// The time after its push from which one is too late.
    most: SignedDuration,
    /// The time for which it must be seen to be too late.
    patience: SignedDuration,
    /// The time at which each was first found to be too late, and the last time that it was.
    overdue: HashMap<DeployId, (Timestamp, Timestamp)>,
}

impl SyncWaits {
    pub(super) fn new(most: SignedDuration, patience: SignedDuration) -> Self {
        Self { most, patience, overdue: HashMap::new() }
    }

    /// Takes note of the deployments that no workload carries at present, among those of which the cluster is seen.
    pub(super) fn update<'a>(
        &mut self,
        missing: impl Iterator<Item = &'a ExpectedRevision>,
        now: Timestamp,
    ) {
        let most = self.most;
        let is_late = |one: &&ExpectedRevision| now >= saturating_add(one.pushed_at, most);
        let before = std::mem::take(&mut self.overdue);
        for revision in missing.filter(is_late) {
            let since = before.get(&revision.deploy_id).map_or(now, |(since, _)| *since);
            self.overdue.insert(revision.deploy_id.clone(), (since, now));
        }
    }

    /// Returns the time for which the service still waits for a deployment.
    pub(super) fn find(&self, revision: &ExpectedRevision) -> SyncWait {
        let overdue = self.overdue.get(&revision.deploy_id);
        let since = overdue
            .map_or_else(|| saturating_add(revision.pushed_at, self.most), |(since, _)| *since);
        let gives_up_at = saturating_add(since, self.patience);
        let is_over = overdue.is_some_and(|(_, until)| *until >= gives_up_at);
        SyncWait { gives_up_at: Some(gives_up_at), is_over }
    }
}
