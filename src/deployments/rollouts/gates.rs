//! Asks the gates of rollouts.

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::model::window::{self, Opening, Weekly};
use crate::rollout::facts::{GateAnswer, GateResult};
use crate::rollout::plan::Gate;

impl Deployments {
    /// Asks a gate, and returns the answer of that step.
    pub async fn ask_gate(&self, gate: &Gate, step: usize, now: Timestamp) -> GateAnswer {
        let (result, value) = match gate {
            Gate::Calendar { windows } => {
                let windows: Vec<Weekly> =
                    windows.iter().filter_map(|one| Weekly::parse(one).ok()).collect();
                match window::at(&windows, now) {
                    Opening::Open => (GateResult::Passed, "open".to_owned()),
                    Opening::Closed { .. } => (GateResult::NotPassed, "closed".to_owned()),
                }
            }
            _ => (GateResult::Unanswered, "it cannot be asked".to_owned()),
        };
        GateAnswer { step, at: now, result, value }
    }
}
