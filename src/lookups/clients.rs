//! The configured clients: of registries, and of each cluster's secret store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::lookups::http::{LookupLimits, LookupSettingsError};
use crate::lookups::kubernetes::{self, Kubernetes};
use crate::lookups::registry::{Registries, RegistryAccess};
use crate::lookups::vault::{self, VaultClient};
use crate::model::facts::{FactUnavailable, SecretQuestion};
use crate::model::id::{Namespace, TargetName};
use crate::support::http::OutboundHttp;

/// The longest time of one try of one request; a slower server has a fault.
const ONE_TRY: Duration = Duration::from_secs(4);
/// The limit of requests at once of one client, over all deployments.
const AT_ONCE: usize = 16;

/// The settings of all clients.
#[derive(Debug, Clone, Default)]
pub struct LookupSettings {
    /// The registries that may be asked, by host as in an image's name.
    pub registries: BTreeMap<String, RegistryAccess>,
    /// The secret store of each cluster; none where it is absent.
    pub secrets: BTreeMap<TargetName, SecretStoreSettings>,
}

/// The secret store of a cluster.
#[derive(Debug, Clone)]
pub enum SecretStoreSettings {
    /// Vault.
    Vault(vault::VaultSettings),
    /// The cluster itself.
    Kubernetes(kubernetes::KubernetesSettings),
}

/// The clients; they have sent no request yet.
#[derive(Debug)]
pub struct LookupClients {
    /// The registries that may be asked.
    pub registries: Registries,
    /// The secret stores by cluster.
    pub secrets: BTreeMap<TargetName, SecretStore>,
    /// The longest time of all lookups of one deployment.
    pub most: Duration,
}

/// The store of a cluster's secrets.
#[derive(Debug)]
pub enum SecretStore {
    /// Vault.
    Vault(VaultClient),
    /// The cluster itself.
    Kubernetes(Kubernetes),
}

impl LookupClients {
    /// Builds the clients of the settings, with `most` for all lookups of one deployment.
    ///
    /// # Errors
    /// When a client cannot be made of its settings.
    pub fn new(
        settings: LookupSettings,
        most: Duration,
        outbound: &OutboundHttp,
    ) -> Result<Self, LookupSettingsError> {
        // Two tries and the pause between them come to their end before all is over.
        let patience = LookupLimits { one_try: ONE_TRY.min(most.mul_f32(0.4)), at_once: AT_ONCE };
        let mut secrets = BTreeMap::new();
        for (target, store) in settings.secrets {
            let store = match store {
                SecretStoreSettings::Vault(settings) => {
                    VaultClient::new(settings, patience, outbound).map(SecretStore::Vault)
                }
                SecretStoreSettings::Kubernetes(settings) => {
                    Kubernetes::new(settings, patience, outbound).map(SecretStore::Kubernetes)
                }
            };
            let of_target = |LookupSettingsError(why)| {
                LookupSettingsError(format!("lookups of {target}: {why}"))
            };
            secrets.insert(target.clone(), store.map_err(of_target)?);
        }
        Ok(Self {
            registries: Registries::new(settings.registries, patience, outbound)?,
            secrets,
            most,
        })
    }
}

impl SecretStore {
    /// Returns the keys of a secret, by its name.
    ///
    /// # Errors
    /// [`FactUnavailable`]
    pub async fn keys(
        &self,
        namespace: &Namespace,
        name: String,
        question: SecretQuestion,
        now: Timestamp,
    ) -> Result<(String, Option<BTreeSet<String>>), FactUnavailable> {
        let SecretQuestion { keys, vault_path } = question;
        let keys = match self {
            Self::Vault(vault) => vault.keys(&vault_path, &keys, now).await?,
            Self::Kubernetes(cluster) => cluster.keys(namespace, &name, &keys).await?,
        };
        Ok((name, keys))
    }

    /// Returns the name that people call it by.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Vault(_) => "Vault",
            Self::Kubernetes(_) => "the API server",
        }
    }
}
