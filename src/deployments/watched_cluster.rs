//! A cluster that the service watches, for all that ask for it: the loop that follows its deployments, the readers of
//! its present state, and the readiness checks.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::watch::health::ClusterHealth;
use crate::deployments::agent_inbox::AgentInbox;

/// The states that are read from a cluster at the same time: each can have some pages in memory. More than one caller
/// may read at once, so that no caller keeps the others waiting.
const MAX_READS: usize = 3;

/// A cluster that the service watches.
pub(crate) struct WatchedCluster {
    /// The state of its watches.
    pub(crate) health: ClusterHealth,
    /// The source of its changes.
    pub(crate) link: ClusterLink,
    /// True if callers may read the logs of their apps' pods.
    pub(super) serves_logs: bool,
    /// The turns of those who read a state.
    pub(super) reads: Semaphore,
}

/// The way between a cluster and the service.
#[derive(Clone)]
pub enum ClusterLink {
    /// The service's connection to the API server, which the watches and the readers share.
    Connection(Arc<ClusterConnection>),
    /// The reports of the agent, from the route to the loop that follows the cluster.
    Agent(Arc<AgentInbox>),
}

impl WatchedCluster {
    pub(crate) fn new(health: ClusterHealth, link: ClusterLink, serves_logs: bool) -> Self {
        Self { health, link, serves_logs, reads: Semaphore::new(MAX_READS) }
    }
}
