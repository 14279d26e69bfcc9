//! Idempotency keys: an act that was asked for under one is done once, and a repeat is answered the same.
//!
//! ```text
//! begin ─▶ Started ─▶ the act and its answer, in one transaction ─▶ Replay
//!              │ refused: nothing was done ─▶ release ─▶ Started
//!              └ its process dies ─▶ the lease ends ─▶ Started
//! ```
//!
//! The answer is written by the transaction that does the act, and that transaction fails where the lease is
//! another's by now. So there is no act without its answer, and none that two requests did. A removal is not
//! done in one transaction: its record is, and the key leads to it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::model::id::DeployId;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::end_of;
use crate::store::query::{Bind, Bound, query};
use crate::store::write::WriteTransaction;

/// For so long a repeat is known.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Longer than any act takes; then its process has died, and a repeat begins anew.
const LEASE: Duration = Duration::from_mins(5);
/// More than a caller can mean in a day.
const MOST_OF_ONE: i64 = 10_000;
/// A longer answer is not kept: only that there was one.
const LONGEST_ANSWER: usize = 64 * 1024;
/// Of one caller.
const COUNT: &str = "SELECT 'all' AS id, COUNT(*) AS n FROM answers WHERE caller = $1";
const DOING: &str = "keeping the answer to an act";

/// What a request that may be repeated is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
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
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body, as JSON.
    pub body: String,
}

impl StoredAnswer {
    /// An answer with that body.
    pub fn new(status: u16, body: &impl Serialize) -> Self {
        Self::of_json(status, serde_json::to_string(body).unwrap_or_default())
    }

    /// An answer with that text of JSON. It was done, and must not be done again, even where the answer is
    /// too long to be kept.
    pub fn of_json(status: u16, body: String) -> Self {
        if (1..=LONGEST_ANSWER).contains(&body.len()) {
            return Self { status, body };
        }
        let body = r#"{"note": "it is done; the answer was too long to be kept"}"#.to_owned();
        Self { status, body }
    }
}

/// The right to do what a key is for, until its end. Whoever takes the key over later has another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLease {
    key: IdempotencyKey,
    /// In milliseconds since the epoch; it tells leases of one key apart.
    due_at: i64,
    act: Option<DeployId>,
}

impl KeyLease {
    /// A lease that no store gave: for who answers without one.
    pub fn of(key: IdempotencyKey) -> Self {
        Self { key, due_at: 0, act: None }
    }

    /// The key.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// The record that an earlier holder of the key began, which died before its end.
    pub fn act(&self) -> Option<&DeployId> {
        self.act.as_ref()
    }
}

/// The key and the end of the lease: `$1` to `$4`.
impl Bind for &KeyLease {
    fn bind(self, query: Bound) -> Bound {
        let IdempotencyKey { caller, route, key, digest: _ } = &self.key;
        (caller, route, key, self.due_at).bind(query)
    }
}

/// Whether a request is to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only what is begun may be worked on"]
pub enum Begin {
    /// It is, by whoever asked.
    Started(KeyLease),
    /// It was done, and this was the answer.
    Replay(StoredAnswer),
    /// Another request is at it.
    InProgress,
    /// The key was used for a request with another body.
    KeyReused,
    /// The caller has too many in a day.
    TooMany,
}

/// Makes an answer of the result of an act.
type Answering<T> = fn(&T) -> StoredAnswer;

/// How the result of an act is answered, and the lease of the key that the answer is kept under.
#[derive(Debug, Clone)]
pub struct Reply<T> {
    keyed: Option<(KeyLease, Answering<T>)>,
}

/// An answer that the transaction of its act keeps.
#[derive(Debug, Clone)]
pub struct PendingAnswer {
    lease: KeyLease,
    answer: StoredAnswer,
}

impl<T> Reply<T> {
    /// The answer that the function makes of the result; kept where there is a key.
    pub fn new(lease: Option<KeyLease>, answer: Answering<T>) -> Self {
        Self { keyed: lease.map(|lease| (lease, answer)) }
    }

    /// An answer that nobody keeps: the act may be done again.
    pub fn without_key() -> Self {
        Self { keyed: None }
    }

    /// The lease of its key, if there is one.
    pub fn lease(&self) -> Option<&KeyLease> {
        self.keyed.as_ref().map(|(lease, _)| lease)
    }

    /// Returns what is kept of that result.
    pub fn answer(&self, result: &T) -> Option<PendingAnswer> {
        let (lease, answer) = self.keyed.as_ref()?;
        Some(PendingAnswer { lease: lease.clone(), answer: answer(result) })
    }
}

/// Keeps the answer in the transaction of its act.
///
/// # Errors
/// [`StoreError::KeyLost`] where another request has the key by now: then the act must not be done.
pub(super) async fn keep(
    write: &mut WriteTransaction,
    kept: Option<&PendingAnswer>,
) -> Result<(), StoreError> {
    let Some(PendingAnswer { lease, answer }) = kept else { return Ok(()) };
    if write_answer(write, lease, answer).await? { Ok(()) } else { Err(key_lost(lease)) }
}

/// Notes which record the act began, in the transaction that begins it.
///
/// # Errors
/// [`StoreError::KeyLost`], as for [`keep`].
pub(super) async fn note_act(
    write: &mut WriteTransaction,
    lease: Option<&KeyLease>,
    act: &DeployId,
) -> Result<(), StoreError> {
    let Some(lease) = lease else { return Ok(()) };
    let sql = "UPDATE answers SET act = $5 WHERE caller = $1 AND route = $2 AND request_key = $3 \
         AND due_at = $4 AND status IS NULL";
    let done = query(sql, (lease, act)).execute(write.sql(), DOING).await?;
    if done == 1 { Ok(()) } else { Err(key_lost(lease)) }
}

/// The leases of processes that are known to be dead are over; see `Store::end_leases`.
pub(super) async fn abandon(
    write: &mut WriteTransaction,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE answers SET due_at = $1 WHERE status IS NULL AND due_at > $1";
    query(sql, now)
        .execute(write.sql(), "releasing the idempotency keys of a former process")
        .await
        .map(drop)
}

impl Store {
    /// Begins a request, unless it was begun before.
    pub async fn begin_idempotent(
        &self,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Begin, StoreError> {
        let mut write = self.begin(DOING).await?;
        forget_old(&mut write, now).await?;
        let begun = if insert(&mut write, key, now).await? {
            if query(COUNT, &key.caller).one(write.sql(), DOING).await?.number("n")? > MOST_OF_ONE {
                return Ok(Begin::TooMany);
            }
            Begin::Started(KeyLease { key: key.clone(), due_at: end_of(now, LEASE), act: None })
        } else {
            self.look_up(&mut write, key, now).await?
        };
        write.commit().await?;
        Ok(begun)
    }

    /// Keeps the answer of a request that found nothing to do, or was answered by a record: no transaction
    /// of an act did. Changes nothing where one did, or where another request has the key by now.
    pub async fn keep_answer(
        &self,
        lease: &KeyLease,
        answer: &StoredAnswer,
    ) -> Result<(), StoreError> {
        let mut write = self.begin(DOING).await?;
        write_answer(&mut write, lease, answer).await?;
        write.commit().await
    }

    /// Lets go of a key whose request was refused: nothing was done, and a repeat is judged anew. One that
    /// leads to a record keeps it. Changes nothing of a request that was answered, or of another's key.
    pub async fn release_key(&self, lease: &KeyLease, now: Timestamp) -> Result<(), StoreError> {
        let mut write = self.begin(DOING).await?;
        let sql = "DELETE FROM answers WHERE caller = $1 AND route = $2 AND request_key = $3 \
             AND due_at = $4 AND status IS NULL AND act IS NULL";
        query(sql, lease).execute(write.sql(), DOING).await?;
        let sql = "UPDATE answers SET due_at = $5 WHERE caller = $1 AND route = $2 AND request_key = $3 \
             AND due_at = $4 AND status IS NULL";
        query(sql, (lease, now)).execute(write.sql(), DOING).await?;
        write.commit().await
    }

    /// Looks up what there is of a request that was begun before.
    async fn look_up(
        &self,
        write: &mut WriteTransaction,
        key: &IdempotencyKey,
        now: Timestamp,
    ) -> Result<Begin, StoreError> {
        let sql = self.locking(
            "SELECT request_key AS id, digest, due_at, status, body, act FROM answers \
             WHERE caller = $1 AND route = $2 AND request_key = $3",
            "FOR UPDATE",
        );
        let row = query(sql, (&key.caller, &key.route, &key.key)).first(write.sql(), DOING).await?;
        // Whoever was at it has just let go: the next repeat finds it free.
        let Some(row) = row else { return Ok(Begin::InProgress) };
        if row.text("digest")? != key.digest {
            return Ok(Begin::KeyReused);
        }
        if row.maybe_number("status")?.is_some() {
            let answer = StoredAnswer { status: row.count("status")?, body: row.text("body")? };
            return Ok(Begin::Replay(answer));
        }
        let before = row.number("due_at")?;
        if before > now.as_millisecond() {
            return Ok(Begin::InProgress);
        }
        let lease = KeyLease { key: key.clone(), due_at: before, act: row.maybe_id("act")? };
        take_over(write, lease, now).await
    }
}

fn key_lost(lease: &KeyLease) -> StoreError {
    StoreError::KeyLost { key: lease.key.key.clone() }
}

/// Writes the answer; returns whether it was written: nobody has the key but the lease, and there
/// is no answer yet.
async fn write_answer(
    write: &mut WriteTransaction,
    lease: &KeyLease,
    answer: &StoredAnswer,
) -> Result<bool, StoreError> {
    let sql = "UPDATE answers SET status = $5, body = $6 WHERE caller = $1 AND route = $2 \
         AND request_key = $3 AND due_at = $4 AND status IS NULL";
    let done = query(sql, (lease, answer.status, &answer.body)).execute(write.sql(), DOING).await?;
    Ok(done == 1)
}

async fn forget_old(write: &mut WriteTransaction, now: Timestamp) -> Result<(), StoreError> {
    let before = now.checked_sub(KEPT).unwrap_or(Timestamp::UNIX_EPOCH);
    query("DELETE FROM answers WHERE begun_at <= $1", before)
        .execute(write.sql(), DOING)
        .await
        .map(drop)
}

/// Inserts the key; returns whether it was not there.
async fn insert(
    write: &mut WriteTransaction,
    request: &IdempotencyKey,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let IdempotencyKey { caller, route, key, digest } = request;
    let sql = "INSERT INTO answers (caller, route, request_key, digest, begun_at, due_at) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (caller, route, request_key) DO NOTHING";
    let done = query(sql, (caller, route, key, digest, now, end_of(now, LEASE)))
        .execute(write.sql(), DOING)
        .await?;
    Ok(done == 1)
}

/// Another lease in place of one that has ended.
async fn take_over(
    write: &mut WriteTransaction,
    ended: KeyLease,
    now: Timestamp,
) -> Result<Begin, StoreError> {
    let due_at = end_of(now, LEASE);
    let sql = "UPDATE answers SET due_at = $5 WHERE caller = $1 AND route = $2 AND request_key = $3 \
         AND due_at = $4";
    query(sql, (&ended, due_at)).execute(write.sql(), DOING).await?;
    Ok(Begin::Started(KeyLease { due_at, ..ended }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_long_is_not_kept_but_that_there_was_one() {
        let StoredAnswer { status, body } = StoredAnswer::new(202, &"x".repeat(LONGEST_ANSWER));
        assert!(status == 202 && body.contains("done"), "{body}");
        assert_eq!(StoredAnswer::new(201, &["a"]).body, r#"["a"]"#);
    }
}
