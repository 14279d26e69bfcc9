//! Events in the life of a release of a workload: the tracker gives each to its caller once.

use crate::cluster::failure::FailureCause;
use crate::cluster::progress::{ProgressStep, ReplicaCounts};
use crate::cluster::record::{ClockTime, ClusterDrift, ProgressRecord};

/// Something that has happened to a release of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an observation is made once: store its record and tell it"]
pub struct ProgressObservation {
    /// The event.
    pub event: ProgressEvent,
    /// The record as it is to be stored.
    pub record: ProgressRecord,
}

/// An event in the life of a release of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgressEvent {
    /// The workload carries it.
    Started {
        /// The time of the start.
        at: ClockTime,
    },
    /// Its counts have changed, or what it waits for.
    Progressed {
        /// Its pods, counted.
        counts: ReplicaCounts,
        /// The step that the workload is at.
        step: ProgressStep,
    },
    /// All its pods are there and serve.
    Finished {
        /// The time at which that was seen.
        at: ClockTime,
    },
    /// Another release came before it was finished.
    Superseded,
    /// Its pods do not run; that may pass. Each kind of cause is told once.
    Failing {
        /// The cause.
        cause: FailureCause,
    },
    /// It was given up.
    Failed {
        /// The cause.
        cause: FailureCause,
    },
    /// A person or another controller changed the workload.
    Drifted {
        /// The change.
        drift: ClusterDrift,
    },
    /// The change was taken back: the workload is as it was deployed.
    Repaired,
    /// The workload was deleted before it was finished.
    Removed,
    /// The record is stored, and no message is sent.
    Recorded,
}
