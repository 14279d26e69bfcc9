//! Claims on objects: of two apps of a namespace whose deployments would make an object of one kind and name
//! at the same moment, one is given the turn to push. The rule `collision` judges by what was live before.
//!
//! Called by `claims`, which holds the target's lock and says how long a claim counts.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sqlx::{Any, AssertSqlSafe, Executor};

use crate::model::claim::ObjectClaim;
use crate::model::facts::{ClaimedObject, ObjectName};
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::route::Route;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::row::Row;
use crate::store::write::Write;

/// So long after a success the claim counts: longer than any replica may take to see a push of
/// another one, and than their clocks may differ.
pub(super) const SETTLES: SignedDuration = SignedDuration::from_mins(10);

/// What another deployment has claimed, or another repository owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimConflict {
    /// The app is another repository's.
    App,
    /// The app's namespace is another owner's.
    Namespace,
    /// A route that would be in the way of the deployment's.
    Route(Route),
    /// An object of the namespace.
    Object {
        /// Which.
        object: ObjectName,
        /// The other app.
        app: AppKey,
    },
}

/// How many rows one statement writes: a statement takes some hundred values.
const ROWS: usize = 50;

const DOING: &str = "claiming an app's objects";

impl Store {
    /// The objects that deployments of other apps of the namespace have claimed.
    pub async fn claimed_objects(
        &self,
        target: &TargetName,
        app: &AppKey,
        now: Timestamp,
    ) -> Result<Vec<ClaimedObject>, StoreError> {
        claimed(&self.pool, target, app, now).await
    }
}

/// The first object that another app's deployment has claimed, and that the app does not have already.
pub(super) async fn conflict(
    write: &mut Write,
    (target, app): (&TargetName, &AppKey),
    objects: &[ObjectClaim],
    now: Timestamp,
) -> Result<Option<ClaimConflict>, StoreError> {
    let new: BTreeSet<&ObjectName> =
        objects.iter().filter(|claim| !claim.live).map(|claim| &claim.object).collect();
    if new.is_empty() {
        return Ok(None);
    }
    let others = claimed(write.sql(), target, app, now).await?;
    let taken = others.into_iter().find(|other| new.contains(&other.object));
    Ok(taken.map(|ClaimedObject { app: slug, object }| {
        let namespace = app.namespace.clone();
        ClaimConflict::Object { object, app: AppKey { namespace, slug } }
    }))
}

/// Writes down what the deployment takes.
pub(super) async fn take(
    write: &mut Write,
    id: &DeployId,
    (target, app): (&TargetName, &AppKey),
    objects: &[ObjectClaim],
    now: Timestamp,
) -> Result<(), StoreError> {
    let names: BTreeSet<&ObjectName> = objects.iter().map(|claim| &claim.object).collect();
    let names: Vec<&ObjectName> = names.into_iter().collect();
    for names in names.chunks(ROWS) {
        let place = |n: usize| {
            format!("($1, $2, $3, $4, $5, ${}, ${}, ${})", 6 + 3 * n, 7 + 3 * n, 8 + 3 * n)
        };
        let places: Vec<String> = (0..names.len()).map(place).collect();
        let sql = format!(
            "INSERT INTO object_claims (deployment, target, namespace, slug, claimed_at, api_group, \
             kind, name) VALUES {} ON CONFLICT DO NOTHING",
            places.join(", ")
        );
        // Only placeholders are put into the text.
        let mut insert = sqlx::query(AssertSqlSafe(sql))
            .bind(id.to_string())
            .bind(target.to_string())
            .bind(app.namespace.to_string())
            .bind(app.slug.to_string())
            .bind(now.as_millisecond());
        for ObjectName { group, kind, name } in names {
            insert = insert.bind(group.to_string()).bind(kind.to_string()).bind(name.to_string());
        }
        insert.execute(write.sql()).await.map_err(StoreError::doing(DOING))?;
    }
    Ok(())
}

/// After a success the deployment's claims stand for the app's, in place of older ones.
pub(super) async fn settle(
    store: &Store,
    write: &mut Write,
    id: &DeployId,
    (target, app): (&TargetName, &AppKey),
    settled: Timestamp,
) -> Result<(), StoreError> {
    let sql = store.skipping_locked(
        "DELETE FROM object_claims WHERE (deployment, api_group, kind, name) IN (",
        "SELECT c.deployment, c.api_group, c.kind, c.name FROM object_claims c WHERE c.deployment <> $1 \
         AND ((c.target = $2 AND c.namespace = $3 AND c.slug = $4) OR c.claimed_at < $5) \
         AND NOT EXISTS (SELECT 1 FROM deployments d WHERE d.id = c.deployment \
         AND (d.finished_at IS NULL OR (d.finished_at >= $5 AND NOT (c.target = $2 \
         AND c.namespace = $3 AND c.slug = $4))))",
    );
    sqlx::query(sql)
        .bind(id.as_str())
        .bind(target.as_str())
        .bind(app.namespace.as_str())
        .bind(app.slug.as_str())
        .bind(settled.as_millisecond())
        .execute(write.sql())
        .await
        .map(drop)
        .map_err(StoreError::doing(DOING))
}

/// The app was taken off the target: what its deployments had claimed is free, but for one that pushes.
pub(super) async fn free(
    write: &mut Write,
    target: &TargetName,
    app: &AppKey,
) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM object_claims WHERE target = $1 AND namespace = $2 AND slug = $3 AND NOT EXISTS \
         (SELECT 1 FROM deployments d WHERE d.id = object_claims.deployment AND d.finished_at IS NULL)",
    )
    .bind(target.as_str())
    .bind(app.namespace.as_str())
    .bind(app.slug.as_str())
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing("freeing what an app had claimed"))
}

/// The deployment takes nothing any more.
pub(super) async fn drop_those_of(write: &mut Write, id: &DeployId) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM object_claims WHERE deployment = $1")
        .bind(id.as_str())
        .execute(write.sql())
        .await
        .map(drop)
        .map_err(StoreError::doing(DOING))
}

async fn claimed<'e>(
    database: impl Executor<'e, Database = Any>,
    target: &TargetName,
    app: &AppKey,
    now: Timestamp,
) -> Result<Vec<ClaimedObject>, StoreError> {
    let settled = now.checked_sub(SETTLES).unwrap_or(Timestamp::MIN);
    let rows = sqlx::query(
        "SELECT c.deployment AS id, c.slug, c.api_group, c.kind, c.name FROM object_claims c \
         JOIN deployments d ON d.id = c.deployment \
         AND (d.state = 'pushing' OR (d.state = 'succeeded' AND d.finished_at >= $4)) \
         WHERE c.target = $1 AND c.namespace = $2 AND c.slug <> $3 \
         ORDER BY c.api_group, c.kind, c.name, c.deployment",
    )
    .bind(target.to_string())
    .bind(app.namespace.to_string())
    .bind(app.slug.to_string())
    .bind(settled.as_millisecond())
    .fetch_all(database)
    .await
    .map_err(StoreError::doing("asking which objects are claimed"))?;
    rows.into_iter().map(|row| claimed_object(&Row::new(row))).collect()
}

fn claimed_object(row: &Row) -> Result<ClaimedObject, StoreError> {
    let (group, kind) = (row.text("api_group")?.into(), row.text("kind")?.into());
    let object = ObjectName { group, kind, name: row.text("name")?.into() };
    Ok(ClaimedObject { app: row.id("slug")?, object })
}
