//! A cluster that the service watches, for all that ask for it: the loop that follows its deployments, the readers of
//! its present state, and the readiness checks.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::watch::health::ClusterHealth;

/// The states that are read from a cluster at the same time: each can have some pages in memory. More than one caller
/// may read at once, so that no caller keeps the others waiting.
const MOST_READS: usize = 3;

/// A cluster that the service watches.
pub(crate) struct WatchedCluster {
    /// The state of its watches.
    pub(crate) health: ClusterHealth,
    /// The connection, which the watches and the readers share.
    pub(crate) connection: Arc<ClusterConnection>,
    /// True if callers may read the logs of their apps' pods.
    pub(super) serves_logs: bool,
    /// The turns of those who read a state.
    pub(super) reads: Semaphore,
}

impl WatchedCluster {
    pub(crate) fn new(
        health: ClusterHealth,
        connection: ClusterConnection,
        serves_logs: bool,
    ) -> Self {
        let (connection, reads) = (Arc::new(connection), Semaphore::new(MOST_READS));
        Self { health, connection, serves_logs, reads }
    }
}
