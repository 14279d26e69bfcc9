//! The clients of gates as use cases have them, with their metrics.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::lookups::gates::clients::GateClients;

/// The clients of gates, and what they measure.
#[derive(Debug)]
pub(crate) struct RolloutGates {
    pub(crate) clients: GateClients,
    pub(crate) metrics: GateMetrics,
}

/// The metrics of the questions to gates. Clones share them.
#[derive(Debug, Clone)]
pub struct GateMetrics {
    questions: Family<QuestionLabels, Counter>,
    durations: Family<GateLabel, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuestionLabels {
    gate: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GateLabel {
    gate: &'static str,
}

/// The buckets in seconds: an answer takes milliseconds, and the timeout is 10 s.
const BUCKETS: [f64; 9] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl GateMetrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let durations: Family<_, _, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let new = Self { questions: Family::default(), durations };
        let Self { questions, durations } = new.clone();
        let help = "Questions to gates of rollouts, by kind and result";
        registry.register("rollout_gate_questions", help, questions);
        let help = "Time until a gate of a rollout answered, by kind";
        registry.register_with_unit("rollout_gate_duration", help, Unit::Seconds, durations);
        new
    }

    /// Records a question.
    pub(super) fn observe(&self, gate: &'static str, result: &'static str, time: Duration) {
        self.questions.get_or_create(&QuestionLabels { gate, result }).inc();
        self.durations.get_or_create(&GateLabel { gate }).observe(time.as_secs_f64());
    }
}
