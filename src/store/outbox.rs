//! What the forge is still to be told: written with the change it tells of, sent in order,
//! each once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::ForgeState;
use crate::model::id::{DeployId, RepoName};
use crate::model::status::ForgeStatus;
use crate::store::queue::Held;
use crate::store::row::{Row, storable};
use crate::store::{Store, StoreError, Write};

/// One status that a sender has taken, with what it takes to send it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a message that is taken and not answered for waits until its lease ends"]
pub struct Message {
    /// The deployment it tells of.
    pub deployment: DeployId,
    /// Its place among the deployment's statuses, from 1.
    pub seq: i64,
    /// Whom to tell.
    pub repository: RepoName,
    /// The forge's number of the deployment.
    pub forge_id: i64,
    /// What to tell.
    pub status: ForgeStatus,
    /// When it came to be so.
    pub at: Timestamp,
    /// How often it was tried, with this time; fences off slower senders.
    pub attempts: u32,
}

/// One status of a deployment, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its place among the deployment's statuses, from 1.
    pub seq: i64,
    /// What the forge is told.
    pub status: ForgeStatus,
    /// When it came to be so.
    pub at: Timestamp,
    /// When the forge took it.
    pub sent_at: Option<Timestamp>,
    /// Why nobody tries to send it any more.
    pub parked: Option<String>,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The forge took it.
    Sent,
    /// The forge did not take it; it is tried again then, and later ones wait behind it.
    Again(Timestamp),
    /// Nobody tries to send it any more, for this reason; the next of its deployment has its turn.
    Parked(String),
}

const DOING: &str = "taking statuses to send";

impl Store {
    /// Takes statuses that may be sent now, at most one of each deployment, oldest first.
    ///
    /// They are this sender's for the length of the lease; a sender that dies leaves them to
    /// another. So a status is told twice only if a sender dies between telling and [`Store::answered`].
    pub async fn take_messages(
        &self,
        now: Timestamp,
        lease: Duration,
        most: u32,
    ) -> Result<Vec<Message>, StoreError> {
        let mut write = self.begin(DOING).await?;
        let sql = "SELECT o.deployment AS id, o.seq FROM outbox o \
             WHERE o.sent_at IS NULL AND o.parked IS NULL AND o.due_at <= $1 AND NOT EXISTS \
             (SELECT 1 FROM outbox e WHERE e.deployment = o.deployment AND e.seq < o.seq \
             AND e.sent_at IS NULL AND e.parked IS NULL) \
             ORDER BY o.due_at LIMIT $2";
        let rows = sqlx::query(self.locking(sql, "FOR UPDATE SKIP LOCKED"))
            .bind(now.as_millisecond())
            .bind(i64::from(most))
            .fetch_all(write.sql())
            .await
            .map_err(StoreError::doing(DOING))?;
        // One by one: as a part of the update, PostgreSQL may ask for the due ones again and
        // again, and take more than the limit.
        let mut messages = Vec::with_capacity(rows.len());
        for row in rows.into_iter().map(Row::new) {
            let (id, seq) = (row.id("id")?, row.number("seq")?);
            messages.extend(take(&mut write, &id, seq, now, lease).await?);
        }
        write.commit().await?;
        Ok(messages)
    }

    /// Records what became of messages, each as long as no other sender has taken it since.
    pub async fn answered(
        &self,
        answers: &[(Message, Answer)],
        now: Timestamp,
    ) -> Result<Vec<Held>, StoreError> {
        let mut write = self.begin("recording what became of statuses").await?;
        let mut held = Vec::with_capacity(answers.len());
        for (message, answer) in answers {
            held.push(record(&mut write, message, answer, now).await?);
        }
        write.commit().await?;
        Ok(held)
    }

    /// Everything that the forge was or will be told of a deployment, in order.
    pub async fn statuses(&self, id: &DeployId) -> Result<Vec<Told>, StoreError> {
        let rows = sqlx::query(
            "SELECT deployment AS id, seq, state, description, at, sent_at, parked FROM outbox \
             WHERE deployment = $1 ORDER BY seq",
        )
        .bind(id.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing("reading a deployment's statuses"))?;
        rows.into_iter().map(|row| told(&Row::new(row))).collect()
    }
}

/// Leaves a status for the forge; the deployment's row must have been written in the same
/// transaction, so that two never draw the same number.
pub(super) async fn tell(
    write: &mut Write,
    id: &DeployId,
    status: &ForgeStatus,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO outbox (deployment, seq, state, description, at, due_at, attempts) \
         SELECT $1, COALESCE(MAX(seq), 0) + 1, $2, $3, $4, $4, 0 FROM outbox \
         WHERE deployment = $1",
    )
    .bind(id.as_str())
    .bind(status.state.as_str())
    .bind(status.description())
    .bind(now.as_millisecond())
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing("leaving a status for the forge"))
}

async fn record(
    write: &mut Write,
    message: &Message,
    answer: &Answer,
    now: Timestamp,
) -> Result<Held, StoreError> {
    let (sent_at, due_at, parked) = match answer {
        Answer::Sent => (Some(now.as_millisecond()), None, None),
        Answer::Again(at) => (None, Some(at.as_millisecond()), None),
        Answer::Parked(reason) => (None, None, Some(storable(reason))),
    };
    let done = sqlx::query(
        "UPDATE outbox SET sent_at = $4, due_at = COALESCE($5, due_at), parked = $6 \
         WHERE deployment = $1 AND seq = $2 AND attempts = $3 \
         AND sent_at IS NULL AND parked IS NULL",
    )
    .bind(message.deployment.as_str())
    .bind(message.seq)
    .bind(i64::from(message.attempts))
    .bind(sent_at)
    .bind(due_at)
    .bind(parked)
    .execute(write.sql())
    .await
    .map_err(StoreError::doing("recording what became of a status"))?;
    Ok(Held::by_rows(done.rows_affected()))
}

async fn take(
    write: &mut Write,
    id: &DeployId,
    seq: i64,
    now: Timestamp,
    lease: Duration,
) -> Result<Option<Message>, StoreError> {
    let lease = SignedDuration::try_from(lease).unwrap_or(SignedDuration::MAX);
    let row = sqlx::query(
        "UPDATE outbox SET due_at = $4, attempts = attempts + 1 \
         WHERE deployment = $1 AND seq = $2 AND due_at <= $3 AND sent_at IS NULL \
         AND parked IS NULL RETURNING deployment AS id, seq, state, description, at, attempts, \
         (SELECT d.repository FROM deployments d WHERE d.id = deployment) AS repository, \
         (SELECT d.forge_id FROM deployments d WHERE d.id = deployment) AS forge_id",
    )
    .bind(id.as_str())
    .bind(seq)
    .bind(now.as_millisecond())
    .bind(now.checked_add(lease).unwrap_or(Timestamp::MAX).as_millisecond())
    .fetch_optional(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    row.map(|row| message(&Row::new(row))).transpose()
}

fn message(row: &Row) -> Result<Message, StoreError> {
    Ok(Message {
        deployment: row.id("id")?,
        seq: row.number("seq")?,
        repository: row.id("repository")?,
        forge_id: row.number("forge_id")?,
        status: status(row)?,
        at: row.time("at")?,
        attempts: row.count("attempts")?,
    })
}

fn told(row: &Row) -> Result<Told, StoreError> {
    Ok(Told {
        seq: row.number("seq")?,
        status: status(row)?,
        at: row.time("at")?,
        sent_at: row.maybe_time("sent_at")?,
        parked: row.maybe_text("parked")?,
    })
}

fn status(row: &Row) -> Result<ForgeStatus, StoreError> {
    let word = row.text("state")?;
    let state = ForgeState::parse(&word).ok_or_else(|| row.corrupt("state", &word))?;
    Ok(ForgeStatus::new(state, &row.text("description")?))
}
