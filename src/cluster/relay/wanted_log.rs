//! Logs that callers of the service read through the agent of a cluster: what is wanted, and the parts in which it comes.

use crate::cluster::logs::LogRange;

/// A log that a caller of the service waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedLog {
    /// The name that the service gave to it.
    pub id: String,
    /// The app's namespace.
    pub namespace: String,
    /// The app's slug: the agent reads no log of a pod that is not this app's.
    pub slug: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
    /// The part of the log.
    pub range: LogRange,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// Its number among the parts of the log, from 0.
    pub number: u64,
    /// Its lines; none in a part that only says that the log is still read.
    pub lines: Vec<String>,
    /// The end of the log, in the last part.
    pub end: Option<LogEnd>,
}

/// The end of a log that is read through an agent. No text has a secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEnd {
    /// There are no more lines.
    Complete,
    /// There is no such pod, container or log.
    NotFound(String),
    /// It cannot be read, or not any more.
    Failed(String),
}
