//! A deployment over all its workloads: one state, one sentence, and what it waits for.

use crate::cluster::expected::ExpectedRevision;
use crate::cluster::failure::{CauseKind, FailureCause};
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::progress::{ProgressStep, ReplicaCounts, describe_checks};
use crate::cluster::record::{ClockTime, ProgressRecord, RecordState};
use crate::cluster::sync_wait::SyncWait;
use crate::model::canary::CanaryStatus;
use crate::model::waiting::{LastEvent, WaitingOn};

/// The progress of a deployment in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentProgress {
    /// Its state.
    pub state: DeploymentState,
    /// The pods of all its workloads, counted.
    pub counts: ReplicaCounts,
    /// One line for people: `2 of 5 updated, 1 available; my-app-7c9 cannot pull the image …`.
    pub sentence: String,
    /// The thing that it waits for; `None` once it has ended.
    pub waiting: Option<WaitingOn>,
    /// The canaries of its workloads that are being analysed.
    pub canaries: Vec<CanaryStatus>,
}

/// The state of a deployment in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentState {
    /// No workload carries it yet.
    Syncing,
    /// Its workloads are under way.
    Progressing,
    /// All its workloads are finished.
    Finished {
        /// The time at which the last one was.
        at: ClockTime,
    },
    /// One of its workloads has failed.
    Failed {
        /// The workload.
        workload: ObjectKey,
        /// The cause.
        cause: FailureCause,
    },
    /// Another release came to one of its workloads before it was finished.
    Superseded,
}

/// Sums up the records of a deployment's workloads and of its Application. Of other deployments those of a later one
/// count, which has taken a workload over.
pub fn summarize(
    expected: &ExpectedRevision,
    records: &[&ProgressRecord],
    wait: SyncWait,
) -> DeploymentProgress {
    let newest = |key: &ObjectKey| {
        let is_its = |record: &&ProgressRecord| {
            record.key.workload == *key
                && record.key.deploy_id.as_ref() == Some(&expected.deploy_id)
                && !matches!(record.state, RecordState::Removed { .. })
        };
        records.iter().copied().filter(is_its).max_by_key(|record| record.order())
    };
    let parts: Vec<(&ObjectKey, Option<&ProgressRecord>)> =
        expected.parts().into_iter().map(|key| (key, newest(key))).collect();
    let present: Vec<&ProgressRecord> = parts.iter().filter_map(|(_, record)| *record).collect();
    let all_missing: Vec<&ObjectKey> =
        parts.iter().filter(|(_, record)| record.is_none()).map(|(key, _)| *key).collect();
    let missing = all_missing.first().copied();
    let application = expected.application.as_ref().and_then(newest);
    let end = find_end(&present)
        .or_else(|| find_jump(expected, &all_missing, records))
        .or_else(|| find_sync_end(missing?, application, wait));
    let sync_cause = application.filter(|record| record.is_open());
    let sync_cause = sync_cause.and_then(|record| Some(&record.failing.as_ref()?.cause));
    let counts = present.iter().fold(ReplicaCounts::default(), |sum, record| add(sum, record));

    let (state, sentence, waiting) = if let Some(end) = end {
        let sentence = end_sentence(&end);
        (end, sentence, None)
    } else if let Some(open) = present.iter().find(|record| record.is_open()) {
        let waiting = wait_for_workload(open);
        let cause = open.failing.as_ref().map(|failing| &failing.cause).or(sync_cause);
        let sentence = progress_sentence(counts, open, cause);
        (DeploymentState::Progressing, sentence, Some(waiting))
    } else if let Some(key) = missing {
        let state = if present.is_empty() {
            DeploymentState::Syncing
        } else {
            DeploymentState::Progressing
        };
        let mut waiting = wait_for_sync(expected, key, &present, wait);
        let mut sentence = format!("waiting for {}", waiting.what);
        if let Some(failing) = application.and_then(|record| record.failing.as_ref()) {
            sentence = failing.cause.sentence();
            waiting.last_event = Some(LastEvent { at: failing.since, text: sentence.clone() });
            waiting.gives_up_at = application.and_then(|record| record.gives_up_at);
        }
        (state, sentence, Some(waiting))
    } else {
        let at = present.iter().filter_map(|record| finished_at(record)).max_by_key(|time| time.at);
        let pushed = ClockTime::of_service(expected.pushed_at);
        let state = DeploymentState::Finished { at: at.unwrap_or(pushed) };
        let sentence = end_sentence(&state);
        (state, sentence, None)
    };
    let canaries = present.iter().filter_map(|record| canary_status(record)).collect();
    DeploymentProgress { state, counts, sentence, waiting, canaries }
}

fn canary_status(record: &ProgressRecord) -> Option<CanaryStatus> {
    let step = record.step.as_ref().filter(|_| record.is_open())?;
    let ProgressStep::Analysing { phase, weight, failed_checks, threshold, reason } = step else {
        return None;
    };
    Some(CanaryStatus {
        workload: record.key.workload.to_string(),
        phase: format!("{phase:?}"),
        weight: *weight,
        failed_checks: *failed_checks,
        threshold: *threshold,
        reason: reason.clone(),
    })
}

fn add(sum: ReplicaCounts, record: &ProgressRecord) -> ReplicaCounts {
    let ReplicaCounts { desired, updated, available } = record.counts;
    ReplicaCounts {
        desired: sum.desired.saturating_add(desired),
        updated: sum.updated.saturating_add(updated),
        available: sum.available.saturating_add(available),
    }
}

/// Finds the end that one workload makes for all of them: a failure, or another release in its place.
fn find_end(records: &[&ProgressRecord]) -> Option<DeploymentState> {
    let failed = records.iter().find_map(|record| match &record.state {
        RecordState::Failed { cause, .. } => Some(DeploymentState::Failed {
            workload: record.key.workload.clone(),
            cause: cause.clone(),
        }),
        RecordState::Progressing
        | RecordState::Finished { .. }
        | RecordState::Superseded { .. }
        | RecordState::Removed { .. } => None,
    });
    let is_superseded =
        |record: &&&ProgressRecord| matches!(record.state, RecordState::Superseded { .. });
    failed.or_else(|| records.iter().find(is_superseded).map(|_| DeploymentState::Superseded))
}

/// Finds a workload that carries a later deployment and never carried this one: the cluster has jumped over it.
fn find_jump(
    expected: &ExpectedRevision,
    missing: &[&ObjectKey],
    records: &[&ProgressRecord],
) -> Option<DeploymentState> {
    let is_later = |record: &&ProgressRecord| {
        missing.contains(&&record.key.workload)
            && record.key.deploy_id.as_ref().is_some_and(|id| *id > expected.deploy_id)
    };
    records.iter().any(is_later).then_some(DeploymentState::Superseded)
}

/// Finds the end of a deployment that Argo CD has not brought to a workload: its sync has failed, or never came. The
/// wait is not over while another workload is under way.
fn find_sync_end(
    missing: &ObjectKey,
    application: Option<&ProgressRecord>,
    wait: SyncWait,
) -> Option<DeploymentState> {
    let failed = match application.map(|record| &record.state) {
        Some(RecordState::Failed { cause, .. }) => Some(cause.clone()),
        _ => None,
    };
    let sync_cause = || application?.failing.as_ref().map(|failing| failing.cause.clone());
    let late_cause = || sync_cause().unwrap_or_else(|| FailureCause::new(CauseKind::NotSynced, ""));
    let cause = failed.or_else(|| wait.is_over.then(late_cause))?;
    Some(DeploymentState::Failed { workload: missing.clone(), cause })
}

fn finished_at(record: &ProgressRecord) -> Option<ClockTime> {
    match record.state {
        RecordState::Finished { at } => Some(at),
        RecordState::Progressing
        | RecordState::Failed { .. }
        | RecordState::Superseded { .. }
        | RecordState::Removed { .. } => None,
    }
}

fn end_sentence(end: &DeploymentState) -> String {
    match end {
        DeploymentState::Finished { .. } => "all pods are there and serve".to_owned(),
        DeploymentState::Failed { workload, cause } => {
            format!("{workload} failed: {}", cause.sentence())
        }
        DeploymentState::Superseded => "another release came before it was finished".to_owned(),
        DeploymentState::Syncing | DeploymentState::Progressing => String::new(),
    }
}

/// Describes a release that is under way, or its end, in a sentence.
pub fn describe_release(record: &ProgressRecord) -> String {
    let ReplicaCounts { desired, available, .. } = record.counts;
    match &record.state {
        RecordState::Progressing => {
            let cause = record.failing.as_ref().map(|failing| &failing.cause);
            progress_sentence(record.counts, record, cause)
        }
        RecordState::Finished { .. } if desired > 0 => {
            format!("{available} of {desired} available")
        }
        RecordState::Finished { .. } => "it has finished".to_owned(),
        RecordState::Failed { cause, .. } => cause.sentence(),
        RecordState::Superseded { .. } => "superseded".to_owned(),
        RecordState::Removed { .. } => "deleted".to_owned(),
    }
}

/// Counts the pods and says what is wrong or waited for: `2 of 5 updated, 1 available; …`.
fn progress_sentence(
    counts: ReplicaCounts,
    open: &ProgressRecord,
    cause: Option<&FailureCause>,
) -> String {
    let ReplicaCounts { desired, updated, available } = counts;
    let pods = if desired == 0 {
        String::new()
    } else {
        format!("{updated} of {desired} updated, {available} available; ")
    };
    let problem = match (cause, &open.drift) {
        (Some(cause), _) => cause.sentence(),
        (None, Some(drift)) => drift.sentence(),
        (None, None) => format!("waiting for {}", next_step(open)),
    };
    let hidden = open.hidden_sentence().map_or_else(String::new, |hidden| format!("; {hidden}"));
    format!("{pods}{problem}{hidden}")
}

/// Says what must happen to a workload next.
fn next_step(record: &ProgressRecord) -> String {
    let workload = &record.key.workload;
    if workload.kind == WatchedKind::Application {
        return format!("Argo CD to sync {}", workload.name);
    }
    match &record.step {
        None | Some(ProgressStep::Unobserved) => {
            format!("the cluster to see the change of {workload}")
        }
        Some(ProgressStep::Paused) => format!("a person to resume {workload}"),
        Some(ProgressStep::Updating) => format!("new pods of {workload}"),
        Some(ProgressStep::Replacing) => format!("the former pods of {workload} to go"),
        Some(ProgressStep::Starting) if workload.kind == WatchedKind::Job => {
            format!("{workload} to end")
        }
        Some(ProgressStep::AwaitingDeletion) => {
            format!("a person to delete the former pods of {workload}")
        }
        Some(ProgressStep::CanaryHidden) => {
            format!("the right to see the Canary of {workload}")
        }
        Some(ProgressStep::Starting) => format!("the new pods of {workload} to become available"),
        Some(ProgressStep::Analysing { phase, weight, failed_checks, threshold, reason }) => {
            let checks = describe_checks(*failed_checks, *threshold);
            let halted = reason
                .as_ref()
                .map_or_else(|| checks.clone(), |reason| format!("; halted: {reason}{checks}"));
            format!("the canary of {workload} ({phase:?}, {weight} % of the traffic){halted}")
        }
        Some(ProgressStep::CanaryIdle) => {
            format!("Flagger to take up {workload}")
        }
        Some(ProgressStep::Complete | ProgressStep::Failed { .. }) => {
            format!("the end of {workload}")
        }
    }
}

fn wait_for_workload(record: &ProgressRecord) -> WaitingOn {
    let ReplicaCounts { desired, updated, available } = record.counts;
    let (at, text) = if let Some(failing) = &record.failing {
        (failing.since, failing.cause.sentence())
    } else {
        let text = format!("{updated} of {desired} updated, {available} available");
        (record.progressed_at, text)
    };
    WaitingOn {
        what: next_step(record),
        since: record.step_since.unwrap_or(record.progressed_at),
        last_event: Some(LastEvent { at, text }),
        gives_up_at: record.gives_up_at,
    }
}

fn wait_for_sync(
    expected: &ExpectedRevision,
    missing: &ObjectKey,
    present: &[&ProgressRecord],
    wait: SyncWait,
) -> WaitingOn {
    let last = present.iter().max_by_key(|record| record.progressed_at);
    let (at, text) = match last {
        Some(record) => (record.progressed_at, format!("{} is finished", record.key.workload)),
        None => (expected.pushed_at, "it was pushed to the manifest repository".to_owned()),
    };
    let what = if missing.kind == WatchedKind::Application {
        format!("Argo CD to sync {}", missing.name)
    } else {
        format!("Argo CD to sync {missing}")
    };
    let since = wait.since.unwrap_or(expected.pushed_at);
    let last_event = Some(LastEvent { at, text });
    WaitingOn { what, since, last_event, gives_up_at: wait.gives_up_at }
}
