//! Records of a workload's progress: plain data, stored by the caller, given back after a restart.
//!
//! There is one record for each release of each workload, under a key that no other release of it has. Whatever is told
//! of a release is told when its record changes, so a record that is there is what was told already.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::failure::{CauseKind, FailureCause};
use crate::cluster::flagger::FlaggerCanary;
use crate::cluster::object::{CommitAnnotations, ObjectKey, WatchedKind};
use crate::cluster::progress::{ProgressStep, ReplicaCounts};
use crate::cluster::template::TemplateHash;
use crate::model::id::{DeployId, TargetName};

/// Names one release of one workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProgressKey {
    /// The cluster.
    pub cluster: TargetName,
    /// The workload.
    pub workload: ObjectKey,
    /// The uid of the workload: one that was deleted and made again is another one.
    pub uid: Box<str>,
    /// The digest of the revision; the commit and the pod template where the workload is not ours.
    pub digest: String,
    /// The deployment that brought it; `None` where that is not known, or the workload is not ours.
    pub deploy_id: Option<DeployId>,
    /// The number of the release on this workload, from 1 on: a digest may come back. It may begin anew when the
    /// workload is forgotten in between.
    pub sequence: u32,
}

/// The record of one release of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressRecord {
    /// Its key.
    pub key: ProgressKey,
    /// The commit that a workload of somebody else names.
    pub commit: Option<CommitAnnotations>,
    /// Its state.
    pub state: RecordState,
    /// People hear of it. A release that was finished before the service first saw it is not told.
    pub announced: bool,
    /// The time at which it started.
    pub started: ClockTime,
    /// The pod template that it came with: another one under the same digest is somebody's edit.
    pub template: TemplateHash,
    /// The release before had another pod template.
    pub template_changed: bool,
    /// The pods at the last look.
    pub counts: ReplicaCounts,
    /// The furthest point that it has reached: pods that come and go are no progress.
    #[serde(default)]
    pub furthest: ProgressMark,
    /// The kinds that its rules read, and that may not be seen.
    #[serde(default)]
    pub hidden_kinds: Vec<WatchedKind>,
    /// The step at the last look.
    pub step: Option<ProgressStep>,
    /// The time since which it is at that step, by the service's clock.
    #[serde(default)]
    pub step_since: Option<Timestamp>,
    /// The time at which it last came further than before, by the service's clock; its finish is the last such time.
    pub progressed_at: Timestamp,
    /// The time from which its deadline counts, where that is later: neither the time counts in which it was not seen,
    /// nor that in which a person or Flagger was waited for.
    #[serde(default)]
    pub deadline_from: Option<Timestamp>,
    /// The time, by the service's clock, since which there was no progress for longer than the deadline.
    pub stalled_since: Option<Timestamp>,
    /// The time at which the service gives it up if nothing changes; `None` while it waits for a person, or for
    /// something that ends by itself.
    pub gives_up_at: Option<Timestamp>,
    /// The cause that stands at present.
    pub failing: Option<Failing>,
    /// The kinds of causes that were told.
    pub told_causes: Vec<CauseKind>,
    /// The change that somebody made beside the service, while it stands.
    pub drift: Option<ClusterDrift>,
    /// Flagger's digest of the pod template that it had worked on last (`lastAppliedSpec`).
    pub canary_applied: Option<String>,
    /// The time of the Canary's last change of phase, in the cluster's words.
    #[serde(default)]
    pub canary_changed: Option<String>,
    /// Flagger has taken the workload over, as far as it can be told without its Canary.
    #[serde(default)]
    pub taken_over: bool,
}

/// The furthest point that a release of a workload has reached.
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

/// The state of a release of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordState {
    /// It is under way.
    Progressing,
    /// All its pods are there and serve.
    Finished {
        /// The time at which that was seen.
        at: ClockTime,
    },
    /// It was given up.
    Failed {
        /// The time, by the service's clock.
        at: Timestamp,
        /// The cause.
        cause: FailureCause,
    },
    /// Another release came before it was finished.
    Superseded {
        /// The time, by the service's clock.
        at: Timestamp,
    },
    /// The workload was deleted before it was finished.
    Removed {
        /// The time, by the service's clock.
        at: Timestamp,
    },
}

/// A time, and whose clock showed it. Two clocks may be a day apart, so their times are never subtracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTime {
    /// The time.
    pub at: Timestamp,
    /// The clock that showed it.
    pub clock: ClockSource,
}

impl ClockTime {
    /// Makes a time of the service's own clock.
    pub fn of_service(at: Timestamp) -> Self {
        Self { at, clock: ClockSource::Service }
    }
}

/// The clocks that show times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockSource {
    /// The clock of the service, when the event arrived.
    Service,
    /// The clock of the cluster, written into an object, in whole seconds.
    Cluster,
}

/// A cause that stands against a release that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// The cause.
    pub cause: FailureCause,
    /// The time since which it stands, by the service's clock.
    pub since: Timestamp,
}

/// A change that somebody made in the cluster beside the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterDrift {
    /// The pod template is another one than the release came with: `kubectl edit`, `kubectl set image`.
    Template,
    /// The manifest says how many pods there are to be, and the cluster has another number: `kubectl scale`.
    Replicas {
        /// The number in the manifest.
        manifest: u32,
        /// The number in the cluster.
        cluster: u32,
    },
    /// It carries the digest of a revision that was not deployed after this one: `kubectl rollout undo`.
    Revision {
        /// The digest that it carries.
        digest: String,
    },
}

impl ProgressRecord {
    /// Notes what Flagger is at, by which its next run is known.
    pub(super) fn note_canary(&mut self, canary: &FlaggerCanary) {
        self.canary_applied = Some(canary.applied.to_string());
        self.canary_changed = Some(canary.changed_at.to_string());
    }

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

    /// Returns its place among the records of its workload, the oldest first. The numbers alone do not tell: they
    /// may begin anew with an object that was deleted and made again.
    pub(super) fn order(&self) -> (Timestamp, u32) {
        (self.progressed_at, self.key.sequence)
    }

    /// Returns the time from which its deadline counts.
    pub(super) fn deadline_start(&self) -> Timestamp {
        self.deadline_from.map_or(self.progressed_at, |from| from.max(self.progressed_at))
    }

    /// Says which kinds its rules read and the service may not see; `None` where it sees all of them.
    pub fn hidden_sentence(&self) -> Option<String> {
        let kinds: Vec<String> = self.hidden_kinds.iter().map(|kind| kind.resource()).collect();
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
