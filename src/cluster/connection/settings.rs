//! How a cluster is reached and what is watched there, as the configuration says it.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::credential::Credential;

/// What the service does with one cluster.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    /// How its API server is reached.
    pub access: ClusterAccess,
    /// How long a rollout may be stuck after its own deadline before the deployment fails.
    pub patience: Duration,
    /// Whether workloads of others are watched that carry our annotations.
    pub previews: bool,
}

/// How a cluster's API server is reached.
#[derive(Debug, Clone)]
pub enum ClusterAccess {
    /// As a kubeconfig says.
    Kubeconfig {
        /// The file, which is read anew for each connection.
        file: PathBuf,
        /// The context; absent: the one that the file says is current.
        context: Option<String>,
    },
    /// With a token.
    Server {
        /// `https://10.0.0.1:6443`
        server: String,
        /// The token; from a file it is read anew for each request.
        token: Credential,
        /// A file with the authorities that signed the server's certificate; absent: those that the machine trusts.
        ca: Option<PathBuf>,
    },
}
