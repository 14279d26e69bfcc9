//! The way to ask one cluster what it runs: the connection that its watches use, and the limit on the states that are
//! read at the same time.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::cluster::connection::client::ClusterConnection;

/// The states that are read from a cluster at the same time: each can have some pages in memory.
const MOST_READS: usize = 2;

/// The way to ask one cluster what it runs.
pub(crate) struct ClusterReader {
    pub(super) connection: Arc<ClusterConnection>,
    /// True if callers may read the logs of their apps' pods.
    pub(super) serves_logs: bool,
    /// The turns of those who read a state.
    pub(super) reads: Semaphore,
}

impl ClusterReader {
    pub(crate) fn new(connection: Arc<ClusterConnection>, serves_logs: bool) -> Self {
        Self { connection, serves_logs, reads: Semaphore::new(MOST_READS) }
    }

    /// Returns the connection, which the watches of the cluster share.
    pub(crate) fn connection(&self) -> Arc<ClusterConnection> {
        Arc::clone(&self.connection)
    }
}
