//! Changes of a cluster become observations: a release of a workload has started, goes on, has finished, was
//! superseded, does not run for that reason, has failed, was changed by somebody. Each is made once.
//!
//! The tracker compares what is with what was recorded, and knows no events: an object that came twice, a list that
//! brought everything again and a process that was started anew show it the same cluster and the same records, and
//! nothing follows. Its caller stores the record of an observation together with what it sends about it, in one
//! transaction; a crash before that makes the same observation again.
//!
//! A release is told apart by its digest and not by what Kubernetes does: scaling changes no digest, a resync brings no
//! new one, and a rollback that takes a former `ReplicaSet` into use does. Nothing is said before every kind of object
//! was listed once. What was complete when the tracker first looked, and no deployment waits for, is recorded silently.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::attribution::{Attribution, CarriedRelease};
use crate::cluster::expected::ExpectedRevision;
use crate::cluster::failure::{CauseKind, FailureCause, workload_cause};
use crate::cluster::index::{ClusterIndex, IndexChange};
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::observation::{ProgressEvent, ProgressObservation};
use crate::cluster::pod::PodRow;
use crate::cluster::progress::{
    ProgressStep, ReplicaCounts, SyncProgress, WorkloadProgress, sync_progress, workload_progress,
};
use crate::cluster::record::{ClusterDrift, ProgressKey, ProgressRecord, RecordState};
use crate::cluster::transition::{
    Look, REMEMBERED, begin, close, context_of, fail, finish, finish_time, forget_oldest,
    note_cause, observe, set_drift, start, start_time,
};
use crate::cluster::watched::WatchedObject;
use crate::cluster::workload::{KubeDeployment, PROGRESS_DEADLINE_SECONDS};
use crate::model::id::{AppKey, TargetName};
use crate::support::time::saturating_add;

/// How long the tracker waits before it says that something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressPatience {
    /// After the progress deadline: how long a release may stand still before it has failed.
    pub after_deadline: SignedDuration,
    /// How long a digest may be there that no deployment has brought: word of the deployment may come after it.
    pub unattributed: SignedDuration,
}

impl Default for ProgressPatience {
    fn default() -> Self {
        Self {
            after_deadline: SignedDuration::from_mins(2),
            unattributed: SignedDuration::from_mins(1),
        }
    }
}

/// Follows the releases of a cluster's workloads.
#[derive(Debug)]
pub struct ProgressTracker {
    cluster: TargetName,
    patience: ProgressPatience,
    /// Oldest first.
    records: HashMap<ObjectKey, Vec<ProgressRecord>>,
    /// What was pushed, by workload; oldest first.
    expected: HashMap<ObjectKey, Vec<Arc<ExpectedRevision>>>,
    /// Digests that no deployment has brought so far, and since when they are there.
    unattributed: HashMap<ObjectKey, (String, Timestamp)>,
    /// Pods that run and are not ready, by workload and uid, and since when.
    unready: HashMap<ObjectKey, HashMap<Box<str>, Timestamp>>,
    /// The tracker has looked at everything once.
    surveyed: bool,
}

/// What a release that is under way waits for.
struct Pending {
    counts: ReplicaCounts,
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
            records.sort_by_key(|record| record.key.sequence);
            forget_oldest(records);
        }
        Self {
            cluster,
            patience,
            records: by_workload,
            expected: HashMap::new(),
            unattributed: HashMap::new(),
            unready: HashMap::new(),
            surveyed: false,
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
        let parts = revision.parts();
        for part in &parts {
            let known = self.expected.entry((*part).clone()).or_default();
            known.retain(|one| one.deploy_id != revision.deploy_id);
            known.push(Arc::clone(&revision));
            known.sort_by(|a, b| a.deploy_id.cmp(&b.deploy_id));
            let excess = known.len().saturating_sub(REMEMBERED);
            known.drain(..excess);
        }
        parts.into_iter().flat_map(|part| self.look_at(part, index, now)).collect()
    }

    /// Forgets what was pushed of an app that was removed.
    pub fn forget_app(&mut self, app: &AppKey) {
        for revisions in self.expected.values_mut() {
            revisions.retain(|one| one.app != *app);
        }
        self.expected.retain(|_, revisions| !revisions.is_empty());
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
            None if !self.surveyed => self.survey(index, now),
            None => Vec::new(),
        }
    }

    /// Judges everything. The first time is after the first lists; later times find what a signal has missed.
    pub fn survey(&mut self, index: &ClusterIndex, now: Timestamp) -> Observations {
        if !index.is_settled() {
            return Vec::new();
        }
        let first = !self.surveyed;
        self.surveyed = true;
        let mut keys: BTreeSet<ObjectKey> = index.workloads().into_iter().collect();
        keys.extend(self.records.keys().cloned());
        keys.extend(self.expected.keys().cloned());
        keys.iter().flat_map(|key| self.judge(key, Look { index, now, first })).collect()
    }

    /// Judges what may change by time alone: releases under way, and digests that nothing has brought.
    ///
    /// Not to be called while the cluster cannot be reached: what is not seen does not stand still.
    pub fn tick(&mut self, index: &ClusterIndex, now: Timestamp) -> Observations {
        if !self.surveyed {
            return self.survey(index, now);
        }
        let is_open =
            |records: &[ProgressRecord]| records.last().is_some_and(ProgressRecord::is_open);
        let open = self.records.iter().filter(|(_, records)| is_open(records)).map(|(key, _)| key);
        let keys: BTreeSet<ObjectKey> = open.chain(self.unattributed.keys()).cloned().collect();
        keys.iter().flat_map(|key| self.judge(key, Look { index, now, first: false })).collect()
    }

    /// Returns the records of a workload, oldest first.
    pub fn records_of(&self, workload: &ObjectKey) -> &[ProgressRecord] {
        self.records.get(workload).map_or(&[], Vec::as_slice)
    }

    fn look_at(&mut self, key: &ObjectKey, index: &ClusterIndex, now: Timestamp) -> Observations {
        if !self.surveyed {
            return self.survey(index, now);
        }
        self.judge(key, Look { index, now, first: false })
    }

    fn judge(&mut self, key: &ObjectKey, look: Look<'_>) -> Observations {
        // What may not be seen any more is not gone.
        if !look.index.sees(key.kind) {
            return Vec::new();
        }
        let mut records = self.records.remove(key).unwrap_or_default();
        let mut out = Vec::new();
        match look.index.get(key) {
            None => {
                self.unattributed.remove(key);
                self.unready.remove(key);
                close(&mut records, RecordState::Removed { at: look.now }, &mut out);
                // Only what should be there may come back as the same release.
                if !self.expected.contains_key(key) {
                    records.clear();
                }
            }
            Some(WatchedObject::Application(_)) => {
                self.judge_application(key, &mut records, look, &mut out);
            }
            Some(object) => self.judge_workload(key, object, &mut records, look, &mut out),
        }
        forget_oldest(&mut records);
        if !records.is_empty() {
            self.records.insert(key.clone(), records);
        }
        out
    }

    fn judge_workload(
        &mut self,
        key: &ObjectKey,
        object: &WatchedObject,
        records: &mut Vec<ProgressRecord>,
        look: Look<'_>,
        out: &mut Observations,
    ) {
        let Some(release) = CarriedRelease::read(object) else { return };
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
            Attribution::Unchanged => {}
        }
        self.unattributed.remove(key);
        self.go_on(key, object, records, look, out);
    }

    /// A digest that no deployment has brought: either word of it is still to come, or somebody put it there.
    fn judge_unattributed(
        &mut self,
        key: &ObjectKey,
        digest: String,
        records: &mut [ProgressRecord],
        look: Look<'_>,
        out: &mut Observations,
    ) {
        let known =
            self.unattributed.entry(key.clone()).or_insert_with(|| (digest.clone(), look.now));
        if known.0 != digest {
            *known = (digest.clone(), look.now);
        }
        if look.now < saturating_add(known.1, self.patience.unattributed) {
            return;
        }
        let Some(record) = records.last_mut() else { return };
        set_drift(record, Some(ClusterDrift::Revision { digest }), out);
        self.give_up_drifted(record, look.now, out);
    }

    /// The record of a release that is new on a workload, as far as the object tells it.
    fn new_record(
        &self,
        key: &ObjectKey,
        object: &WatchedObject,
        records: &[ProgressRecord],
        look: Look<'_>,
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
                sequence: before.map_or(1, |record| record.key.sequence.saturating_add(1)),
            },
            commit: None,
            state: RecordState::Progressing,
            announced: true,
            started: start_time(object, look, records),
            template_changed: before.is_none_or(|record| record.template != template),
            template,
            counts: ReplicaCounts::default(),
            step: None,
            progressed_at: look.now,
            stalled_since: None,
            gives_up_at: None,
            failing: None,
            told_causes: Vec::new(),
            drift: None,
            canary_applied: look.index.canary_of(key).map(|one| one.applied.to_string()),
        }
    }

    /// Judges the newest record by what the workload shows now.
    fn go_on(
        &mut self,
        key: &ObjectKey,
        object: &WatchedObject,
        records: &mut [ProgressRecord],
        look: Look<'_>,
        out: &mut Observations,
    ) {
        let context = context_of(records);
        let Some(record) = records.last_mut() else { return };
        let drift = self.find_drift(key, object, record);
        let is_edited = drift == Some(ClusterDrift::Template);
        set_drift(record, drift, out);
        if !record.is_open() {
            return;
        }
        // What somebody made of the release may run well: that is no finish of ours.
        if is_edited {
            self.give_up_drifted(record, look.now, out);
            return;
        }
        let Some(progress) = workload_progress(object, look.index, &context) else { return };
        if let Some(canary) = look.index.canary_of(key) {
            record.canary_applied = Some(canary.applied.to_string());
        }
        let WorkloadProgress { counts, step } = progress;
        match step {
            ProgressStep::Complete => {
                record.counts = counts;
                let at = finish_time(object, record, look);
                finish(record, at, out);
                self.unready.remove(key);
            }
            ProgressStep::Failed { message } => {
                let cause = final_cause(object, &message, look);
                fail(record, cause, look.now, out);
            }
            step => {
                let pending = Pending { counts, step, cause: None };
                self.wait(key, object, record, pending, look, out);
            }
        }
    }

    /// A release that is under way: what has changed, what is wrong, and whether it is given up.
    fn wait(
        &mut self,
        key: &ObjectKey,
        object: &WatchedObject,
        record: &mut ProgressRecord,
        pending: Pending,
        look: Look<'_>,
        out: &mut Observations,
    ) {
        let Pending { counts, step, cause } = pending;
        let before = (record.stalled_since.is_some(), record.failing.is_some());
        let is_other_step = record.step.as_ref() != Some(&step);
        // A person resumes what is paused, and Flagger ends its run by itself.
        let ends_elsewhere = matches!(step, ProgressStep::Paused | ProgressStep::Analysing { .. });
        if record.counts != counts || ends_elsewhere {
            record.progressed_at = look.now;
        }
        let is_changed = record.counts != counts || is_other_step;
        (record.counts, record.step) = (counts, Some(step.clone()));

        let deployment = object.deployment();
        let is_past_deadline = deployment.is_some_and(KubeDeployment::is_past_deadline);
        // Until the controller has looked, the pods that are there are those of the release before.
        let is_unobserved = cause.is_none() && step == ProgressStep::Unobserved;
        let cause = match cause {
            None if is_unobserved => record.failing.as_ref().map(|failing| failing.cause.clone()),
            None => self.find_cause(key, object, is_past_deadline, look),
            Some(cause) => Some(cause),
        };
        let seconds = deployment.map_or(PROGRESS_DEADLINE_SECONDS, |one| one.deadline_seconds);
        let deadline =
            saturating_add(record.progressed_at, SignedDuration::from_secs(i64::from(seconds)));
        // A Job ends by itself, however long it runs, unless its pods do not start.
        let may_stall = !ends_elsewhere && (object.kind() != WatchedKind::Job || cause.is_some());
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
        self.give_up(record, look.now, out);
    }

    /// Fails a release whose cause cannot pass, or that has stood still for too long.
    fn give_up(&self, record: &mut ProgressRecord, now: Timestamp, out: &mut Observations) {
        let cause = record.failing.as_ref().map(|failing| failing.cause.clone());
        let since = record.stalled_since;
        let is_over =
            since.is_some_and(|since| now >= saturating_add(since, self.patience.after_deadline));
        match cause {
            Some(cause) if is_over || !cause.can_heal() => fail(record, cause, now, out),
            None if is_over => fail(record, FailureCause::new(CauseKind::NoProgress, ""), now, out),
            Some(_) | None => {}
        }
    }

    /// Fails a release that somebody changed in the cluster and nothing has put back.
    fn give_up_drifted(&self, record: &mut ProgressRecord, now: Timestamp, out: &mut Observations) {
        let deadline = SignedDuration::from_secs(i64::from(PROGRESS_DEADLINE_SECONDS));
        let ends_at = saturating_add(
            saturating_add(record.progressed_at, deadline),
            self.patience.after_deadline,
        );
        if !record.is_open() {
            return;
        }
        record.gives_up_at = Some(ends_at);
        if now >= ends_at {
            let message = record.drift.as_ref().map_or(String::new(), ClusterDrift::sentence);
            fail(record, FailureCause::new(CauseKind::NoProgress, &message), now, out);
        }
    }

    fn find_drift(
        &self,
        key: &ObjectKey,
        object: &WatchedObject,
        record: &ProgressRecord,
    ) -> Option<ClusterDrift> {
        if object.template() != record.template {
            return Some(ClusterDrift::Template);
        }
        let expected = self.expected.get(key)?;
        let is_its =
            |one: &&Arc<ExpectedRevision>| record.key.deploy_id.as_ref() == Some(&one.deploy_id);
        let manifest = expected.iter().find(is_its)?.replicas_of(key)?;
        let cluster = object.replicas().filter(|cluster| *cluster != manifest)?;
        Some(ClusterDrift::Replicas { manifest, cluster })
    }

    /// Finds what is wrong with the workload's pods. One that runs is overdue by the service's own clock, because a
    /// cluster's may be a day off, or when the controller sees no progress.
    fn find_cause(
        &mut self,
        key: &ObjectKey,
        object: &WatchedObject,
        is_past_deadline: bool,
        look: Look<'_>,
    ) -> Option<FailureCause> {
        let before = self.unready.remove(key).unwrap_or_default();
        let since = |pod: &PodRow| before.get(&pod.meta.uid).copied().unwrap_or(look.now);
        let pods = look.index.pods_of(object);
        let unready: HashMap<Box<str>, Timestamp> = pods
            .into_iter()
            .filter(|pod| pod.is_running_unready())
            .map(|pod| (pod.meta.uid.clone(), since(pod)))
            .collect();
        let is_overdue = |pod: &PodRow| {
            let seconds = SignedDuration::from_secs(i64::from(pod.ready_seconds));
            is_past_deadline
                || unready
                    .get(&pod.meta.uid)
                    .is_some_and(|at| look.now >= saturating_add(*at, seconds))
        };
        let cause = workload_cause(object, look.index, &is_overdue);
        if !unready.is_empty() {
            self.unready.insert(key.clone(), unready);
        }
        cause
    }

    /// A revision without workloads is finished when Argo CD has synced it.
    fn judge_application(
        &mut self,
        key: &ObjectKey,
        records: &mut Vec<ProgressRecord>,
        look: Look<'_>,
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
                announced: expected.awaiting || !look.first || progress != SyncProgress::Synced,
                ..record
            };
            start(record, records, look, out);
        }
        let Some(record) = records.last_mut().filter(|record| record.is_open()) else { return };
        let cause = match progress {
            SyncProgress::Synced => {
                finish(record, look.time(), out);
                return;
            }
            SyncProgress::Failing { message } => {
                Some(FailureCause::new(CauseKind::SyncFailed, &message))
            }
            SyncProgress::Syncing | SyncProgress::Waiting => None,
        };
        let pending =
            Pending { counts: ReplicaCounts::default(), step: ProgressStep::Updating, cause };
        self.wait(key, object, record, pending, look, out);
    }
}

/// The cause of an end that a workload has by itself: what its pods show tells more.
fn final_cause(object: &WatchedObject, message: &str, look: Look<'_>) -> FailureCause {
    let kind = if object.kind() == WatchedKind::Job {
        CauseKind::JobFailed
    } else {
        CauseKind::CanaryFailed
    };
    let end = FailureCause::new(kind, message);
    match workload_cause(object, look.index, &|_| false) {
        Some(cause) if kind == CauseKind::JobFailed => {
            FailureCause { kind, message: end.message, ..cause }
        }
        Some(_) | None => end,
    }
}
