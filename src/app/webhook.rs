//! What a webhook must satisfy, as the settings say.

use crate::app::Boxed;
use crate::config::secret;
use crate::config::settings::Settings;
use crate::config::webhook::{WebhookSecret, WebhookSettings};
use crate::server::Webhook;

/// What a delivery must satisfy.
pub(super) fn of(settings: &Settings) -> Result<Webhook, Boxed> {
    let WebhookSettings { secret: _, previous, rules, sweep: _ } = &settings.webhook;
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
