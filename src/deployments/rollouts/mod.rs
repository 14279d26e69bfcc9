//! Rollouts: prepared, started, shown and changed by people, and advanced by the loop.
//!
//! ```text
//! prepare ─▶ PreparedRollout ─▶ preview                 what would happen; nothing is stored
//!                  └──────────▶ start ─▶ store ◀─ act   a person pauses, approves, turns back …
//!                                          │
//!            facts ─▶ rollout::advance ◀───┘            the loop: one turn, one transaction
//! ```
//!
//! The caller checks the rights between `prepare_rollout`, which finds the app and the targets, and what follows.

mod prepare; // the release, the app and the plan of a request
mod preview; // what a rollout would do
mod start; // stores a rollout
mod act; // what people do to a rollout
mod view; // rollouts as they are shown
pub mod metrics;
mod stops; // what stops a deployment to a target now
mod live; // what is live on a target, as the write path knows it
mod live_fleet; // the same of a fleet
mod facts; // the facts of a turn
pub mod gates; // the questions to gates
pub mod gate_clients; // their clients and metrics
mod orders; // the orders of a turn, with all data of their deployments
mod removals; // apps are taken off where they were not before
pub mod turn; // one turn
mod trigger; // rollouts that a deployment of the code host starts

use jiff::Timestamp;

use crate::deployments::BackendError;
use crate::model::id::{AppKey, AppName, ImageTag, RepoName, RolloutId, RolloutName, TargetName};
use crate::model::release::Release;
use crate::pipeline::rollout_plan::{RolloutOptions, RolloutSelection, SelectionFault};
use crate::rollout::acts::ActRefusal;
use crate::rollout::advance::RolloutWait;
use crate::rollout::facts::LiveFact;
use crate::rollout::plan::{PlanDuration, PlanFault, RolloutPlan};
use crate::rollout::record::RolloutRecord;

pub use crate::store::{RolloutFilter, RolloutOrigin};

/// The request for a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutRequest {
    /// The service's repository.
    pub repository: RepoName,
    /// The app, where the repository has several.
    pub app: Option<AppName>,
    /// The branch, tag or commit whose WAML is deployed.
    pub git_ref: String,
    /// The image tag.
    pub tag: ImageTag,
    /// The steps.
    pub steps: RolloutSteps,
    /// What happens where another open rollout of the app has one of the targets.
    pub on_overlap: OverlapPolicy,
    /// The reason, for people; not empty.
    pub reason: String,
}

/// The steps of a requested rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutSteps {
    /// Those of a selection among the app's targets, or of a rollout that the WAML names.
    Selection {
        /// The selection.
        selection: RolloutSelection,
        /// The options beside it.
        options: RolloutOptions,
    },
    /// This plan, as it stands.
    Plan(RolloutPlan),
}

/// What happens to a rollout whose targets another open one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverlapPolicy {
    /// It is refused.
    #[default]
    Refuse,
    /// It begins when the other one has ended.
    Queue,
}

/// A rollout that can be started: its release and its sequence are fixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRollout {
    /// The release.
    pub release: Release,
    /// The branch, tag or commit that was named.
    pub git_ref: String,
    /// The app of its WAML.
    pub app: AppKey,
    /// The owning team's e-mail address, by the WAML.
    pub owner: String,
    /// The name of the plan in the WAML; `None` where the targets were chosen by hand.
    pub name: Option<RolloutName>,
    /// The plan.
    pub plan: RolloutPlan,
    /// What happens where another open rollout of the app has one of the targets.
    pub on_overlap: OverlapPolicy,
    /// The reason.
    pub reason: String,
}

/// What a rollout would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPreview {
    /// The targets in the order of the sequence.
    pub targets: Vec<PreviewTarget>,
    /// The shortest and the longest time.
    pub duration: PlanDuration,
    /// The open rollout that has one of the targets, if there is one.
    pub overlap: Option<RolloutId>,
}

/// A target of a rollout that may be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewTarget {
    /// The target.
    pub target: TargetName,
    /// The number of its step.
    pub step: usize,
    /// What is live there.
    pub live: LiveFact,
    /// The tag of that, where it is known.
    pub tag: Option<ImageTag>,
    /// What stops a deployment there now.
    pub blocked: Option<String>,
}

/// A rollout as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutView {
    /// The record.
    pub record: RolloutRecord,
    /// The name of the plan in the WAML; `None` where the targets were chosen by hand.
    pub name: Option<RolloutName>,
    /// The data of its start.
    pub origin: RolloutOrigin,
    /// The person or program that started it.
    pub created_by: String,
    /// The reason.
    pub reason: String,
    /// The time of its start.
    pub created_at: Timestamp,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// True while it waits until another rollout with one of its targets has ended.
    pub is_queued: bool,
    /// What it waits for, by its last turn.
    pub waits: Vec<RolloutWait>,
}

/// Rollouts, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPage {
    /// The rollouts.
    pub rollouts: Vec<RolloutView>,
    /// The cursor of the next page, if there is one.
    pub next: Option<RolloutId>,
}

/// The reason why a rollout was not prepared or started. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// There is no such repository, commit, WAML or plan.
    #[error("{0}")]
    Unknown(String),
    /// The WAML at the commit cannot be read; the first of its violations.
    #[error("{0}")]
    Waml(String),
    /// The WAML does not deploy to these targets.
    #[error(
        "the WAML of {app} does not deploy to {}; it deploys to {}",
        join(.targets), join(.available)
    )]
    NotDeployed {
        /// The app.
        app: AppKey,
        /// The targets.
        targets: Vec<TargetName>,
        /// Those that it deploys to.
        available: Vec<TargetName>,
    },
    /// The service has no such targets.
    #[error("the configuration has no cluster {}; it has {}", join(.targets), join(.available))]
    NotConfigured {
        /// The targets.
        targets: Vec<TargetName>,
        /// Those that it has.
        available: Vec<TargetName>,
    },
    /// Two targets have a cluster in common.
    #[error(
        "{} and {} are both to have the release on {cluster}: name one of them", .targets[0], .targets[1]
    )]
    SharedCluster {
        /// The targets.
        targets: [TargetName; 2],
        /// The cluster.
        cluster: TargetName,
    },
    /// Nothing can be selected that way.
    #[error(transparent)]
    Selection(#[from] SelectionFault),
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanFault),
    /// The WAML cannot have the weights of a step, or does not end at the last ones.
    #[error("{0}")]
    Weights(String),
    /// Another open rollout of the app has one of the targets.
    #[error(
        "rollout {other} of {app} has one of these targets: wait for its end, cancel it, or queue this one"
    )]
    Overlap {
        /// The app.
        app: AppKey,
        /// The other rollout.
        other: RolloutId,
    },
    /// A service that must be asked does not answer now; the text is for the caller too.
    #[error("{0}")]
    Unavailable(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The reason why an act was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RolloutActError {
    /// There is no such rollout.
    #[error("there is no rollout {0}")]
    Unknown(RolloutId),
    /// Its state does not allow the act.
    #[error(transparent)]
    Refused(#[from] ActRefusal),
    /// Another open rollout of the app has one of its targets by now.
    #[error("rollout {0} has one of its targets by now: wait for its end, or cancel it")]
    Overlap(RolloutId),
    /// It changed at the same moment.
    #[error("rollout {0} changes at this moment: ask again")]
    Busy(RolloutId),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

fn join(targets: &[TargetName]) -> String {
    if targets.is_empty() {
        return "no target".to_owned();
    }
    targets.iter().map(TargetName::as_str).collect::<Vec<_>>().join(", ")
}
