//! The audit log: the actor, time, origin and reason of each act.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::audit::{AuditRecord, AuditRecords, Principal};

/// One page of the audit log, newest entry first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// The entries of this page.
    pub entries: Vec<AuditEntry>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
}

/// One act.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// The id, which orders entries by time.
    pub id: String,
    /// The time.
    pub at: Timestamp,
    /// The person or token.
    pub by: String,
    /// The authentication method: `token`, `github`, `slack`, `loopback`, `operator`.
    pub via: String,
    /// The client's address.
    pub from: Option<String>,
    /// The request's id, as in the log.
    pub request: Option<String>,
    /// The kind of act: `rollback`, `lock`, `remove`.
    pub act: String,
    /// The target, if the act was on one.
    pub target: Option<String>,
    /// `namespace/slug`.
    pub app: Option<String>,
    /// The id of the lock or deployment that the act was on.
    pub subject: String,
    /// The reason.
    pub reason: String,
    /// The result; one sentence.
    pub outcome: String,
}

impl From<AuditRecords> for AuditPage {
    fn from(records: AuditRecords) -> Self {
        let AuditRecords { entries, next } = records;
        Self { entries: entries.into_iter().map(Into::into).collect(), next: next.map(Into::into) }
    }
}

impl From<AuditRecord> for AuditEntry {
    fn from(entry: AuditRecord) -> Self {
        let AuditRecord { id, at, by, act, target, app, subject, reason, outcome } = entry;
        let Principal { name, via, from, request } = by;
        Self {
            id: id.into(),
            at,
            by: name,
            via: via.as_str().to_owned(),
            from,
            request,
            act: act.into_owned(),
            target: target.map(String::from),
            app: app.map(|app| app.to_string()),
            subject,
            reason,
            outcome,
        }
    }
}
