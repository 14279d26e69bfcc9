//! What comes in beside deployments: it is counted, and where somebody at the forge should be told
//! that nothing can be made of a deployment, the sweep looks there soon.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::app::Boxed;
use crate::config::secret;
use crate::config::settings::{self, Settings, WebhookSecret};
use crate::controller::sweep::Hints;
use crate::model::event::Refusal;
use crate::server::Webhook;
use crate::server::ports::{self, Delivery};

/// Follows what comes in. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    deliveries: Family<Labels, Counter>,
    hints: Hints,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
    reason: &'static str,
}

impl Intake {
    /// One whose metric the registry knows.
    pub(crate) fn new(registry: &mut Registry, hints: Hints) -> Self {
        let deliveries = Family::default();
        let about = "Webhook deliveries, by what became of them";
        registry.register("webhook_deliveries", about, deliveries.clone());
        Self { deliveries, hints }
    }
}

impl ports::Intake for Intake {
    fn refused(&self, refusal: &Refusal) {
        self.hints.look_at(&refusal.repository);
    }

    fn count(&self, delivery: Delivery) {
        let (outcome, reason) = match delivery {
            Delivery::Accepted => ("accepted", "new"),
            Delivery::Duplicate => ("accepted", "known"),
            Delivery::Hint => ("accepted", "hint"),
            Delivery::Ping => ("accepted", "ping"),
            Delivery::Ignored(why) => ("ignored", why.as_str()),
            Delivery::Refused => ("refused", "unusable"),
            Delivery::Malformed => ("refused", "malformed"),
            Delivery::Unsigned => ("refused", "signature"),
            Delivery::NotStored => ("failed", "not_stored"),
            Delivery::NotRead => ("failed", "not_read"),
        };
        self.deliveries.get_or_create(&Labels { outcome, reason }).inc();
    }
}

/// What a delivery must satisfy.
pub(super) fn webhook(settings: &Settings) -> Result<Webhook, Boxed> {
    let settings::Webhook { secret: _, previous, rules, sweep: _ } = &settings.webhook;
    Ok(Webhook {
        secret: webhook_secret(settings)?,
        previous: previous.clone(),
        rules: rules.clone(),
    })
}

fn webhook_secret(settings: &Settings) -> Result<secrecy::SecretString, Boxed> {
    match &settings.webhook.secret {
        WebhookSecret::Given(secret) => Ok(secret.clone()),
        WebhookSecret::Kept(path) => {
            let found = secret::keep(path)?;
            if let Some(warning) = found.warning {
                tracing::warn!("{warning}");
            }
            Ok(found.secret)
        }
    }
}
