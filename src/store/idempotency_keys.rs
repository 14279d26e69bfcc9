//! Idempotency keys: an act that was requested under a key is done once, and a repeat gets the same
//! answer.
//!
//! ```text
//! begin ─▶ Started ─▶ the act and its answer, in one transaction ─▶ Replay
//!              │ refused: nothing was done ─▶ release ─▶ Started
//!              └ its process dies ─▶ the lease ends ─▶ Started
//! ```
//!
//! The transaction of the act writes the answer, and fails where another request has the lease by then. So
//! there is no act without its answer, and none that two requests did. A removal is not done in one
//! transaction: its record is, and the key leads to it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::model::id::DeployId;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::end_of;
use crate::store::query::{Bind, BoundValue, query};
use crate::store::write::WriteTransaction;

/// The time for which a repeat is recognized.
const RETENTION: SignedDuration = SignedDuration::from_hours(24);
/// The lease of a request, longer than any act takes; after it the process has died, and a repeat
/// begins anew.
const LEASE: Duration = Duration::from_mins(5);
/// The most keys of one caller in a day, more than a caller can need.
const MAX_OF_ONE: i64 = 10_000;
/// The longest answer that is kept; of a longer one only the fact is kept.
const LONGEST_ANSWER: usize = 64 * 1024;
/// The statement that counts the keys of one caller.
const COUNT: &str = "SELECT 'all' AS id, COUNT(*) AS n FROM answers WHERE caller = $1";
const DOING: &str = "storing the answer to an act";

/// The identity of a request that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The account of the caller.
    pub caller: String,
    /// The route.
    pub route: String,
    /// The caller's name for the request.
    pub key: String,
    /// The digest of the body.
    pub digest: String,
}

/// A stored answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body, as JSON.
    pub body: String,
}

impl StoredAnswer {
    /// Creates an answer with that body.
    pub fn new(status: u16, body: &impl Serialize) -> Self {
        Self::of_json(status, serde_json::to_string(body).unwrap_or_default())
    }

    /// Creates an answer with that JSON text. The act was done, and must not be done again, even
    /// where the answer is too long to be kept.
    pub fn of_json(status: u16, body: String) -> Self {
        if (1..=LONGEST_ANSWER).contains(&body.len()) {
            return Self { status, body };
        }
        let body = r#"{"note": "it is done; the answer was too long to be kept"}"#.to_owned();
        Self { status, body }
    }
}

/// The right to do the act of a key, until its end. A request that takes the key over later has
/// another lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLease {
    key: IdempotencyKey,
    /// The end in milliseconds since the epoch; it distinguishes leases of one key.
    due_at: i64,
    act: Option<DeployId>,
}

impl KeyLease {
    /// Creates a lease without a store, for a caller that answers without one.
    pub fn of(key: IdempotencyKey) -> Self {
        Self { key, due_at: 0, act: None }
    }

    /// Returns the key.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// Returns the record that an earlier holder of the key began before it died.
    pub fn act(&self) -> Option<&DeployId> {
        self.act.as_ref()
    }
}

/// Binds the key and the end of the lease: `$1` to `$4`.
impl Bind for &KeyLease {
    fn bind(self, values: &mut Vec<BoundValue>) {
        let IdempotencyKey { caller, route, key, digest: _ } = &self.key;
        (caller, route, key, self.due_at).bind(values);
    }
}

/// The decision about a request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only what is begun may be worked on"]
pub enum Begin {
    /// The caller holds the lease, and does the act.
    Started(KeyLease),
    /// The act was done; its answer.
    Replay(StoredAnswer),
    /// Another request is doing it.
    InProgress,
    /// The key was used for a request with another body.
    KeyReused,
    /// The caller has too many keys in a day.
    TooMany,
}

/// A function that makes an answer of the result of an act.
type Answering<T> = fn(&T) -> StoredAnswer;

/// The answer function of an act, and the lease of the key under which the answer is stored.
#[derive(Debug, Clone)]
pub struct Reply<T> {
    keyed: Option<(KeyLease, Answering<T>)>,
}

/// An answer that the transaction of its act stores.
#[derive(Debug, Clone)]
pub struct PendingAnswer {
    lease: KeyLease,
    answer: StoredAnswer,
}

impl<T> Reply<T> {
    /// Creates a reply whose answer is made by the function, and stored where there is a key.
    pub fn new(lease: Option<KeyLease>, answer: Answering<T>) -> Self {
        Self { keyed: lease.map(|lease| (lease, answer)) }
    }

    /// Creates a reply whose answer is not stored: the act may be done again.
    pub fn without_key() -> Self {
        Self { keyed: None }
    }

    /// Returns the lease of its key, if there is one.
    pub fn lease(&self) -> Option<&KeyLease> {
        self.keyed.as_ref().map(|(lease, _)| lease)
    }

    /// Returns the answer to store for that result.
    pub fn answer(&self, result: &T) -> Option<PendingAnswer> {
        let (lease, answer) = self.keyed.as_ref()?;
        Some(PendingAnswer { lease: lease.clone(), answer: answer(result) })
    }
}

/// Stores the answer in the transaction of its act.
///
/// # Errors
/// [`StoreError::KeyLost`] where another request has the key by now: then the act must not be done.
pub(super) async fn keep(
    write: &mut WriteTransaction,
    pending: Option<&PendingAnswer>,
) -> Result<(), StoreError> {
    let Some(PendingAnswer { lease, answer }) = pending else { return Ok(()) };
    if write_answer(write, lease, answer).await? { Ok(()) } else { Err(key_lost(lease)) }
}

/// Links the key to the record that the act began, in the transaction that begins it.
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
    let count = query(sql, (lease, act)).execute(write.sql(), DOING).await?;
    if count == 1 { Ok(()) } else { Err(key_lost(lease)) }
}

/// Ends the leases of processes that are known to be dead; see `Store::end_leases`.
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
        let begin = if insert(&mut write, key, now).await? {
            if query(COUNT, &key.caller).fetch_one(write.sql(), DOING).await?.number("n")?
                > MAX_OF_ONE
            {
                return Ok(Begin::TooMany);
            }
            Begin::Started(KeyLease { key: key.clone(), due_at: end_of(now, LEASE), act: None })
        } else {
            self.look_up(&mut write, key, now).await?
        };
        write.commit().await?;
        Ok(begin)
    }

    /// Stores the answer of a request that had nothing to do, or was answered by a record, so that
    /// no transaction of an act stored it. Changes nothing where one did, or where another request
    /// has the key by now.
    pub async fn keep_answer(
        &self,
        lease: &KeyLease,
        answer: &StoredAnswer,
    ) -> Result<(), StoreError> {
        let mut write = self.begin(DOING).await?;
        write_answer(&mut write, lease, answer).await?;
        write.commit().await
    }

    /// Releases a key whose request was refused: nothing was done, and a repeat is judged anew. A
    /// key that leads to a record keeps it. Changes nothing where the request was answered, or
    /// another request has the key.
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

    /// Looks up a request that was begun before.
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
        // The other request has just released it: the next repeat finds it free.
        let Some(row) = row else { return Ok(Begin::InProgress) };
        if row.text("digest")? != key.digest {
            return Ok(Begin::KeyReused);
        }
        if row.maybe_number("status")?.is_some() {
            let answer = StoredAnswer { status: row.count("status")?, body: row.text("body")? };
            return Ok(Begin::Replay(answer));
        }
        let due_at = row.number("due_at")?;
        if due_at > now.as_millisecond() {
            return Ok(Begin::InProgress);
        }
        let lease = KeyLease { key: key.clone(), due_at, act: row.maybe_id("act")? };
        take_over(write, lease, now).await
    }
}

fn key_lost(lease: &KeyLease) -> StoreError {
    StoreError::KeyLost { key: lease.key.key.clone() }
}

/// Writes the answer; returns true if it was written: the lease still holds the key, and there is
/// no answer yet.
async fn write_answer(
    write: &mut WriteTransaction,
    lease: &KeyLease,
    answer: &StoredAnswer,
) -> Result<bool, StoreError> {
    let sql = "UPDATE answers SET status = $5, body = $6 WHERE caller = $1 AND route = $2 \
         AND request_key = $3 AND due_at = $4 AND status IS NULL";
    let count =
        query(sql, (lease, answer.status, &answer.body)).execute(write.sql(), DOING).await?;
    Ok(count == 1)
}

async fn forget_old(write: &mut WriteTransaction, now: Timestamp) -> Result<(), StoreError> {
    let horizon = now.checked_sub(RETENTION).unwrap_or(Timestamp::UNIX_EPOCH);
    query("DELETE FROM answers WHERE begun_at <= $1", horizon)
        .execute(write.sql(), DOING)
        .await
        .map(drop)
}

/// Inserts the key; returns true if it was not there.
async fn insert(
    write: &mut WriteTransaction,
    request: &IdempotencyKey,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let IdempotencyKey { caller, route, key, digest } = request;
    let sql = "INSERT INTO answers (caller, route, request_key, digest, begun_at, due_at) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (caller, route, request_key) DO NOTHING";
    let count = query(sql, (caller, route, key, digest, now, end_of(now, LEASE)))
        .execute(write.sql(), DOING)
        .await?;
    Ok(count == 1)
}

/// Replaces a lease that has ended.
async fn take_over(
    write: &mut WriteTransaction,
    lease: KeyLease,
    now: Timestamp,
) -> Result<Begin, StoreError> {
    let due_at = end_of(now, LEASE);
    let sql = "UPDATE answers SET due_at = $5 WHERE caller = $1 AND route = $2 AND request_key = $3 \
         AND due_at = $4";
    query(sql, (&lease, due_at)).execute(write.sql(), DOING).await?;
    Ok(Begin::Started(KeyLease { due_at, ..lease }))
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
