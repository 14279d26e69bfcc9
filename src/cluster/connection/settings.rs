//! The configuration of clusters: the connection or the agent, and the objects that are watched.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::environment::EnvironmentRules;
use crate::support::credential::Credential;

/// The settings of one cluster.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    /// The source of its changes.
    pub source: ClusterSource,
    /// The time that a rollout may be stuck after its own deadline before the deployment fails.
    pub patience: Duration,
    /// The rules for workloads of others that carry our annotations; `None` where they are not watched.
    pub previews: Option<EnvironmentRules>,
    /// True if callers may read the logs of their apps' pods through the service.
    pub pod_logs: bool,
}

/// The source of a cluster's changes.
#[derive(Debug, Clone)]
pub enum ClusterSource {
    /// The service asks its API server.
    ApiServer(ClusterAccess),
    /// An agent inside it reports to the service.
    Agent,
}

impl ClusterSettings {
    /// Returns the access to its API server, where the service has one.
    pub fn access(&self) -> Option<&ClusterAccess> {
        match &self.source {
            ClusterSource::ApiServer(access) => Some(access),
            ClusterSource::Agent => None,
        }
    }
}

/// The access to a cluster's API server.
#[derive(Debug, Clone)]
pub enum ClusterAccess {
    /// A kubeconfig.
    Kubeconfig {
        /// The file, which is read anew for each connection.
        file: PathBuf,
        /// The context; absent: the one that the file says is current.
        context: Option<String>,
    },
    /// An address and a token.
    Server {
        /// The address: `https://10.0.0.1:6443`.
        server: String,
        /// The token; from a file it is read anew for each request.
        token: Credential,
        /// A file with the authorities that sign the server's certificate; absent: those that the machine trusts.
        ca: Option<PathBuf>,
    },
}
