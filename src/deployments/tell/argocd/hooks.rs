//! Which clusters' Argo CDs are told, as the settings say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::argocd::ArgoCdWebhookSettings;
use crate::model::id::TargetName;
use crate::notify::argocd::Hook;

/// Argo CD only queues an event. Shorter than a lease: nobody else may take it meanwhile.
const LONGEST_CALL: Duration = Duration::from_secs(10);

/// The Argo CD of each cluster that is to be told.
pub(crate) type Hooks = Arc<BTreeMap<TargetName, Hook>>;

/// One client for all; it is to follow no redirects.
pub(crate) fn hooks(
    webhooks: &BTreeMap<TargetName, ArgoCdWebhookSettings>,
    client: &reqwest::Client,
) -> Hooks {
    let hook = |(cluster, one): (&TargetName, &ArgoCdWebhookSettings)| {
        let hook = Hook {
            cluster: cluster.clone(),
            url: one.url.clone(),
            secret: one.secret.clone(),
            client: client.clone(),
            timeout: LONGEST_CALL,
        };
        (cluster.clone(), hook)
    };
    Arc::new(webhooks.iter().map(hook).collect())
}
