//! The store of a target's secrets, as the service's platform names it. Nothing is guessed. Pure.

use serde_json::Value as Json;

use crate::model::id::{Namespace, TargetName};
use crate::model::platform::secrets::{Delivery, ExternalStore, Secrets, StoreKind};

/// The store of an app's secrets on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum StoreLocation {
    /// A Vault.
    Vault(VaultLocation),
    /// Secrets in the app's namespace.
    Kubernetes(Namespace),
    /// The store that an object of External Secrets in the cluster names.
    External(ExternalStore),
}

/// A key-value engine, version 2, of a Vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct VaultLocation {
    /// `https://vault.example.com`
    pub(in crate::cli) address: String,
    pub(in crate::cli) mount: String,
    /// The namespace (Vault Enterprise).
    pub(in crate::cli) namespace: Option<String>,
}

impl StoreLocation {
    /// Returns the store; the error is a sentence and what to do.
    pub(in crate::cli) fn of_target(
        target: &TargetName,
        secrets: &Secrets,
        namespace: &Namespace,
    ) -> Result<Self, (String, &'static str)> {
        let Secrets { delivery, vault, external } = secrets;
        if let Some(address) = &vault.address {
            return Ok(Self::Vault(VaultLocation {
                address: address.trim_end_matches('/').to_owned(),
                mount: vault.mount.clone(),
                namespace: vault.namespace.clone(),
            }));
        }
        match delivery {
            Delivery::Kubernetes => Ok(Self::Kubernetes(namespace.clone())),
            Delivery::ExternalSecrets => Ok(Self::External(external.clone())),
            Delivery::VaultAgent | Delivery::VaultSecretsOperator => Err((
                format!("the service does not say where the Vault of {target} is"),
                "ask its operator to set `platform.secrets.vault.address` of the cluster",
            )),
        }
    }
}

/// Reads the Vault of a store of External Secrets; the error is a sentence.
pub(in crate::cli) fn vault_of_store(name: &str, store: &Json) -> Result<VaultLocation, String> {
    let provider = store.pointer("/spec/provider").and_then(Json::as_object);
    let provider = provider.ok_or_else(|| format!("the store {name} has no provider"))?;
    let Some(vault) = provider.get("vault") else {
        let kinds = provider.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(format!("the store {name} is of {kinds}, which bart cannot write to"));
    };
    let text = |key: &str| vault.get(key).and_then(Json::as_str).map(str::to_owned);
    if text("version").is_some_and(|version| version != "v2") {
        return Err(format!(
            "the store {name} is Vault's key-value engine of version 1, which has no check-and-set"
        ));
    }
    let address = text("server").ok_or_else(|| format!("the store {name} names no server"))?;
    let mount =
        text("path").ok_or_else(|| format!("the store {name} names no path of an engine"))?;
    let address = address.trim_end_matches('/').to_owned();
    Ok(VaultLocation { address, mount, namespace: text("namespace") })
}

/// Returns the kind of object that a store of External Secrets is.
pub(in crate::cli) fn store_scope(store: &ExternalStore) -> &'static str {
    match store.kind {
        StoreKind::ClusterSecretStore => "ClusterSecretStore",
        StoreKind::SecretStore => "SecretStore",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_platform_says_where_secrets_are() {
        let (target, namespace) = ("prod".parse().unwrap(), "devx".parse().unwrap());
        let of = |text: &str| {
            let secrets: Secrets = serde_json::from_str(text).unwrap();
            StoreLocation::of_target(&target, &secrets, &namespace)
        };
        let vault = VaultLocation {
            address: "https://v".to_owned(),
            mount: "kv".to_owned(),
            namespace: Some("t".to_owned()),
        };
        let text = r#"{"vault": {"address": "https://v/", "mount": "kv", "namespace": "t"}}"#;
        assert_eq!(of(text), Ok(StoreLocation::Vault(vault)));
        assert_eq!(of("{}"), Ok(StoreLocation::Kubernetes(namespace.clone())));
        let external =
            of(r#"{"delivery": "external-secrets", "external": {"name": "s"}}"#).unwrap();
        assert!(matches!(external, StoreLocation::External(store) if store.name == "s"));
        let (message, help) = of(r#"{"delivery": "vault-agent"}"#).unwrap_err();
        assert!(
            message.contains("prod") && help.contains("platform.secrets.vault.address"),
            "{message}"
        );
    }

    #[test]
    fn a_store_of_external_secrets_leads_to_its_vault_or_is_refused() {
        let store = |provider: Json| vault_of_store("s", &json!({"spec": {"provider": provider}}));
        let vault =
            store(json!({"vault": {"server": "https://v/", "path": "kv", "version": "v2"}}));
        assert_eq!(vault.unwrap().address, "https://v");
        for (provider, expected) in [
            (json!({"aws": {"service": "SecretsManager"}}), "is of aws"),
            (json!({"vault": {"server": "https://v", "path": "kv", "version": "v1"}}), "version 1"),
            (json!({"vault": {"path": "kv"}}), "no server"),
            (json!({"vault": {"server": "https://v"}}), "no path"),
            (json!(null), "no provider"),
        ] {
            let message = store(provider).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
