//! Limits the time for which the service waits for Argo CD to bring a deployment to the cluster.
//!
//! The time runs only while the cluster is seen, so that an hour without the API server fails nothing, and only while no
//! workload of the deployment is under way: Argo CD brings the next one after it (sync waves, `PreSync` Jobs).

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::deadline::LONGEST_PAUSE;
use crate::cluster::expected::ExpectedRevision;
use crate::cluster::object::ObjectKey;
use crate::cluster::record::{ProgressRecord, RecordState};
use crate::model::id::DeployId;
use crate::support::time::saturating_add;

/// The time for which the service waits for a deployment that one of its workloads does not carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncWait {
    /// The time at which the wait began; `None` where the service does not wait for Argo CD.
    pub since: Option<Timestamp>,
    /// The time at which the service gives it up; `None` where that is not known.
    pub gives_up_at: Option<Timestamp>,
    /// That time has passed, and the cluster was seen all the while.
    pub is_over: bool,
}

/// The deployments that are waited for too long.
#[derive(Debug)]
pub(super) struct SyncWaits {
    /// The time after the start of its wait from which one is too late.
    most: SignedDuration,
    /// The time for which it must be seen to be too late.
    patience: SignedDuration,
    overdue: HashMap<DeployId, Overdue>,
}

/// A deployment that is too late.
#[derive(Debug)]
struct Overdue {
    /// The start of the wait.
    start: Timestamp,
    /// The time at which it was first found to be too late.
    since: Timestamp,
    /// The last time that it was.
    until: Timestamp,
}

impl SyncWaits {
    pub(super) fn new(most: SignedDuration, patience: SignedDuration) -> Self {
        Self { most, patience, overdue: HashMap::new() }
    }

    /// Takes note of the deployments that Argo CD is waited for at present, each with the start of its wait, among
    /// those of which the cluster is seen.
    pub(super) fn update(
        &mut self,
        waits: impl IntoIterator<Item = (DeployId, Timestamp)>,
        now: Timestamp,
    ) {
        let before = std::mem::take(&mut self.overdue);
        for (id, start) in waits {
            if now >= saturating_add(start, self.most) {
                // After a pause there is the whole patience again.
                let is_same = |one: &&Overdue| {
                    one.start == start && now.duration_since(one.until) <= LONGEST_PAUSE
                };
                let former = before.get(&id).filter(is_same);
                let since = former.map_or(now, |former| former.since);
                self.overdue.insert(id, Overdue { start, since, until: now });
            }
        }
    }

    /// Returns the time for which the service still waits for a deployment; the wait began at `start`.
    pub(super) fn find(&self, id: &DeployId, start: Timestamp) -> SyncWait {
        let overdue = self.overdue.get(id).filter(|overdue| overdue.start == start);
        let since = overdue.map_or_else(|| saturating_add(start, self.most), |one| one.since);
        let gives_up_at = saturating_add(since, self.patience);
        let is_over = overdue.is_some_and(|one| one.until >= gives_up_at);
        SyncWait { since: Some(start), gives_up_at: Some(gives_up_at), is_over }
    }
}

/// Finds the time since which the service waits for Argo CD to bring a deployment to one of its workloads: since the
/// push, or since the last of the others ended. `None` while one of them is under way, and where none is missing.
pub(super) fn sync_start<'a>(
    revision: &ExpectedRevision,
    records_of: impl Fn(&ObjectKey) -> &'a [ProgressRecord],
) -> Option<Timestamp> {
    let mut is_missing = false;
    let mut start = revision.pushed_at;
    for part in revision.parts() {
        let mut is_carried = false;
        let of_revision =
            |one: &&ProgressRecord| one.key.deploy_id.as_ref() == Some(&revision.deploy_id);
        for record in records_of(part).iter().filter(of_revision) {
            start = start.max(end_time(record)?);
            is_carried |= !matches!(record.state, RecordState::Removed { .. });
        }
        is_missing |= !is_carried;
    }
    is_missing.then_some(start)
}

/// Returns the time at which a record ended, by the service's clock; `None` while it is under way.
fn end_time(record: &ProgressRecord) -> Option<Timestamp> {
    match record.state {
        RecordState::Progressing => None,
        RecordState::Finished { .. } => Some(record.progressed_at),
        RecordState::Failed { at, .. }
        | RecordState::Superseded { at }
        | RecordState::Removed { at } => Some(at),
    }
}
