//! What was answered to acts that may be repeated: each is done once, and a repeat is told the same.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::store::queue::end_of;
use crate::store::row::{Row, storable};
use crate::store::{Store, StoreError, Write};

/// For so long a repeat is known.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Longer than any act takes; then its process has died, and a repeat begins anew.
const AT_WORK: Duration = Duration::from_mins(5);
/// More than a caller can mean in a day.
const MOST_OF_ONE: i64 = 10_000;
const DOING: &str = "keeping the answer to an act";

/// A request that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeatable {
    /// Who asks.
    pub caller: String,
    /// Of which route.
    pub route: String,
    /// The caller's name for it.
    pub key: String,
    /// Of its body.
    pub digest: String,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The body, as JSON.
    pub body: String,
}

/// Until when a request may be worked on, in milliseconds since the epoch: who takes it over later has
/// another, so that this one counts no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerTurn(pub i64);

/// Whether a request is to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only what is begun may be worked on"]
pub enum Begun {
    /// It is, by whoever asked.
    Now(AnswerTurn),
    /// It was, and this was the answer.
    Before(Answered),
    /// Somebody is at it.
    AtWork,
    /// The key was used for something else.
    OfAnother,
    /// The caller has too many in a day.
    TooMany,
}

impl Store {
    /// Begins a request, unless it was begun before.
    pub async fn begin_answer(
        &self,
        request: &Repeatable,
        now: Timestamp,
    ) -> Result<Begun, StoreError> {
        let mut write = self.begin(DOING).await?;
        forget_old(&mut write, now).await?;
        let begun = if insert(&mut write, request, now).await? {
            if of_caller(&mut write, &request.caller).await? > MOST_OF_ONE {
                return Ok(Begun::TooMany);
            }
            Begun::Now(turn(now))
        } else {
            self.known(&mut write, request, now).await?
        };
        write.commit().await?;
        Ok(begun)
    }

    /// Keeps what was answered. Changes nothing where somebody else has taken the request over.
    pub async fn keep_answer(
        &self,
        request: &Repeatable,
        AnswerTurn(due_at): AnswerTurn,
        answer: &Answered,
    ) -> Result<(), StoreError> {
        let mut write = self.begin(DOING).await?;
        sqlx::query(
            "UPDATE answers SET status = $4, body = $5 WHERE caller = $1 AND route = $2 \
             AND request_key = $3 AND due_at = $6 AND status IS NULL",
        )
        .bind(storable(&request.caller))
        .bind(storable(&request.route))
        .bind(storable(&request.key))
        .bind(i64::from(answer.status))
        .bind(storable(&answer.body))
        .bind(due_at)
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
        write.commit().await
    }

    /// Lets go of a request that was refused: nothing was done, and a repeat is judged anew. Changes
    /// nothing where somebody else has taken the request over.
    pub async fn forget_answer(
        &self,
        request: &Repeatable,
        AnswerTurn(due_at): AnswerTurn,
    ) -> Result<(), StoreError> {
        let mut write = self.begin(DOING).await?;
        sqlx::query(
            "DELETE FROM answers WHERE caller = $1 AND route = $2 AND request_key = $3 \
             AND due_at = $4 AND status IS NULL",
        )
        .bind(storable(&request.caller))
        .bind(storable(&request.route))
        .bind(storable(&request.key))
        .bind(due_at)
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
        write.commit().await
    }

    /// What there is of a request that was begun before.
    async fn known(
        &self,
        write: &mut Write,
        request: &Repeatable,
        now: Timestamp,
    ) -> Result<Begun, StoreError> {
        let row = sqlx::query(self.locking(
            "SELECT request_key AS id, digest, due_at, status, body FROM answers \
             WHERE caller = $1 AND route = $2 AND request_key = $3",
            "FOR UPDATE",
        ))
        .bind(storable(&request.caller))
        .bind(storable(&request.route))
        .bind(storable(&request.key))
        .fetch_optional(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
        // Whoever was at it has just let go: the next repeat finds it free.
        let Some(row) = row.map(Row::new) else { return Ok(Begun::AtWork) };
        if row.text("digest")? != request.digest {
            return Ok(Begun::OfAnother);
        }
        if row.maybe_number("status")?.is_some() {
            let answered = Answered { status: row.count("status")?, body: row.text("body")? };
            return Ok(Begun::Before(answered));
        }
        if row.time("due_at")? > now {
            return Ok(Begun::AtWork);
        }
        take_over(write, request, now).await?;
        Ok(Begun::Now(turn(now)))
    }
}

fn turn(now: Timestamp) -> AnswerTurn {
    AnswerTurn(end_of(now, AT_WORK))
}

async fn forget_old(write: &mut Write, now: Timestamp) -> Result<(), StoreError> {
    let before = now.checked_sub(KEPT).unwrap_or(Timestamp::UNIX_EPOCH);
    sqlx::query("DELETE FROM answers WHERE begun_at <= $1")
        .bind(before.as_millisecond())
        .execute(write.sql())
        .await
        .map(drop)
        .map_err(StoreError::doing(DOING))
}

/// Whether it was not there.
async fn insert(
    write: &mut Write,
    request: &Repeatable,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let Repeatable { caller, route, key, digest } = request;
    let done = sqlx::query(
        "INSERT INTO answers (caller, route, request_key, digest, begun_at, due_at) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (caller, route, request_key) DO NOTHING",
    )
    .bind(storable(caller))
    .bind(storable(route))
    .bind(storable(key))
    .bind(digest)
    .bind(now.as_millisecond())
    .bind(turn(now).0)
    .execute(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    Ok(done.rows_affected() == 1)
}

async fn of_caller(write: &mut Write, caller: &str) -> Result<i64, StoreError> {
    let row = sqlx::query("SELECT 'all' AS id, COUNT(*) AS n FROM answers WHERE caller = $1")
        .bind(storable(caller))
        .fetch_one(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    Row::new(row).number("n")
}

async fn take_over(
    write: &mut Write,
    request: &Repeatable,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE answers SET due_at = $4 WHERE caller = $1 AND route = $2 AND request_key = $3",
    )
    .bind(storable(&request.caller))
    .bind(storable(&request.route))
    .bind(storable(&request.key))
    .bind(turn(now).0)
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(DOING))
}
