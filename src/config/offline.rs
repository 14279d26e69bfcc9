//! The parts of a configuration that commands need which work without the service: no secret is read that
//! they do not need, because it may be where only the service can read it.

use crate::config::file::argocd::ArgoCd;
use crate::config::file::manifests::Manifests;
use crate::config::file::{Cluster, File, Forge, GitHub};

/// What the settings are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The service.
    Serve,
    /// Acts on the database: where it is, and which clusters there are.
    Record,
    /// Making the database again of what the manifest repositories and the code host know.
    Rebuild,
}

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

/// Nothing is looked up in them, and no Argo CD is told.
fn reduced(clusters: Vec<Cluster>) -> Vec<Cluster> {
    let reduced = |cluster: Cluster| Cluster {
        lookups: None,
        argocd: cluster.argocd.map(|argocd| ArgoCd { webhook: None, ..argocd }),
        ..cluster
    };
    clusters.into_iter().map(reduced).collect()
}

/// No event comes in.
fn without_webhook(forge: Forge) -> Forge {
    let github = forge.github.map(|github| GitHub { previous_webhook_secret: None, ..github });
    Forge { github, ..forge }
}

/// Nothing is committed.
fn unsigned(manifests: Manifests) -> Manifests {
    let repositories = manifests.repositories.map(|all| {
        all.into_iter().map(|mut one| {
            one.signing = None;
            one
        })
    });
    Manifests { repositories: repositories.map(Iterator::collect) }
}
