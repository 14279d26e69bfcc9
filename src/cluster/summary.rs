//! A deployment over all its workloads: one state, one sentence, and what it waits for.

use crate::cluster::expected::ExpectedRevision;
use crate::cluster::failure::FailureCause;
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::progress::{ProgressStep, ReplicaCounts};
use crate::cluster::record::{ClockTime, ProgressRecord, RecordState};
use crate::model::waiting::{LastEvent, WaitingOn};

/// How a deployment stands in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentProgress {
    /// Its state.
    pub state: DeploymentState,
    /// The pods of all its workloads, counted.
    pub counts: ReplicaCounts,
    /// One line for people: `2 of 5 updated, 1 available; my-app-7c9 cannot pull the image …`.
    pub sentence: String,
    /// What it waits for; `None` once it has ended.
    pub waiting: Option<WaitingOn>,
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
        /// When the last one was.
        at: ClockTime,
    },
    /// One of its workloads has failed.
    Failed {
        /// Which one.
        workload: ObjectKey,
        /// Why.
        cause: FailureCause,
    },
    /// Another release came to one of its workloads before it was finished.
    Superseded,
}

/// Sums up the records of a deployment's workloads. Records of other deployments are passed over.
pub fn summarize(expected: &ExpectedRevision, records: &[ProgressRecord]) -> DeploymentProgress {
    let newest = |key: &ObjectKey| {
        let is_its = |record: &&ProgressRecord| {
            record.key.workload == *key
                && record.key.deploy_id.as_ref() == Some(&expected.deploy_id)
                && !matches!(record.state, RecordState::Removed { .. })
        };
        records.iter().filter(is_its).max_by_key(|record| record.key.sequence)
    };
    let parts: Vec<(&ObjectKey, Option<&ProgressRecord>)> =
        expected.parts().into_iter().map(|key| (key, newest(key))).collect();
    let present: Vec<&ProgressRecord> = parts.iter().filter_map(|(_, record)| *record).collect();
    let missing = parts.iter().find(|(_, record)| record.is_none()).map(|(key, _)| *key);
    let counts = present.iter().fold(ReplicaCounts::default(), |sum, record| add(sum, record));

    let (state, sentence, waiting) = if let Some(end) = find_end(&present) {
        let sentence = end_sentence(&end);
        (end, sentence, None)
    } else if let Some(open) = present.iter().find(|record| record.is_open()) {
        let waiting = wait_for_workload(open);
        (DeploymentState::Progressing, progress_sentence(counts, open), Some(waiting))
    } else if let Some(key) = missing {
        let state = if present.is_empty() {
            DeploymentState::Syncing
        } else {
            DeploymentState::Progressing
        };
        let waiting = wait_for_sync(expected, key, &present);
        (state, format!("waiting for {}", waiting.what), Some(waiting))
    } else {
        let at = present.iter().filter_map(|record| finished_at(record)).max_by_key(|time| time.at);
        let pushed = ClockTime::of_service(expected.pushed_at);
        let state = DeploymentState::Finished { at: at.unwrap_or(pushed) };
        let sentence = end_sentence(&state);
        (state, sentence, None)
    };
    DeploymentProgress { state, counts, sentence, waiting }
}

fn add(sum: ReplicaCounts, record: &ProgressRecord) -> ReplicaCounts {
    let ReplicaCounts { desired, updated, available } = record.counts;
    ReplicaCounts {
        desired: sum.desired.saturating_add(desired),
        updated: sum.updated.saturating_add(updated),
        available: sum.available.saturating_add(available),
    }
}

/// The end that one workload makes for all of them: a failure, or another release in its place.
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

/// `2 of 5 updated, 1 available; paused`, with what is wrong.
fn progress_sentence(counts: ReplicaCounts, open: &ProgressRecord) -> String {
    let ReplicaCounts { desired, updated, available } = counts;
    let counted = if desired == 0 {
        String::new()
    } else {
        format!("{updated} of {desired} updated, {available} available; ")
    };
    let rest = match (&open.failing, &open.drift) {
        (Some(failing), _) => failing.cause.sentence(),
        (None, Some(drift)) => drift.sentence(),
        (None, None) => format!("waiting for {}", awaited(open)),
    };
    format!("{counted}{rest}")
}

/// What must happen to a workload next.
fn awaited(record: &ProgressRecord) -> String {
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
        Some(ProgressStep::Starting) => format!("the new pods of {workload} to become available"),
        Some(ProgressStep::Analysing { phase, weight }) => {
            format!("the canary of {workload} ({phase:?}, {weight} % of the traffic)")
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
        what: awaited(record),
        since: record.progressed_at,
        last_event: Some(LastEvent { at, text }),
        gives_up_at: record.gives_up_at,
    }
}

fn wait_for_sync(
    expected: &ExpectedRevision,
    missing: &ObjectKey,
    present: &[&ProgressRecord],
) -> WaitingOn {
    let last = present.iter().max_by_key(|record| record.progressed_at);
    let (at, text) = match last {
        Some(record) => (record.progressed_at, format!("{} carries it", record.key.workload)),
        None => (expected.pushed_at, "it was pushed to the manifest repository".to_owned()),
    };
    let what = if missing.kind == WatchedKind::Application {
        format!("Argo CD to sync {}", missing.name)
    } else {
        format!("Argo CD to sync {missing}")
    };
    let since = expected.pushed_at;
    WaitingOn { what, since, last_event: Some(LastEvent { at, text }), gives_up_at: None }
}
