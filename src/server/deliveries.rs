//! Counts deliveries of webhooks by outcome.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::model::event::UnusedPart;

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
        Self(deliveries)
    }

    /// Counts one delivery.
    pub(super) fn count(&self, delivery: WebhookOutcome) {
        let (outcome, reason) = match delivery {
            WebhookOutcome::Accepted => ("accepted", "new"),
            WebhookOutcome::Duplicate => ("accepted", "known"),
            WebhookOutcome::Hint => ("accepted", "hint"),
            WebhookOutcome::Ping => ("accepted", "ping"),
            WebhookOutcome::Ignored(why) => ("ignored", why.as_str()),
            WebhookOutcome::Refused => ("refused", "unusable"),
            WebhookOutcome::Malformed => ("refused", "malformed"),
            WebhookOutcome::Unsigned => ("refused", "signature"),
            WebhookOutcome::NotStored => ("failed", "not_stored"),
            WebhookOutcome::NotRead => ("failed", "not_read"),
        };
        self.0.get_or_create(&Labels { outcome, reason }).inc();
    }
}
