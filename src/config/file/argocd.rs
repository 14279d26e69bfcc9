//! How Argo CD sees a cluster, and how it is told of pushes.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::Secret;

/// How Argo CD sees a cluster.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArgoCd {
    /// The namespace that Argo CD itself runs in. Default: `argocd`.
    #[schemars(extend("format" = "namespace"))]
    pub namespace: Option<String>,
    /// An AppProject of your own that the cluster's apps are in. Default: `the-deployer-CLUSTER`,
    /// which is written into the manifest repository.
    #[schemars(extend("format" = "object-name"))]
    pub project: Option<String>,
    /// Where Argo CD is told of each push for the cluster. Default: nowhere, it looks by itself.
    pub webhook: Option<ArgoCdWebhook>,
}

/// Where Argo CD takes events of pushes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArgoCdWebhook {
    /// `https://HOST/api/webhook`, without credentials; http only where Argo CD has
    /// `server.insecure: "true"`.
    #[schemars(extend("format" = "url"))]
    pub url: String,
    /// The text that Argo CD has as `webhook.github.secret` in its Secret `argocd-secret`.
    pub secret: Secret,
}
