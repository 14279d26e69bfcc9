//! What is read and decided about failures in a cluster before they are recorded: the end of a container's log, and whether
//! the service rolls the deployment back.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::cluster::failure::FailureCause;
use crate::cluster::logs;
use crate::cluster::view::ClusterNews;
use crate::controller::clusters::{ClusterFollower, MAX_READS, PAUSE};
use crate::deployments::rollback::undo::{ClusterFailureReport, UNDO_DEADLINE};
use crate::deployments::watched_cluster::ClusterLink;
use crate::model::deployment::State;
use crate::model::id::DeployId;
use crate::store::{ClusterChange, FailureUndo};

/// The number of logs that are read at the same time.
const MAX_LOGS: usize = 8;
/// The time for all logs of one recording: news is told without them rather than late.
const LOGS_DEADLINE: Duration = Duration::from_secs(5);

/// The time for a log that an agent sends: it reads it when it reports the pod.
const AGENT_LOG_DEADLINE: Duration = Duration::from_secs(3);

impl ClusterFollower {
    /// Decides of each failure whether it is rolled back.
    pub(super) async fn plan_undos(
        &self,
        changes: &[ClusterChange],
    ) -> Vec<(DeployId, FailureUndo)> {
        let mut undos = Vec::new();
        // One time for all: what else was seen is recorded after it.
        let until = Instant::now() + UNDO_DEADLINE;
        let failures: Vec<&ClusterChange> =
            changes.iter().filter(|change| change.state == State::Failed).collect();
        for some in failures.chunks(MAX_READS) {
            let mut plans = FuturesUnordered::new();
            for change in some {
                plans.push(self.plan_undo(change, until).boxed());
            }
            while let Some(decision) = plans.next().await {
                undos.extend(decision);
            }
        }
        undos
    }

    /// Decides of one failure, again and again while the database does not answer.
    async fn plan_undo(
        &self,
        change: &ClusterChange,
        until: Instant,
    ) -> Option<(DeployId, FailureUndo)> {
        let deployment = &change.deployment;
        let failure = ClusterFailureReport {
            deployment,
            cause: &change.summary,
            is_canary_failure: change.is_canary_failure,
        };
        loop {
            match self.deployments.plan_undo(failure, until).await {
                Ok(undo) => return Some((deployment.clone(), undo?)),
                Err(error) => {
                    let cluster = self.health.cluster();
                    tracing::error!(%cluster, %deployment, %error, "failure not recorded, retry follows");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Reads the ends of the logs that say more about new causes, from the cluster or from what its agent sends. A log
    /// that does not come in time is left out.
    pub(super) async fn read_logs(&self, news: &ClusterNews) -> BTreeMap<DeployId, Vec<String>> {
        let mut logs = BTreeMap::new();
        let room = Semaphore::new(MAX_LOGS);
        let mut reading = FuturesUnordered::new();
        for news in &news.deployments {
            if let Some((workload, cause)) = &news.failure
                && cause.has_log()
            {
                let (tail, room) = (self.read_log(&workload.namespace, cause), &room);
                reading.push(async move {
                    let _place = room.acquire().await;
                    (news.deploy_id.clone(), tail.await)
                });
            }
        }
        let reading = async {
            while let Some((id, lines)) = reading.next().await {
                logs.insert(id, lines);
            }
        };
        let _in_time = tokio::time::timeout(LOGS_DEADLINE, reading).await;
        logs
    }

    async fn read_log(&self, namespace: &str, cause: &FailureCause) -> Vec<String> {
        let connection = match &self.link {
            ClusterLink::Connection(connection) => connection,
            ClusterLink::Agent(inbox) => {
                let now = self.deployments.clock.now();
                return inbox
                    .log_of(namespace, cause, AGENT_LOG_DEADLINE, now)
                    .await
                    .lines()
                    .to_vec();
            }
        };
        let Some(pod) = &cause.pod else { return Vec::new() };
        let container = cause.container.as_deref();
        match logs::failure_tail(connection, namespace, pod, container).await {
            Ok(tail) => tail.lines().to_vec(),
            Err(error) => {
                let cluster = self.health.cluster();
                tracing::debug!(%cluster, pod, %error, "log not read");
                Vec::new()
            }
        }
    }
}
