//! The facts that a rollout is decided by: how its deployments stand, what is live, what blocks a target, and what a
//! gate answered. A fact that could not be had is absent, and nothing is done where it is needed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::{CommitSha, DeployId};

pub use crate::model::rollout_words::GateOutcome;

/// All facts of one rollout at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RolloutFacts {
    /// The facts of targets, by their numbers in the record; a target that is missing could not be read.
    pub targets: BTreeMap<usize, TargetFacts>,
    /// The answer of the current gate, where it was asked.
    pub gate: Option<GateAnswer>,
    /// The commit that the branch or tag of the release names now, where it was looked up.
    pub ref_commit: Option<CommitSha>,
    /// The reason why the release must not go further: it was withdrawn, or its WAML is gone.
    pub withdrawn: Option<String>,
}

/// The facts of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFacts {
    /// True if it is a target of the service.
    pub is_configured: bool,
    /// The live revision of the app there.
    pub live: LiveFact,
    /// The lock, the window or the like that stops a deployment there now.
    pub blocked: Option<String>,
    /// A deployment of others that waits or runs there now, and comes first.
    pub busy: Option<DeployId>,
    /// The rollout's deployment there, where the record names one.
    pub deployment: Option<DeploymentFact>,
    /// The rollout's undo there, where the record names one.
    pub undo: Option<DeploymentFact>,
    /// The reason why the revision before cannot be made live again, where that is known.
    pub unrestorable: Option<String>,
}

/// The live revision of the app on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveFact {
    /// It could not be read; the reason.
    Unknown(String),
    /// The app is not there.
    Absent,
    /// A deployment or a rollback has made a revision live.
    Revision {
        /// The revision; that of a rollback is the one that it restored.
        revision: DeployId,
        /// The deployment or rollback. Ids are in the order of time.
        by: DeployId,
        /// True if that one is of this rollout, or of its undo.
        is_ours: bool,
    },
    /// None that was deployed: the files were edited by hand.
    Edited,
}

/// How a deployment stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeploymentFact {
    /// It has not ended.
    Open {
        /// True if its revision is pushed: what is live has changed.
        is_pushed: bool,
        /// What it waits for, as a sentence.
        sentence: String,
    },
    /// It runs, or is pushed where nothing watches.
    Complete {
        /// The time of its end.
        at: Timestamp,
    },
    /// It failed.
    Failed {
        /// The reason.
        reason: String,
        /// True if its revision was pushed before.
        is_pushed: bool,
    },
    /// A lock, a window or a hold refused it, before anything was pushed.
    Blocked {
        /// The reason.
        reason: String,
    },
    /// Another deployment took its place.
    Superseded {
        /// The other one, where it is known.
        by: Option<DeployId>,
    },
    /// A person or the rollout cancelled it before anything was pushed.
    Cancelled,
    /// There is no such record.
    Missing,
}

/// The answer of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAnswer {
    /// The step of the gate.
    pub step: usize,
    /// The time of the question.
    pub at: Timestamp,
    /// The result.
    pub result: GateOutcome,
    /// The value, or the reason why there is none, for people.
    pub value: String,
}
