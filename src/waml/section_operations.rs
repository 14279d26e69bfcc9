//! The parts of a section for operations: objectives, alerts, roles, stores.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The service level objective.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Slo {
    /// A class of the operator's: `critical` (99.99 %), `high`, `medium`, `low`.
    pub request_class: Option<String>,
    /// Percent of requests that succeed, instead of the class's.
    pub availability: Option<f64>,
    /// The latency objective.
    pub latency: Option<Latency>,
}

/// A latency objective.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Latency {
    /// Milliseconds within which a request is answered.
    #[schemars(range(min = 1, max = 600_000))]
    pub milliseconds: Option<u32>,
    /// Percent of requests that are that fast.
    pub objective: Option<f64>,
}

/// Alerts by name: the default ones, each to be tuned or turned off, and the app's own.
pub type Alerts = IndexMap<String, Option<Alert>>;

/// One alert: a default one by its name, or one of the app's own, which has an `expr`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Alert {
    /// `false` turns it off.
    pub enabled: Option<bool>,
    /// The value above which a default alert fires; its unit is in `docs/alerts.md`.
    pub threshold: Option<f64>,
    /// The time that it must last before it fires, as Prometheus writes it: `5m`.
    #[serde(rename = "for")]
    pub for_: Option<String>,
    /// `page`, `ticket` or `info`; absent: `ticket`.
    pub severity: Option<AlertSeverity>,
    /// The channel, instead of the app's.
    pub slack: Option<String>,
    /// The `PromQL` of an alert of the app's own: it fires while this gives any series.
    pub expr: Option<String>,
    /// The summary of the app's own alert, in one line.
    pub summary: Option<String>,
    /// The meaning of the alert, and what to do.
    pub description: Option<String>,
}

/// The severity of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertSeverity {
    /// A person gets up.
    Page,
    /// A person looks in working hours.
    Ticket,
    /// The alert is only recorded.
    Info,
}

/// Rights in the cloud.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Iam {
    /// The cloud's roles, `roles/pubsub.publisher`.
    pub roles: Option<Vec<String>>,
    /// The AWS role to assume, by its ARN.
    pub aws_role: Option<String>,
}

/// Rights in Vault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Vault {
    /// Paths in the key-value engine that the app may read besides its own, as a Vault policy
    /// writes them: `devx/shared/*`, `devx/+/public`.
    pub paths: Option<Vec<String>>,
}

/// The app speaks gRPC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Grpc {
    /// The name or number of the port; absent: the port called `grpc`, or the app's only one.
    pub port: Option<String>,
}

/// A database of the app's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Database {
    /// The kind of database.
    pub engine: Option<Engine>,
    /// The engine's version: `16`.
    pub version: Option<String>,
    /// The machine's size, in the cloud's words.
    pub tier: Option<String>,
    /// The disk's size, `10Gi`; it grows by itself and never shrinks.
    pub storage: Option<String>,
    /// True if a second machine stands by in another zone; absent: on production targets.
    pub high_availability: Option<bool>,
}

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// PostgreSQL
    Postgres,
    /// `MySQL`
    Mysql,
}

/// A Redis of the app's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Redis {
    /// Redis' version: `7`.
    pub version: Option<String>,
    /// Memory, `1Gi`.
    pub memory: Option<String>,
    /// True if its data outlive a restart.
    pub persistent: Option<bool>,
}

/// Runs on a schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cron {
    /// Minute, hour, day of the month, month, day of the week: `*/10 * * * *`; or `@daily` and the
    /// like.
    pub schedule: Option<String>,
    /// The schedule's time zone: `Europe/Berlin`; absent: the cluster's.
    pub time_zone: Option<String>,
    /// The handling of a run that is due while the last one is not over.
    pub concurrency: Option<Concurrency>,
    /// True if no run begins for the time being.
    pub suspend: Option<bool>,
    /// Seconds by which a run may begin late, before it is left out.
    #[schemars(range(min = 10, max = 604_800))]
    pub starting_deadline_seconds: Option<u32>,
    /// Seconds after which a run is stopped.
    #[schemars(range(min = 1, max = 604_800))]
    pub active_deadline_seconds: Option<u32>,
    /// The number of retries of a run that fails.
    #[schemars(range(min = 0, max = 100))]
    pub backoff_limit: Option<u32>,
    /// The place of a retry: the same pod, or another.
    pub restart_policy: Option<RestartPolicy>,
    /// The number of succeeded runs that are kept.
    #[schemars(range(min = 0, max = 100))]
    pub successful_jobs_history_limit: Option<u32>,
    /// The number of failed runs that are kept.
    #[schemars(range(min = 0, max = 100))]
    pub failed_jobs_history_limit: Option<u32>,
    /// Seconds after which a run that is over is removed, whatever the limits.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub ttl_seconds_after_finished: Option<u32>,
}

/// The place of a retry. Kubernetes' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestartPolicy {
    /// A retry is in the same pod.
    OnFailure,
    /// A retry is in another pod.
    Never,
}

/// The handling of a run that is due while the last one is not over. Kubernetes' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Concurrency {
    /// Both run.
    Allow,
    /// The new one is left out.
    Forbid,
    /// The old one is stopped.
    Replace,
}

/// The number of pods that may be away at once; one of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Disruption {
    /// The least number of pods that stay: a number or a percentage.
    pub min_available: Option<String>,
    /// The largest number of pods that are away: a number or a percentage.
    pub max_unavailable: Option<String>,
}

/// The place of the app's own metrics, for Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MetricsEndpoint {
    /// The name of a port of the app or of a sidecar; absent: `metrics` if there is one, else the first of TCP.
    pub port: Option<String>,
    /// The path; absent: `/metrics`.
    pub path: Option<String>,
    /// Seconds between two readings; absent: as Prometheus does by itself.
    #[schemars(range(min = 1, max = 86_400))]
    pub interval_seconds: Option<u32>,
    /// The kind of object; absent: `PodMonitor`.
    pub kind: Option<MonitorKind>,
}

/// The kind of object that tells Prometheus of an app. The Prometheus operator's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MonitorKind {
    /// By its pods.
    #[default]
    PodMonitor,
    /// By its Services.
    ServiceMonitor,
}
