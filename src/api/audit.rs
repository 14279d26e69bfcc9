//! The audit log: who did what, why, and from where.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::audit::{AuditRecord, AuditRecords, Principal};

/// One page, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// This page of them.
    pub entries: Vec<AuditEntry>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
}

/// One act.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Names it, and orders entries by time.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// How the name is known: `token`, `github`, `loopback`, `operator`.
    pub via: String,
    /// The address that the request came from.
    pub from: Option<String>,
    /// The request's id, as in the log.
    pub request: Option<String>,
    /// What: `rollback`, `lock`, `remove`.
    pub act: String,
    /// On which target, if on one.
    pub target: Option<String>,
    /// `namespace/slug`.
    pub app: Option<String>,
    /// What else it was about: a lock's id, a deployment's.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// What became of it; one sentence.
    pub outcome: String,
}

impl From<AuditRecords> for AuditPage {
    fn from(found: AuditRecords) -> Self {
        let AuditRecords { entries, next } = found;
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
