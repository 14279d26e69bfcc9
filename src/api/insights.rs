//! Insights: how long deployments take, and how they end.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::deploy_clock::DeployInterval;
use crate::model::deployment::State;
use crate::model::insights::{DoraFigures, LapseSummary, RolloutFigures};

/// The figures of the deployments that were received in a window.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Insights")]
pub struct InsightsAnswer {
    /// The begin of the window; later than asked for if not all deployments are counted.
    pub since: Timestamp,
    /// The end of the window: now.
    pub until: Timestamp,
    /// False if the window has more deployments than are counted: the oldest are left out, and `since` is later.
    pub complete: bool,
    /// The number of deployments, rollbacks among them.
    pub deployments: u64,
    /// The number of deployments of each state that some have.
    pub outcomes: Vec<OutcomeSummary>,
    /// The five intervals of the deploy clock, rollbacks among them.
    pub intervals: Vec<IntervalSummary>,
    /// DORA's four figures.
    pub dora: DoraFigures,
    /// The figures of the rollouts that were started in the window.
    #[serde(default)]
    pub rollouts: RolloutFigures,
}

/// The number of deployments in a state.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct OutcomeSummary {
    /// The state.
    pub state: State,
    /// The number.
    pub count: u64,
}

/// The lengths of an interval.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IntervalSummary")]
pub struct IntervalSummary {
    /// The interval.
    pub interval: DeployInterval,
    /// Its lengths.
    #[serde(flatten)]
    pub lengths: LapseSummary,
}
