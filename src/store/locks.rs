//! Locks, by which people stop deployments. One that was taken away is kept as a record.

use jiff::Timestamp;

use crate::model::audit::AuditRecord;
use crate::model::id::{AppKey, LockId, TargetName};
use crate::model::lock::{Lock, LockScope};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::{PendingAnswer, Reply};
use crate::store::query::{Query, placeholders, query, query_of};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;
use crate::store::{audit, idempotency_keys, lane};

/// The result of placing a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it may not have been placed"]
pub enum LockPlacement {
    /// It is placed.
    Yes,
    /// There are as many locks as a person can still look through; nothing was changed.
    TooMany,
}

/// The result of an unlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlocked {
    /// The lock is taken away; as it was.
    Yes(Lock),
    /// It was taken away before.
    Before {
        /// The lock as it was.
        lock: Lock,
        /// The principal that took it away.
        by: String,
        /// The time.
        at: Timestamp,
        /// The reason.
        why: String,
    },
    /// It has ended by itself.
    RanOut(Lock),
    /// There never was a lock of that id.
    NotThere,
}

/// The most locks: a list shows all of them.
const MAX: i64 = 1_000;

const COLUMNS: &str =
    "id, scope, target, owner, namespace, slug, reason, placed_by, since, ends_at";
const ACTIVE: &str = "removed_at IS NULL AND (ends_at IS NULL OR ends_at > $1)";

const PLACING: &str = "placing a lock";
const TAKING: &str = "taking a lock away";

impl Store {
    /// Places a lock under a new id; the audit log entry names the principal, and gets its subject
    /// here. The answer to an idempotent request is stored with it.
    pub async fn add_lock(
        &self,
        id: &LockId,
        lock: &Lock,
        entry: &AuditRecord,
        answer: Option<&PendingAnswer>,
    ) -> Result<LockPlacement, StoreError> {
        let mut write = self.begin_durable(PLACING).await?;
        if count(&mut write, entry.at).await? >= MAX {
            return Ok(LockPlacement::TooMany);
        }
        // A deployment that asks for the turn to push has asked before, or sees the lock.
        lane::lock_all(self, &mut write, place(&lock.scope).0).await?;
        insert(&mut write, id, lock).await?;
        audit::note(&mut write, &add_subject(entry, id, lock)).await?;
        idempotency_keys::keep(&mut write, answer).await?;
        write.commit().await?;
        Ok(LockPlacement::Yes)
    }

    /// Takes a lock away that has not ended; the principal and the reason stay with it. The answer
    /// to an idempotent request is stored with it.
    pub async fn remove_lock(
        &self,
        id: &LockId,
        entry: &AuditRecord,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<Unlocked, StoreError> {
        let mut write = self.begin_durable(TAKING).await?;
        let sql = format!(
            "UPDATE locks SET removed_at = $1, removed_by = $3, removed_why = $4 \
             WHERE id = $2 AND {ACTIVE} RETURNING {COLUMNS}"
        );
        let row = query_of(sql, (entry.at, id, &entry.by.name, &entry.reason))
            .first(write.sql(), TAKING)
            .await?;
        let Some(row) = row else { return unlock_refusal(&mut write, id).await };
        let placed_lock = read_lock_with_id(&row)?;
        audit::note(&mut write, &add_subject(entry, id, &placed_lock.1)).await?;
        idempotency_keys::keep(&mut write, reply.answer(&placed_lock).as_ref()).await?;
        write.commit().await?;
        Ok(Unlocked::Yes(placed_lock.1))
    }

    /// Returns a lock as it was placed, also one that has ended.
    pub async fn lock(&self, id: &LockId) -> Result<Option<Lock>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM locks WHERE id = $1");
        let row = query_of(sql, id).first(&self.readers, "reading a lock").await?;
        row.map(|row| read_lock(&row)).transpose()
    }

    /// Returns the locks that are placed now, oldest first.
    pub async fn locks(&self, now: Timestamp) -> Result<Vec<(LockId, Lock)>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM locks WHERE {ACTIVE} ORDER BY since, id");
        let rows = query_of(sql, now).fetch_all(&self.readers, "listing locks").await?;
        rows.iter().map(read_lock_with_id).collect()
    }

    /// Lists the targets besides this one whose locks stop a deployment to it: those that it shares a cluster with.
    pub fn overlapping(&self, target: &TargetName) -> Vec<TargetName> {
        let targets = self.fleets.overlapping(target);
        targets.into_iter().filter(|other| other != target).collect()
    }

    /// Returns the locks that stop a deployment of the app to the target now, oldest first. Owners
    /// are compared without case.
    pub async fn locks_that_stop(
        &self,
        target: &TargetName,
        app: &AppKey,
        owner: Option<&str>,
        now: Timestamp,
    ) -> Result<Vec<Lock>, StoreError> {
        let doing = "reading the locks that stop a deployment";
        let stopping = select_stopping(self, (target, app), owner, now);
        read_locks(&stopping.fetch_all(&self.readers, doing).await?)
    }
}

/// Returns the query for the locks that stop a deployment of the app to the target now: those of the target, and of the
/// clusters and fleets that it shares a cluster with.
pub(super) fn select_stopping(
    store: &Store,
    (target, app): (&TargetName, &AppKey),
    owner: Option<&str>,
    now: Timestamp,
) -> Query {
    let targets = store.fleets.overlapping(target);
    let places = placeholders(5, targets.len());
    let sql = format!(
        "SELECT {COLUMNS} FROM locks WHERE {ACTIVE} AND (scope = 'everything' \
         OR (scope = 'target' AND target IN ({places})) \
         OR (scope = 'app' AND target IN ({places}) AND namespace = $2 AND slug = $3) \
         OR (scope = 'owner' AND LOWER(owner) = LOWER($4))) ORDER BY since, id"
    );
    // No owner of a lock is empty.
    let targets: Vec<&TargetName> = targets.iter().collect();
    query_of(sql, ((now, app, owner.unwrap_or_default()), targets))
}

pub(super) fn read_locks(rows: &[Row]) -> Result<Vec<Lock>, StoreError> {
    rows.iter().map(read_lock).collect()
}

async fn count(write: &mut WriteTransaction, now: Timestamp) -> Result<i64, StoreError> {
    let sql = format!("SELECT '' AS id, COUNT(*) AS placed FROM locks WHERE {ACTIVE}");
    let row = query_of(sql, now).fetch_one(write.sql(), PLACING).await?;
    row.number("placed")
}

async fn insert(write: &mut WriteTransaction, id: &LockId, lock: &Lock) -> Result<(), StoreError> {
    let Lock { scope, reason, by, since, until } = lock;
    let (word, owner) = match scope {
        LockScope::Everything => ("everything", None),
        LockScope::Target(_) => ("target", None),
        LockScope::Owner(owner) => ("owner", Some(owner)),
        LockScope::App(..) => ("app", None),
    };
    let (target, app) = place(scope);
    let sql = "INSERT INTO locks (id, scope, target, owner, namespace, slug, reason, placed_by, \
         since, ends_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    query(sql, (id, word, target, owner, app, reason, by, since, until))
        .execute(write.sql(), PLACING)
        .await
        .map(drop)
}

/// Returns the target and the app of a scope, if it is on one target, or of one app.
fn place(scope: &LockScope) -> (Option<&TargetName>, Option<&AppKey>) {
    match scope {
        LockScope::Everything | LockScope::Owner(_) => (None, None),
        LockScope::Target(target) => (Some(target), None),
        LockScope::App(target, app) => (Some(target), Some(app)),
    }
}

/// Returns the entry with its subject.
fn add_subject(entry: &AuditRecord, id: &LockId, lock: &Lock) -> AuditRecord {
    let (target, app) = place(&lock.scope);
    let subject = format!("lock {id}, {}", lock.scope);
    AuditRecord { target: target.cloned(), app: app.cloned(), subject, ..entry.clone() }
}

/// Returns the reason why a lock cannot be taken away.
async fn unlock_refusal(write: &mut WriteTransaction, id: &LockId) -> Result<Unlocked, StoreError> {
    let sql =
        format!("SELECT {COLUMNS}, removed_at, removed_by, removed_why FROM locks WHERE id = $1");
    let row = query_of(sql, id).first(write.sql(), TAKING).await?;
    let Some(row) = row else { return Ok(Unlocked::NotThere) };
    let lock = read_lock(&row)?;
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

fn read_lock_with_id(row: &Row) -> Result<(LockId, Lock), StoreError> {
    Ok((row.id("id")?, read_lock(row)?))
}

fn read_lock(row: &Row) -> Result<Lock, StoreError> {
    Ok(Lock {
        scope: read_scope(row)?,
        reason: row.text("reason")?,
        by: row.text("placed_by")?,
        since: row.time("since")?,
        until: row.maybe_time("ends_at")?,
    })
}

fn read_scope(row: &Row) -> Result<LockScope, StoreError> {
    let word = row.text("scope")?;
    Ok(match word.as_str() {
        "everything" => LockScope::Everything,
        "target" => LockScope::Target(row.id("target")?),
        "owner" => LockScope::Owner(row.text("owner")?),
        "app" => LockScope::App(row.id("target")?, row.app()?),
        _ => return Err(row.corrupt("scope", &format!("{word:?} is none"))),
    })
}
