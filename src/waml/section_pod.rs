//! The parts of a section that say how pods run: their rights, their end, and the nodes that they run on.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rights of the app's pods and their containers. Kubernetes' Pod Security Standards say which are safe.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Security {
    /// True if Kubernetes does not start a container as root.
    pub run_as_non_root: Option<bool>,
    /// The number of the user; absent: the image's.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub run_as_user: Option<u32>,
    /// The number of the group; absent: the image's.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub run_as_group: Option<u32>,
    /// The number of the group that owns the files of the volumes.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub fs_group: Option<u32>,
    /// True if a process may get more rights than the one that started it, as by `sudo`.
    pub allow_privilege_escalation: Option<bool>,
    /// Single rights of root.
    pub capabilities: Option<Capabilities>,
    /// The filter of system calls.
    pub seccomp: Option<Seccomp>,
    /// True if the container cannot write to the image's files.
    pub read_only_root_filesystem: Option<bool>,
    /// Folders that stay writable, each an empty one that lives with the pod: `[/tmp]`.
    pub writable: Option<Vec<String>>,
    /// True if the pod gets a token for Kubernetes' API; absent: where the target's way of delivering secrets needs it.
    pub service_account_token: Option<bool>,
}

/// Single rights of root, as Linux names them, without `CAP_`: `NET_BIND_SERVICE`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Capabilities {
    /// Those that are taken away; `ALL` for every one.
    pub drop: Option<Vec<String>>,
    /// Those that are given.
    pub add: Option<Vec<String>>,
}

/// The filter of system calls. Kubernetes' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Seccomp {
    /// The container runtime's own.
    RuntimeDefault,
    /// None.
    Unconfined,
}

/// The begin and the end of a pod's life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Lifecycle {
    /// Seconds from the wish to end a pod until its processes are killed; what `preStop` takes is part of it.
    #[schemars(range(min = 0, max = 86_400))]
    pub termination_grace_period_seconds: Option<u32>,
    /// Runs before the container gets its signal to end.
    pub pre_stop: Option<LifecycleHook>,
    /// Runs right after the container has begun; until then it is not ready.
    pub post_start: Option<LifecycleHook>,
}

/// What runs at the begin or the end of a container: a command if there is one, else an HTTP GET if there is a path, else
/// a pause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LifecycleHook {
    /// A command in the container.
    pub command: Option<Vec<String>>,
    /// The path of an HTTP GET.
    pub path: Option<String>,
    /// The name or number of the port that is asked; absent: the first TCP port.
    pub port: Option<String>,
    /// Seconds to wait; left out where Kubernetes is older than 1.30.
    #[schemars(range(min = 1, max = 3600))]
    pub sleep_seconds: Option<u32>,
}

/// The nodes that pods run on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Scheduling {
    /// Labels that a node must have.
    pub node_selector: Option<IndexMap<String, Option<String>>>,
    /// Taints of nodes that the pods bear.
    pub tolerations: Option<Vec<Toleration>>,
    /// Nodes that the pods must have, or would rather have.
    pub node_affinity: Option<Vec<NodeAffinity>>,
    /// The name of a priority class of the cluster.
    pub priority_class: Option<String>,
    /// The spread of the app's pods.
    pub spread: Option<Spread>,
}

/// The spread of the app's pods, so that not all end with one zone or node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Spread {
    /// Over zones.
    pub zones: Option<SpreadWish>,
    /// Over nodes.
    pub nodes: Option<SpreadWish>,
}

/// The weight of a wish for spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpreadWish {
    /// A pod runs elsewhere rather than not at all.
    Preferred,
    /// A pod that would spoil the spread waits.
    Required,
}

/// A taint that pods bear. Kubernetes' words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Toleration {
    /// The taint's key; absent: every taint.
    pub key: Option<String>,
    /// The taint's value; absent: any.
    pub value: Option<String>,
    /// The effect that is borne; absent: every one.
    pub effect: Option<TaintEffect>,
    /// Seconds for which a pod stays on a node that gets a taint `NoExecute`; absent: for ever.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub seconds: Option<u32>,
}

/// The effect of a taint. Kubernetes' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// No new pod comes.
    NoSchedule,
    /// A new pod comes only where no other node is left.
    PreferNoSchedule,
    /// Pods that run there have to go.
    NoExecute,
}

/// Nodes by one of their labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeAffinity {
    /// The label's key.
    pub key: String,
    /// Values, one of which the label has; absent: any.
    #[serde(default)]
    pub values: Option<Vec<String>>,
    /// True if nodes that match are avoided instead.
    #[serde(default)]
    pub avoid: Option<bool>,
    /// How much such nodes are preferred; absent: there is no other way.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<u32>,
}
