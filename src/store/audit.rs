//! The audit log. The transaction of an act writes its entry, so that neither exists without the
//! other.

use crate::model::audit::{AuditRecord, AuditRecords, AuthMethod, Principal, Search};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::{PendingAnswer, keep};
use crate::store::query::{Condition, LONGEST_PAGE, conditions, query, query_of};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

const DOING: &str = "writing the audit log";
const READING: &str = "reading the audit log";

/// Adds an entry to the transaction of its act.
pub(super) async fn note(
    write: &mut WriteTransaction,
    entry: &AuditRecord,
) -> Result<(), StoreError> {
    let AuditRecord { id, at, by, act, target, app, subject, reason, outcome } = entry;
    let Principal { name, via, from, request } = by;
    let sql = "INSERT INTO audit (id, at, name, via, address, request, act, target, namespace, slug, \
         subject, reason, outcome) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
    let person = (name, via.as_str(), from, request);
    let details = (act.as_ref(), target, app.as_ref(), subject, reason, outcome);
    query(sql, (id, at, person, details)).execute(write.sql(), DOING).await.map(drop)
}

impl Store {
    /// Adds an entry for an act that changes nothing in the database.
    pub async fn audit(&self, entry: &AuditRecord) -> Result<(), StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        note(&mut write, entry).await?;
        write.commit().await
    }

    /// Adds the entry of an act that was done at the code host, with the answer to its request.
    ///
    /// # Errors
    /// [`StoreError::KeyLost`] where another request has the key by now, which then has found the same act.
    pub async fn audit_act(
        &self,
        entry: &AuditRecord,
        answer: Option<&PendingAnswer>,
    ) -> Result<(), StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        note(&mut write, entry).await?;
        keep(&mut write, answer).await?;
        write.commit().await
    }

    /// Returns the newest entries that the search matches.
    pub async fn audit_records(&self, search: &Search) -> Result<AuditRecords, StoreError> {
        let limit = search.limit.clamp(1, LONGEST_PAGE);
        let Search { by, act, target, app, since, until, before, limit: _ } = search;
        let (tests, values) = conditions(
            [
                ("name =", Condition::text(by.as_ref())),
                ("act =", Condition::text(act.as_ref())),
                ("target =", Condition::text(target.as_ref())),
                ("namespace =", Condition::text(app.as_ref().map(|app| &app.namespace))),
                ("slug =", Condition::text(app.as_ref().map(|app| &app.slug))),
                ("at >=", Condition::time(*since)),
                ("at <", Condition::time(*until)),
                ("id <", Condition::text(before.as_ref())),
            ],
            None,
        );
        let sql = format!("SELECT * FROM audit {tests} ORDER BY id DESC LIMIT {}", limit + 1);
        let size = |AuditRecord { by, subject, reason, outcome, .. }: &AuditRecord| {
            by.name.len() + subject.len() + reason.len() + outcome.len() + 500
        };
        let page = query_of(sql, values).page(&self.readers, READING, limit, read_record, size);
        let (entries, has_more) = page.await?;
        let next = entries.last().filter(|_| has_more).map(|entry: &AuditRecord| entry.id.clone());
        Ok(AuditRecords { entries, next })
    }
}

fn read_record(row: &Row) -> Result<AuditRecord, StoreError> {
    Ok(AuditRecord {
        id: row.id("id")?,
        at: row.time("at")?,
        by: Principal {
            name: row.text("name")?,
            via: row.word("via", AuthMethod::parse)?,
            from: row.maybe_text("address")?,
            request: row.maybe_text("request")?,
        },
        act: row.text("act")?.into(),
        target: row.maybe_id("target")?,
        app: row.maybe_app()?,
        subject: row.text("subject")?,
        reason: row.text("reason")?,
        outcome: row.text("outcome")?,
    })
}
