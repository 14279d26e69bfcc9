//! Reads Argo CD's Application: the commit that was synced, or the reason why it was not.

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::cluster::fields::{MESSAGE_BYTES, list_at, text_at, time_at, value_at};
use crate::cluster::object::ObjectMeta;

/// The part of an Application that the rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgoApplication {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// `status.sync.status`: `Synced`, `OutOfSync`, `Unknown`.
    pub sync: Box<str>,
    /// `status.sync.revision`: the commit that the cluster was compared with.
    pub revision: Box<str>,
    /// The health of its objects: `status.health.status`.
    pub health: Box<str>,
    /// The last sync that was begun.
    pub operation: Option<SyncOperation>,
    /// The first condition that names an error (`ComparisonError`, `SyncError` …).
    pub error: Option<Box<str>>,
    /// The last syncs that succeeded, oldest first: `status.history`.
    pub history: Box<[SyncRecord]>,
    /// The time of the last comparison, by the cluster's clock: `status.reconciledAt`.
    pub reconciled_at: Option<Timestamp>,
}

/// The last sync that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncOperation {
    /// `Running`, `Succeeded`, `Failed`, `Error`, `Terminating`.
    pub phase: Box<str>,
    /// Argo CD's own sentence.
    pub message: Box<str>,
    /// The commit that it syncs.
    pub revision: Box<str>,
    /// The time at which it began, by the cluster's clock.
    pub started_at: Option<Timestamp>,
    /// The time at which it ended, by the cluster's clock; `None` while it runs.
    pub finished_at: Option<Timestamp>,
}

/// A sync that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRecord {
    /// The commit.
    pub revision: Box<str>,
    /// The time at which it began, by the cluster's clock.
    pub started_at: Option<Timestamp>,
    /// The time at which it ended, by the cluster's clock.
    pub finished_at: Option<Timestamp>,
}

/// The syncs that are remembered: Argo CD keeps ten, if `revisionHistoryLimit` does not say otherwise.
const REMEMBERED_SYNCS: usize = 10;

impl ArgoApplication {
    /// Reads an Application; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        let word = |path: &[&str]| text_at(json, path, 64).unwrap_or_default();
        Some(Self {
            meta: ObjectMeta::read(json)?,
            sync: word(&["status", "sync", "status"]),
            revision: word(&["status", "sync", "revision"]),
            health: word(&["status", "health", "status"]),
            operation: value_at(json, &["status", "operationState"]).map(SyncOperation::read),
            error: read_error(json),
            history: read_history(json),
            reconciled_at: time_at(json, &["status", "reconciledAt"]),
        })
    }
}

impl ArgoApplication {
    /// Lists the commits that it names: the one that the cluster was compared with, and the one of the last sync.
    pub fn named_commits(&self) -> Vec<&str> {
        let synced = self.operation.as_ref().map(|operation| &*operation.revision);
        let compared = &*self.revision;
        let synced = synced.filter(|commit| *commit != compared);
        [Some(compared), synced].into_iter().flatten().filter(|one| !one.is_empty()).collect()
    }
}

impl SyncOperation {
    fn read(state: &Json) -> Self {
        let text = |path: &[&str], most| text_at(state, path, most).unwrap_or_default();
        Self {
            phase: text(&["phase"], 64),
            message: text(&["message"], MESSAGE_BYTES),
            revision: text_at(state, &["syncResult", "revision"], 64)
                .unwrap_or_else(|| text(&["operation", "sync", "revision"], 64)),
            started_at: time_at(state, &["startedAt"]),
            finished_at: time_at(state, &["finishedAt"]),
        }
    }
}

/// Reads the newest syncs: Argo CD adds each at the end.
fn read_history(json: &Json) -> Box<[SyncRecord]> {
    let history = value_at(json, &["status", "history"]).and_then(Json::as_array);
    let history = history.map_or(&[][..], Vec::as_slice);
    let newest = history.iter().skip(history.len().saturating_sub(REMEMBERED_SYNCS));
    let record = |sync: &Json| {
        Some(SyncRecord {
            revision: text_at(sync, &["revision"], 64)?,
            started_at: time_at(sync, &["deployStartedAt"]),
            finished_at: time_at(sync, &["deployedAt"]),
        })
    };
    newest.filter_map(record).collect()
}

fn read_error(json: &Json) -> Option<Box<str>> {
    let conditions = list_at(json, &["status", "conditions"]);
    let is_error = |condition: &&Json| {
        let kind = value_at(condition, &["type"]).and_then(Json::as_str);
        kind.is_some_and(|kind| kind.ends_with("Error"))
    };
    text_at(conditions.iter().find(is_error)?, &["message"], MESSAGE_BYTES)
}
