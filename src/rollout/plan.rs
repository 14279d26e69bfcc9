//! The plan of a rollout: its steps with the fixed sequence of targets, its gates, and the policy for failures.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::model::id::{TargetName, TeamName};
use crate::model::lock::Window;

pub use crate::model::rollout_words::RolloutFailurePolicy;

/// The most targets of one rollout.
pub const MAX_TARGETS: usize = 500;
/// The most steps of one rollout, gates included.
pub const MAX_STEPS: usize = 1000;

/// The percents of versions, by their names; together 100.
pub type VersionWeights = BTreeMap<String, u32>;

/// The plan, fixed when the rollout is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutPlan {
    /// The steps, in order.
    pub steps: Vec<RolloutStep>,
    /// What follows when more targets have failed than `max_failures`, or a gate did not pass in time.
    pub on_failure: RolloutFailurePolicy,
    /// The number of failed targets that are accepted.
    pub max_failures: usize,
    /// The time that a target may take, from the creation of its deployment to its end; its undo has as long again.
    pub target_timeout: SignedDuration,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutStep {
    /// Deploys the release to these targets, so many at a time and in this order.
    Deploy {
        /// The targets.
        targets: Vec<TargetName>,
        /// The number of targets that are under way at the same time; at least 1.
        parallel: usize,
        /// The weights of the versions, which the WAML gets for this step; those that it has where this is empty.
        #[serde(default, skip_serializing_if = "VersionWeights::is_empty")]
        weights: VersionWeights,
    },
    /// Waits until a gate has passed.
    Gate {
        /// The gate.
        gate: Gate,
        /// The time after which a gate that has not passed is a failure; `None` where it may take as long as it takes.
        timeout: Option<SignedDuration>,
    },
}

/// A condition between two steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Passes when so much time has gone by since the step before.
    Bake {
        /// The time.
        length: SignedDuration,
    },
    /// Passes when a person approves it.
    Approval {
        /// The team whose members may approve; everyone who may deploy to all targets where it is `None`.
        team: Option<TeamName>,
    },
    /// Passes when this address answers with a status of 2xx.
    Http {
        /// The address, without credentials.
        url: String,
    },
    /// Passes when the query's only value is within the bound.
    PromQl {
        /// The query.
        query: String,
        /// The bound of its value.
        bound: Bound,
    },
    /// Passes when no alert with these labels fires.
    NoAlert {
        /// Matchers in Alertmanager's form, `severity="critical"`.
        matchers: Vec<String>,
    },
    /// Passes while the calendar is open.
    Calendar {
        /// The windows.
        windows: Vec<Window>,
    },
}

/// The bound of a query's value, as decimal numbers in text: they are stored and compared as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The value is at most this.
    AtMost(String),
    /// The value is at least this.
    AtLeast(String),
}

/// The error of a plan that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// There is nothing to deploy to.
    #[error("the rollout has no target: name at least one")]
    Empty,
    /// A target stands in two places.
    #[error("the rollout has the target {0} twice: name each once")]
    Repeated(TargetName),
    /// Weights are not all the requests.
    #[error("the weights of step {step} add up to {sum}, not 100")]
    Weights {
        /// The number of the step.
        step: usize,
        /// Their sum.
        sum: u64,
    },
    /// A step would never begin.
    #[error(
        "step {0} deploys to no target, or to none at a time: name targets, and `parallel` of at least 1"
    )]
    Idle(usize),
    /// There are too many.
    #[error(
        "the rollout has more than {MAX_TARGETS} targets or {MAX_STEPS} steps: make several of it"
    )]
    TooLarge,
    /// A time is negative or none.
    #[error("a time of the rollout is negative, or its timeout is none")]
    Time,
}

/// The shortest and the longest time that a rollout takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanDuration {
    /// The time that its gates take at least.
    pub shortest: SignedDuration,
    /// The time after which it has failed; `None` where a gate may take as long as it takes.
    pub longest: Option<SignedDuration>,
}

impl Gate {
    /// Returns the word for its kind, as it is counted and served.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Bake { .. } => "bake",
            Self::Approval { .. } => "approval",
            Self::Http { .. } => "http",
            Self::PromQl { .. } => "promql",
            Self::NoAlert { .. } => "no_alert",
            Self::Calendar { .. } => "calendar",
        }
    }
}

impl RolloutPlan {
    /// Checks that the plan can be carried out.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), PlanFault> {
        let (mut targets, mut visits) = (BTreeMap::new(), 0);
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                RolloutStep::Deploy { targets: of_step, parallel, weights } => {
                    if of_step.is_empty() || *parallel == 0 {
                        return Err(PlanFault::Idle(number));
                    }
                    let sum = weights.values().copied().map(u64::from).sum();
                    if !weights.is_empty() && sum != 100 {
                        return Err(PlanFault::Weights { step: number, sum });
                    }
                    for target in of_step {
                        // Only weights bring the release to a target several times.
                        let former = targets.insert(target, (number, !weights.is_empty()));
                        let may_follow = |(step, has_weights): (usize, bool)| {
                            step < number && has_weights && !weights.is_empty()
                        };
                        if former.is_some_and(|former| !may_follow(former)) {
                            return Err(PlanFault::Repeated(target.clone()));
                        }
                    }
                    visits += of_step.len();
                }
                RolloutStep::Gate { gate, timeout } => {
                    let length = match gate {
                        Gate::Bake { length } => Some(*length),
                        Gate::Approval { .. }
                        | Gate::Http { .. }
                        | Gate::PromQl { .. }
                        | Gate::NoAlert { .. }
                        | Gate::Calendar { .. } => None,
                    };
                    if [length, *timeout].into_iter().flatten().any(|time| time.is_negative()) {
                        return Err(PlanFault::Time);
                    }
                }
            }
        }
        if !self.target_timeout.is_positive() {
            return Err(PlanFault::Time);
        }
        if visits > MAX_TARGETS || self.steps.len() > MAX_STEPS {
            return Err(PlanFault::TooLarge);
        }
        if targets.is_empty() { Err(PlanFault::Empty) } else { Ok(()) }
    }

    /// Returns the targets in the order of the rollout, each with the number of its step.
    pub fn sequence(&self) -> impl Iterator<Item = (usize, &TargetName)> {
        self.steps.iter().enumerate().flat_map(|(number, step)| {
            let targets = match step {
                RolloutStep::Deploy { targets, .. } => targets.as_slice(),
                RolloutStep::Gate { .. } => &[],
            };
            targets.iter().map(move |target| (number, target))
        })
    }

    /// Computes how long the rollout takes, for people who decide whether to begin it.
    pub fn duration(&self) -> PlanDuration {
        let mut duration =
            PlanDuration { shortest: SignedDuration::ZERO, longest: Some(SignedDuration::ZERO) };
        for step in &self.steps {
            let (shortest, longest) = match step {
                RolloutStep::Deploy { targets, parallel, .. } => {
                    let rounds = targets.len().div_ceil((*parallel).max(1));
                    let rounds = i32::try_from(rounds).unwrap_or(i32::MAX);
                    (SignedDuration::ZERO, Some(self.target_timeout.saturating_mul(rounds)))
                }
                RolloutStep::Gate { gate: Gate::Bake { length }, .. } => (*length, Some(*length)),
                RolloutStep::Gate { timeout, .. } => (SignedDuration::ZERO, *timeout),
            };
            duration.shortest = duration.shortest.saturating_add(shortest);
            duration.longest =
                duration.longest.zip(longest).map(|(sum, more)| sum.saturating_add(more));
        }
        duration
    }
}
