//! Reads and writes secrets in the store of a target, whichever it is.

use super::app_secrets::AppSecret;
use super::contents::{SecretState, StoredSecret, WriteBase};
use super::kubernetes::KubernetesSecrets;
use super::vault::PersonalVault;
use crate::cli::error::CliError;

/// The store of a target's secrets, with a person's login.
pub(in crate::cli) enum PersonalStore {
    Vault(Box<VaultStore>),
    Kubernetes(Box<ClusterStore>),
}

/// A Vault, opened.
pub(in crate::cli) struct VaultStore(pub(super) PersonalVault);

/// Secrets of a cluster, opened.
pub(in crate::cli) struct ClusterStore(pub(super) KubernetesSecrets);

impl PersonalStore {
    /// Reads the names of a secret's keys, its version and its time.
    pub(in crate::cli) async fn state(&self, secret: &AppSecret) -> Result<SecretState, CliError> {
        match self {
            Self::Vault(vault) => vault.0.state(&secret.path).await,
            // An API server has no way to list keys without values; they are dropped.
            Self::Kubernetes(cluster) => Ok(cluster.0.read(&secret.name).await?.state),
        }
    }

    /// Reads a secret with its values.
    pub(in crate::cli) async fn read(&self, secret: &AppSecret) -> Result<StoredSecret, CliError> {
        match self {
            Self::Vault(vault) => vault.0.read(&secret.path).await,
            Self::Kubernetes(cluster) => cluster.0.read(&secret.name).await,
        }
    }

    /// Writes a secret that was read and edited, if nobody has written since; returns the new version.
    pub(in crate::cli) async fn write(
        &self,
        secret: &AppSecret,
        edited: &StoredSecret,
    ) -> Result<String, CliError> {
        match (self, &edited.base) {
            (Self::Vault(vault), WriteBase::Vault(version)) => {
                vault.0.write(&secret.path, *version, &edited.values).await
            }
            (Self::Kubernetes(cluster), WriteBase::Kubernetes(base)) => {
                cluster.0.write(&secret.name, base.as_deref(), &edited.values).await
            }
            (Self::Vault(_), WriteBase::Kubernetes(_))
            | (Self::Kubernetes(_), WriteBase::Vault(_)) => {
                Err(CliError::io("a secret of one store cannot be written to another as it is"))
            }
        }
    }

    /// Returns the place of a secret, for people.
    pub(in crate::cli) fn place(&self, secret: &AppSecret) -> String {
        match self {
            Self::Vault(vault) => {
                let location = &vault.0.location;
                format!("{}/{} in Vault at {}", location.mount, secret.path, location.address)
            }
            Self::Kubernetes(cluster) => {
                let KubernetesSecrets { context, namespace, .. } = &cluster.0;
                format!("the Secret {namespace}/{} of the context {context}", secret.name)
            }
        }
    }
}
