//! The live state of an app in its cluster: its workloads and pods. The cluster is
//! asked when a caller asks, so that every replica of the service can answer, whichever of them watches the cluster.
//!
//! All texts come from a cluster that others write to: they are without control characters and secrets, and bounded.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use crate::cluster::live::{AppSnapshot, LiveReadError, MAX_PODS, WorkloadSnapshot, read_app};
use crate::cluster::object::Marks;
use crate::cluster::pod::{ContainerEnd, ContainerRow, ContainerState, PodPhase, PodRow};
use crate::cluster::progress::{ProgressStep, ReplicaCounts};
use crate::deployments::Deployments;
use crate::deployments::agent_inbox::{AgentInbox, InboxError};
use crate::deployments::watched_cluster::{ClusterLink, WatchedCluster};
use crate::model::app_instance::AppInstance;
use crate::model::id::TargetName;
use crate::model::revision::Digest;
use crate::model::status::one_line;
use crate::support::log_text::remove_controls;
use crate::support::secret_mask::mask_secrets;

/// The deadline of a cluster's answers: the caller's own request ends a second or two later.
pub(super) const DEADLINE: Duration = Duration::from_secs(7);
/// The longest text of a cluster, in characters.
const MESSAGE_CHARS: usize = 300;

/// An app in its cluster, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAppState {
    /// The time of the answer.
    pub at: Timestamp,
    /// The digest of the live revision; `None` where it is not known, or the files were edited by hand.
    pub digest: Option<Digest>,
    /// Its workloads, by kind and name.
    pub workloads: Vec<LiveWorkload>,
    /// Its pods, by workload and name.
    pub pods: Vec<LivePod>,
    /// True if pods are left out.
    pub is_cut: bool,
    /// The kinds that could not be read, with the reason.
    pub missing: Vec<(String, String)>,
}

/// A workload, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorkload {
    /// `Deployment`
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its pods, counted: wanted, of the present template, available.
    pub counts: ReplicaCounts,
    /// The word of the step that it is at.
    pub state: &'static str,
    /// The digest of the revision that it carries.
    pub digest: Option<Digest>,
}

/// A pod, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePod {
    /// Its name.
    pub name: String,
    /// The workload that it belongs to, by kind and name.
    pub workload: (String, String),
    /// The word of its phase; `Terminating` where it was told to go.
    pub phase: &'static str,
    /// True if it can serve.
    pub ready: bool,
    /// The restarts of its containers.
    pub restarts: u32,
    /// The reason why it waits, or of its last end: `CrashLoopBackOff`, `OOMKilled`.
    pub reason: Option<String>,
    /// The cluster's sentence about it.
    pub message: Option<String>,
    /// The exit code of the container that ended last.
    pub exit_code: Option<i64>,
    /// The time at which it was created.
    pub created: Option<Timestamp>,
    /// Its containers, without those that run before the others.
    pub containers: Vec<(String, String)>,
}

/// The reason why the state of an app in its cluster cannot be shown. No text has a secret in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveStateError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The configuration refuses it.
    #[error("{0}")]
    Refused(String),
    /// The cluster does not answer, or does not let the service look.
    #[error("{0}")]
    Unavailable(String),
    /// Another replica of the service knows it.
    #[error("{0}")]
    Misdirected(String),
}

impl Deployments {
    /// Asks the cluster for the workloads and pods of an app.
    ///
    /// # Errors
    /// [`LiveStateError`], within seconds.
    pub(crate) async fn live_state(
        &self,
        instance: &AppInstance,
    ) -> Result<ClusterAppState, LiveStateError> {
        let AppInstance { target, app } = instance;
        let cluster = self.watched_cluster(target)?;
        let connection = match &cluster.link {
            ClusterLink::Connection(connection) => connection,
            ClusterLink::Agent(inbox) => {
                return self.reported_state(instance, cluster, inbox).await;
            }
        };
        let read = async {
            let (_turn, left) = take_turn(cluster).await?;
            let (namespace, slug) = (app.namespace.as_str(), app.slug.as_str());
            read_app(connection, namespace, slug, left).await
        };
        let (read, digest) = tokio::join!(read, self.live_digest(instance));
        let snapshot = read.map_err(|error| no_state(target, &error))?;
        self.show_app(instance, snapshot, digest)
    }

    /// Asks the loop that follows the cluster for what its agent has reported.
    async fn reported_state(
        &self,
        instance: &AppInstance,
        cluster: &WatchedCluster,
        inbox: &AgentInbox,
    ) -> Result<ClusterAppState, LiveStateError> {
        let read = self.reported_snapshot(instance, cluster, inbox);
        let (snapshot, digest) = tokio::join!(read, self.live_digest(instance));
        self.show_app(instance, snapshot?, digest)
    }

    pub(super) async fn reported_snapshot(
        &self,
        instance: &AppInstance,
        cluster: &WatchedCluster,
        inbox: &AgentInbox,
    ) -> Result<AppSnapshot, LiveStateError> {
        let target = &instance.target;
        // The inbox is also that of the reports: they always have room.
        let turn = take_turn(cluster).await;
        let (_turn, _left) = turn.map_err(|error| no_state(target, &error))?;
        let snapshot = match inbox.app_state(instance).await {
            Ok(snapshot) => snapshot,
            Err(InboxError::OtherReplica) => return Err(self.name_follower(target).await),
            Err(error @ (InboxError::NoAgent | InboxError::Busy)) => {
                return Err(LiveStateError::Unavailable(format!(
                    "the state of {target} cannot be read: {error}; try again in a moment"
                )));
            }
        };
        snapshot.ok_or_else(|| {
            let reason = "its agent does not report, or has not reported everything yet";
            LiveStateError::Unavailable(format!("the state of {target} is not known: {reason}"))
        })
    }

    /// Makes the error for a cluster whose agent reports to another replica, which alone knows its pods.
    async fn name_follower(&self, target: &TargetName) -> LiveStateError {
        match self.store.cluster_holder(target, self.clock.now()).await {
            Ok(Some(holder)) => LiveStateError::Misdirected(format!(
                "the agent of {target} reports to another replica of the service, {holder}, which alone knows its pods; \
                 ask again on a new connection, which a load balancer leads there in the end"
            )),
            Ok(None) => LiveStateError::Unavailable(format!(
                "no replica of the service follows {target} at present; one takes it over within 15 seconds, so try again \
                 then"
            )),
            Err(error) => LiveStateError::Unavailable(format!(
                "the state of {target} cannot be read: {error}; try again in a moment"
            )),
        }
    }

    fn show_app(
        &self,
        instance: &AppInstance,
        snapshot: AppSnapshot,
        digest: Option<Digest>,
    ) -> Result<ClusterAppState, LiveStateError> {
        let AppInstance { target, app } = instance;
        if snapshot.workloads.is_empty() && snapshot.unread.is_empty() && digest.is_none() {
            let detail = format!(
                "there is no {app} in the cluster of {target}; `bart history {target}` shows whether it was deployed \
                 there"
            );
            return Err(LiveStateError::NotFound(detail));
        }
        Ok(live_app(snapshot, digest, self.clock.now()))
    }

    pub(super) fn watched_cluster(
        &self,
        target: &TargetName,
    ) -> Result<&WatchedCluster, LiveStateError> {
        self.watches.get(target).ok_or_else(|| {
            LiveStateError::NotFound(format!(
                "the service does not watch the cluster of {target}, so it cannot say what runs there; the \
                 operator can let it, with `clusters[].kubernetes` or `clusters[].agent` (docs/clusters.md)"
            ))
        })
    }

    /// Returns the digest of the live revision. The cluster's state is shown without it, too.
    async fn live_digest(&self, instance: &AppInstance) -> Option<Digest> {
        match tokio::time::timeout(DEADLINE, self.history_of(instance)).await.ok()? {
            Ok(history) => history.revisions.into_iter().find(|entry| entry.live)?.digest,
            Err(error) => {
                tracing::warn!(%error, "live revision not read, the cluster's state is shown without it");
                None
            }
        }
    }
}

/// Waits for the turn to ask the cluster; returns it with the time that is left.
pub(super) async fn take_turn(
    cluster: &WatchedCluster,
) -> Result<(SemaphorePermit<'_>, Duration), LiveReadError> {
    let start = Instant::now();
    let turn = tokio::time::timeout(DEADLINE, cluster.reads.acquire()).await;
    let late = || LiveReadError::Unavailable("too many callers ask it".to_owned());
    let turn = turn.ok().and_then(Result::ok).ok_or_else(late)?;
    Ok((turn, DEADLINE.saturating_sub(start.elapsed())))
}

pub(super) fn no_state(target: &TargetName, error: &LiveReadError) -> LiveStateError {
    LiveStateError::Unavailable(match error {
        LiveReadError::Forbidden(_) => {
            format!("the cluster of {target} does not let the service look: {error}")
        }
        LiveReadError::Unavailable(_) => {
            format!("the cluster of {target} cannot be reached: {error}; try again later")
        }
    })
}

fn live_app(snapshot: AppSnapshot, digest: Option<Digest>, at: Timestamp) -> ClusterAppState {
    let AppSnapshot { workloads, mut is_cut, unread } = snapshot;
    let mut pods: Vec<LivePod> = Vec::new();
    for WorkloadSnapshot { object, pods: rows, .. } in &workloads {
        let key = object.key();
        let workload = || (key.kind.to_string(), clean(&key.name));
        pods.extend(rows.iter().map(|row| live_pod(row, workload())));
    }
    is_cut |= pods.len() > MAX_PODS;
    pods.truncate(MAX_PODS);
    ClusterAppState {
        at,
        digest,
        workloads: workloads.iter().map(live_workload).collect(),
        pods,
        is_cut,
        missing: unread
            .into_iter()
            .map(|one| (one.kind.resource(), one.error.to_string()))
            .collect(),
    }
}

fn live_workload(workload: &WorkloadSnapshot) -> LiveWorkload {
    let WorkloadSnapshot { object, progress, pods: _ } = workload;
    let key = object.key();
    let digest = match &object.meta().marks {
        Marks::Revision { digest, .. } => Some(digest.clone()),
        Marks::Commit(_) | Marks::Unmarked => None,
    };
    LiveWorkload {
        kind: key.kind.to_string(),
        name: clean(&key.name),
        counts: progress.counts,
        state: step_word(&progress.step),
        digest,
    }
}

fn step_word(step: &ProgressStep) -> &'static str {
    match step {
        ProgressStep::Unobserved => "unobserved",
        ProgressStep::Paused => "paused",
        ProgressStep::Updating => "updating",
        ProgressStep::Replacing => "replacing",
        ProgressStep::Starting => "starting",
        ProgressStep::AwaitingDeletion => "awaiting-deletion",
        ProgressStep::CanaryHidden => "canary-hidden",
        ProgressStep::CanaryIdle => "canary-idle",
        ProgressStep::Analysing { .. } => "analysing",
        ProgressStep::Complete => "complete",
        ProgressStep::Failed { .. } => "failed",
    }
}

fn live_pod(row: &PodRow, workload: (String, String)) -> LivePod {
    let (reason, message, exit_code) = pod_reason(row);
    let containers = row.containers.iter().filter(|one| !one.init);
    LivePod {
        name: clean(&row.meta.name),
        workload,
        phase: phase_word(row),
        ready: row.ready,
        restarts: row.restarts(),
        reason,
        message,
        exit_code,
        created: row.meta.created,
        containers: containers.map(|one| (clean(&one.name), clean(&one.image))).collect(),
    }
}

fn phase_word(row: &PodRow) -> &'static str {
    match row.phase {
        _ if row.meta.deleting => "Terminating",
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Unknown => "Unknown",
    }
}

/// Finds the reason why a pod waits, or of its last end, with the cluster's sentence and the exit code.
fn pod_reason(row: &PodRow) -> (Option<String>, Option<String>, Option<i64>) {
    let text = |text: &str| Some(clean(text)).filter(|text| !text.is_empty());
    if let Some(message) = &row.unschedulable {
        return (Some("Unschedulable".to_owned()), text(message), None);
    }
    let waiting = row.containers.iter().find_map(|one| match &one.state {
        ContainerState::Waiting { reason, message } => Some((one, reason, message)),
        ContainerState::Running | ContainerState::Ended(_) | ContainerState::Unknown => None,
    });
    if let Some((container, reason, message)) = waiting {
        let end = container.last_end.as_deref();
        let explanation = end.and_then(|end| text(&end.message)).or_else(|| text(message));
        return (text(reason), explanation, end.map(|end| end.exit_code));
    }
    // An init container that ended well is no news.
    let ended =
        |one: &&ContainerRow| last_end(one).is_some_and(|end| !one.init || end.exit_code != 0);
    match row.containers.iter().find(ended).and_then(last_end) {
        Some(end) => (text(&end.reason), text(&end.message), Some(end.exit_code)),
        None => (None, None, None),
    }
}

fn last_end(container: &ContainerRow) -> Option<&ContainerEnd> {
    match &container.state {
        ContainerState::Ended(end) => Some(end),
        ContainerState::Waiting { .. } | ContainerState::Running | ContainerState::Unknown => {
            container.last_end.as_deref()
        }
    }
}

/// Writes a text of the cluster on one line, without what steers a terminal and without secrets.
pub(super) fn clean(text: &str) -> String {
    one_line(&mask_secrets(&remove_controls(text)), MESSAGE_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn pod(status: &Json) -> PodRow {
        let mut json = json!({"metadata": {"name": "shop-1"}});
        json["status"] = status.clone();
        PodRow::read(&json).unwrap()
    }

    fn container(keys: &Json) -> Json {
        let mut container = json!({"name": "shop", "image": "shop:1"});
        for (key, value) in keys.as_object().unwrap() {
            container[key] = value.clone();
        }
        json!({"phase": "Running", "containerStatuses": [container]})
    }

    fn reason(status: &Json) -> (Option<String>, Option<i64>) {
        let (reason, _, code) = pod_reason(&pod(status));
        (reason, code)
    }

    #[test]
    fn a_pod_names_its_wait_before_its_last_end() {
        let end = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        let is = |reason: &str, code| (Some(reason.to_owned()), code);
        let both = container(&json!({"state": waiting, "lastState": end}));
        assert_eq!(reason(&both), is("CrashLoopBackOff", Some(137)));
        let again = container(&json!({"state": {"running": {}}, "lastState": end}));
        assert_eq!(reason(&again), is("OOMKilled", Some(137)));
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        assert_eq!(reason(&container(&json!({"state": done}))), is("Completed", Some(0)));
        assert_eq!(reason(&container(&json!({"state": {"running": {}}}))), (None, None));
        let init = json!({
            "phase": "Running",
            "initContainerStatuses": [{"name": "setup", "state": done}],
            "containerStatuses": [{"name": "shop", "state": {"running": {}}}],
        });
        assert_eq!(reason(&init), (None, None));
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3",
        });
        let unscheduled = json!({"phase": "Pending", "conditions": [condition]});
        assert_eq!(reason(&unscheduled), is("Unschedulable", None));
    }

    #[test]
    fn a_text_of_a_cluster_steers_no_terminal_and_has_no_secret() {
        let text = clean("\u{1b}[31mBad\u{1b}[0m\n\u{202e}word password=hunter2hunter2");
        assert_eq!(text, "Bad word password=**************");
        assert!(clean(&"x".repeat(10_000)).chars().count() <= MESSAGE_CHARS);
    }
}
