//! Browsers of people who have signed in, and the key by which the service knows its own cookies.
//!
//! A session is stored under the hash of its id, and a person's token encrypted by a key that only the cookie has: who
//! reads the database can neither take over a session nor use a token.

use jiff::{SignedDuration, Timestamp};

use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::{Query, query};
use crate::store::row::Row;

/// The most sessions of one account: the one that was not used for longest gives way to a new one.
const MAX_OF_ACCOUNT: i64 = 20;
/// The most sessions at all.
const MAX: i64 = 20_000;

const BEGINNING: &str = "beginning a session";
const READING: &str = "reading a session";
const ENDING: &str = "ending sessions";

/// A browser of somebody who has signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// The SHA-256 of the id that the cookie has, in hexadecimal.
    pub id: String,
    /// The account: `github:octocat`, `token:ci`.
    pub account: String,
    /// The name of the person or of the token.
    pub name: String,
    /// The proof of the account.
    pub proof: SessionProof,
    /// The time of the sign-in.
    pub began_at: Timestamp,
    /// The time of its last use, to the minute.
    pub seen_at: Timestamp,
    /// The time at which it ends, whatever its use.
    pub ends_at: Timestamp,
}

/// The proof of a session's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionProof {
    /// A person's token at the code host, encrypted, in hexadecimal.
    SealedToken(String),
    /// The SHA-256 of a configured token, in hexadecimal.
    TokenDigest(String),
}

impl Store {
    /// Returns the key of the service's cookies. All replicas have the one that was stored first.
    ///
    /// # Errors
    /// [`StoreError`]; so for all of these.
    pub async fn cookie_key(&self, new_key: &str, now: Timestamp) -> Result<String, StoreError> {
        let doing = "reading the key of cookies";
        let select =
            || query("SELECT name AS id, secret FROM cookie_keys WHERE name = 'cookies'", ());
        if let Some(row) = select().first(&self.readers, doing).await? {
            return row.text("secret");
        }
        let sql = "INSERT INTO cookie_keys (name, secret, made_at) VALUES ('cookies', $1, $2) \
             ON CONFLICT (name) DO NOTHING";
        self.run(query(sql, (new_key, now)), doing).await?;
        select().fetch_one(&self.readers, doing).await?.text("secret")
    }

    /// Stores a new session. Sessions that were not used since `unused_since`, or are over, go, and so do the oldest
    /// beyond the limits.
    pub async fn begin_session(
        &self,
        session: &SessionRecord,
        unused_since: Timestamp,
    ) -> Result<(), StoreError> {
        let mut write = self.begin_durable(BEGINNING).await?;
        let now = session.began_at;
        for statement in [
            query("DELETE FROM sessions WHERE ends_at <= $1 OR seen_at <= $2", (now, unused_since)),
            keep_newest_of(&session.account),
            query(
                "DELETE FROM sessions WHERE id IN (SELECT s.id FROM sessions s \
                 ORDER BY s.seen_at DESC, s.id LIMIT 1000000 OFFSET $1)",
                MAX - 1,
            ),
        ] {
            statement.execute(write.sql(), BEGINNING).await?;
        }
        let SessionRecord { id, account, name, proof, began_at, seen_at, ends_at } = session;
        let (sealed, digest) = match proof {
            SessionProof::SealedToken(text) => (Some(text), None),
            SessionProof::TokenDigest(text) => (None, Some(text)),
        };
        let sql = "INSERT INTO sessions (id, account, name, sealed, digest, began_at, seen_at, ends_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        query(sql, (id, account, name, sealed, digest, began_at, seen_at, ends_at))
            .execute(write.sql(), BEGINNING)
            .await?;
        write.commit().await
    }

    /// Returns a session that is not over, and was used since then.
    pub async fn session(
        &self,
        id: &str,
        now: Timestamp,
        used_since: Timestamp,
    ) -> Result<Option<SessionRecord>, StoreError> {
        let sql = "SELECT id, account, name, sealed, digest, began_at, seen_at, ends_at FROM sessions \
             WHERE id = $1 AND ends_at > $2 AND seen_at > $3";
        let row = query(sql, (id, now, used_since)).first(&self.readers, READING).await?;
        row.map(|row| read_session(&row)).transpose()
    }

    /// Records that a session is used.
    pub async fn note_session(&self, id: &str, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE sessions SET seen_at = $2 WHERE id = $1 AND seen_at < $2";
        self.run(query(sql, (id, now)), "recording the use of a session").await.map(drop)
    }

    /// Ends a session.
    pub async fn end_session(&self, id: &str) -> Result<(), StoreError> {
        self.run(query("DELETE FROM sessions WHERE id = $1", id), ENDING).await.map(drop)
    }

    /// Ends all sessions of an account; returns their number.
    pub async fn end_sessions_of(&self, account: &str) -> Result<u64, StoreError> {
        self.run(query("DELETE FROM sessions WHERE account = $1", account), ENDING).await
    }

    /// Deletes the sessions that are over, or were not used for so long; returns their number.
    pub async fn prune_sessions(
        &self,
        now: Timestamp,
        idle: SignedDuration,
    ) -> Result<u64, StoreError> {
        let unused_since = now.checked_sub(idle).unwrap_or(Timestamp::MIN);
        let sql = "DELETE FROM sessions WHERE ends_at <= $1 OR seen_at <= $2";
        self.run(query(sql, (now, unused_since)), ENDING).await
    }
}

fn keep_newest_of(account: &str) -> Query {
    let sql = "DELETE FROM sessions WHERE id IN (SELECT s.id FROM sessions s WHERE s.account = $1 \
         ORDER BY s.seen_at DESC, s.id LIMIT 1000000 OFFSET $2)";
    query(sql, (account, MAX_OF_ACCOUNT - 1))
}

fn read_session(row: &Row) -> Result<SessionRecord, StoreError> {
    let proof = match (row.maybe_text("sealed")?, row.maybe_text("digest")?) {
        (Some(sealed), _) => SessionProof::SealedToken(sealed),
        (None, Some(digest)) => SessionProof::TokenDigest(digest),
        (None, None) => return Err(row.corrupt("sealed", &"there is no proof of the account")),
    };
    Ok(SessionRecord {
        id: row.text("id")?,
        account: row.text("account")?,
        name: row.text("name")?,
        proof,
        began_at: row.time("began_at")?,
        seen_at: row.time("seen_at")?,
        ends_at: row.time("ends_at")?,
    })
}
