//! Whose an app is on a target: the repository that deployed it first, until somebody moves it.

use jiff::Timestamp;

use crate::model::audit::{By, Entry, Via};
use crate::model::facts::Ownership;
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::store::audit;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::row::{Row, storable};
use crate::store::write::Write;

/// One app on one target, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// Where.
    pub target: TargetName,
    /// Which app.
    pub app: AppKey,
    /// Whose.
    pub repository: RepoName,
    /// Since when.
    pub since: Timestamp,
    /// Who gave it to that repository, and why; `None`: it came first.
    pub moved: Option<Moved>,
}

/// A deliberate act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Who did it.
    pub by: String,
    /// Why.
    pub reason: String,
}

const COLUMNS: &str = "target || ' ' || namespace || '/' || slug AS id, target, namespace, slug, \
     repository, since, moved_by, reason";

/// Of `deployments`: it is an attempt at another repository's app, or at a new one in a namespace that
/// has apps of other owners only. `RTRIM` takes the name after the slash away, and leaves the owner.
macro_rules! foreign {
    () => {
        "deployments.slug IS NOT NULL AND (EXISTS (SELECT 1 FROM owners o \
         WHERE o.target = deployments.target AND o.namespace = deployments.namespace \
         AND o.slug = deployments.slug AND LOWER(o.repository) <> LOWER(deployments.repository)) \
         OR (NOT EXISTS (SELECT 1 FROM owners o WHERE o.target = deployments.target \
         AND o.namespace = deployments.namespace AND o.slug = deployments.slug) \
         AND EXISTS (SELECT 1 FROM owners o WHERE o.target = deployments.target \
         AND o.namespace = deployments.namespace) \
         AND NOT EXISTS (SELECT 1 FROM owners o WHERE o.target = deployments.target \
         AND o.namespace = deployments.namespace \
         AND LOWER(RTRIM(o.repository, REPLACE(o.repository, '/', ''))) = \
         LOWER(RTRIM(deployments.repository, REPLACE(deployments.repository, '/', ''))))))"
    };
}

/// Those of a namespace that did not come to their success.
const FOREIGN_ATTEMPTS: &str = concat!(
    "SELECT deployments.id FROM deployments WHERE deployments.target = $1 \
     AND deployments.namespace = $2 AND deployments.state IN ('failed', 'superseded', 'cancelled') AND ",
    foreign!()
);

/// A deployment that has failed is none of an app that its repository may not deploy: it is known by its
/// repository alone. Whoever may see the app learns nothing of who tried.
pub(super) async fn disown(write: &mut Write, deployment: &DeployId) -> Result<(), StoreError> {
    sqlx::query(concat!(
        "UPDATE deployments SET namespace = NULL, slug = NULL WHERE id = $1 AND ",
        foreign!()
    ))
    .bind(deployment.as_str())
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing("noting that an app is another repository's"))
}

/// The same of all that came before an app got its owner.
async fn disown_all(
    store: &Store,
    write: &mut Write,
    target: &TargetName,
    app: &AppKey,
) -> Result<(), StoreError> {
    let update = "UPDATE deployments SET namespace = NULL, slug = NULL WHERE id IN (";
    sqlx::query(store.skipping_locked(update, FOREIGN_ATTEMPTS))
        .bind(target.as_str())
        .bind(app.namespace.as_str())
        .execute(write.sql())
        .await
        .map(drop)
        .map_err(StoreError::doing("noting that an app is another repository's"))
}

/// Notes the repository of a deployment that has succeeded as its app's owner, unless it has one.
pub(super) async fn claim(
    store: &Store,
    write: &mut Write,
    deployment: &DeployId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let row = sqlx::query(
        "INSERT INTO owners (target, namespace, slug, repository, since) \
         SELECT target, namespace, slug, repository, $2 FROM deployments \
         WHERE id = $1 AND namespace IS NOT NULL AND slug IS NOT NULL \
         ON CONFLICT (target, namespace, slug) DO NOTHING \
         RETURNING repository AS id, target, namespace, slug",
    )
    .bind(deployment.as_str())
    .bind(now.as_millisecond())
    .fetch_optional(write.sql())
    .await
    .map_err(StoreError::doing("noting whose an app is"))?;
    let Some(row) = row.map(Row::new) else { return Ok(()) };
    let app = AppKey { namespace: row.id("namespace")?, slug: row.id("slug")? };
    disown_all(store, write, &row.id("target")?, &app).await
}

impl Store {
    /// Whose the app and its namespace are on a target.
    pub async fn ownership(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Ownership, StoreError> {
        let rows = sqlx::query(
            "SELECT DISTINCT repository AS id, repository, slug FROM owners \
             WHERE target = $1 AND namespace = $2 ORDER BY repository, slug",
        )
        .bind(target.as_str())
        .bind(app.namespace.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::doing("asking whose an app is"))?;
        let mut owners = Ownership::default();
        for row in rows.into_iter().map(Row::new) {
            let repository: RepoName = row.id("repository")?;
            if row.text("slug")? == app.slug.as_str() {
                owners.app = Some(repository.clone());
            }
            if owners.namespace.last() != Some(&repository) {
                owners.namespace.push(repository);
            }
        }
        Ok(owners)
    }

    /// What is a repository's, and where, in order.
    pub async fn owned_by(
        &self,
        repository: &RepoName,
    ) -> Result<Vec<(TargetName, AppKey)>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM owners WHERE repository = $1 ORDER BY target, namespace, slug"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(repository.to_string());
        let rows = rows.fetch_all(&self.pool).await;
        let rows = rows.map_err(StoreError::doing("listing what is a repository's"))?;
        let owned = rows.into_iter().map(|row| owned(&Row::new(row)));
        owned.map(|owned| owned.map(|Owned { target, app, .. }| (target, app))).collect()
    }

    /// Every app and whose it is, of one target or of all, in order.
    pub async fn owners(&self, target: Option<&TargetName>) -> Result<Vec<Owned>, StoreError> {
        let order = "ORDER BY target, namespace, slug";
        let query = match target {
            Some(target) => sqlx::query(sqlx::AssertSqlSafe(format!(
                "SELECT {COLUMNS} FROM owners WHERE target = $1 {order}"
            )))
            .bind(target.to_string()),
            None => {
                sqlx::query(sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM owners {order}")))
            }
        };
        let rows = query.fetch_all(&self.pool).await;
        let rows = rows.map_err(StoreError::doing("listing whose apps are"))?;
        rows.into_iter().map(|row| owned(&Row::new(row))).collect()
    }

    /// Gives an app to another repository; whose it was, `None` if it was nobody's.
    ///
    /// One that nobody has deployed yet can be given, too: it is kept for that repository. The audit
    /// log has it under the id of `entry`.
    pub async fn move_owner(
        &self,
        target: &TargetName,
        app: &AppKey,
        to: &RepoName,
        act: &Moved,
        (now, entry): (Timestamp, &DeployId),
    ) -> Result<Option<RepoName>, StoreError> {
        let doing = "moving an app to another repository";
        let mut write = self.begin(doing).await?;
        let before = sqlx::query(self.locking(
            "SELECT repository AS id, repository FROM owners \
             WHERE target = $1 AND namespace = $2 AND slug = $3",
            "FOR UPDATE",
        ))
        .bind(target.as_str())
        .bind(app.namespace.as_str())
        .bind(app.slug.as_str())
        .fetch_optional(write.sql())
        .await
        .map_err(StoreError::doing(doing))?;
        let before: Option<RepoName> =
            before.map(|row| Row::new(row).id("repository")).transpose()?;
        audit::note(&mut write, &moving(target, app, to, act, before.as_ref(), now, entry)).await?;
        sqlx::query(
            "INSERT INTO owners (target, namespace, slug, repository, since, moved_by, reason) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (target, namespace, slug) DO UPDATE SET repository = excluded.repository, \
             since = excluded.since, moved_by = excluded.moved_by, reason = excluded.reason",
        )
        .bind(target.as_str())
        .bind(app.namespace.as_str())
        .bind(app.slug.as_str())
        .bind(to.as_str())
        .bind(now.as_millisecond())
        .bind(storable(&act.by))
        .bind(storable(&act.reason))
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(doing))?;
        disown_all(self, &mut write, target, app).await?;
        write.commit().await?;
        Ok(before)
    }
}

fn moving(
    target: &TargetName,
    app: &AppKey,
    to: &RepoName,
    act: &Moved,
    before: Option<&RepoName>,
    at: Timestamp,
    id: &DeployId,
) -> Entry {
    let Moved { by, reason } = act.clone();
    let was = before.map_or("nobody", RepoName::as_str);
    Entry {
        id: id.clone(),
        at,
        by: By { name: by, via: Via::Operator, from: None, request: None },
        act: "move-owner",
        target: Some(target.clone()),
        app: Some(app.clone()),
        subject: to.to_string(),
        reason,
        outcome: format!("it is {to}'s now, and was {was}'s"),
    }
}

fn owned(row: &Row) -> Result<Owned, StoreError> {
    let moved = row.maybe_text("moved_by")?.zip(row.maybe_text("reason")?);
    Ok(Owned {
        target: row.id("target")?,
        app: AppKey { namespace: row.id("namespace")?, slug: row.id("slug")? },
        repository: row.id("repository")?,
        since: row.time("since")?,
        moved: moved.map(|(by, reason)| Moved { by, reason }),
    })
}
