//! The settings of commands that need no service: they read only the secrets that they need, because others may be
//! where only the service can read them.

use crate::config::clusters::Cluster;
use crate::config::forge::Forge;
use crate::config::manifests::Manifests;
use crate::config::resolver::Purpose;
use crate::config::settings::File;

impl Purpose {
    /// Removes the parts of the file that the purpose does not need.
    pub(super) fn reduce(self, file: File) -> File {
        match self {
            Self::Serve => file,
            Self::Record => {
                let File { storage, clusters, fleets, platform, .. } = file;
                File {
                    storage,
                    clusters: clusters.map(without_connections),
                    fleets,
                    platform,
                    ..File::default()
                }
            }
            Self::Rebuild => {
                let File {
                    storage, forge, manifests, clusters, fleets, platform, outbound, ..
                } = file;
                let clusters = clusters.map(without_connections);
                let (forge, manifests) = (forge.map(without_webhook), manifests.map(unsigned));
                File {
                    storage,
                    forge,
                    manifests,
                    clusters,
                    fleets,
                    platform,
                    outbound,
                    ..File::default()
                }
            }
        }
    }
}

/// Removes lookups, watches and webhooks: these commands do not use them.
fn without_connections(mut clusters: Vec<Cluster>) -> Vec<Cluster> {
    for cluster in &mut clusters {
        cluster.lookups = None;
        (cluster.kubernetes, cluster.agent, cluster.progress) = (None, None, None);
        if let Some(argocd) = &mut cluster.argocd {
            argocd.webhook = None;
        }
    }
    clusters
}

/// Removes the webhook: these commands receive no events.
fn without_webhook(mut forge: Forge) -> Forge {
    if let Some(github) = &mut forge.github {
        github.previous_webhook_secret = None;
    }
    forge
}

/// Removes signing: these commands commit nothing.
fn unsigned(mut manifests: Manifests) -> Manifests {
    for repository in manifests.repositories.iter_mut().flatten() {
        repository.signing = None;
    }
    manifests
}
