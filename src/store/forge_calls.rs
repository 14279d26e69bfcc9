//! Counts the calls that the forge was told something with within the hour, and those that wait, for the
//! hourly quota. In the database and not in memory, so that replicas and restarts count together.

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::ForgeState;
use crate::model::id::RepoName;
use crate::model::notice::Sink;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::outbox;
use crate::store::row::Row;

const DOING: &str = "counting what the forge was told";
/// The forge counts by the hour.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// More than any forge takes of all our accounts within the hour; of what was made, the newest are counted.
const MOST: i64 = 20_000;

/// Calls that made something at the forge, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeCalls {
    /// About which repository; with that, as which account.
    pub repository: RepoName,
    /// What they told; none of a preview.
    pub told: Option<(Sink, ForgeState)>,
    /// When they were made; none while they wait.
    pub at: Option<Timestamp>,
    /// How many they are.
    pub count: usize,
}

impl Store {
    /// The calls of the last hour, and those that wait.
    pub async fn forge_calls(&self, now: Timestamp) -> Result<Vec<ForgeCalls>, StoreError> {
        let since = now.checked_sub(HOUR).unwrap_or(Timestamp::MIN).as_millisecond();
        let mut calls = self.waiting_calls().await?;
        // The first status of a rollback makes a deployment there besides.
        let sent = "SELECT o.deployment AS id, o.sink, o.state, o.done_at AS made_at, d.repository, \
             CAST(CASE WHEN d.rollback IS NOT NULL AND o.sink = 'forge' AND o.seq = 1 THEN 2 \
             ELSE 1 END AS BIGINT) AS calls FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.family = 'forge' AND o.outcome = 'sent' AND o.done_at > $1 \
             ORDER BY o.done_at DESC LIMIT $2";
        let retold = "SELECT o.deployment AS id, o.sink, o.state, o.retold_at AS made_at, d.repository, \
             CAST(1 AS BIGINT) AS calls FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.retold_at IS NOT NULL AND o.retold_at > $1 ORDER BY o.retold_at DESC LIMIT $2";
        let previews = "SELECT repository AS id, repository, done_at AS made_at, \
             CAST(1 AS BIGINT) AS calls FROM previews \
             WHERE done_at IS NOT NULL AND done_at > $1 AND shown_turn > 0 \
             ORDER BY done_at DESC LIMIT $2";
        for (sql, is_told) in [(sent, true), (retold, true), (previews, false)] {
            let rows = sqlx::query(sql).bind(since).bind(MOST).fetch_all(&self.pool).await;
            for row in rows.map_err(StoreError::doing(DOING))?.into_iter().map(Row::new) {
                calls.push(made(&row, is_told)?);
            }
        }
        calls.sort_by_key(|call| call.at);
        Ok(calls)
    }

    /// Counted by the database: while the forge is down, everything waits.
    async fn waiting_calls(&self) -> Result<Vec<ForgeCalls>, StoreError> {
        let rows = sqlx::query(
            "SELECT d.repository AS id, d.repository, o.sink, o.state, COUNT(*) AS calls \
             FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.family = 'forge' AND o.outcome IS NULL GROUP BY d.repository, o.sink, o.state",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing(DOING))?;
        let waiting = |row: Row| {
            Ok(ForgeCalls {
                repository: row.id("repository")?,
                told: Some((outbox::sink(&row)?, outbox::state(&row)?)),
                at: None,
                count: count(&row)?,
            })
        };
        rows.into_iter().map(Row::new).map(waiting).collect()
    }
}

fn made(row: &Row, is_told: bool) -> Result<ForgeCalls, StoreError> {
    let told = if is_told { Some((outbox::sink(row)?, outbox::state(row)?)) } else { None };
    let (repository, at) = (row.id("repository")?, row.maybe_time("made_at")?);
    Ok(ForgeCalls { repository, told, at, count: count(row)? })
}

fn count(row: &Row) -> Result<usize, StoreError> {
    let calls = row.number("calls")?;
    usize::try_from(calls).map_err(|_| row.corrupt("calls", &calls))
}
