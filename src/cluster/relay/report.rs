//! What an agent reports of its cluster, and what the service answers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::cluster::failure::LogTail;
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::watched::{UnreadableObject, WatchedObject};

/// The longest reason of an agent that is shown, in bytes.
pub(super) const REASON_BYTES: usize = 512;

/// A report of an agent: the changes since the one before, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterReport {
    /// The telling that it belongs to.
    pub session: ReportSession,
    /// Its place there; the first is 1.
    pub sequence: u64,
    /// The changes.
    pub changes: Vec<ReportedChange>,
    /// How each kind is seen, in a report after which the service has all that the agent has.
    pub sights: Option<BTreeMap<WatchedKind, ReportedSight>>,
    /// The ends of logs of containers that fail; `None` from an agent that sends none.
    pub logs: Option<Vec<ReportedLog>>,
    /// True if the agent stops after it.
    pub is_last: bool,
}

/// The end of the log of a container that fails, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedLog {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container; `None` where the pod does not tell which one.
    pub container: Option<String>,
    /// The lines; none where the log could not be read.
    pub tail: LogTail,
}

/// One telling of the whole by one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportSession {
    /// A name that each process of an agent draws for itself.
    pub agent: String,
    /// The number of the telling among those of that process; the first is 1.
    pub generation: u64,
}

/// An object in the form of the API, with the fields that the rules read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedObject {
    /// Its kind.
    pub kind: WatchedKind,
    /// The object.
    pub object: Json,
    /// The digest of its pod template; empty where it has none.
    pub template: String,
}

/// A change of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportedChange {
    /// A list of all objects of a kind begins.
    ListBegun(WatchedKind),
    /// The list has this object.
    Listed(ReportedObject),
    /// The list is complete: objects that are not in it are gone.
    ListDone(WatchedKind),
    /// An object is new, or changed.
    Applied(ReportedObject),
    /// The object of that key and uid is gone.
    Deleted(ObjectKey, String),
}

/// How an agent sees a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedSight {
    /// The first list is not complete yet.
    Starting,
    /// Changes arrive.
    Seen,
    /// Changes do not arrive; the objects are as they were seen last.
    Unseen {
        /// The time of the API server's last answer.
        since: Option<Timestamp>,
        /// The reason, without secrets.
        reason: String,
    },
    /// The agent may not list the kind, and never has.
    Hidden {
        /// The reason, without secrets.
        reason: String,
    },
    /// The cluster does not have the kind.
    Absent,
}

/// The answer of the service to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportVerdict {
    /// It has the reports of the session up to that number.
    Accepted(u64),
    /// It does not know the session: the agent begins another one.
    Resync,
    /// Another agent reports for the cluster, and was heard a moment ago.
    OtherAgent,
    /// The agent itself has begun a later session.
    Outdated,
}

impl ReportedObject {
    /// Writes an object.
    pub fn new(object: &WatchedObject) -> Self {
        let template = object.template().0.into_string();
        Self { kind: object.kind(), object: object.to_json(), template }
    }

    /// Reads the object.
    ///
    /// # Errors
    /// [`UnreadableObject`] where it has no name.
    pub fn read(&self) -> Result<WatchedObject, UnreadableObject> {
        WatchedObject::read_reported(self.kind, &self.object, &self.template)
    }
}
