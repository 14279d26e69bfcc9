//! The steps from one state of a record to the next, each with the observation that it makes.

use jiff::Timestamp;

use crate::cluster::failure::{CauseKind, FailureCause, workload_cause};
use crate::cluster::index::ClusterIndex;
use crate::cluster::object::{CommitAnnotations, WatchedKind};
use crate::cluster::observation::{ProgressEvent, ProgressObservation};
use crate::cluster::progress::{ProgressContext, ProgressStep, was_complete};
use crate::cluster::record::{
    ClockSource, ClockTime, ClusterDrift, Failing, ProgressRecord, RecordState,
};
use crate::cluster::watched::WatchedObject;

/// The number of releases of a workload that are remembered: about as many as a Deployment keeps `ReplicaSet` objects.
pub(super) const REMEMBERED: usize = 8;

/// One look at a workload: the objects of its cluster, and the time.
#[derive(Clone, Copy)]
pub(super) struct WorkloadView<'a> {
    pub(super) index: &'a ClusterIndex,
    pub(super) now: Timestamp,
    /// It is the first look at objects of this kind.
    pub(super) first: bool,
}

impl WorkloadView<'_> {
    /// Returns the time of this look, by the service's clock.
    pub(super) fn time(self) -> ClockTime {
        ClockTime::of_service(self.now)
    }
}

/// Makes an observation. Nothing is told of a release that is recorded silently, but what somebody does to it later.
pub(super) fn observe(
    record: &ProgressRecord,
    event: ProgressEvent,
    out: &mut Vec<ProgressObservation>,
) {
    let is_told = record.announced
        || matches!(event, ProgressEvent::Drifted { .. } | ProgressEvent::Repaired);
    let event = if is_told { event } else { ProgressEvent::Recorded };
    let observation = ProgressObservation { event, record: record.clone() };
    // Two things that are told of a release may be one where nothing is.
    if out.last() != Some(&observation) {
        out.push(observation);
    }
}

/// Begins the record of a release that a workload carries, and decides whether people hear of it.
///
/// These are silent: a release that was complete when the tracker first looked; one of ours whose deployment does not
/// wait for an end, or is not known; one that was deleted and made again after its release had ended.
pub(super) fn begin(
    mut record: ProgressRecord,
    object: &WatchedObject,
    awaiting: bool,
    records: &mut Vec<ProgressRecord>,
    look: WorkloadView<'_>,
    out: &mut Vec<ProgressObservation>,
) {
    let is_ours = record.commit.is_none();
    let is_old = look.first && !awaiting && was_complete(object, look.index);
    let mut is_silent = is_old || (is_ours && !awaiting);
    if let Some(before) = records.last().filter(|before| before.key.digest == record.key.digest) {
        let is_same_object = before.key.uid == record.key.uid;
        if is_same_object && before.key.deploy_id.is_none() {
            // Word of the deployment came after its release.
            record.started = before.started;
            record.template_changed = before.template_changed;
        }
        let is_same_deployment = before.key.deploy_id == record.key.deploy_id;
        is_silent |= is_ours && !is_same_object && is_same_deployment && before.is_ended();
    }
    record.announced = !is_silent;
    if is_old {
        record.state = RecordState::Finished { at: finish_time(object, &record, look) };
    }
    start(record, records, look, out);
}

/// Puts a new record behind the one before, which ends with it.
pub(super) fn start(
    record: ProgressRecord,
    records: &mut Vec<ProgressRecord>,
    look: WorkloadView<'_>,
    out: &mut Vec<ProgressObservation>,
) {
    let is_same_object = records.last().is_none_or(|before| before.key.uid == record.key.uid);
    let end = if is_same_object {
        RecordState::Superseded { at: look.now }
    } else {
        RecordState::Removed { at: look.now }
    };
    close(records, end, out);
    observe(&record, ProgressEvent::Started { at: record.started }, out);
    records.push(record);
}

/// Ends the newest record, if it is under way, without a success or a failure.
pub(super) fn close(
    records: &mut [ProgressRecord],
    end: RecordState,
    out: &mut Vec<ProgressObservation>,
) {
    let Some(record) = records.last_mut().filter(|record| record.is_open()) else { return };
    let event = match end {
        RecordState::Superseded { .. } => ProgressEvent::Superseded,
        RecordState::Removed { .. } => ProgressEvent::Removed,
        RecordState::Progressing | RecordState::Finished { .. } | RecordState::Failed { .. } => {
            ProgressEvent::Recorded
        }
    };
    record.state = end;
    stop_waiting(record);
    observe(record, event, out);
}

/// Ends a record well: at a time that the cluster may have said, seen now.
pub(super) fn finish(
    record: &mut ProgressRecord,
    at: ClockTime,
    now: Timestamp,
    out: &mut Vec<ProgressObservation>,
) {
    record.state = RecordState::Finished { at };
    record.step = None;
    record.progressed_at = now;
    stop_waiting(record);
    observe(record, ProgressEvent::Finished { at }, out);
}

/// Ends a record badly.
pub(super) fn fail(
    record: &mut ProgressRecord,
    cause: FailureCause,
    at: Timestamp,
    out: &mut Vec<ProgressObservation>,
) {
    record.state = RecordState::Failed { at, cause: cause.clone() };
    stop_waiting(record);
    observe(record, ProgressEvent::Failed { cause }, out);
}

/// Ends the waiting of a record that has ended.
fn stop_waiting(record: &mut ProgressRecord) {
    record.failing = None;
    record.stalled_since = None;
    record.gives_up_at = None;
}

/// Takes what is wrong at present; returns it if it is to be told, which each kind of cause is once.
pub(super) fn note_cause(
    record: &mut ProgressRecord,
    cause: Option<FailureCause>,
    now: Timestamp,
) -> Option<FailureCause> {
    let Some(cause) = cause else {
        record.failing = None;
        return None;
    };
    let before = record.failing.as_ref().filter(|failing| failing.cause.kind == cause.kind);
    let since = before.map_or(now, |failing| failing.since);
    record.failing = Some(Failing { cause: cause.clone(), since });
    if record.told_causes.contains(&cause.kind) {
        return None;
    }
    record.told_causes.push(cause.kind);
    Some(cause)
}

/// Takes what somebody has changed in the cluster, or that it is as it was.
pub(super) fn set_drift(
    record: &mut ProgressRecord,
    drift: Option<ClusterDrift>,
    out: &mut Vec<ProgressObservation>,
) {
    if record.drift == drift {
        return;
    }
    record.drift.clone_from(&drift);
    let event = match drift {
        Some(drift) => ProgressEvent::Drifted { drift },
        None => ProgressEvent::Repaired,
    };
    observe(record, event, out);
}

/// Takes the annotations of the same release as they are now: its pull request and its link may change.
pub(super) fn take_annotations(
    records: &mut [ProgressRecord],
    commit: Option<CommitAnnotations>,
    out: &mut Vec<ProgressObservation>,
) {
    let Some(record) = records.last_mut().filter(|record| record.commit != commit) else { return };
    record.commit = commit;
    observe(record, ProgressEvent::Recorded, out);
}

/// Collects what the rules must know of the releases before the newest one.
pub(super) fn context_of(records: &[ProgressRecord]) -> ProgressContext {
    let Some((newest, before)) = records.split_last() else { return ProgressContext::default() };
    let other = before.iter().rev().find(|record| record.template != newest.template);
    let finished = before.iter().rev().find(|record| record.is_finished());
    ProgressContext {
        template_changed: newest.template_changed,
        promoted_template: finished.map(|record| record.template.clone()),
        canary_before: other.and_then(|record| record.canary_applied.clone()),
        canary_changed_before: other.and_then(|record| record.canary_changed.clone()),
        failed_checks: match newest.step {
            Some(ProgressStep::Analysing { failed_checks, .. }) => failed_checks,
            Some(_) | None => 0,
        },
        expects_canary: false,
        manifest_replicas: None,
        taken_over: newest.taken_over,
    }
}

/// Finds the time at which a release started: its `ReplicaSet` or the workload itself was made for it, or now.
///
/// A `ReplicaSet` is made for a release unless a release before had the same pod template.
pub(super) fn start_time(
    object: &WatchedObject,
    look: WorkloadView<'_>,
    records: &[ProgressRecord],
) -> ClockTime {
    let template = object.template();
    let is_former = records.iter().any(|record| record.template == template);
    let replica_set = object
        .deployment()
        .and_then(|deployment| look.index.current_replica_set(deployment))
        .filter(|replica_set| replica_set.template == template && !is_former);
    let meta = object.meta();
    let is_new = meta.generation <= 1 && records.iter().all(|record| record.key.uid != meta.uid);
    let created = replica_set
        .map(|replica_set| &replica_set.meta)
        .or(is_new.then_some(meta))
        .and_then(|meta| meta.created);
    created.map_or(look.time(), |at| ClockTime { at, clock: ClockSource::Cluster })
}

/// Finds the time at which a release finished: now, or the cluster's own where the tracker has not seen it finish.
pub(super) fn finish_time(
    object: &WatchedObject,
    record: &ProgressRecord,
    look: WorkloadView<'_>,
) -> ClockTime {
    let completed_at = || {
        let deployment = object.deployment()?;
        let condition = deployment.progressing.as_ref()?;
        let current = look.index.current_replica_set(deployment)?;
        condition.has_completed(&current.meta.name).then_some(condition.updated_at).flatten()
    };
    let is_missed = look.first && record.template_changed;
    let at = is_missed.then(completed_at).flatten();
    at.map_or(look.time(), |at| ClockTime { at, clock: ClockSource::Cluster })
}

/// Returns the number of the next release of a workload, over all objects that had its name.
pub(super) fn next_sequence(records: &[ProgressRecord]) -> u32 {
    let newest = records.iter().map(|record| record.key.sequence).max();
    newest.unwrap_or_default().saturating_add(1)
}

/// Keeps the newest records only.
pub(super) fn forget_oldest(records: &mut Vec<ProgressRecord>) {
    let excess = records.len().saturating_sub(REMEMBERED);
    records.drain(..excess);
}

/// Finds a change that somebody made in the cluster beside the manifest repository.
pub(super) fn find_drift(
    object: &WatchedObject,
    record: &ProgressRecord,
    manifest_replicas: Option<u32>,
) -> Option<ClusterDrift> {
    if object.template() != record.template {
        return Some(ClusterDrift::Template);
    }
    let manifest = manifest_replicas?;
    let cluster = object.replicas().filter(|cluster| *cluster != manifest)?;
    Some(ClusterDrift::Replicas { manifest, cluster })
}

/// Makes the cause of a release that stands still, with the kinds that would tell more.
pub(super) fn stand_still(record: &ProgressRecord) -> FailureCause {
    let idle = (record.step == Some(ProgressStep::CanaryIdle))
        .then(|| "Flagger has not taken the release up".to_owned());
    let sentence = idle.or_else(|| record.hidden_sentence());
    FailureCause::new(CauseKind::NoProgress, &sentence.unwrap_or_default())
}

/// Finds the cause of an end that a workload has by itself: what its pods show tells more.
pub(super) fn final_cause(
    object: &WatchedObject,
    message: &str,
    index: &ClusterIndex,
) -> FailureCause {
    let kind = if object.kind() == WatchedKind::Job {
        CauseKind::JobFailed
    } else {
        CauseKind::CanaryFailed
    };
    let end = FailureCause::new(kind, message);
    match workload_cause(object, index, &|_| false) {
        Some(cause) if kind == CauseKind::JobFailed => {
            FailureCause { kind, message: end.message, ..cause }
        }
        Some(_) | None => end,
    }
}
