//! Changes of a cluster become observations: a release of a workload has started, goes on, has finished, was
//! superseded, does not run for that reason, has failed, was changed by somebody. Each is made once.
//!
//! The tracker compares what is with what was recorded, and knows no events: an object that came twice, a list that
//! brought everything again and a process that was started anew show it the same cluster and the same records, and
//! nothing follows. Its caller stores the record of an observation together with what it sends about it, in one
//! transaction; a crash before that makes the same observation again.
//!
//! A release is told apart by its digest and not by what Kubernetes does: scaling changes no digest, a resync brings no
//! new one, and a rollback that takes a former `ReplicaSet` into use does. Nothing is said of a workload before its
//! kind, and those that its rules read, were listed once. What was complete when the tracker first looked at its kind,
//! and no deployment waits for, is recorded silently.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::attribution::{Attribution, CarriedRelease};
use crate::cluster::deadline::{LastLooks, give_up, give_up_drifted, leave_out};
use crate::cluster::expected::ExpectedRevision;
use crate::cluster::failure::{CauseKind, FailureCause};
use crate::cluster::index::{ClusterIndex, IndexChange};
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::observation::{ProgressEvent, ProgressObservation};
use crate::cluster::progress::{
    ProgressStep, ReplicaCounts, SyncProgress, WorkloadProgress, is_taken_over, sync_progress,
    workload_progress,
};
use crate::cluster::record::{
    ClusterDrift, ProgressKey, ProgressMark, ProgressRecord, RecordState,
};
use crate::cluster::sync_wait::{SyncWait, SyncWaits, sync_start};
use crate::cluster::transition::{
    REMEMBERED, WorkloadView, begin, close, context_of, fail, final_cause, find_drift, finish,
    finish_time, forget_oldest, next_sequence, note_cause, observe, set_drift, start, start_time,
    take_annotations,
};
use crate::cluster::unready::UnreadyPods;
use crate::cluster::watched::WatchedObject;
use crate::cluster::workload::{KubeDeployment, PROGRESS_DEADLINE_SECONDS};
use crate::model::id::{DeployId, TargetName};
use crate::support::time::saturating_add;

pub use crate::cluster::deadline::ProgressPatience;

/// Follows the releases of a cluster's workloads.
#[derive(Debug)]
pub struct ProgressTracker {
    cluster: TargetName,
    patience: ProgressPatience,
    /// The records of each workload, oldest first.
    records: HashMap<ObjectKey, Vec<ProgressRecord>>,
    /// The revisions that were pushed, by workload; oldest first.
    expected: HashMap<ObjectKey, Vec<Arc<ExpectedRevision>>>,
    /// The digests that no deployment has brought so far, each with the time at which it was first seen.
    unattributed: HashMap<ObjectKey, (String, Timestamp)>,
    unready: UnreadyPods,
    last_looks: LastLooks,
    /// The deployments that Argo CD has not brought for too long.
    sync_waits: SyncWaits,
    /// The kinds whose objects are judged: each had its first look.
    judged_kinds: BTreeSet<WatchedKind>,
    /// The time at which the first list of a kind was there.
    first_lists: HashMap<WatchedKind, Timestamp>,
    /// The workloads of others that are gone, or name no commit any more.
    vanished: Vec<ObjectKey>,
}

/// The present look of a release that is under way.
struct Pending {
    counts: ReplicaCounts,
    former: u32,
    step: ProgressStep,
    /// A cause that is not in its pods.
    cause: Option<FailureCause>,
}

type Observations = Vec<ProgressObservation>;

impl ProgressTracker {
    /// Makes the tracker of a cluster out of the records that are stored of it.
    pub fn new(
        cluster: TargetName,
        patience: ProgressPatience,
        records: Vec<ProgressRecord>,
    ) -> Self {
        let mut by_workload: HashMap<ObjectKey, Vec<ProgressRecord>> = HashMap::new();
        for record in records {
            by_workload.entry(record.key.workload.clone()).or_default().push(record);
        }
        for records in by_workload.values_mut() {
            records.sort_by_key(ProgressRecord::order);
            forget_oldest(records);
        }
        Self {
            cluster,
            patience,
            records: by_workload,
            expected: HashMap::new(),
            unattributed: HashMap::new(),
            unready: UnreadyPods::default(),
            last_looks: LastLooks::default(),
            sync_waits: SyncWaits::new(patience.sync, patience.after_deadline),
            judged_kinds: BTreeSet::new(),
            first_lists: HashMap::new(),
            vanished: Vec::new(),
        }
    }

    /// Takes word of a revision that was pushed, in whatever order. A revision that is given again replaces the one
    /// before: more commits hold it now, or its deployment has ended.
    pub fn expect(
        &mut self,
        revision: ExpectedRevision,
        index: &ClusterIndex,
        now: Timestamp,
    ) -> Observations {
        let revision = Arc::new(revision);
        let watched = revision.watched_objects();
        for key in &watched {
            let revisions = self.expected.entry((*key).clone()).or_default();
            revisions.retain(|one| one.deploy_id != revision.deploy_id);
            revisions.push(Arc::clone(&revision));
            revisions.sort_by(|a, b| a.deploy_id.cmp(&b.deploy_id));
            let excess = revisions.len().saturating_sub(REMEMBERED);
            revisions.drain(..excess);
        }
        watched.into_iter().flat_map(|key| self.look_at(key, index, now)).collect()
    }

    /// Judges the workload that a change is about.
    pub fn follow(
        &mut self,
        change: &IndexChange,
        index: &ClusterIndex,
        now: Timestamp,
    ) -> Observations {
        match &change.workload {
            Some(workload) => self.look_at(workload, index, now),
            // An object of nobody may be the last one of the first lists.
            None => self.begin_kinds(index, now),
        }
    }

    /// Judges the objects of each kind that was not judged before, once it was listed, and the kinds that its rules
    /// read were listed as well or do not come.
    fn begin_kinds(&mut self, index: &ClusterIndex, now: Timestamp) -> Observations {
        let mut out = Vec::new();
        for kind in WatchedKind::ALL.into_iter().filter(|kind| is_judged(*kind)) {
            if !index.sees(kind) {
                // A right that comes back is a first look again.
                self.judged_kinds.remove(&kind);
                self.first_lists.remove(&kind);
            }
            if self.judged_kinds.contains(&kind) || !self.is_ready(kind, index, now) {
                continue;
            }
            self.judged_kinds.insert(kind);
            let mut keys: BTreeSet<ObjectKey> = index.workloads().into_iter().collect();
            keys.extend(self.records.keys().chain(self.expected.keys()).cloned());
            let of_kind = keys.iter().filter(|key| key.kind == kind);
            out.extend(
                of_kind.flat_map(|key| self.judge(key, WorkloadView { index, now, first: true })),
            );
        }
        out
    }

    fn is_ready(&mut self, kind: WatchedKind, index: &ClusterIndex, now: Timestamp) -> bool {
        if !index.sees(kind) {
            return false;
        }
        let listed_at = *self.first_lists.entry(kind).or_insert(now);
        index.is_settled(kind) || now >= saturating_add(listed_at, self.patience.first_lists)
    }

    /// Judges what may change by time alone: releases under way, digests that nothing has brought, and deployments that
    /// Argo CD does not sync. What is not seen at present does not stand still.
    pub fn tick(&mut self, index: &ClusterIndex, now: Timestamp) -> Observations {
        let mut out = self.begin_kinds(index, now);
        let is_open =
            |records: &[ProgressRecord]| records.last().is_some_and(ProgressRecord::is_open);
        let open = self.records.iter().filter(|(_, records)| is_open(records)).map(|(key, _)| key);
        let keys = open.chain(self.unattributed.keys()).filter(|key| self.is_seen(key, index));
        let keys: BTreeSet<ObjectKey> = keys.cloned().collect();
        out.extend(
            keys.iter().flat_map(|key| self.judge(key, WorkloadView { index, now, first: false })),
        );
        self.find_unsynced(index, now);
        out
    }

    /// Checks that what happens to an object is seen at present.
    fn is_seen(&self, key: &ObjectKey, index: &ClusterIndex) -> bool {
        self.judged_kinds.contains(&key.kind)
            && index.sees(key.kind)
            && !index.is_interrupted(key.kind)
    }

    /// Finds the deployments for which Argo CD is waited, where all their workloads are seen.
    fn find_unsynced(&mut self, index: &ClusterIndex, now: Timestamp) {
        let is_seen =
            |one: &ExpectedRevision| one.parts().iter().all(|key| self.is_seen(key, index));
        let revisions = self.expected.values().flatten();
        let waiting = revisions.filter(|one| one.awaiting && is_seen(one));
        let starts = waiting.filter_map(|one| {
            let start = sync_start(one, |key| self.records_of(key))?;
            Some((one.deploy_id.clone(), start))
        });
        let starts: Vec<(DeployId, Timestamp)> = starts.collect();
        self.sync_waits.update(starts, now);
    }

    /// Returns the time for which the service still waits for Argo CD.
    pub fn sync_wait(&self, revision: &ExpectedRevision) -> SyncWait {
        let start = sync_start(revision, |key| self.records_of(key));
        start.map_or_else(SyncWait::default, |start| {
            self.sync_waits.find(&revision.deploy_id, start)
        })
    }

    /// Returns the records of a workload, oldest first.
    pub fn records_of(&self, workload: &ObjectKey) -> &[ProgressRecord] {
        self.records.get(workload).map_or(&[], Vec::as_slice)
    }

    /// Returns the workloads of others that have gone since the last call, and whose records are forgotten.
    pub fn take_vanished(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.vanished)
    }

    fn look_at(&mut self, key: &ObjectKey, index: &ClusterIndex, now: Timestamp) -> Observations {
        let mut out = self.begin_kinds(index, now);
        if self.judged_kinds.contains(&key.kind) {
            out.extend(self.judge(key, WorkloadView { index, now, first: false }));
        }
        out
    }

    fn judge(&mut self, key: &ObjectKey, look: WorkloadView<'_>) -> Observations {
        // What may not be seen any more is not gone.
        if !look.index.sees(key.kind) {
            return Vec::new();
        }
        let mut records = self.records.remove(key).unwrap_or_default();
        self.leave_unseen_out(key, &mut records, look);
        let mut out = Vec::new();
        match look.index.get(key) {
            None => {
                self.unattributed.remove(key);
                self.unready.forget(key);
                close(&mut records, RecordState::Removed { at: look.now }, &mut out);
                // Only what should be there may come back as the same release.
                if !self.expected.contains_key(key) {
                    self.forget_foreign(key, &records);
                    records.clear();
                }
            }
            Some(WatchedObject::Application(_)) => {
                self.judge_application(key, &mut records, look, &mut out);
            }
            Some(object) => self.judge_workload(key, object, &mut records, look, &mut out),
        }
        let is_open = records.last().is_some_and(ProgressRecord::is_open);
        if is_open || self.unattributed.contains_key(key) {
            self.last_looks.note(key, look.now);
        } else {
            self.last_looks.forget(key);
        }
        forget_oldest(&mut records);
        if !records.is_empty() {
            self.records.insert(key.clone(), records);
        }
        out
    }

    /// Notes that a workload of somebody else is gone.
    fn forget_foreign(&mut self, key: &ObjectKey, records: &[ProgressRecord]) {
        if records.last().is_some_and(|record| record.commit.is_some()) {
            self.vanished.push(key.clone());
        }
    }

    /// Leaves out the time in which a workload that waits for something was not seen.
    fn leave_unseen_out(
        &mut self,
        key: &ObjectKey,
        records: &mut [ProgressRecord],
        look: WorkloadView<'_>,
    ) {
        let is_seen = self.is_seen(key, look.index);
        let Some(unseen) = self.last_looks.unseen_time(key, look.now, is_seen) else { return };
        if let Some(record) = records.last_mut() {
            leave_out(record, unseen, look.now);
        }
        if let Some((_, since)) = self.unattributed.get_mut(key) {
            *since = saturating_add(*since, unseen);
        }
        self.unready.leave_out(key, unseen);
    }

    fn judge_workload(
        &mut self,
        key: &ObjectKey,
        object: &WatchedObject,
        records: &mut Vec<ProgressRecord>,
        look: WorkloadView<'_>,
        out: &mut Observations,
    ) {
        let Some(release) = CarriedRelease::read(object) else {
            let is_foreign = records.last().is_some_and(|record| record.commit.is_some());
            if is_foreign && !object.meta().deleting {
                close(records, RecordState::Removed { at: look.now }, out);
                self.forget_foreign(key, records);
                records.clear();
                return;
            }
            // It is being deleted, or somebody took its marks away.
            if let Some(record) = records.last_mut() {
                give_up_drifted(record, self.patience.after_deadline, look.now, out);
            }
            return;
        };
        let expected = self.expected.get(key).map_or(&[][..], Vec::as_slice);
        match release.attribute(&object.meta().uid, records.last(), expected) {
            Attribution::Unattributed => {
                self.judge_unattributed(key, release.digest, records, look, out);
                return;
            }
            Attribution::New { deploy_id, awaiting } => {
                let record = self.new_record(key, object, records, look);
                let record = ProgressRecord {
                    key: ProgressKey { digest: release.digest, deploy_id, ..record.key },
                    commit: release.commit,
                    ..record
                };
                begin(record, object, awaiting, records, look, out);
            }
            Attribution::Unchanged => take_annotations(records, release.commit, out),
        }
        self.unattributed.remove(key);
        self.go_on(key, object, records, look, out);
    }

    /// Judges a digest that no deployment has brought: either word of it is still to come, or somebody put it there.
    fn judge_unattributed(
        &mut self,
        key: &ObjectKey,
        digest: String,
        records: &mut [ProgressRecord],
        look: WorkloadView<'_>,
        out: &mut Observations,
    ) {
        let first_look = || (digest.clone(), look.now);
        let sighting = self.unattributed.entry(key.clone()).or_insert_with(first_look);
        if sighting.0 != digest {
            *sighting = first_look();
        }
        if look.now < saturating_add(sighting.1, self.patience.unattributed) {
            return;
        }
        let Some(record) = records.last_mut() else { return };
        set_drift(record, Some(ClusterDrift::Revision { digest }), out);
        give_up_drifted(record, self.patience.after_deadline, look.now, out);
    }

    /// Makes the record of a release that is new on a workload, as far as the object tells it.
    fn new_record(
        &self,
        key: &ObjectKey,
        object: &WatchedObject,
        records: &[ProgressRecord],
        look: WorkloadView<'_>,
    ) -> ProgressRecord {
        let template = object.template();
        let before = records.last();
        ProgressRecord {
            key: ProgressKey {
                cluster: self.cluster.clone(),
                workload: key.clone(),
                uid: object.meta().uid.clone(),
                digest: String::new(),
                deploy_id: None,
                sequence: next_sequence(records),
            },
            commit: None,
            state: RecordState::Progressing,
            announced: true,
            started: start_time(object, look, records),
            template_changed: before.is_none_or(|record| record.template != template),
            template,
            counts: ReplicaCounts::default(),
            furthest: ProgressMark::default(),
            hidden_kinds: look.index.hidden_inputs(key.kind),
            step: None,
            progressed_at: look.now,
            deadline_from: None,
            step_since: None,
            stalled_since: None,
            gives_up_at: None,
            failing: None,
            told_causes: Vec::new(),
            drift: None,
            canary_applied: look.index.canary_of(key).map(|one| one.applied.to_string()),
            canary_changed: look.index.canary_of(key).map(|one| one.changed_at.to_string()),
            taken_over: before.is_some_and(|record| record.taken_over),
        }
    }

    /// Judges the newest record by what the workload shows now.
    fn go_on(
        &mut self,
        key: &ObjectKey,
        object: &WatchedObject,
        records: &mut [ProgressRecord],
        look: WorkloadView<'_>,
        out: &mut Observations,
    ) {
        let mut context = context_of(records);
        let Some(record) = records.last_mut() else { return };
        let revision = self.revision_of(key, record);
        context.manifest_replicas = revision.and_then(|revision| revision.replicas_of(key));
        context.expects_canary = revision.is_some_and(|revision| revision.has_canary(key));
        record.taken_over =
            look.index.canary_of(key).is_some() || is_taken_over(object, look.index, &context);
        context.taken_over = record.taken_over;
        // Flagger takes the pods of its target away while nothing is analysed.
        let manifest_replicas = context.manifest_replicas.filter(|_| !record.taken_over);
        let drift = find_drift(object, record, manifest_replicas);
        let is_edited = drift == Some(ClusterDrift::Template);
        set_drift(record, drift, out);
        if !record.is_open() {
            return;
        }
        // What somebody made of the release may run well: that is no finish of ours.
        if is_edited {
            give_up_drifted(record, self.patience.after_deadline, look.now, out);
            return;
        }
        let Some(progress) = workload_progress(object, look.index, &context) else { return };
        if let Some(canary) = look.index.canary_of(key) {
            record.note_canary(canary);
        }
        let WorkloadProgress { counts, former, step } = progress;
        record.hidden_kinds = look.index.hidden_inputs(key.kind);
        match step {
            ProgressStep::Complete => {
                record.counts = counts;
                let at = finish_time(object, record, look);
                finish(record, at, look.now, out);
                self.unready.forget(key);
            }
            ProgressStep::Failed { message } => {
                let cause = final_cause(object, &message, look.index);
                fail(record, cause, look.now, out);
            }
            step => {
                let pending = Pending { counts, former, step, cause: None };
                self.wait(key, object, record, pending, look, out);
            }
        }
    }

    /// Judges a release that is under way: finds what has changed and what is wrong, and gives it up in the end.
    fn wait(
        &mut self,
        key: &ObjectKey,
        object: &WatchedObject,
        record: &mut ProgressRecord,
        pending: Pending,
        look: WorkloadView<'_>,
        out: &mut Observations,
    ) {
        let Pending { counts, former, step, cause } = pending;
        let before = (record.stalled_since.is_some(), record.failing.is_some());
        let is_other_step = record.step.as_ref() != Some(&step);
        let ends_elsewhere = step.ends_elsewhere();
        // Counts that the controller has not looked at since are those of the release before.
        let is_further = !step.is_idle() && record.furthest.raise(counts, former);
        if is_further || (ends_elsewhere && is_other_step) {
            record.progressed_at = look.now;
        }
        if ends_elsewhere {
            record.deadline_from = Some(look.now);
        }
        if !record.step.as_ref().is_some_and(|before| before.is_same_wait(&step)) {
            record.step_since = Some(look.now);
        }
        let is_changed = is_further || record.counts != counts || is_other_step;
        (record.counts, record.step) = (counts, Some(step.clone()));

        let deployment = object.deployment();
        let is_past_deadline = deployment.is_some_and(KubeDeployment::is_past_deadline);
        // Until the controller has looked, the pods that are there are those of the release before.
        let is_unobserved = cause.is_none() && step == ProgressStep::Unobserved;
        let cause = match cause {
            None if is_unobserved => record.failing.as_ref().map(|failing| failing.cause.clone()),
            None => self.unready.find_cause(object, is_past_deadline, look),
            Some(cause) => Some(cause),
        };
        let seconds = deployment.map_or(PROGRESS_DEADLINE_SECONDS, |one| one.deadline_seconds);
        let deadline =
            saturating_add(record.deadline_start(), SignedDuration::from_secs(i64::from(seconds)));
        // A Job ends by itself, however long it runs, unless its pods do not start. A sync may wait for the workloads.
        let ends_by_itself = object.kind() == WatchedKind::Job || self.has_workloads(key, record);
        let may_stall = !ends_elsewhere && (!ends_by_itself || cause.is_some());
        let is_stalled = may_stall && (is_past_deadline || look.now >= deadline);
        record.stalled_since = is_stalled.then(|| record.stalled_since.unwrap_or(look.now));
        record.gives_up_at = may_stall.then(|| {
            saturating_add(record.stalled_since.unwrap_or(deadline), self.patience.after_deadline)
        });
        let news = note_cause(record, cause, look.now);

        let after = (record.stalled_since.is_some(), record.failing.is_some());
        if is_changed || before != after {
            observe(record, ProgressEvent::Progressed { counts, step }, out);
        }
        if let Some(cause) = news {
            observe(record, ProgressEvent::Failing { cause }, out);
        }
        give_up(record, self.patience.after_deadline, look.now, out);
    }

    /// Finds the revision that a record is of.
    fn revision_of(&self, key: &ObjectKey, record: &ProgressRecord) -> Option<&ExpectedRevision> {
        let id = record.key.deploy_id.as_ref()?;
        self.expected.get(key)?.iter().find(|one| one.deploy_id == *id).map(Arc::as_ref)
    }

    /// Checks that a record is of an Application whose revision has workloads, which end the deployment.
    fn has_workloads(&self, key: &ObjectKey, record: &ProgressRecord) -> bool {
        key.kind == WatchedKind::Application
            && self.revision_of(key, record).is_some_and(|one| !one.workloads.is_empty())
    }

    /// Judges an Application. A revision without workloads is finished when Argo CD has synced it. For one with
    /// workloads the record is silent: it holds why the sync fails.
    fn judge_application(
        &mut self,
        key: &ObjectKey,
        records: &mut Vec<ProgressRecord>,
        look: WorkloadView<'_>,
        out: &mut Observations,
    ) {
        let Some(object) = look.index.get(key) else { return };
        let Some(application) = object.application() else { return };
        let Some(expected) = self.expected.get(key).and_then(|revisions| revisions.last()) else {
            return;
        };
        let expected = Arc::clone(expected);
        let progress = sync_progress(application, &expected.commits);
        let id = Some(&expected.deploy_id);
        if records.last().is_none_or(|record| record.key.deploy_id.as_ref() != id) {
            if progress == SyncProgress::Waiting {
                return;
            }
            let record = self.new_record(key, object, records, look);
            let (digest, deploy_id) = (expected.digest.0.clone(), Some(expected.deploy_id.clone()));
            let record = ProgressRecord {
                key: ProgressKey { digest, deploy_id, ..record.key },
                announced: expected.awaiting && expected.workloads.is_empty(),
                ..record
            };
            start(record, records, look, out);
        }
        let Some(record) = records.last_mut().filter(|record| record.is_open()) else { return };
        let cause = match progress {
            SyncProgress::Synced => {
                finish(record, look.time(), look.now, out);
                return;
            }
            SyncProgress::Failing { message } => {
                if record.failing.is_none() {
                    record.progressed_at = look.now;
                }
                Some(FailureCause::new(CauseKind::SyncFailed, &message))
            }
            // A sync that is tried again has failed until it succeeds.
            SyncProgress::Syncing | SyncProgress::Waiting => {
                record.failing.as_ref().map(|failing| failing.cause.clone())
            }
        };
        let (counts, step) = (ReplicaCounts::default(), ProgressStep::Updating);
        let pending = Pending { counts, former: 0, step, cause };
        self.wait(key, object, record, pending, look, out);
    }
}

fn is_judged(kind: WatchedKind) -> bool {
    kind.is_workload() || kind == WatchedKind::Application
}
