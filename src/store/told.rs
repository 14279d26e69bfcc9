//! What was told and what still waits, for people, for metrics, and for senders who ask what was
//! told before. Nothing here changes anything.

use jiff::Timestamp;

use crate::model::id::DeployId;
use crate::model::notice::{Family, Sink};
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::outbox;
use crate::store::row::Row;

/// One message about a deployment, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Who is told.
    pub sink: Sink,
    /// Its place among the deployment's messages for that sink, from 1.
    pub seq: i64,
    /// What they are told.
    pub status: ForgeStatus,
    /// When it came to be so.
    pub at: Timestamp,
    /// When they took it.
    pub sent_at: Option<Timestamp>,
    /// Why nobody tries to send it any more, although somebody should know.
    pub parked: Option<String>,
    /// Why there was nothing to say after all.
    pub skipped: Option<String>,
    /// What the other side calls it.
    pub reference: Option<String>,
}

/// How much waits for one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Who is to be told.
    pub family: Family,
    /// How many messages wait.
    pub waiting: u64,
    /// Since when the oldest of them waits.
    pub oldest: Option<Timestamp>,
    /// How many nobody tries to send any more.
    pub parked: u64,
}

impl Store {
    /// Everything that anybody was or will be told of a deployment: by sink, then in order.
    pub async fn messages(&self, id: &DeployId) -> Result<Vec<Told>, StoreError> {
        let rows = sqlx::query(
            "SELECT deployment AS id, sink, seq, state, description, at, outcome, done_at, reason, \
             reference FROM outbox WHERE deployment = $1 ORDER BY sink, seq",
        )
        .bind(id.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing("reading a deployment's messages"))?;
        rows.into_iter().map(|row| told(&Row::new(row))).collect()
    }

    /// What the forge was or will be told of a deployment, in order.
    pub async fn statuses(&self, id: &DeployId) -> Result<Vec<Told>, StoreError> {
        let mut all = self.messages(id).await?;
        all.retain(|told| told.sink == Sink::Forge);
        Ok(all)
    }

    /// What waits and what was given up, for each family that has such messages.
    pub async fn waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        let rows = sqlx::query(
            "SELECT family AS id, \
             COUNT(CASE WHEN outcome IS NULL THEN 1 END) AS waiting, \
             MIN(CASE WHEN outcome IS NULL THEN at END) AS oldest, \
             COUNT(CASE WHEN outcome = 'parked' THEN 1 END) AS parked FROM outbox \
             WHERE outcome IS NULL OR outcome = 'parked' GROUP BY family ORDER BY family",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing("measuring the outbox"))?;
        rows.into_iter().map(|row| waiting(&Row::new(row))).collect()
    }
}

pub(super) fn told(row: &Row) -> Result<Told, StoreError> {
    let (outcome, reason) = (row.maybe_text("outcome")?, row.maybe_text("reason")?);
    let done_at = row.maybe_time("done_at")?;
    let was = |word: &str| outcome.as_deref() == Some(word);
    Ok(Told {
        sink: outbox::sink(row)?,
        seq: row.number("seq")?,
        status: outbox::status(row)?,
        at: row.time("at")?,
        sent_at: done_at.filter(|_| was("sent")),
        parked: reason.clone().filter(|_| was("parked")),
        skipped: reason.filter(|_| was("skipped")),
        reference: row.maybe_text("reference")?,
    })
}

fn waiting(row: &Row) -> Result<Waiting, StoreError> {
    let word = row.text("id")?;
    Ok(Waiting {
        family: Family::parse(&word).ok_or_else(|| row.corrupt("family", &word))?,
        waiting: row.count("waiting")?,
        oldest: row.maybe_time("oldest")?,
        parked: row.count("parked")?,
    })
}
