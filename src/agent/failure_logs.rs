//! Reads the ends of the logs of containers that fail, for the reports of an agent: a few at a time, and each without
//! secrets before it leaves the cluster.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};

use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::failure::LogTail;
use crate::cluster::logs;
use crate::cluster::relay::failing::FailingContainer;
use crate::cluster::relay::report::ReportedLog;

/// The number of logs that are read at the same time.
const MAX_READS: usize = 4;
/// The most containers whose logs wait to be read: a failure beyond them is told without its log.
const MAX_WAITING: usize = 64;

/// The logs that are read, or are to be.
pub(super) struct FailureLogs {
    connection: Arc<ClusterConnection>,
    waiting: VecDeque<FailingContainer>,
    reading: FuturesUnordered<BoxFuture<'static, LogRead>>,
    /// The trouble that was logged last.
    trouble: Option<String>,
}

/// A log, and why it could not be read.
type LogRead = (ReportedLog, Option<String>);

impl FailureLogs {
    pub(super) fn new(connection: Arc<ClusterConnection>) -> Self {
        Self {
            connection,
            waiting: VecDeque::new(),
            reading: FuturesUnordered::new(),
            trouble: None,
        }
    }

    /// Reads the logs of these containers, too.
    pub(super) fn read(&mut self, containers: Vec<FailingContainer>) {
        let room = MAX_WAITING.saturating_sub(self.waiting.len());
        self.waiting.extend(containers.into_iter().take(room));
        self.begin();
    }

    /// Waits for the next log; for ever while none is read. One that cannot be read comes without lines, so that the
    /// service does not wait for it. No log is lost when the wait is dropped.
    pub(super) async fn next(&mut self) -> ReportedLog {
        let Some((log, trouble)) = self.reading.next().await else {
            return std::future::pending().await;
        };
        self.begin();
        if let Some(reason) = trouble
            && self.trouble.as_ref() != Some(&reason)
        {
            tracing::warn!(pod = log.pod, reason, "log of a failing container not read");
            self.trouble = Some(reason);
        }
        log
    }

    fn begin(&mut self) {
        while self.reading.len() < MAX_READS
            && let Some(container) = self.waiting.pop_front()
        {
            self.reading.push(read_log(Arc::clone(&self.connection), container).boxed());
        }
    }
}

async fn read_log(connection: Arc<ClusterConnection>, failing: FailingContainer) -> LogRead {
    let FailingContainer { namespace, pod, container, restarts: _ } = failing;
    let tail = logs::failure_tail(&connection, &namespace, &pod, container.as_deref()).await;
    let (tail, trouble) = match tail {
        Ok(tail) => (tail, None),
        Err(error) => (LogTail::default(), Some(error.to_string())),
    };
    (ReportedLog { namespace, pod, container, tail }, trouble)
}
