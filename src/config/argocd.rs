//! A cluster in Argo CD: its destination, its project, and the webhook for pushes.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::config::credential::{ONE_OF, Secret};
use crate::config::resolver::Resolver;
use crate::model::id::Namespace;
use crate::model::target;
use crate::support::secret_text::has_credentials;

/// The path of Argo CD's webhook, below the prefix that it is served under.
const PATH: &str = "/api/webhook";

/// The cluster in Argo CD.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ArgoCd {
    /// The namespace of Argo CD itself. Default: `argocd`.
    #[schemars(extend("format" = "namespace"))]
    namespace: Option<String>,
    /// An AppProject of your own for the cluster's apps. Default: `the-deployer-CLUSTER`, which the service writes into
    /// the manifest repository.
    #[schemars(extend("format" = "object-name"))]
    project: Option<String>,
    /// The webhook that notifies Argo CD of each push for the cluster. Default: none; Argo CD polls.
    pub(super) webhook: Option<ArgoCdWebhook>,
}

/// Argo CD's webhook for pushes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgoCdWebhook {
    /// `https://HOST/api/webhook`, without credentials; http only where Argo CD has
    /// `server.insecure: "true"`.
    #[schemars(extend("format" = "url"))]
    url: String,
    /// The text that Argo CD has as `webhook.github.secret` in its Secret `argocd-secret`.
    secret: Secret,
}

/// The webhook of one cluster's Argo CD.
#[derive(Debug, Clone)]
pub struct ArgoCdWebhookSettings {
    /// The address: `https://HOST/api/webhook`.
    pub url: String,
    /// The secret that signs events.
    pub secret: SecretString,
}

impl Resolver<'_> {
    pub(super) fn argocd_webhook(
        &mut self,
        path: &str,
        webhook: ArgoCdWebhook,
    ) -> Option<ArgoCdWebhookSettings> {
        let ArgoCdWebhook { url, secret } = webhook;
        let url_path = format!("{path}.url");
        if has_credentials(&url) {
            let message = "the address has a user name or a password in it, which logs would show";
            self.report.error(&url_path, message, "remove it: events are signed instead");
        } else if !is_http(&url) {
            let help = "write https://HOST/api/webhook";
            self.report.error(&url_path, "this is not an http or https address", help);
        } else if !url.split(['?', '#']).next().is_some_and(|url| url.ends_with(PATH)) {
            // At other paths Argo CD answers 404, and at `/` 200 with its page.
            let message = "Argo CD takes events at a path that ends with /api/webhook";
            self.report.warning(&url_path, message, "write https://HOST/api/webhook");
        }
        let secret = self.secret(&format!("{path}.secret"), secret, ONE_OF)?;
        Some(ArgoCdWebhookSettings { url, secret })
    }
}

/// Builds the destination; `None` if the namespace is invalid, which is reported already.
pub(super) fn argocd_of(argocd: ArgoCd) -> Option<target::ArgoCdDestination> {
    // The webhook does not matter for manifests.
    let ArgoCd { namespace, project, webhook: _ } = argocd;
    let default = target::ArgoCdDestination::default().namespace;
    let namespace = namespace.map_or(Ok(default), Namespace::parse).ok()?;
    Some(target::ArgoCdDestination { namespace, project })
}

fn is_http(url: &str) -> bool {
    let url = reqwest::Url::parse(url);
    url.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{loaded, refused};

    const ARGOCD: &str = "clusters:\n- name: prod-1\n  environment: production\n  domain: p.example.com\n  \
                          argocd:\n    webhook: ";

    #[test]
    fn an_argo_cd_is_told_where_its_cluster_says_so() {
        let settings = loaded(&format!(
            "{ARGOCD}{{url: 'http://argocd-server.argocd.svc/api/webhook', secret: {{env: TOKEN}}}}\n\
             - {{name: dev, environment: development, domain: d.example.com, server: 'https://10.0.0.1', \
               argocd: {{project: x}}}}\n"
        ));
        assert_eq!(settings.warnings, []);
        let argocd = settings.settings.argocd;
        let [(cluster, webhook)] = &argocd.iter().collect::<Vec<_>>()[..] else {
            panic!("{argocd:?}")
        };
        assert_eq!(cluster.as_str(), "prod-1");
        assert_eq!(webhook.url, "http://argocd-server.argocd.svc/api/webhook");
        assert!(!format!("{argocd:?}").contains("t0ken"), "a secret does not print");
    }

    #[test]
    fn an_argo_cd_that_cannot_be_meant_is_told_at_its_place() {
        for (webhook, wrong) in [
            ("{url: 'ftp://a.example.com/api/webhook', secret: {env: TOKEN}}", "6:20"),
            (
                "{url: 'https://me:pw@a.example.com/api/webhook', secret: {env: TOKEN}}",
                "which logs would show",
            ),
            ("{url: 'https://a.example.com/api/webhook', secret: {env: NONE}}", "NONE is not set"),
            ("{url: 'https://a.example.com/api/webhook', secret: h00k}", "holds a secret itself"),
            ("{url: 'https://a.example.com/api/webhook'}", "secret"),
            ("{url: 'https://a.example.com/api/webhook', secret: {env: TOKEN}, sha: 1}", "sha"),
        ] {
            let text = refused(&format!("{ARGOCD}{webhook}\n"));
            assert!(text.contains(wrong), "{wrong} is missing in\n{text}");
            assert!(!text.contains("me:pw") && !text.contains("h00k"), "{text}");
        }
    }

    #[test]
    fn an_argo_cd_at_another_path_would_not_hear() {
        let webhook = "{url: 'https://a.example.com/webhook', secret: {env: TOKEN}}";
        let loaded = loaded(&format!("{ARGOCD}{webhook}\n"));
        let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
        assert!(warning.message.contains("/api/webhook"), "{warning:?}");
    }
}
