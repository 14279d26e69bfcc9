//! What a sender asks of the past: what the same people were told of a lane before, and where an
//! app's people were last known to be. Nothing here changes anything.

use crate::model::deployment::Contact;
use crate::model::id::RepoName;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::outbox::Message;
use crate::store::row::Row;
use crate::store::told::Told;
use crate::store::told::told;

impl Store {
    /// What the message's sink was or will be told of the deployments before it in its lane, newest
    /// first.
    pub async fn told_before(&self, message: &Message, most: u32) -> Result<Vec<Told>, StoreError> {
        let rows = sqlx::query(
            "SELECT o.deployment AS id, o.sink, o.seq, o.state, o.description, o.at, o.outcome, \
             o.done_at, o.reason, o.reference \
             FROM deployments d JOIN outbox o ON o.deployment = d.id \
             WHERE d.repository = $1 AND d.target = $2 AND o.sink = $4 \
             AND (d.place < $3 OR (d.place = $3 AND d.id < $6)) \
             ORDER BY d.place DESC, d.id DESC, o.seq DESC LIMIT $5",
        )
        .bind(message.repository.as_str())
        .bind(message.target.as_str())
        .bind(message.place)
        .bind(message.sink.to_string())
        .bind(i64::from(most))
        .bind(message.deployment.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing("reading what was told before"))?;
        rows.into_iter().map(|row| told(&Row::new(row))).collect()
    }

    /// Where the people of a repository's app are reached, as the newest WAML that could be read said.
    pub async fn last_contact(&self, repository: &RepoName) -> Result<Option<Contact>, StoreError> {
        let row = sqlx::query(
            "SELECT id, contact FROM deployments WHERE repository = $1 AND contact IS NOT NULL \
             ORDER BY place DESC, id DESC LIMIT 1",
        )
        .bind(repository.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::doing("reading who an app's people are"))?;
        row.map_or(Ok(None), |row| Row::new(row).json("contact"))
    }
}
