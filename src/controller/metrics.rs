//! What Prometheus may ask the loops.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::model::deployment::Stage;
use crate::store::Depth;

/// The metrics of the loops. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    stages: Family<StageLabel, Histogram, fn() -> Histogram>,
    attempts: Family<OutcomeLabel, Counter>,
    reports: Family<OutcomeLabel, Counter>,
    queue: Family<StateLabel, Gauge>,
    outbox: Family<StateLabel, Gauge>,
    oldest: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// In seconds: merging takes microseconds, a push up to some seconds, a queue any time.
const BUCKETS: [f64; 14] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0, 60.0];

impl Metrics {
    /// Metrics that the registry knows.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::unregistered();
        let Self { stages, attempts, reports, queue, outbox, oldest } = new.clone();
        registry.register_with_unit(
            "stage_duration",
            "How long a stage of a deployment took",
            Unit::Seconds,
            stages,
        );
        registry.register("attempts", "Attempts at deployments, by how they ended", attempts);
        registry.register("reports", "Statuses for the forge, by what became of them", reports);
        registry.register("queue_depth", "Deployments that are not finished", queue);
        registry.register("outbox_depth", "Statuses that the forge was not told", outbox);
        registry.register_with_unit(
            "queue_oldest",
            "Since when the oldest unfinished deployment waits",
            Unit::Seconds,
            oldest,
        );
        new
    }

    /// Metrics that nobody asks for.
    pub fn unregistered() -> Self {
        Self {
            stages: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            attempts: Family::default(),
            reports: Family::default(),
            queue: Family::default(),
            outbox: Family::default(),
            oldest: Gauge::default(),
        }
    }

    pub(super) fn stage(&self, stage: Stage, micros: u64) {
        let label = StageLabel { stage: stage.as_str() };
        let seconds = std::time::Duration::from_micros(micros).as_secs_f64();
        self.stages.get_or_create(&label).observe(seconds);
    }

    pub(super) fn attempt(&self, outcome: &'static str) {
        self.attempts.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(super) fn report(&self, outcome: &'static str) {
        self.reports.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(super) fn depth(&self, depth: &Depth, now: jiff::Timestamp) {
        let Depth { queued, running, oldest, unsent, parked } = *depth;
        let set = |family: &Family<StateLabel, Gauge>, state, n: u64| {
            family.get_or_create(&StateLabel { state }).set(i64::try_from(n).unwrap_or(i64::MAX));
        };
        set(&self.queue, "queued", queued);
        set(&self.queue, "running", running);
        set(&self.outbox, "unsent", unsent);
        set(&self.outbox, "parked", parked);
        self.oldest.set(oldest.map_or(0, |since| now.duration_since(since).as_secs().max(0)));
    }
}
