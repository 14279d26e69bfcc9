//! The loop of previews, as the settings say.

use tokio_util::sync::CancellationToken;

use crate::config::settings::Settings;
use crate::controller::previews::{self, Previews};
use crate::deployments::Deployments;
use crate::support::telemetry;

/// The loop of previews; it is there also while they are off, and does not run then.
pub(super) fn of(
    settings: &Settings,
    instance: &str,
    deployments: &Deployments,
    registry: &telemetry::Metrics,
) -> Previews {
    let metrics = registry.register(previews::metrics::Metrics::new);
    let (name, lease) = (instance.to_owned(), settings.limits.lease);
    let settings = previews::Settings { name, lease, ..previews::Settings::default() };
    Previews::new(deployments.clone(), settings, metrics)
}

/// Makes previews until `stop`, if they are on.
pub(super) async fn keep(previews: Option<Previews>, stop: CancellationToken) {
    if let Some(previews) = previews {
        previews.run(stop).await;
    }
}
