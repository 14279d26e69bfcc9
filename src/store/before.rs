//! What a sender asks before it says something: what else is known of the lane and of the commit.
//! Nothing here changes anything.

use crate::model::deployment::ForgeState;
use crate::model::id::DeployId;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::outbox::Message;
use crate::store::row::Row;

const DOING: &str = "finding out what to tell";

impl Store {
    /// The newest deployment of the message's commit to its target, if it is newer than the message's
    /// own.
    pub async fn newer_of_commit(&self, message: &Message) -> Result<Option<DeployId>, StoreError> {
        let row = sqlx::query(
            "SELECT id FROM deployments WHERE repository = $1 AND target = $2 \
             AND (place > $3 OR (place = $3 AND id > $5)) AND commit_id = $4 \
             ORDER BY place DESC, id DESC LIMIT 1",
        )
        .bind(message.repository.as_str())
        .bind(message.target.as_str())
        .bind(message.place)
        .bind(message.commit.as_str())
        .bind(message.deployment.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::doing(DOING))?;
        row.map(|row| Row::new(row).id("id")).transpose()
    }

    /// Where the app was reached after the newest success of the lane before the message's
    /// deployment, where that is known.
    pub async fn last_address(&self, message: &Message) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(
            "SELECT id, address FROM deployments WHERE repository = $1 AND target = $2 \
             AND (place < $3 OR (place = $3 AND id < $4)) AND state = 'succeeded' \
             ORDER BY place DESC, id DESC LIMIT 1",
        )
        .bind(message.repository.as_str())
        .bind(message.target.as_str())
        .bind(message.place)
        .bind(message.deployment.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::doing(DOING))?;
        Ok(row.map(|row| Row::new(row).maybe_text("address")).transpose()?.flatten())
    }

    /// What the newest check run says that was written for an older deployment of the message's
    /// commit to its target.
    pub async fn last_check(&self, message: &Message) -> Result<Option<ForgeState>, StoreError> {
        let row = sqlx::query(
            "SELECT d.id, o.state FROM deployments d \
             JOIN outbox o ON o.deployment = d.id AND o.sink = 'check' AND o.outcome = 'sent' \
             WHERE d.repository = $1 AND d.target = $2 AND d.commit_id = $4 \
             AND (d.place < $3 OR (d.place = $3 AND d.id < $5)) \
             ORDER BY d.place DESC, d.id DESC LIMIT 1",
        )
        .bind(message.repository.as_str())
        .bind(message.target.as_str())
        .bind(message.place)
        .bind(message.commit.as_str())
        .bind(message.deployment.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::doing(DOING))?;
        let Some(row) = row.map(Row::new) else { return Ok(None) };
        let word = row.text("state")?;
        ForgeState::parse(&word).map(Some).ok_or_else(|| row.corrupt("state", &word))
    }
}
