//! The audit log. An entry is written in the same transaction as its act, so that there is none
//! without the other.

use crate::model::audit::{By, Entry};
use crate::store::row::storable;
use crate::store::{Store, StoreError, Write};

const DOING: &str = "writing the audit log";

/// Adds an entry to the transaction of its act.
pub(super) async fn note(write: &mut Write, entry: &Entry) -> Result<(), StoreError> {
    let Entry { id, at, by, act, target, app, subject, reason, outcome } = entry;
    let By { name, via, from, request } = by;
    sqlx::query(
        "INSERT INTO audit (id, at, name, via, address, request, act, target, namespace, slug, \
         subject, reason, outcome) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(id.as_str())
    .bind(at.as_millisecond())
    .bind(storable(name))
    .bind(via.as_str())
    .bind(from.as_deref().map(storable))
    .bind(request.as_deref().map(storable))
    .bind(*act)
    .bind(target.as_ref().map(ToString::to_string))
    .bind(app.as_ref().map(|app| app.namespace.to_string()))
    .bind(app.as_ref().map(|app| app.slug.to_string()))
    .bind(storable(subject))
    .bind(storable(reason))
    .bind(storable(outcome))
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(DOING))
}

impl Store {
    /// Adds an entry for an act that is not the database's.
    pub async fn audit(&self, entry: &Entry) -> Result<(), StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        note(&mut write, entry).await?;
        write.commit().await
    }
}
