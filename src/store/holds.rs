//! What keeps automation from deploying an app to a target. There is one at a time for each; one that
//! ended is kept as a record.

use jiff::Timestamp;
use sqlx::AssertSqlSafe;

use crate::model::audit::Entry;
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::{Hold, Rollback};
use crate::store::row::{Row, storable, to_json};
use crate::store::{Store, StoreError, Write, audit};

const DOING: &str = "changing a hold";

impl Store {
    /// Places a hold, with its entry in the audit log; it takes the place of the one that is there. The
    /// entry's id is the hold's.
    pub async fn place_hold(&self, hold: &Hold, entry: &Entry) -> Result<(), StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        place(&mut write, &entry.id, hold).await?;
        audit::note(&mut write, entry).await?;
        write.commit().await
    }

    /// Ends the hold of an app on a target, with an entry in the audit log; what it was, if there was
    /// one.
    pub async fn release_hold(
        &self,
        target: &TargetName,
        app: &AppKey,
        entry: &Entry,
    ) -> Result<Option<Hold>, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let why = (entry.by.name.as_str(), entry.reason.as_str());
        let ended = end(&mut write, (target, app), why, entry.at).await?;
        if ended.is_some() {
            audit::note(&mut write, entry).await?;
            write.commit().await?;
        }
        Ok(ended)
    }

    /// The hold of an app on a target.
    pub async fn hold(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<Hold>, StoreError> {
        let row = sqlx::query(
            "SELECT * FROM holds WHERE target = $1 AND namespace = $2 AND slug = $3 \
             AND ended_at IS NULL ORDER BY id DESC LIMIT 1",
        )
        .bind(target.as_str())
        .bind(app.namespace.as_str())
        .bind(app.slug.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::doing("asking for a hold"))?;
        row.map(|row| hold(&Row::new(row))).transpose()
    }

    /// All holds, or those on a target: the oldest first, at most a thousand.
    pub async fn holds(&self, target: Option<&TargetName>) -> Result<Vec<Hold>, StoreError> {
        let on = if target.is_some() { "AND target = $1" } else { "" };
        let sql = format!(
            "SELECT * FROM holds WHERE ended_at IS NULL {on} ORDER BY since, id LIMIT 1000"
        );
        let query = sqlx::query(AssertSqlSafe(sql));
        let query = target.into_iter().fold(query, |query, target| query.bind(target.to_string()));
        let rows = query.fetch_all(&self.pool).await;
        let rows = rows.map_err(StoreError::doing("listing holds"))?;
        rows.into_iter().map(|row| hold(&Row::new(row))).collect()
    }
}

/// A rollback takes a hold, and a person's deployment ends it; in the transaction of its success.
pub(super) async fn after_success(
    write: &mut Write,
    deployment: &Deployment,
    app: Option<&AppKey>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(app) = app.or(deployment.app.as_ref()) else { return Ok(()) };
    let request = &deployment.request;
    match &deployment.rollback {
        Some(rollback) if rollback.hold => {
            place(write, &deployment.id, &taken(deployment, app, rollback, now)).await
        }
        None if !request.automatic => {
            let why = format!("deployed {}", request.release.tag);
            let by = (request.actor.as_str(), why.as_str());
            end(write, (&request.target, app), by, now).await.map(drop)
        }
        Some(_) | None => Ok(()),
    }
}

fn taken(deployment: &Deployment, app: &AppKey, rollback: &Rollback, now: Timestamp) -> Hold {
    let request = &deployment.request;
    Hold {
        target: request.target.clone(),
        app: app.clone(),
        by: request.actor.clone(),
        reason: rollback.reason.clone(),
        since: now,
        rollback: Some(deployment.id.clone()),
        away: rollback.away.clone(),
        to: Some(request.release.tag.clone()),
    }
}

pub(super) async fn place(write: &mut Write, id: &DeployId, hold: &Hold) -> Result<(), StoreError> {
    let Hold { target, app, by, reason, since, rollback, away, to } = hold;
    end(write, (target, app), (by, "another hold took its place"), *since).await?;
    sqlx::query(
        "INSERT INTO holds (id, target, namespace, slug, placed_by, reason, since, rollback, away, \
         to_tag) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(id.as_str())
    .bind(target.as_str())
    .bind(app.namespace.as_str())
    .bind(app.slug.as_str())
    .bind(storable(by))
    .bind(storable(reason))
    .bind(since.as_millisecond())
    .bind(rollback.as_ref().map(ToString::to_string))
    .bind(away.as_ref().map(to_json))
    .bind(to.as_ref().map(ToString::to_string))
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(DOING))
}

async fn end(
    write: &mut Write,
    (target, app): (&TargetName, &AppKey),
    (by, why): (&str, &str),
    now: Timestamp,
) -> Result<Option<Hold>, StoreError> {
    let row = sqlx::query(
        "UPDATE holds SET ended_at = $4, ended_by = $5, ended_why = $6 WHERE target = $1 \
         AND namespace = $2 AND slug = $3 AND ended_at IS NULL RETURNING *",
    )
    .bind(target.as_str())
    .bind(app.namespace.as_str())
    .bind(app.slug.as_str())
    .bind(now.as_millisecond())
    .bind(storable(by))
    .bind(storable(why))
    .fetch_all(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    // Two that were placed at the same moment both end.
    row.into_iter().next().map(|row| hold(&Row::new(row))).transpose()
}

fn hold(row: &Row) -> Result<Hold, StoreError> {
    Ok(Hold {
        target: row.id("target")?,
        app: AppKey { namespace: row.id("namespace")?, slug: row.id("slug")? },
        by: row.text("placed_by")?,
        reason: row.text("reason")?,
        since: row.time("since")?,
        rollback: row.maybe_id("rollback")?,
        away: row.json("away")?,
        to: row.maybe_id("to_tag")?,
    })
}
