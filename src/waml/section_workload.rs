//! The parts of a section that shape the pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The container image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Image {
    /// The registry, and a folder there: `ghcr.io`, `eu.gcr.io/acme`.
    pub registry: Option<String>,
    /// The name in the registry, or with a registry of its own; absent: the repository's OWNER/NAME.
    pub repository: Option<String>,
    /// The time at which nodes pull it.
    pub pull_policy: Option<PullPolicy>,
    /// The names of Secrets in the app's namespace with which nodes pull it, beside the platform's; sixteen at most.
    #[serde(default)]
    pub pull_secrets: Option<Vec<String>>,
}

/// The time at which nodes pull an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// Only if the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

/// One environment variable: a value, or a key of a secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvVar {
    /// The variable's name.
    pub name: String,
    /// The value; any single value, taken as it is spelled.
    #[serde(default)]
    pub value: Option<String>,
    /// The secret that the value is taken from instead.
    #[serde(default)]
    pub secret: Option<SecretKey>,
    /// The `ConfigMap` that the value is taken from instead.
    #[serde(default)]
    pub config_map: Option<ConfigMapKey>,
    /// The field of the pod that the value is taken from instead: `metadata.name`, `status.podIP`.
    #[serde(default)]
    pub field: Option<String>,
    /// The amount of the container that the value is taken from instead: `limits.memory`.
    #[serde(default)]
    pub resource: Option<String>,
    /// True if the value is no secret though it looks like one.
    #[serde(default)]
    pub plain: Option<bool>,
}

/// A key of a Kubernetes Secret in the app's namespace. It need not be listed under `secrets`: then it is delivered
/// with the keys that variables use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKey {
    /// The Secret's name.
    pub name: String,
    /// The key within it.
    pub key: String,
}

/// A key of a `ConfigMap` in the app's namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMapKey {
    /// The name of the `ConfigMap`.
    pub name: String,
    /// The key within it.
    pub key: String,
}

/// A `ConfigMap` of the app's namespace whose keys are environment variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMapSource {
    /// The name of the `ConfigMap`.
    pub name: String,
    /// True if the app starts without it.
    #[serde(default)]
    pub optional: Option<bool>,
}

/// A secret that the app needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Secret {
    /// The Secret's name in the app's namespace.
    pub name: String,
    /// The folder where its keys appear as files; absent: every key is an environment variable.
    #[serde(default)]
    pub mount_path: Option<String>,
    /// True if the app starts without it.
    #[serde(default)]
    pub optional: Option<bool>,
    /// The path of its values in the store that it is delivered from; absent: NAMESPACE/SLUG/NAME.
    #[serde(default)]
    pub path: Option<String>,
}

/// CPU and memory of the app's container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resources {
    /// The amounts that a node must have free.
    pub requests: Option<Amounts>,
    /// The amounts that the container may not exceed.
    pub limits: Option<Amounts>,
}

/// Amounts as Kubernetes writes them: `200m`, `256Mi`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Amounts {
    /// CPUs, `0.5` or `500m`.
    pub cpu: Option<String>,
    /// Bytes, `256Mi`.
    pub memory: Option<String>,
    /// Bytes on the node's disk, `1Gi`.
    pub ephemeral_storage: Option<String>,
}

/// The number of pods, and how they are replaced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Scaling {
    /// The number of pods; without effect while autoscaling is on.
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: Option<u32>,
    /// The number of pods that may be missing during a rolling update: a number or a percentage.
    pub max_unavailable: Option<String>,
    /// The number of extra pods during a rolling update: a number or a percentage.
    pub max_surge: Option<String>,
    /// Scaling by events, such as the length of a queue, by KEDA; then the number of replicas is KEDA's.
    pub keda: Option<Keda>,
}

/// The numbers of KEDA's `ScaledObject`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Keda {
    /// Never fewer pods than this; absent: none while nothing is to be done.
    #[schemars(range(min = 0, max = 10_000))]
    pub min_replicas: Option<u32>,
    /// Never more pods than this.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_replicas: Option<u32>,
    /// Seconds between two looks at the sources; absent: 30.
    #[schemars(range(min = 1, max = 86_400))]
    pub polling_interval_seconds: Option<u32>,
    /// Seconds without an event before the last pod goes; absent: 300.
    #[schemars(range(min = 0, max = 86_400))]
    pub cooldown_seconds: Option<u32>,
    /// The sources of events; the one that wants the most pods decides.
    pub triggers: Option<Vec<KedaTrigger>>,
}

/// A source of events. KEDA's documentation lists the types and what each is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KedaTrigger {
    /// The type: `rabbitmq`, `aws-sqs-queue`, `kafka`, `prometheus`, `cron`.
    #[serde(rename = "type")]
    pub scaler: String,
    /// The trigger's name.
    #[serde(default)]
    pub name: Option<String>,
    /// What the type is told, each a text: `{queueName: jobs, value: "20"}`.
    #[serde(default)]
    pub metadata: Option<indexmap::IndexMap<String, Option<String>>>,
    /// The name of a `TriggerAuthentication` of the app's namespace.
    #[serde(default)]
    pub authentication: Option<String>,
}

/// Scaling by load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Autoscaling {
    /// More pods under more load.
    pub horizontal: Option<Horizontal>,
}

/// The numbers of a `HorizontalPodAutoscaler`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Horizontal {
    /// Never fewer pods than this.
    #[schemars(range(min = 1, max = 10_000))]
    pub min_replicas: Option<u32>,
    /// Never more pods than this.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_replicas: Option<u32>,
    /// Scale on CPU.
    pub cpu: Option<Utilization>,
    /// Scale on memory.
    pub memory: Option<Utilization>,
}

/// A load to aim for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Utilization {
    /// Percent of the request, on average over the pods.
    #[schemars(range(min = 1, max = 1000))]
    pub average_utilization: Option<u32>,
}

/// The probes of a pod's health.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Probes {
    /// The pod is restarted when this fails.
    pub liveness: Option<Probe>,
    /// The pod gets no traffic while this fails.
    pub readiness: Option<Probe>,
    /// The others begin once this has succeeded. One that does not say how it asks, asks as liveness does, or else
    /// readiness.
    pub startup: Option<Probe>,
}

/// One probe: a command if there is one, else HTTP if there is a path, else a TCP connection. Where the path is the
/// template's and the port serves gRPC, the probe uses gRPC's own health check instead.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Probe {
    /// The kind of probe; absent: by the other keys.
    #[serde(rename = "type")]
    pub mechanism: Option<ProbeMechanism>,
    /// The path of an HTTP GET; `null` for a TCP connection.
    pub path: Option<String>,
    /// A port's name or number; absent: the first TCP port.
    pub port: Option<String>,
    /// The service whose health gRPC's check is about; absent: the whole server.
    pub service: Option<String>,
    /// A command in the container; healthy when it exits with 0.
    pub command: Option<Vec<String>>,
    /// Seconds before the first try.
    #[schemars(range(min = 0, max = 86_400))]
    pub initial_delay_seconds: Option<u32>,
    /// Seconds between tries.
    #[schemars(range(min = 1, max = 86_400))]
    pub period_seconds: Option<u32>,
    /// Seconds that one try may take.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout_seconds: Option<u32>,
    /// Failures in a row that count.
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: Option<u32>,
    /// Successes in a row that count.
    #[schemars(range(min = 1, max = 1000))]
    pub success_threshold: Option<u32>,
}

/// The kind of a probe. Kubernetes' four handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeMechanism {
    /// An HTTP GET.
    Http,
    /// A TCP connection.
    Tcp,
    /// gRPC's own health check, `grpc.health.v1.Health`.
    Grpc,
    /// A command in the container.
    Exec,
}

/// Files or a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Volume {
    /// The volume's name.
    pub name: String,
    /// The folder in the container.
    #[serde(default)]
    pub mount_path: Option<String>,
    /// The size of a persistent disk, `10Gi`; absent: an empty folder that lives with the pod.
    #[serde(default)]
    pub size: Option<String>,
    /// The disk's storage class.
    #[serde(default)]
    pub storage_class: Option<String>,
    /// The pods that may use the disk at once; absent: one pod.
    #[serde(default)]
    pub access_mode: Option<AccessMode>,
    /// Files to put there instead, name to content. When they change, pods are replaced.
    #[serde(default)]
    pub files: Option<indexmap::IndexMap<String, Option<String>>>,
    /// True if the container may not write.
    #[serde(default)]
    pub read_only: Option<bool>,
}

/// The pods that may use a disk at once. Kubernetes' words; the storage class must be able to do it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// The pods of one node.
    #[default]
    ReadWriteOnce,
    /// One pod.
    ReadWriteOncePod,
    /// All pods.
    ReadWriteMany,
    /// All pods, and none may write.
    ReadOnlyMany,
}

impl Volume {
    /// Checks that it is a disk that pods cannot share.
    pub fn is_for_one(&self) -> bool {
        use AccessMode::{ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod};
        self.size.is_some()
            && match self.access_mode.unwrap_or_default() {
                ReadWriteOnce | ReadWriteOncePod => true,
                ReadWriteMany | ReadOnlyMany => false,
            }
    }
}
