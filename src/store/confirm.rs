//! Ends that were told after something in doubt are looked at again: what got no answer may be applied
//! after them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::outbox::{self, Message};
use crate::store::row::Row;

const DOING: &str = "looking for ends to be looked at again";

/// An end that is looked at again; it is one sender's for the length of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "one that is taken and not answered for is looked at when its lease ends"]
pub struct Confirmation {
    /// What was told.
    pub message: Message,
    /// When the other side took it.
    pub told_at: Timestamp,
}

impl Store {
    /// Takes ends that are to be looked at now. One that is not the last any more is let go: the one
    /// after it is looked at.
    pub async fn take_confirmations(
        &self,
        now: Timestamp,
        lease: Duration,
        most: u32,
    ) -> Result<Vec<Confirmation>, StoreError> {
        if !self.has_confirmations(now).await? {
            return Ok(Vec::new());
        }
        let mut write = self.begin(DOING).await?;
        let sql = "SELECT o.deployment AS id, o.sink, o.seq, o.state, o.description, o.at, o.due_at, \
             o.done_at, o.attempts, o.failures, o.unsure, d.repository, d.target, d.commit_id, \
             d.forge_id, d.place, (SELECT COUNT(*) FROM outbox n WHERE n.deployment = o.deployment \
             AND n.sink = o.sink AND n.seq > o.seq AND (n.outcome IS NULL OR n.outcome = 'sent')) \
             AS followers, CAST(1 AS BIGINT) AS told \
             FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.confirm_at IS NOT NULL AND o.confirm_at <= $1 ORDER BY o.confirm_at LIMIT $2";
        let rows = sqlx::query(self.locking(sql, "FOR UPDATE OF o SKIP LOCKED"))
            .bind(now.as_millisecond())
            .bind(i64::from(most))
            .fetch_all(write.sql())
            .await
            .map_err(StoreError::doing(DOING))?;
        let lease = SignedDuration::try_from(lease).unwrap_or(SignedDuration::MAX);
        let lease_end = now.checked_add(lease).unwrap_or(Timestamp::MAX);
        let mut taken = Vec::with_capacity(rows.len());
        for row in rows.into_iter().map(Row::new) {
            let message = outbox::message(&row, &row)?;
            let until = (!message.followed).then_some(lease_end);
            outbox::look_again(&mut write, &message, until).await?;
            if until.is_some() {
                taken.push(Confirmation { message, told_at: row.time("done_at")? });
            }
        }
        write.commit().await?;
        Ok(taken)
    }

    /// Asked all the time, and mostly in vain: it takes no turn to write.
    async fn has_confirmations(&self, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT deployment AS id FROM outbox \
             WHERE confirm_at IS NOT NULL AND confirm_at <= $1 LIMIT 1";
        let row = sqlx::query(sql).bind(now.as_millisecond()).fetch_optional(&self.pool).await;
        Ok(row.map_err(StoreError::doing(DOING))?.is_some())
    }

    /// Records when an end is looked at again, never where that is none; and that it was told again.
    pub async fn confirmed(
        &self,
        confirmation: &Confirmation,
        again: Option<Timestamp>,
        retold_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut write = self.begin("recording that an end was looked at").await?;
        outbox::look_again(&mut write, &confirmation.message, again).await?;
        if let Some(at) = retold_at {
            let Message { deployment, sink, seq, .. } = &confirmation.message;
            sqlx::query(
                "UPDATE outbox SET retold_at = $4 WHERE deployment = $1 AND sink = $2 AND seq = $3",
            )
            .bind(deployment.as_str())
            .bind(sink.to_string())
            .bind(*seq)
            .bind(at.as_millisecond())
            .execute(write.sql())
            .await
            .map_err(StoreError::doing(DOING))?;
        }
        write.commit().await
    }
}
