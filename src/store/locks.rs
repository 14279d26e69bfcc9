//! Locks: who may not be deployed, by a person's word. One that was taken away is kept as a record.

use jiff::Timestamp;
use sqlx::AssertSqlSafe;

use crate::model::id::{AppKey, TargetName};
use crate::model::lock::{Lock, LockId, LockScope};
use crate::store::row::{Row, storable};
use crate::store::{Store, StoreError};

/// What an unlocking found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlocked {
    /// It is taken away; what it was.
    Yes(Lock),
    /// It was taken away before, or there never was one of that id.
    NotThere,
}

const COLUMNS: &str =
    "id, scope, target, owner, namespace, slug, reason, placed_by, since, ends_at";
const PLACED: &str = "removed_at IS NULL AND (ends_at IS NULL OR ends_at > $1)";

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
    /// Places a lock under a new id.
    pub async fn add_lock(&self, id: &LockId, lock: &Lock) -> Result<(), StoreError> {
        let doing = "placing a lock";
        let Lock { scope, reason, by, since, until } = lock;
        let Scope { word, target, owner, namespace, slug } = Scope::of(scope);
        let mut write = self.begin(doing).await?;
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
        .map_err(StoreError::doing(doing))?;
        write.commit().await
    }

    /// Takes a lock away; who did and why stays with it.
    pub async fn remove_lock(
        &self,
        id: &LockId,
        by: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<Unlocked, StoreError> {
        let doing = "taking a lock away";
        let mut write = self.begin(doing).await?;
        let sql = format!(
            "UPDATE locks SET removed_at = $2, removed_by = $3, removed_why = $4 \
             WHERE id = $1 AND removed_at IS NULL RETURNING {COLUMNS}"
        );
        let row = sqlx::query(AssertSqlSafe(sql))
            .bind(id.as_str())
            .bind(now.as_millisecond())
            .bind(storable(by))
            .bind(storable(why))
            .fetch_optional(write.sql())
            .await
            .map_err(StoreError::doing(doing))?;
        let Some(row) = row else { return Ok(Unlocked::NotThere) };
        let (_, lock) = placed(&Row::new(row))?;
        write.commit().await?;
        Ok(Unlocked::Yes(lock))
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
        let sql = format!(
            "SELECT {COLUMNS} FROM locks WHERE {PLACED} AND (scope = 'everything' \
             OR (scope = 'target' AND target = $2) \
             OR (scope = 'app' AND target = $2 AND namespace = $3 AND slug = $4) \
             OR (scope = 'owner' AND LOWER(owner) = LOWER($5))) ORDER BY since, id"
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(now.as_millisecond())
            .bind(target.as_str())
            .bind(app.namespace.as_str())
            .bind(app.slug.as_str())
            // No owner of a lock is empty.
            .bind(storable(owner.unwrap_or_default()))
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::doing("asking which locks stop a deployment"))?;
        rows.into_iter().map(|row| placed(&Row::new(row)).map(|(_, lock)| lock)).collect()
    }
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
