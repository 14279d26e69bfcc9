//! Metrics of the workers and of the depth of the queues, for Prometheus.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::controller::outcome::AttemptOutcome;
use crate::deployments::stages::StageDurations;
use crate::store::QueueDepth;
use crate::support::telemetry::export_zeros;

/// The metrics of the workers. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct WorkerMetrics {
    pub(super) stages: StageDurations,
    attempts: Family<OutcomeLabel, Counter>,
    queue: Family<StateLabel, Gauge>,
    outbox: Family<StateLabel, Gauge>,
    oldest: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

impl OutcomeLabel {
    fn of(outcome: AttemptOutcome) -> Self {
        Self { outcome: outcome.as_str() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

impl WorkerMetrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { stages, attempts, queue, outbox, oldest } = new.clone();
        export_zeros(&attempts, AttemptOutcome::ALL.map(OutcomeLabel::of));
        registry.register_with_unit(
            "stage_duration",
            "How long a stage of a deployment took",
            Unit::Seconds,
            stages.0,
        );
        registry.register("attempts", "Attempts at deployments, by how they ended", attempts);
        registry.register("queue_depth", "Deployments that are not finished", queue);
        registry.register("outbox_depth", "Messages that are not delivered yet", outbox);
        registry.register_with_unit(
            "queue_oldest",
            "Since when the oldest unfinished deployment waits",
            Unit::Seconds,
            oldest,
        );
        new
    }

    pub(super) fn attempt(&self, outcome: AttemptOutcome) {
        self.attempts.get_or_create(&OutcomeLabel::of(outcome)).inc();
    }

    pub(super) fn depth(&self, depth: &QueueDepth, now: Timestamp) {
        let QueueDepth { queued, running, oldest, unsent, parked } = *depth;
        let set = |family: &Family<StateLabel, Gauge>, state, n: u64| {
            family.get_or_create(&StateLabel { state }).set(i64::try_from(n).unwrap_or(i64::MAX));
        };
        set(&self.queue, "queued", queued);
        set(&self.queue, "running", running);
        set(&self.outbox, "unsent", unsent);
        set(&self.outbox, "parked", parked);
        let age = oldest.map_or(0, |since| now.duration_since(since).as_secs().max(0));
        self.oldest.set(age);
    }
}
