//! The clients that the configuration names: of registries, and of each cluster's secret store.

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

/// The longest that one try of one question may take; somebody who is slower has a problem.
const ONE_TRY: Duration = Duration::from_secs(4);
/// How many questions one client asks at once, over all deployments.
const AT_ONCE: usize = 16;

/// What is looked up outside, and how.
#[derive(Debug, Clone, Default)]
pub struct LookupSettings {
    /// The registries that may be asked, by host as images name it.
    pub registries: BTreeMap<String, RegistryAccess>,
    /// Where secrets are looked up, by cluster; nowhere where it is absent.
    pub secrets: BTreeMap<TargetName, SecretStoreSettings>,
}

/// Where a cluster's secrets are looked up.
#[derive(Debug, Clone)]
pub enum SecretStoreSettings {
    /// In Vault.
    Vault(vault::VaultSettings),
    /// In the cluster.
    Kubernetes(kubernetes::KubernetesSettings),
}

/// The clients; none has asked anything yet.
#[derive(Debug)]
pub struct LookupClients {
    /// The registries that may be asked.
    pub registries: Registries,
    /// By cluster.
    pub secrets: BTreeMap<TargetName, SecretStore>,
    /// How long all that one deployment needs may take.
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
    /// Clients of what the settings let us ask, within `most` for all that one deployment needs.
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
    /// The keys of a secret, by its name.
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
        let found = match self {
            Self::Vault(vault) => vault.keys(&vault_path, &keys, now).await?,
            Self::Kubernetes(cluster) => cluster.keys(namespace, &name, &keys).await?,
        };
        Ok((name, found))
    }

    /// Returns the name that people call it by.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Vault(_) => "Vault",
            Self::Kubernetes(_) => "the API server",
        }
    }
}
