//! Reports of an agent inside a cluster, and the answers to them.
//!
//! Agent and service may have different versions. Each ignores keys that it does not know; a key that is missing has a
//! default; a change, a kind or a state of a name that is not known is left out.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The largest report that is read, in bytes. Agents send smaller ones.
pub const REPORT_BYTES: usize = 1024 * 1024;
/// The most changes of a report.
pub const MAX_CHANGES: usize = 2000;
/// The most logs of a report.
pub const MAX_LOGS: usize = 8;

/// A report of an agent. The reports of one session are numbered from 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObservationReport {
    /// A name that each process of an agent draws for itself: 1 to 64 letters, digits and `-`.
    pub agent: String,
    /// The version of the agent, for logs: up to 64 visible characters.
    pub version: String,
    /// The number of the session among those of the agent, from 1. Each tells everything anew: it begins with a list of
    /// each kind.
    pub generation: u64,
    /// The number of the report in the session, from 1.
    pub sequence: u64,
    /// The changes since the report before, in their order: at most 2000.
    pub changes: Vec<ObservedChange>,
    /// How each kind is seen; null unless the agent has nothing more to report at present.
    pub kinds: Option<Vec<ObservedKind>>,
    /// The ends of logs of containers that fail: at most 8. Null from an agent that sends none, so that no failure waits
    /// for its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<Vec<ObservedLog>>,
    /// True if the agent stops after it, and another one may take its place at once.
    pub last: bool,
}

/// A change of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObservedChange {
    /// `list-begun`, `listed`, `list-done`, `applied` or `deleted`.
    pub change: String,
    /// The kind of objects: `Deployment`, `Pod` …
    pub kind: String,
    /// The object as the API of Kubernetes has it, with the fields that the rules read and without its pod template;
    /// of a deleted one the metadata alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Json>,
    /// The digest of its pod template, which does not leave the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub template: String,
}

/// The sight of a kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObservedKind {
    /// The kind.
    pub kind: String,
    /// `starting`, `seen`, `unseen`, `hidden` (the agent may not list it) or `absent` (the cluster does not have it).
    pub state: String,
    /// The time of the API server's last answer, while it is `unseen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The reason why it is `unseen` or `hidden`, without secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The end of the log of a container that fails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObservedLog {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container; null where the pod does not tell which one.
    pub container: Option<String>,
    /// The last lines, oldest first, without secrets: the last 20 are read, and masked again. None where the log could
    /// not be read.
    pub lines: Vec<String>,
}

/// The answer to a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ObservationAnswer")]
pub struct ObservationAnswer {
    /// `accepted`, or `resync`: the service does not know the session, and the agent begins another one.
    pub status: String,
    /// The number of the last report of the session that was taken.
    #[serde(default)]
    pub sequence: u64,
}

impl ObservationAnswer {
    /// The status of a report that was taken.
    pub const ACCEPTED: &str = "accepted";
    /// The status of a report of a session that is not known.
    pub const RESYNC: &str = "resync";
}
