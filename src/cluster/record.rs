//! What is remembered of a workload's progress: plain data, stored by the caller, given back after a restart.
//!
//! There is one record for each release of each workload, under a key that no other release of it has. Whatever is told
//! of a release is told when its record changes, so a record that is there is what was told already.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::failure::{CauseKind, FailureCause};
use crate::cluster::object::{CommitAnnotations, ObjectKey, WatchedKind};
use crate::cluster::progress::{ProgressStep, ReplicaCounts};
use crate::cluster::template::TemplateHash;
use crate::model::id::{DeployId, TargetName};

/// Names one release of one workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProgressKey {
    /// On which cluster.
    pub cluster: TargetName,
    /// Which workload.
    pub workload: ObjectKey,
    /// A workload that was deleted and made again is another one.
    pub uid: Box<str>,
    /// Of the revision; of the commit and the pod template where the workload is not ours.
    pub digest: String,
    /// The deployment that brought it; `None` where that is not known, or the workload is not ours.
    pub deploy_id: Option<DeployId>,
    /// The number of the release on this workload, from 1 on: a digest may come back.
    pub sequence: u32,
}

/// What is remembered of one release of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressRecord {
    /// Its key.
    pub key: ProgressKey,
    /// The commit that a workload of somebody else names.
    pub commit: Option<CommitAnnotations>,
    /// How it stands.
    pub state: RecordState,
    /// People hear of it. A release that was finished before the service first saw it is not told.
    pub announced: bool,
    /// When it started.
    pub started: ClockTime,
    /// The pod template that it came with: another one under the same digest is somebody's edit.
    pub template: TemplateHash,
    /// The release before had another pod template.
    pub template_changed: bool,
    /// How far it was the last time.
    pub counts: ReplicaCounts,
    /// How far it has been: pods that come and go are no progress.
    #[serde(default)]
    pub reached: ProgressMark,
    /// The kinds that its rules read, and that may not be seen.
    #[serde(default)]
    pub hidden: Vec<WatchedKind>,
    /// What happened the last time.
    pub step: Option<ProgressStep>,
    /// The time at which it last came further than before, by the service's clock.
    pub progressed_at: Timestamp,
    /// Since when there has been no progress for longer than the deadline, by the service's clock.
    pub stalled_since: Option<Timestamp>,
    /// When the service gives it up if nothing changes; `None` while it waits for a person, or for what ends by itself.
    pub gives_up_at: Option<Timestamp>,
    /// What is wrong at present.
    pub failing: Option<Failing>,
    /// Kinds of causes that were told.
    pub told_causes: Vec<CauseKind>,
    /// What somebody changed beside us, while it stands.
    pub drift: Option<ClusterDrift>,
    /// Flagger's digest of the pod template that it had worked on last (`lastAppliedSpec`).
    pub canary_applied: Option<String>,
    /// Flagger has taken the workload over, as far as it can be told without its Canary.
    #[serde(default)]
    pub taken_over: bool,
}

/// How far a release of a workload has been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressMark {
    /// The most pods of the present template that there were.
    pub updated: u32,
    /// The most of them that could serve: so many at least, if all pods of a former template serve.
    pub serving: u32,
    /// The fewest pods of a former template that there were; `None` before they were counted.
    pub former: Option<u32>,
}

impl ProgressMark {
    /// Takes counts; returns true if the release was never that far.
    pub(super) fn raise(&mut self, counts: ReplicaCounts, former: u32) -> bool {
        let before = *self;
        self.updated = self.updated.max(counts.updated);
        self.serving = self.serving.max(counts.available.saturating_sub(former));
        self.former = Some(self.former.map_or(former, |fewest| fewest.min(former)));
        *self != before
    }
}

/// How a release of a workload stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordState {
    /// It is under way.
    Progressing,
    /// All its pods are there and serve.
    Finished {
        /// When that was seen.
        at: ClockTime,
    },
    /// It was given up.
    Failed {
        /// By the service's clock.
        at: Timestamp,
        /// Why.
        cause: FailureCause,
    },
    /// Another release came before it was finished.
    Superseded {
        /// By the service's clock.
        at: Timestamp,
    },
    /// The workload was deleted before it was finished.
    Removed {
        /// By the service's clock.
        at: Timestamp,
    },
}

/// A time, and whose clock showed it. Two clocks may be a day apart, so their times are never subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTime {
    /// The time.
    pub at: Timestamp,
    /// Whose clock showed it.
    pub clock: ClockSource,
}

impl ClockTime {
    /// Makes a time of the service's own clock.
    pub fn of_service(at: Timestamp) -> Self {
        Self { at, clock: ClockSource::Service }
    }
}

/// Whose clock showed a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockSource {
    /// The service's, when the event arrived.
    Service,
    /// The cluster's, written into an object, in whole seconds.
    Cluster,
}

/// What is wrong with a release that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// The cause.
    pub cause: FailureCause,
    /// Since when, by the service's clock.
    pub since: Timestamp,
}

/// What somebody changed in the cluster beside us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterDrift {
    /// The pod template is another one than the release came with: `kubectl edit`, `kubectl set image`.
    Template,
    /// The manifest says how many pods there are to be, and the cluster has another number: `kubectl scale`.
    Replicas {
        /// What the manifest says.
        manifest: u32,
        /// What the cluster has.
        cluster: u32,
    },
    /// It carries the digest of a revision that nobody deployed after this one: `kubectl rollout undo`, `kubectl apply`.
    Revision {
        /// The digest that it carries.
        digest: String,
    },
}

impl ProgressRecord {
    /// Checks that it is under way.
    pub fn is_open(&self) -> bool {
        self.state == RecordState::Progressing
    }

    /// Checks that it has an end that people were told of, or that was recorded silently.
    pub fn is_ended(&self) -> bool {
        match self.state {
            RecordState::Finished { .. } | RecordState::Failed { .. } => true,
            RecordState::Progressing
            | RecordState::Superseded { .. }
            | RecordState::Removed { .. } => false,
        }
    }

    /// Says which kinds its rules read and the service may not see; `None` where it sees all of them.
    pub fn hidden_sentence(&self) -> Option<String> {
        let kinds: Vec<String> = self.hidden.iter().map(|kind| kind.resource()).collect();
        (!kinds.is_empty()).then(|| format!("the service cannot see {}", kinds.join(", ")))
    }

    /// Checks that it finished.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, RecordState::Finished { .. })
    }
}

impl ClusterDrift {
    /// Says what was changed, for people.
    pub fn sentence(&self) -> String {
        match self {
            Self::Template => {
                "the pod template was changed in the cluster, beside the manifest repository"
                    .to_owned()
            }
            Self::Replicas { manifest, cluster } => {
                format!("it was scaled to {cluster} in the cluster; the manifest says {manifest}")
            }
            Self::Revision { digest } => {
                format!("it was put back to another revision in the cluster ({digest})")
            }
        }
    }
}
