//! What Prometheus may ask about sweeps.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::controller::sweep::{Kind, Report};

/// The metrics of the sweeps. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    runs: Family<RunLabels, Counter>,
    healed: Family<SweepLabel, Counter>,
    refused: Family<SweepLabel, Counter>,
    last: Family<SweepLabel, Gauge>,
    waiting: Family<SweepLabel, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    sweep: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SweepLabel {
    sweep: &'static str,
}

impl Metrics {
    /// Metrics that the registry knows.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { runs, healed, refused, last, waiting } = new.clone();
        registry.register("sweep_runs", "Looks for lost events, by how they ended", runs);
        registry.register("sweep_healed", "Lost deployments that were found", healed);
        let about = "Deployments that were shown why nothing can be made of them";
        registry.register("sweep_refused", about, refused);
        let about = "When lost events were last looked for";
        registry.register_with_unit("sweep_last_timestamp", about, Unit::Seconds, last);
        let about = "Deliveries or repositories that are left for the next run";
        registry.register("sweep_waiting", about, waiting);
        new
    }

    pub(super) fn ran(&self, kind: Kind, in_turn: bool, report: Report, at: Timestamp) {
        let Report { outcome, healed, refused, waiting } = report;
        let label = || SweepLabel { sweep: kind.as_str() };
        let run = RunLabels { sweep: kind.as_str(), outcome: outcome.as_str() };
        self.runs.get_or_create(&run).inc();
        self.healed.get_or_create(&label()).inc_by(healed);
        self.refused.get_or_create(&label()).inc_by(refused);
        if in_turn {
            self.last.get_or_create(&label()).set(at.as_second());
            self.waiting.get_or_create(&label()).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
    }
}
