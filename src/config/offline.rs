//! The parts of a configuration that commands need which work without the service: no secret is read that
//! they do not need, because it may be where only the service can read it.

use crate::config::clusters::Cluster;
use crate::config::forge::Forge;
use crate::config::manifests::Manifests;
use crate::config::resolver::Purpose;
use crate::config::settings::File;

impl Purpose {
    /// The file without what is not needed for it.
    pub(super) fn reduce(self, file: File) -> File {
        match self {
            Self::Serve => file,
            Self::Record => {
                let File { storage, clusters, platform, .. } = file;
                File { storage, clusters: clusters.map(reduced), platform, ..File::default() }
            }
            Self::Rebuild => {
                let File { storage, forge, manifests, clusters, platform, outbound, .. } = file;
                let clusters = clusters.map(reduced);
                let (forge, manifests) = (forge.map(without_webhook), manifests.map(unsigned));
                File { storage, forge, manifests, clusters, platform, outbound, ..File::default() }
            }
        }
    }
}

/// Nothing is looked up or watched in them, and no Argo CD is told.
fn reduced(mut clusters: Vec<Cluster>) -> Vec<Cluster> {
    for cluster in &mut clusters {
        cluster.lookups = None;
        (cluster.kubernetes, cluster.progress) = (None, None);
        if let Some(argocd) = &mut cluster.argocd {
            argocd.webhook = None;
        }
    }
    clusters
}

/// No event comes in.
fn without_webhook(mut forge: Forge) -> Forge {
    if let Some(github) = &mut forge.github {
        github.previous_webhook_secret = None;
    }
    forge
}

/// Nothing is committed.
fn unsigned(mut manifests: Manifests) -> Manifests {
    for repository in manifests.repositories.iter_mut().flatten() {
        repository.signing = None;
    }
    manifests
}
