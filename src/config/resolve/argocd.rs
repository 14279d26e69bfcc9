//! Argo CDs that are told of pushes.

use std::collections::BTreeMap;

use crate::config::file::Cluster;
use crate::config::file::argocd as file;
use crate::config::mask::has_credentials;
use crate::config::resolve::Resolver;
use crate::config::settings::argocd::ArgoCdWebhook;
use crate::model::id::TargetName;

const ONE_OF: &str = "give exactly one of `file` and `env`";

/// The one path that Argo CD takes events at, below whatever it is served under.
const PATH: &str = "/api/webhook";

impl Resolver<'_> {
    /// The webhook of each cluster that has one.
    pub(super) fn argocd_webhooks(
        &mut self,
        clusters: &[Cluster],
    ) -> BTreeMap<TargetName, ArgoCdWebhook> {
        let mut found = BTreeMap::new();
        for (n, cluster) in clusters.iter().enumerate() {
            let webhook = cluster.argocd.as_ref().and_then(|argocd| argocd.webhook.clone());
            // That a name is none has been told.
            let Ok(name) = TargetName::parse(cluster.name.as_str()) else { continue };
            let Some(webhook) = webhook else { continue };
            let path = format!("clusters[{n}].argocd.webhook");
            found.extend(self.argocd_webhook(&path, webhook).map(|webhook| (name, webhook)));
        }
        found
    }

    fn argocd_webhook(
        &mut self,
        path: &str,
        webhook: file::ArgoCdWebhook,
    ) -> Option<ArgoCdWebhook> {
        let file::ArgoCdWebhook { url, secret } = webhook;
        let at = format!("{path}.url");
        if has_credentials(&url) {
            let message = "an address with a name or a password in it ends in logs";
            self.report.wrong(&at, message, "take it out: events are signed instead");
        } else if !is_http(&url) {
            let help = "write https://HOST/api/webhook";
            self.report.wrong(&at, "this is not an http or https address", help);
        } else if !url.split(['?', '#']).next().is_some_and(|url| url.ends_with(PATH)) {
            // Elsewhere Argo CD answers 404, and at `/` 200 with its page.
            let message = "Argo CD takes events at a path that ends with /api/webhook";
            self.report.doubtful(&at, message, "write https://HOST/api/webhook");
        }
        let secret = self.secret(&format!("{path}.secret"), secret, ONE_OF)?;
        Some(ArgoCdWebhook { url, secret })
    }
}

fn is_http(url: &str) -> bool {
    let url = reqwest::Url::parse(url);
    url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
