//! Counts deliveries of webhooks by what became of them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::model::event::Unused;

/// What became of one delivery, for who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WebhookOutcome {
    /// It is a new deployment.
    Accepted,
    /// It was known.
    Duplicate,
    /// It is a hint that was taken.
    Hint,
    /// It asked whether we are there.
    Ping,
    /// It is not for us.
    Ignored(Unused),
    /// It is for us, and nothing can be made of it.
    Refused,
    /// It cannot be read.
    Malformed,
    /// It is not the forge's.
    Unsigned,
    /// It could not be stored; the forge has it as failed.
    NotStored,
    /// Its body came too slowly, or there was no room for it.
    NotRead,
}

/// Counts deliveries. Clones share it.
#[derive(Debug, Clone)]
pub struct DeliveryCounter(Family<Labels, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
    reason: &'static str,
}

impl DeliveryCounter {
    /// One whose metric the registry knows.
    pub fn new(registry: &mut Registry) -> Self {
        let deliveries = Family::default();
        let about = "Webhook deliveries, by outcome";
        registry.register("webhook_deliveries", about, deliveries.clone());
        Self(deliveries)
    }

    /// Counts one.
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
