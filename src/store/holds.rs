//! Holds, which keep automation from deploying an app to a target. Each app on a target has one at
//! a time; an ended hold is kept as a record.

use jiff::Timestamp;

use crate::model::app_instance::AppInstance;
use crate::model::audit::AuditRecord;
use crate::model::deployment::Deployment;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::Hold;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::Reply;
use crate::store::query::{Query, placeholders, query, query_of};
use crate::store::row::{Row, to_json};
use crate::store::write::WriteTransaction;
use crate::store::{audit, idempotency_keys, lane};

const DOING: &str = "changing a hold";

impl Store {
    /// Places a hold, with its entry in the audit log; it replaces the present one, and keeps that
    /// one's record of a rollback. The entry's id is the hold's. Returns the hold as it is now
    /// placed; the answer to an idempotent request is stored with it.
    pub async fn place_hold(
        &self,
        hold: &Hold,
        entry: &AuditRecord,
        reply: &Reply<Hold>,
    ) -> Result<Hold, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        // A deployment that asks for the turn to push has asked before, or sees the hold.
        lane::lock_all(self, &mut write, Some(&hold.target)).await?;
        let placed_hold = place(&mut write, &entry.id, hold).await?;
        audit::note(&mut write, entry).await?;
        idempotency_keys::keep(&mut write, reply.answer(&placed_hold).as_ref()).await?;
        write.commit().await?;
        Ok(placed_hold)
    }

    /// Ends the hold of an app on a target, with an entry in the audit log; returns the hold, if
    /// there was one. With a rollback, only the hold that it took is ended. The answer to an idempotent request is stored
    /// with it.
    pub async fn release_hold(
        &self,
        AppInstance { target, app }: &AppInstance,
        rollback: Option<&DeployId>,
        entry: &AuditRecord,
        reply: &Reply<Hold>,
    ) -> Result<Option<Hold>, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let end_reason = (entry.by.name.as_str(), entry.reason.as_str());
        let rows = match rollback {
            // The id of a hold is that of the rollback that took it.
            Some(id) => end_of_rollback(id, (target, app), end_reason, entry.at),
            None => end((target, app), end_reason, (entry.at, entry.at)),
        };
        let ended_hold = first_hold(&rows.fetch_all(write.sql(), DOING).await?)?;
        if let Some(hold) = &ended_hold {
            audit::note(&mut write, entry).await?;
            idempotency_keys::keep(&mut write, reply.answer(hold).as_ref()).await?;
        }
        write.commit().await?;
        Ok(ended_hold)
    }

    /// Returns the hold that concerns an app on a target: also that of a fleet which has the cluster, and of a cluster of
    /// the fleet.
    pub async fn hold(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<Hold>, StoreError> {
        let row = select_hold(self, target, app).first(&self.readers, "reading a hold").await?;
        row.as_ref().map(read_hold).transpose()
    }

    /// Returns all holds, or those on a target: the oldest first, at most a thousand.
    pub async fn holds(&self, target: Option<&TargetName>) -> Result<Vec<Hold>, StoreError> {
        self.list_holds(target.map(std::slice::from_ref)).await
    }

    /// Returns all holds, or those that concern the apps of a target: also those of the clusters and fleets that it
    /// shares a cluster with. The oldest first, at most a thousand.
    pub async fn holds_that_concern(
        &self,
        target: Option<&TargetName>,
    ) -> Result<Vec<Hold>, StoreError> {
        let targets = target.map(|target| self.fleets.overlapping(target));
        self.list_holds(targets.as_deref()).await
    }

    async fn list_holds(&self, targets: Option<&[TargetName]>) -> Result<Vec<Hold>, StoreError> {
        let condition = targets.map_or_else(String::new, |targets| {
            format!("AND target IN ({})", placeholders(1, targets.len()))
        });
        let sql = format!(
            "SELECT * FROM holds WHERE ended_at IS NULL {condition} ORDER BY since, id LIMIT 1000"
        );
        let targets: Vec<&TargetName> = targets.into_iter().flatten().collect();
        let rows = query_of(sql, targets).fetch_all(&self.readers, "listing holds").await?;
        rows.iter().map(read_hold).collect()
    }
}

/// Returns the query for the hold that concerns an app on a target: the newest of the target, and of the clusters and
/// fleets that it shares a cluster with.
pub(super) fn select_hold(store: &Store, target: &TargetName, app: &AppKey) -> Query {
    let targets = store.fleets.overlapping(target);
    let sql = format!(
        "SELECT * FROM holds WHERE namespace = $1 AND slug = $2 AND target IN ({}) \
         AND ended_at IS NULL ORDER BY id DESC LIMIT 1",
        placeholders(3, targets.len())
    );
    let targets: Vec<&TargetName> = targets.iter().collect();
    query_of(sql, (app, targets))
}

/// Changes the holds after a success, in its transaction: a rollback takes a hold, and a person's
/// deployment ends those that were there when it was requested.
pub(super) async fn after_success(
    write: &mut WriteTransaction,
    deployment: &Deployment,
    app: Option<&AppKey>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(app) = app.or(deployment.app.as_ref()) else { return Ok(()) };
    let request = &deployment.request;
    match &deployment.rollback {
        Some(rollback) if rollback.hold => {
            let hold = Hold {
                target: request.target.clone(),
                app: app.clone(),
                by: request.actor.clone(),
                reason: rollback.reason.clone(),
                since: now,
                rollback: Some(deployment.id.clone()),
                away: rollback.away.clone(),
                to: Some(request.release.tag.clone()),
            };
            place(write, &deployment.id, &hold).await.map(drop)
        }
        None if !request.automatic => {
            let reason = format!("deployed {}", request.release.tag);
            let end_reason = (request.actor.as_str(), reason.as_str());
            let times = (deployment.received_at, now);
            write.later(end((&request.target, app), end_reason, times));
            Ok(())
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) async fn place(
    write: &mut WriteTransaction,
    id: &DeployId,
    hold: &Hold,
) -> Result<Hold, StoreError> {
    let (key, end_reason) =
        ((&hold.target, &hold.app), (hold.by.as_str(), "another hold took its place"));
    let former =
        end(key, end_reason, (hold.since, hold.since)).fetch_all(write.sql(), DOING).await?;
    let former = first_hold(&former)?;
    let hold = hold.clone().with_rollback_of(former);
    let Hold { target, app, by, reason, since, rollback, away, to } = &hold;
    let sql = "INSERT INTO holds (id, target, namespace, slug, placed_by, reason, since, rollback, away, \
         to_tag) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    query(sql, (id, target, app, by, reason, since, rollback, away.as_ref().map(to_json), to))
        .execute(write.sql(), DOING)
        .await?;
    Ok(hold)
}

/// Returns the statement that ends the holds that were placed until the first time, at the second.
fn end(
    (target, app): (&TargetName, &AppKey),
    (by, reason): (&str, &str),
    (placed_until, now): (Timestamp, Timestamp),
) -> Query {
    let sql = "UPDATE holds SET ended_at = $4, ended_by = $5, ended_why = $6 WHERE target = $1 \
         AND namespace = $2 AND slug = $3 AND ended_at IS NULL AND since <= $7 RETURNING *";
    query(sql, (target, app, now, by, reason, placed_until))
}

/// Returns the statement that ends the hold which a rollback took, if no other took its place.
fn end_of_rollback(
    id: &DeployId,
    (target, app): (&TargetName, &AppKey),
    (by, reason): (&str, &str),
    now: Timestamp,
) -> Query {
    let sql = "UPDATE holds SET ended_at = $5, ended_by = $6, ended_why = $7 WHERE id = $1 AND target = $2 \
         AND namespace = $3 AND slug = $4 AND ended_at IS NULL RETURNING *";
    query(sql, (id, target, app, now, by, reason))
}

/// Returns the first ended hold: two that were placed at the same moment both end.
fn first_hold(rows: &[Row]) -> Result<Option<Hold>, StoreError> {
    rows.first().map(read_hold).transpose()
}

pub(super) fn read_hold(row: &Row) -> Result<Hold, StoreError> {
    Ok(Hold {
        target: row.id("target")?,
        app: row.app()?,
        by: row.text("placed_by")?,
        reason: row.text("reason")?,
        since: row.time("since")?,
        rollback: row.maybe_id("rollback")?,
        away: row.json("away")?,
        to: row.maybe_id("to_tag")?,
    })
}
