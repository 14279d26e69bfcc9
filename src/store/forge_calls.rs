//! What the forge was told within an hour, and what it is still to be told: by that it is decided what
//! is worth a call. Counted here and not in memory, so that replicas and restarts count together.

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::ForgeState;
use crate::model::id::RepoName;
use crate::model::notice::Sink;
use crate::store::row::Row;
use crate::store::{Store, StoreError, outbox};

const DOING: &str = "counting what the forge was told";
/// The forge counts by the hour.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// More than any forge takes of all our accounts; what is beyond is not counted.
const MOST: i64 = 20_000;

/// A call that made something at the forge, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeCall {
    /// About which repository; with that, as which account.
    pub repository: RepoName,
    /// What it told; none of a preview.
    pub told: Option<(Sink, ForgeState)>,
    /// When it was made; none while it waits.
    pub at: Option<Timestamp>,
    /// It makes a deployment there besides.
    pub begins: bool,
}

impl Store {
    /// The calls of the last hour, oldest first, and those that wait.
    pub async fn forge_calls(&self, now: Timestamp) -> Result<Vec<ForgeCall>, StoreError> {
        let since = now.checked_sub(HOUR).unwrap_or(Timestamp::MIN).as_millisecond();
        let rows = sqlx::query(
            "SELECT o.deployment AS id, o.sink, o.state, o.description, o.done_at, d.repository, \
             CAST(CASE WHEN d.rollback IS NOT NULL AND o.sink = 'forge' AND o.seq = 1 THEN 1 \
             ELSE 0 END AS BIGINT) AS begins FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.family = 'forge' AND o.outcome = 'sent' AND o.done_at > $1 \
             UNION ALL \
             SELECT o.deployment AS id, o.sink, o.state, o.description, CAST(NULL AS BIGINT), d.repository, \
             CAST(0 AS BIGINT) \
             FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.family = 'forge' AND o.outcome IS NULL \
             ORDER BY 5 LIMIT $2",
        )
        .bind(since)
        .bind(MOST)
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing(DOING))?;
        let mut calls = Vec::with_capacity(rows.len());
        for row in rows {
            calls.push(call(&Row::new(row))?);
        }
        calls.extend(self.preview_calls(since).await?);
        calls.sort_by_key(|call| call.at);
        Ok(calls)
    }

    /// Previews are check runs, too: at least one call each.
    async fn preview_calls(&self, since: i64) -> Result<Vec<ForgeCall>, StoreError> {
        let rows = sqlx::query(
            "SELECT repository AS id, repository, done_at FROM previews \
             WHERE done_at IS NOT NULL AND done_at > $1 AND shown_turn > 0 LIMIT $2",
        )
        .bind(since)
        .bind(MOST)
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing(DOING))?;
        let call = |row: Row| {
            Ok(ForgeCall {
                repository: row.id("repository")?,
                told: None,
                at: row.maybe_time("done_at")?,
                begins: false,
            })
        };
        rows.into_iter().map(Row::new).map(call).collect()
    }
}

fn call(row: &Row) -> Result<ForgeCall, StoreError> {
    Ok(ForgeCall {
        repository: row.id("repository")?,
        told: Some((outbox::sink(row)?, outbox::status(row)?.state)),
        at: row.maybe_time("done_at")?,
        begins: row.number("begins")? != 0,
    })
}
