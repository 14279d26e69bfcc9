//! A gatherer made of settings.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::credential;
use crate::config::lookups::{RegistrySettings, SecretsLookup};
use crate::config::settings::Settings;
use crate::deployments::facts::{Gatherer, Inner, Secrets};
use crate::forge::Forge;
use crate::inventory::{Inventory, Repository};
use crate::lookups::credential::Credential;
use crate::lookups::kubernetes::Kubernetes;
use crate::lookups::registry::{Login, Registries, Registry};
use crate::lookups::vault::Vault;
use crate::lookups::{Patience, SettingsError, kubernetes, vault};
use crate::model::id::TargetName;
use crate::store::Store;
use crate::support::clock::Clock;

/// The longest that one try of one question may take; somebody who is slower has a problem.
const ONE_TRY: Duration = Duration::from_secs(4);
/// How many questions one client asks at once, over all deployments.
const AT_ONCE: usize = 16;

impl Gatherer {
    /// What the settings let us ask; nobody is asked anything yet.
    ///
    /// # Errors
    /// When a client cannot be made of its settings.
    pub fn new(
        settings: &Settings,
        clock: Clock,
        forge: Forge,
        store: Store,
        repositories: Vec<Repository>,
    ) -> Result<Self, SettingsError> {
        let (most, outbound) = (settings.limits.lookups, &settings.outbound);
        // Two tries and the pause between them come to their end before all is over.
        let patience = Patience { one_try: ONE_TRY.min(most.mul_f32(0.4)), at_once: AT_ONCE };
        let known = settings.lookups.registries.iter().map(registry).collect();
        let mut secrets = BTreeMap::new();
        for (target, lookup) in &settings.lookups.secrets {
            secrets.insert(target.clone(), place(target, lookup, patience, outbound)?);
        }
        Ok(Self(std::sync::Arc::new(Inner {
            clock,
            forge,
            store,
            registries: Registries::new(known, patience, outbound)?,
            secrets,
            inventory: Inventory::new(repositories),
            most,
        })))
    }
}

fn registry(one: &RegistrySettings) -> (String, Registry) {
    let RegistrySettings { host, login, insecure } = one;
    let login = login.as_ref().map(|(username, password)| Login {
        username: username.clone(),
        password: credential(password),
    });
    (host.clone(), Registry { login, insecure: *insecure })
}

fn place(
    target: &TargetName,
    lookup: &SecretsLookup,
    patience: Patience,
    outbound: &crate::support::http::Outbound,
) -> Result<Secrets, SettingsError> {
    let made = match lookup {
        SecretsLookup::Vault { address, mount, namespace, token } => {
            let settings = vault::Settings {
                address: address.clone(),
                mount: mount.clone(),
                namespace: namespace.clone(),
                token: credential(token),
            };
            Vault::new(settings, patience, outbound).map(Secrets::Vault)
        }
        SecretsLookup::Kubernetes { server, token, ca } => {
            let settings = kubernetes::Settings {
                server: server.clone(),
                token: credential(token),
                ca: ca.clone(),
            };
            Kubernetes::new(settings, patience, outbound).map(Secrets::Kubernetes)
        }
    };
    made.map_err(|SettingsError(why)| SettingsError(format!("lookups of {target}: {why}")))
}

fn credential(one: &credential::Credential) -> Credential {
    let credential::Credential { secret, file } = one;
    file.clone().map_or_else(|| Credential::Fixed(secret.clone()), Credential::File)
}
