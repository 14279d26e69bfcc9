//! Locks: who may not be deployed, by a person's word. One that was taken away is kept as a record.

use jiff::Timestamp;
use sqlx::{Any, AssertSqlSafe, Executor};

use crate::model::audit::Entry;
use crate::model::id::{AppKey, TargetName};
use crate::model::lock::{Lock, LockId, LockScope};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::{PendingAnswer, Reply};
use crate::store::row::{Row, storable};
use crate::store::write::Write;
use crate::store::{audit, idempotency_keys, lane};

/// What became of a lock that was to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it may not have been placed"]
pub enum Locked {
    /// It is placed.
    Yes,
    /// So many are placed that nobody looks through them any more; nothing was changed.
    TooMany,
}

/// What an unlocking found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlocked {
    /// It is taken away; what it was.
    Yes(Lock),
    /// Somebody took it away before.
    Before {
        /// What it was.
        lock: Lock,
        /// Who took it away.
        by: String,
        /// When.
        at: Timestamp,
        /// Why.
        why: String,
    },
    /// It has run out by itself.
    RanOut(Lock),
    /// There never was one of that id.
    NotThere,
}

/// Whoever looks at the list gets all of them.
const MOST: i64 = 1_000;

const COLUMNS: &str =
    "id, scope, target, owner, namespace, slug, reason, placed_by, since, ends_at";
const PLACED: &str = "removed_at IS NULL AND (ends_at IS NULL OR ends_at > $1)";

const PLACING: &str = "placing a lock";
const TAKING: &str = "taking a lock away";

/// The columns that say whom a lock stops.
#[derive(Default)]
struct Scope {
    word: &'static str,
    target: Option<String>,
    owner: Option<String>,
    namespace: Option<String>,
    slug: Option<String>,
}

impl Scope {
    fn of(scope: &LockScope) -> Self {
        match scope {
            LockScope::Everything => Self { word: "everything", ..Self::default() },
            LockScope::Target(target) => {
                Self { word: "target", target: Some(target.to_string()), ..Self::default() }
            }
            LockScope::Owner(owner) => {
                Self { word: "owner", owner: Some(storable(owner)), ..Self::default() }
            }
            LockScope::App(target, app) => Self {
                word: "app",
                target: Some(target.to_string()),
                namespace: Some(app.namespace.to_string()),
                slug: Some(app.slug.to_string()),
                owner: None,
            },
        }
    }
}

impl Store {
    /// Places a lock under a new id; the entry says who does it, and gets what it is about. The answer to a
    /// caller who may repeat it is kept with it.
    pub async fn add_lock(
        &self,
        id: &LockId,
        lock: &Lock,
        entry: &Entry,
        kept: Option<&PendingAnswer>,
    ) -> Result<Locked, StoreError> {
        let mut write = self.begin_durable(PLACING).await?;
        if count(&mut write, entry.at).await? >= MOST {
            return Ok(Locked::TooMany);
        }
        // Whoever asks for the turn to push has asked before, or sees it.
        let target = match &lock.scope {
            LockScope::Target(target) | LockScope::App(target, _) => Some(target),
            LockScope::Everything | LockScope::Owner(_) => None,
        };
        lane::lock_all(self, &mut write, target).await?;
        insert(&mut write, id, lock).await?;
        audit::note(&mut write, &about(entry, id, lock)).await?;
        idempotency_keys::keep(&mut write, kept).await?;
        write.commit().await?;
        Ok(Locked::Yes)
    }

    /// Takes a lock away that has not run out; who did and why stays with it, and the answer to a caller who may
    /// repeat it.
    pub async fn remove_lock(
        &self,
        id: &LockId,
        entry: &Entry,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<Unlocked, StoreError> {
        let mut write = self.begin_durable(TAKING).await?;
        let sql = format!(
            "UPDATE locks SET removed_at = $1, removed_by = $3, removed_why = $4 \
             WHERE id = $2 AND {PLACED} RETURNING {COLUMNS}"
        );
        let row = sqlx::query(AssertSqlSafe(sql))
            .bind(entry.at.as_millisecond())
            .bind(id.as_str())
            .bind(storable(&entry.by.name))
            .bind(storable(&entry.reason))
            .fetch_optional(write.sql())
            .await
            .map_err(StoreError::doing(TAKING))?;
        let Some(row) = row else { return gone(&mut write, id).await };
        let found = placed(&Row::new(row))?;
        audit::note(&mut write, &about(entry, id, &found.1)).await?;
        idempotency_keys::keep(&mut write, reply.answer(&found).as_ref()).await?;
        write.commit().await?;
        Ok(Unlocked::Yes(found.1))
    }

    /// A lock as it was placed, also one that is no more.
    pub async fn lock(&self, id: &LockId) -> Result<Option<Lock>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM locks WHERE id = $1");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(id.as_str());
        let row = row.fetch_optional(&self.pool).await;
        let row = row.map_err(StoreError::doing("reading a lock"))?;
        row.map(|row| placed(&Row::new(row)).map(|(_, lock)| lock)).transpose()
    }

    /// The locks that are placed now, oldest first.
    pub async fn locks(&self, now: Timestamp) -> Result<Vec<(LockId, Lock)>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM locks WHERE {PLACED} ORDER BY since, id");
        let rows = sqlx::query(AssertSqlSafe(sql)).bind(now.as_millisecond());
        let rows = rows.fetch_all(&self.pool).await;
        let rows = rows.map_err(StoreError::doing("listing locks"))?;
        rows.into_iter().map(|row| placed(&Row::new(row))).collect()
    }

    /// The locks that stop a deployment of the app to the target now, oldest first. An owner is
    /// the same in either case of letters.
    pub async fn locks_that_stop(
        &self,
        target: &TargetName,
        app: &AppKey,
        owner: Option<&str>,
        now: Timestamp,
    ) -> Result<Vec<Lock>, StoreError> {
        stop(&self.pool, target, app, owner, now).await
    }
}

/// The locks that stop a deployment of the app to the target now.
pub(super) async fn stop<'e>(
    database: impl Executor<'e, Database = Any>,
    target: &TargetName,
    app: &AppKey,
    owner: Option<&str>,
    now: Timestamp,
) -> Result<Vec<Lock>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM locks WHERE {PLACED} AND (scope = 'everything' \
         OR (scope = 'target' AND target = $2) \
         OR (scope = 'app' AND target = $2 AND namespace = $3 AND slug = $4) \
         OR (scope = 'owner' AND LOWER(owner) = LOWER($5))) ORDER BY since, id"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(now.as_millisecond())
        .bind(target.as_str().to_owned())
        .bind(app.namespace.as_str().to_owned())
        .bind(app.slug.as_str().to_owned())
        // No owner of a lock is empty.
        .bind(storable(owner.unwrap_or_default()))
        .fetch_all(database)
        .await
        .map_err(StoreError::doing("asking which locks stop a deployment"))?;
    rows.into_iter().map(|row| placed(&Row::new(row)).map(|(_, lock)| lock)).collect()
}

async fn count(write: &mut Write, now: Timestamp) -> Result<i64, StoreError> {
    let sql = format!("SELECT '' AS id, COUNT(*) AS placed FROM locks WHERE {PLACED}");
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(now.as_millisecond())
        .fetch_one(write.sql())
        .await
        .map_err(StoreError::doing(PLACING))?;
    Row::new(row).number("placed")
}

async fn insert(write: &mut Write, id: &LockId, lock: &Lock) -> Result<(), StoreError> {
    let Lock { scope, reason, by, since, until } = lock;
    let Scope { word, target, owner, namespace, slug } = Scope::of(scope);
    sqlx::query(
        "INSERT INTO locks (id, scope, target, owner, namespace, slug, reason, placed_by, \
         since, ends_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(id.as_str())
    .bind(word)
    .bind(target)
    .bind(owner)
    .bind(namespace)
    .bind(slug)
    .bind(storable(reason))
    .bind(storable(by))
    .bind(since.as_millisecond())
    .bind(until.map(Timestamp::as_millisecond))
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(PLACING))
}

/// The entry with what it is about.
fn about(entry: &Entry, id: &LockId, lock: &Lock) -> Entry {
    let (target, app) = match &lock.scope {
        LockScope::Everything | LockScope::Owner(_) => (None, None),
        LockScope::Target(target) => (Some(target.clone()), None),
        LockScope::App(target, app) => (Some(target.clone()), Some(app.clone())),
    };
    Entry { target, app, subject: format!("lock {id}, {}", lock.scope), ..entry.clone() }
}

/// Why a lock cannot be taken away.
async fn gone(write: &mut Write, id: &LockId) -> Result<Unlocked, StoreError> {
    let sql =
        format!("SELECT {COLUMNS}, removed_at, removed_by, removed_why FROM locks WHERE id = $1");
    let row = sqlx::query(AssertSqlSafe(sql)).bind(id.as_str());
    let row = row.fetch_optional(write.sql()).await.map_err(StoreError::doing(TAKING))?;
    let Some(row) = row.map(Row::new) else { return Ok(Unlocked::NotThere) };
    let (_, lock) = placed(&row)?;
    Ok(match row.maybe_time("removed_at")? {
        Some(at) => Unlocked::Before {
            lock,
            at,
            by: row.text("removed_by")?,
            why: row.text("removed_why")?,
        },
        None => Unlocked::RanOut(lock),
    })
}

fn placed(row: &Row) -> Result<(LockId, Lock), StoreError> {
    let lock = Lock {
        scope: scope(row)?,
        reason: row.text("reason")?,
        by: row.text("placed_by")?,
        since: row.time("since")?,
        until: row.maybe_time("ends_at")?,
    };
    Ok((row.id("id")?, lock))
}

fn scope(row: &Row) -> Result<LockScope, StoreError> {
    let word = row.text("scope")?;
    Ok(match word.as_str() {
        "everything" => LockScope::Everything,
        "target" => LockScope::Target(row.id("target")?),
        "owner" => LockScope::Owner(row.text("owner")?),
        "app" => {
            let app = AppKey { namespace: row.id("namespace")?, slug: row.id("slug")? };
            LockScope::App(row.id("target")?, app)
        }
        _ => return Err(row.corrupt("scope", &format!("{word:?} is none"))),
    })
}
