//! An app in its cluster: workloads, pods and logs of containers.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An app in its cluster, at the time of the answer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LiveState")]
pub struct LiveStateAnswer {
    /// The time of the answer.
    pub at: Timestamp,
    /// The digest of the live revision; null if it is not known, or `latest` was edited by hand.
    pub digest: Option<String>,
    /// The workloads, by kind and name.
    pub workloads: Vec<WorkloadSummary>,
    /// The pods, by workload and name: at most 500.
    pub pods: Vec<PodSummary>,
    /// True if objects are left out: there are too many of them, or the cluster was too slow.
    #[serde(default)]
    pub truncated: bool,
    /// The kinds that could not be read.
    #[serde(default)]
    pub missing: Vec<UnreadObjects>,
}

/// A workload of an app.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Workload")]
pub struct WorkloadSummary {
    /// `Deployment`, `StatefulSet`, `DaemonSet`, `Job` or `CronJob`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The number of pods that there are to be; of a Job, those that must succeed.
    pub wanted: u32,
    /// The number of pods of the present template.
    pub updated: u32,
    /// The number of pods that can serve; of a Job, those that have succeeded.
    pub available: u32,
    /// The step of its rollout: `unobserved`, `paused`, `updating`, `replacing`, `starting`, `awaiting-deletion`,
    /// `canary-hidden`, `canary-idle`, `analysing`, `complete` or `failed`.
    pub state: String,
    /// True if it carries the live revision; null if that is not known, or nobody says what it carries.
    pub live: Option<bool>,
}

/// A pod of an app.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Pod")]
pub struct PodSummary {
    /// Its name.
    pub name: String,
    /// The kind of the workload that it belongs to.
    pub workload_kind: String,
    /// The name of that workload.
    pub workload: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`, or `Terminating` for a pod that was told to go.
    pub phase: String,
    /// True if it can serve.
    pub ready: bool,
    /// The restarts of its containers.
    pub restarts: u32,
    /// The reason why it waits, or of its last end: `CrashLoopBackOff`, `Unschedulable`, `OOMKilled`.
    pub reason: Option<String>,
    /// The cluster's sentence about that.
    pub message: Option<String>,
    /// The exit code of the container that ended last.
    pub exit_code: Option<i64>,
    /// The time at which it was created, by the cluster's clock.
    pub created_at: Option<Timestamp>,
    /// Its containers, without those that run before the others.
    pub containers: Vec<PodContainer>,
}

/// A container of a pod.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PodContainer {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
}

/// A kind of objects that could not be read.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnreadObjects {
    /// The kind, as `kubectl` names it: `pods`, `deployments.apps`.
    pub kind: String,
    /// The reason.
    pub why: String,
}

/// A line of a container's log, or the end of the stream.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ContainerLogLine")]
pub struct ContainerLogLine {
    /// The container.
    pub container: String,
    /// The line, without secrets; null at the end.
    pub line: Option<String>,
    /// The reason why the stream ends before the log does; null if the log has ended.
    pub error: Option<String>,
}
