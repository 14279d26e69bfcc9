//! Logs that callers read through the agent of a cluster: the agent asks which are wanted, and sends them in parts.
//!
//! Agent and service may have different versions, as for reports ([`observations`](crate::api::observations)).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most lines of a part.
pub const MAX_PART_LINES: usize = 200;

/// The logs that callers wait for, each told once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentLogRequests {
    /// The logs; none if no caller has asked for one in the time of the request.
    pub logs: Vec<AgentLogRequest>,
}

/// A log that a caller waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentLogRequest {
    /// The name under which its parts are sent.
    pub id: String,
    /// The app's namespace.
    pub namespace: String,
    /// The app. The agent checks that the pod is its.
    pub app: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// The number of last lines with which it begins.
    pub lines: usize,
    /// True for the container that ran before.
    pub previous: bool,
    /// True if it goes on until the container ends.
    pub follow: bool,
}

/// A part of a log. One without an answer is sent again as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentLogPart {
    /// Its number among the parts of the log, from 0.
    pub number: u64,
    /// Its lines, without secrets: at most 200. None says that the log is still read.
    pub lines: Vec<String>,
    /// `complete`, `not-found` or `failed` in the last part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The reason of an end that is not `complete`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The answer to a part of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentLogAnswer {
    /// False if nobody reads the log any more.
    pub wanted: bool,
}

impl AgentLogPart {
    /// The end of a log without more lines.
    pub const COMPLETE: &str = "complete";
    /// The end of a log that is not there.
    pub const NOT_FOUND: &str = "not-found";
    /// The end of a log that cannot be read.
    pub const FAILED: &str = "failed";
}
