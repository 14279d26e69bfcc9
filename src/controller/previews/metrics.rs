//! What Prometheus may ask about previews.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metrics of previews. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    attempts: Family<OutcomeLabel, Counter>,
    waiting: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

impl Metrics {
    /// Metrics that the registry knows.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { attempts, waiting } = new.clone();
        registry.register("previews", "Attempts at previews, by how they ended", attempts);
        registry.register("previews_waiting", "Previews that wait or are being made", waiting);
        new
    }

    pub(super) fn attempt(&self, outcome: &'static str) {
        self.attempts.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(super) fn waiting(&self, previews: u64) {
        self.waiting.set(i64::try_from(previews).unwrap_or(i64::MAX));
    }
}
