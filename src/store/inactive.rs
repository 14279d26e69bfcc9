//! Enqueues `inactive` for deployments that are no longer live: those that a newer one replaced,
//! and those of an app that was removed. Each once, and only if the code host got, or will get,
//! their success.

use jiff::Timestamp;

use crate::model::deployment::{Deployment, ForgeState};
use crate::model::id::{CommitSha, DeployId};
use crate::model::notice::Sink;
use crate::model::removal::RemovalRecord;
use crate::model::rollback::Rollback;
use crate::model::status::ForgeStatus;
use crate::store::connect::DatabaseBackend;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::outbox;
use crate::store::query::{Answer, Bind, Query, query};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

const DOING: &str = "enqueueing inactive statuses";

/// Selects, of the succeeded deployments of a condition, those that the code host shows as active.
/// A lane has one of them as a rule; the bound is for those that a former version, or a parked
/// message, left behind.
macro_rules! active {
    ($condition:literal) => {
        concat!(
            "SELECT d.id FROM deployments d WHERE d.state = 'succeeded' AND ",
            $condition,
            " AND EXISTS (SELECT 1 FROM outbox o WHERE o.deployment = d.id AND o.sink = 'forge' \
             AND o.state = 'success' AND (o.outcome IS NULL OR o.outcome <> 'parked')) \
             AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.deployment = d.id \
             AND o.sink = 'forge' AND o.state = 'inactive') ORDER BY d.place DESC, d.id DESC LIMIT 20"
        )
    };
}

/// Finds the older deployments of an app, after a success; by the repository's present name: it may have
/// been renamed since the claim. A deployment of all apps is no longer live as a whole once another one replaces one of
/// its apps'.
const OLDER: &str = active!(
    "d.repository = (SELECT b.repository FROM deployments b WHERE b.id = $1) AND d.target = $2 \
     AND d.id <> $1 AND EXISTS \
     (SELECT 1 FROM deployments b WHERE b.id = $1 AND (d.place < b.place OR \
     (d.place = b.place AND d.id < b.id)) \
     AND (d.app_name = b.app_name OR (d.namespace = b.namespace AND d.slug = b.slug) \
     OR (d.app_name = '*' AND d.id <> COALESCE(b.parent, '') AND EXISTS (SELECT 1 FROM deployments c \
     WHERE c.parent = d.id AND (c.app_name = b.app_name OR (c.namespace = b.namespace AND c.slug = b.slug))))))"
);

/// Returns the query that finds and locks the older deployments of the lane of a success.
pub(super) fn older(store: &Store, deployment: &Deployment) -> Query {
    query(store.locking(OLDER, "FOR UPDATE OF d"), (&deployment.id, &deployment.request.target))
}

/// Enqueues `inactive` for the older deployments of a lane after a success.
pub(super) async fn enqueue_replaced(
    store: &Store,
    write: &mut WriteTransaction,
    deployment: &Deployment,
    older: &Answer,
    now: Timestamp,
) -> Result<(), StoreError> {
    let request = &deployment.request;
    let older = still_active(store, write, older, OLDER, (&deployment.id, &request.target)).await?;
    let tag = &request.release.tag;
    let status = match &deployment.rollback {
        Some(Rollback { reason, .. }) => ForgeStatus::rolled_back(&request.actor, tag, reason),
        None => ForgeStatus::replaced(request.forge_id, tag),
    };
    enqueue_inactive(write, &older, &status, now);
    Ok(())
}

/// Enqueues `inactive` for all deployments of an app on the target, after a removal by that commit.
/// Programs get it with the newest deployment, and get nothing else that is inactive after a
/// success; so does Argo CD.
pub(super) async fn enqueue_removed(
    store: &Store,
    write: &mut WriteTransaction,
    removal: &RemovalRecord,
    commit: &CommitSha,
    now: Timestamp,
) -> Result<(), StoreError> {
    let RemovalRecord { target, app, actor, reason, .. } = removal;
    if let Some(newest) = newest(store, write, removal).await? {
        let push = (ForgeState::Inactive, commit);
        store.tell_of_push(write, &newest, target, push, now);
    } else if let Some(sink) = store.subscriptions.of_push(target) {
        tracing::warn!(
            %app, %target, %sink, commit = commit.short(),
            "removal not announced, the app has no deployment to carry the message"
        );
    }
    let sql = active!("d.target = $1 AND d.namespace = $2 AND d.slug = $3");
    let deployments = query(store.locking(sql, "FOR UPDATE OF d"), (target, app));
    let deployments = deployments.ask(write.sql(), DOING).await?;
    let deployments = still_active(store, write, &deployments, sql, (target, app)).await?;
    let status = ForgeStatus::removed(actor, reason);
    if let Some(newest) = deployments.first() {
        for name in &store.subscriptions.events {
            let sink = Sink::Events(name.clone());
            outbox::enqueue(write, newest, &sink, &status, now);
        }
    }
    enqueue_inactive(write, &deployments, &status, now);
    Ok(())
}

/// Returns the app's newest deployment on the target, whatever the code host has of it; where none
/// has succeeded, as with files that were put there by hand, one that has not.
async fn newest(
    store: &Store,
    write: &mut WriteTransaction,
    removal: &RemovalRecord,
) -> Result<Option<DeployId>, StoreError> {
    let sql = "SELECT id FROM deployments WHERE target = $1 AND namespace = $2 AND slug = $3 \
         ORDER BY CASE WHEN state = 'succeeded' THEN 0 ELSE 1 END, id DESC LIMIT 1";
    let row = query(store.locking(sql, "FOR UPDATE"), (&removal.target, &removal.app))
        .first(write.sql(), DOING)
        .await?;
    row.map(|row| row.id("id")).transpose()
}

/// Returns the deployments that a query of `active!` still finds, of those that it has locked against
/// other transactions. The query runs again after the lock: statuses that another transaction enqueued
/// during the wait are seen by the second run, and not by the first.
async fn still_active(
    store: &Store,
    write: &mut WriteTransaction,
    deployments: &Answer,
    sql: &'static str,
    values: impl Bind,
) -> Result<Vec<DeployId>, StoreError> {
    let mut deployments = ids(&deployments.rows)?;
    // On SQLite the writer is alone, and most lanes have nothing to enqueue.
    if store.kind == DatabaseBackend::Postgres && !deployments.is_empty() {
        let active = ids(&query(sql, values).fetch_all(write.sql(), DOING).await?)?;
        deployments.retain(|id| active.contains(id));
    }
    Ok(deployments)
}

/// Enqueues the deployment's own status alone: its commit was deployed all the same, and people get
/// messages about its successor.
fn enqueue_inactive(
    write: &mut WriteTransaction,
    deployments: &[DeployId],
    status: &ForgeStatus,
    now: Timestamp,
) {
    for id in deployments {
        outbox::enqueue(write, id, &Sink::Forge, status, now);
    }
}

fn ids(rows: &[Row]) -> Result<Vec<DeployId>, StoreError> {
    rows.iter().map(|row| row.id("id")).collect()
}
