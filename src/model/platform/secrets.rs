//! Where secrets are kept, and how they reach a pod.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::AppKey;

/// Where secrets are kept, and how they reach a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// How a secret of the WAML becomes something that the pod can read.
    pub delivery: Delivery,
    /// The Vault that keeps them.
    pub vault: Vault,
}

/// The Vault that keeps secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Vault {
    /// Its address: `https://vault.example.com`. Default: none; then nothing is looked up in it.
    pub address: Option<String>,
    /// Where its key-value engine (version 2) is mounted.
    pub mount: String,
    /// Where its Kubernetes auth method for this cluster is mounted.
    pub auth: String,
}

impl Default for Vault {
    fn default() -> Self {
        Self { address: None, mount: "secret".to_owned(), auth: "kubernetes".to_owned() }
    }
}

impl Vault {
    /// Where in the engine an app's secret is, unless the WAML names a path: below the app's own.
    pub fn path_of(app: &AppKey, secret: &str) -> String {
        format!("{}/{}/{secret}", app.namespace, app.slug)
    }
}

/// How a secret reaches a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// It is a Kubernetes `Secret` that somebody else puts there.
    #[default]
    Kubernetes,
    /// By the Vault agent, which annotations on the pod ask for.
    VaultAgent,
    /// By an `ExternalSecret` of External Secrets.
    ExternalSecrets,
    /// By a `VaultStaticSecret` of the Vault Secrets Operator.
    VaultSecretsOperator,
}
