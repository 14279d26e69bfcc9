//! The logs of an app's containers, as their cluster has them: its API server is asked, or the agent in it.

use std::time::Duration;

use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::live::find_pod;
use crate::cluster::logs::{self, LogLines, LogRange, PodLogError};
use crate::cluster::pod::PodRow;
use crate::cluster::relay::wanted_log::{LogEnd, WantedLog};
use crate::deployments::Deployments;
use crate::deployments::agent_inbox::AgentInbox;
use crate::deployments::live_state::{DEADLINE, LiveStateError, clean, no_state, take_turn};
use crate::deployments::log_exchange::{ExchangeError, RelayedLog};
use crate::deployments::watched_cluster::{ClusterLink, WatchedCluster};
use crate::model::app_instance::AppInstance;
use crate::model::id::TargetName;

/// The longest time without a new line in a log that is followed. Comments keep the caller's connection open meanwhile.
const LOG_IDLE: Duration = Duration::from_hours(1);
/// The most last lines of a log with which it begins.
pub(crate) const MAX_LOG_LINES: usize = 10_000;

/// The part of a log that a caller asks for.
#[derive(Debug, Clone, Default)]
pub struct LogRequest {
    /// The container; absent: the first of the pod.
    pub container: Option<String>,
    /// The container that ran before.
    pub previous: bool,
    /// The number of last lines.
    pub lines: usize,
    /// It goes on as lines come.
    pub follow: bool,
}

/// The lines of a container's log.
pub(crate) struct ContainerLog {
    /// The container.
    pub(crate) container: String,
    lines: LogSource,
}

/// Where the lines of a log come from.
enum LogSource {
    /// The cluster's API server.
    Cluster(Box<LogLines>),
    /// The agent in the cluster.
    Agent(Box<RelayedLog>),
}

impl LogRequest {
    /// Returns the part of the log.
    fn range(&self) -> LogRange {
        let Self { container: _, previous, lines, follow } = *self;
        LogRange { lines: lines.min(MAX_LOG_LINES), previous, follow }
    }
}

impl Deployments {
    /// Opens the log of a container of the app.
    ///
    /// # Errors
    /// [`LiveStateError`], within seconds; a log that has not begun is waited for.
    pub(crate) async fn container_log(
        &self,
        instance: &AppInstance,
        pod: &str,
        request: LogRequest,
    ) -> Result<ContainerLog, LiveStateError> {
        let target = &instance.target;
        let cluster = self.watched_cluster(target)?;
        if !cluster.serves_logs {
            let detail = format!(
                "the service does not show logs of {target}: its configuration has `pod_logs: false` there; \
                 read them where the cluster's logs are kept"
            );
            return Err(LiveStateError::Refused(detail));
        }
        match &cluster.link {
            ClusterLink::Connection(connection) => {
                self.opened_log(instance, cluster, connection, pod, request).await
            }
            ClusterLink::Agent(inbox) => {
                self.relayed_log(instance, cluster, inbox, pod, request).await
            }
        }
    }

    async fn opened_log(
        &self,
        instance: &AppInstance,
        cluster: &WatchedCluster,
        connection: &ClusterConnection,
        pod: &str,
        request: LogRequest,
    ) -> Result<ContainerLog, LiveStateError> {
        let AppInstance { target, app } = instance;
        let (namespace, slug) = (app.namespace.as_str(), app.slug.as_str());
        let find = async {
            let (_turn, left) = take_turn(cluster).await?;
            find_pod(connection, namespace, slug, pod, left).await
        };
        let pod_row = find.await.map_err(|error| no_state(target, &error))?;
        let row = pod_row.ok_or_else(|| no_pod(instance))?;
        let container = choose_container(&row, request.container.as_deref())?;
        let range = request.range();
        let (name, only) = (&*row.meta.name, Some(container.as_str()));
        let idle = if range.follow { LOG_IDLE } else { DEADLINE };
        let opening = logs::open(connection, namespace, name, only, range, idle);
        let late = |_elapsed| {
            Err(PodLogError::Unavailable("the cluster does not answer in time".to_owned()))
        };
        let opened = tokio::time::timeout(DEADLINE, opening).await.unwrap_or_else(late);
        let lines = opened.map_err(|error| no_log(target, &error))?;
        let lines = LogSource::Cluster(Box::new(lines));
        Ok(ContainerLog { container: clean(&container), lines })
    }

    /// Opens a log through the agent of the cluster, which the service does not reach.
    async fn relayed_log(
        &self,
        instance: &AppInstance,
        cluster: &WatchedCluster,
        inbox: &AgentInbox,
        pod: &str,
        request: LogRequest,
    ) -> Result<ContainerLog, LiveStateError> {
        let AppInstance { target, app } = instance;
        let snapshot = self.reported_snapshot(instance, cluster, inbox).await?;
        let mut rows = snapshot.workloads.iter().flat_map(|workload| &workload.pods);
        let row = rows.find(|row| &*row.meta.name == pod).ok_or_else(|| no_pod(instance))?;
        let container = choose_container(row, request.container.as_deref())?;
        let range = request.range();
        let wanted_log = |id| WantedLog {
            id,
            namespace: app.namespace.to_string(),
            slug: app.slug.to_string(),
            pod: pod.to_owned(),
            container: container.clone(),
            range,
        };
        let log = inbox.exchange.begin(wanted_log);
        let mut log = log.map_err(|error| match error {
            ExchangeError::NotSent => LiveStateError::Refused(format!(
                "the logs of {target} do not leave that cluster: {error}, or read them with `kubectl logs`"
            )),
            ExchangeError::NotYet | ExchangeError::Full => LiveStateError::Unavailable(format!(
                "the log on {target} cannot be read: {error}"
            )),
        })?;
        match log.open(DEADLINE).await {
            Ok(true) => {
                let lines = LogSource::Agent(Box::new(log));
                Ok(ContainerLog { container: clean(&container), lines })
            }
            Ok(false) => Err(LiveStateError::Unavailable(format!(
                "the log on {target} cannot be read: its agent does not answer in time; try again in a moment"
            ))),
            Err(LogEnd::NotFound(why)) => Err(LiveStateError::NotFound(clean(&why))),
            Err(LogEnd::Failed(why)) => Err(LiveStateError::Unavailable(format!(
                "the log on {target} cannot be read: {}",
                clean(&why)
            ))),
            Err(LogEnd::Complete) => Err(no_pod(instance)),
        }
    }
}

impl ContainerLog {
    /// Waits for the next line; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<String, LiveStateError>> {
        match &mut self.lines {
            LogSource::Cluster(lines) => {
                let line = lines.next().await?;
                Some(line.map_err(|error| LiveStateError::Unavailable(error.to_string())))
            }
            LogSource::Agent(log) => {
                let line = log.next().await?;
                Some(line.map_err(|why| LiveStateError::Unavailable(clean(&why))))
            }
        }
    }
}

/// Finds the container whose log is meant; the first one that is no init container where none is named.
fn choose_container(pod: &PodRow, wanted: Option<&str>) -> Result<String, LiveStateError> {
    let names = || pod.containers.iter().map(|row| row.name.to_string());
    match wanted {
        Some(wanted) if names().any(|name| name == wanted) => Ok(wanted.to_owned()),
        None if let Some(row) = pod.containers.iter().find(|row| !row.init) => {
            Ok(row.name.to_string())
        }
        Some(_) | None => {
            let names = clean(&names().collect::<Vec<_>>().join(", "));
            let detail = match names.as_str() {
                "" => "no container of the pod has started; try again later".to_owned(),
                names => format!("the pod has no such container; it has {names}"),
            };
            Err(LiveStateError::NotFound(detail))
        }
    }
}

fn no_pod(AppInstance { target, app }: &AppInstance) -> LiveStateError {
    LiveStateError::NotFound(format!(
        "{app} has no pod of that name on {target}; `bart status` shows those that it has"
    ))
}

fn no_log(target: &TargetName, error: &PodLogError) -> LiveStateError {
    match error {
        PodLogError::NotFound(_) | PodLogError::NoLog(_) => {
            LiveStateError::NotFound(error.to_string())
        }
        PodLogError::Forbidden(_) | PodLogError::Unavailable(_) | PodLogError::Idle(_) => {
            LiveStateError::Unavailable(format!("the log on {target} cannot be read: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn pod(status: &Json) -> PodRow {
        let pod = json!({"metadata": {"name": "shop-1"}, "status": status});
        PodRow::read(&pod).unwrap()
    }

    #[test]
    fn the_first_container_is_read_where_none_is_named() {
        let both = pod(&json!({
            "initContainerStatuses": [{"name": "setup"}],
            "containerStatuses": [{"name": "shop"}, {"name": "proxy"}],
        }));
        let choose = |name: Option<&str>| choose_container(&both, name);
        assert_eq!(choose(None).unwrap(), "shop");
        assert_eq!(choose(Some("setup")).unwrap(), "setup");
        let error = choose(Some("x")).unwrap_err().to_string();
        assert_eq!(error, "the pod has no such container; it has setup, shop, proxy");
        let error = choose_container(&pod(&json!({})), None).unwrap_err().to_string();
        assert_eq!(error, "no container of the pod has started; try again later");
    }
}
