//! Counts deliveries of webhooks by outcome.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::model::event::UnusedPart;
use crate::support::telemetry::export_zeros;

/// The outcome of one delivery, for the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookOutcome {
    /// A new deployment was stored.
    Accepted,
    /// The deployment was stored before.
    Duplicate,
    /// A hint was accepted.
    Hint,
    /// GitHub's ping.
    Ping,
    /// The event is not for this service.
    Ignored(UnusedPart),
    /// The event is for this service, and unusable.
    Refused,
    /// The event cannot be parsed.
    Malformed,
    /// The signature is missing or wrong.
    Unsigned,
    /// The event could not be stored; GitHub shows the delivery as failed.
    NotStored,
    /// The body arrived too slowly, or there was no room for it.
    NotRead,
}

/// The counter of deliveries. Clones share it.
#[derive(Debug, Clone)]
pub struct DeliveryCounter(Family<Labels, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
    reason: &'static str,
}

impl DeliveryCounter {
    /// Makes the counter and registers its metric.
    pub fn new(registry: &mut Registry) -> Self {
        let deliveries = Family::default();
        let about = "Webhook deliveries, by outcome";
        registry.register("webhook_deliveries", about, deliveries.clone());
        export_zeros(&deliveries, WebhookOutcome::list_all().map(WebhookOutcome::labels));
        Self(deliveries)
    }

    /// Counts one delivery.
    pub(super) fn count(&self, delivery: WebhookOutcome) {
        self.0.get_or_create(&delivery.labels()).inc();
    }
}

impl WebhookOutcome {
    fn list_all() -> impl Iterator<Item = Self> {
        let ignored = UnusedPart::ALL.into_iter().map(Self::Ignored);
        let others = [
            Self::Accepted,
            Self::Duplicate,
            Self::Hint,
            Self::Ping,
            Self::Refused,
            Self::Malformed,
            Self::Unsigned,
            Self::NotStored,
            Self::NotRead,
        ];
        others.into_iter().chain(ignored)
    }

    fn labels(self) -> Labels {
        let (outcome, reason) = match self {
            Self::Accepted => ("accepted", "new"),
            Self::Duplicate => ("accepted", "known"),
            Self::Hint => ("accepted", "hint"),
            Self::Ping => ("accepted", "ping"),
            Self::Ignored(why) => ("ignored", why.as_str()),
            Self::Refused => ("refused", "unusable"),
            Self::Malformed => ("refused", "malformed"),
            Self::Unsigned => ("refused", "signature"),
            Self::NotStored => ("failed", "not_stored"),
            Self::NotRead => ("failed", "not_read"),
        };
        Labels { outcome, reason }
    }
}
