//! The search for lost events, as the settings say.

use std::time::Duration;

use crate::config::settings::Settings;
use crate::controller::sweep::{self, Sweeps};
use crate::deployments::Deployments;
use crate::forge::Forge;
use crate::support::telemetry;

/// GitHub's API is seconds behind its events at most, as a rule.
const HINT_DELAY: Duration = Duration::from_secs(5);

/// What looks for lost events, if the forge can have some and the operator wants it.
pub(super) fn of(
    settings: &Settings,
    instance: &str,
    deployments: &Deployments,
    registry: &telemetry::Metrics,
) -> Option<Sweeps> {
    let every = settings.webhook.sweep?;
    let kinds = match &deployments.forge {
        Forge::Local(_) => return None,
        forge if forge.knows_deliveries() => {
            vec![sweep::Kind::Deliveries, sweep::Kind::Deployments]
        }
        Forge::GitHub(_) => vec![sweep::Kind::Deployments],
    };
    let settings = sweep::Settings {
        name: instance.to_owned(),
        kinds,
        every,
        rules: settings.webhook.rules.clone(),
        our_address: settings.server.external_url.clone(),
        hint_delay: HINT_DELAY,
    };
    let metrics = registry.register(sweep::metrics::Metrics::new);
    Some(Sweeps::new(deployments.clone(), settings, metrics))
}
