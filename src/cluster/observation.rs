//! What has happened to a release of a workload: what the tracker gives to its caller, each once.

use crate::cluster::failure::FailureCause;
use crate::cluster::progress::{ProgressStep, ReplicaCounts};
use crate::cluster::record::{ClockTime, ClusterDrift, ProgressRecord};

/// Something that has happened to a release of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an observation is made once: store its record and tell it"]
pub struct ProgressObservation {
    /// What has happened.
    pub event: ProgressEvent,
    /// The record as it is to be stored.
    pub record: ProgressRecord,
}

/// What has happened to a release of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgressEvent {
    /// The workload carries it.
    Started {
        /// Since when.
        at: ClockTime,
    },
    /// Its counts have changed, or what it waits for.
    Progressed {
        /// Its pods, counted.
        counts: ReplicaCounts,
        /// What happens at present.
        step: ProgressStep,
    },
    /// All its pods are there and serve.
    Finished {
        /// When that was seen.
        at: ClockTime,
    },
    /// Another release came before it was finished.
    Superseded,
    /// Its pods do not run; that may pass. Each kind of cause is told once.
    Failing {
        /// Why.
        cause: FailureCause,
    },
    /// It was given up.
    Failed {
        /// Why.
        cause: FailureCause,
    },
    /// Somebody changed the workload beside us.
    Drifted {
        /// What was changed.
        drift: ClusterDrift,
    },
    /// What somebody had changed is as it was deployed again.
    Repaired,
    /// The workload was deleted before it was finished.
    Removed,
    /// To be stored, not to be told.
    Recorded,
}
