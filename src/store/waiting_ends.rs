//! The end of deployments that still wait for their cluster, by a newer push or by the removal of their app.

use jiff::Timestamp;

use crate::model::deployment::{Deployment, ForgeState, State};
use crate::model::id::{AppKey, TargetName};
use crate::model::status::ForgeStatus;
use crate::store::cluster_state::{ClusterChange, set_cluster_state, waiting};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::fleet_rows;
use crate::store::query::{Answer, Query, query};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

const ENDING: &str = "ending deployments that wait for a cluster";

/// Returns the query for the older deployments of a lane that still wait for their cluster, once a newer one is pushed.
pub(super) fn older_waiting(deployment: &Deployment) -> Query {
    let sql = concat!(
        "SELECT id FROM deployments WHERE target = $1 AND ",
        waiting!(),
        " AND id <> $2 AND EXISTS (SELECT 1 FROM deployments b WHERE b.id = $2 \
         AND ((b.repository = deployments.repository AND b.app_name = deployments.app_name) \
         OR (b.namespace = deployments.namespace AND b.slug = deployments.slug)))"
    );
    query(sql, (&deployment.request.target, &deployment.id))
}

/// Ends the deployments that the query of [`older_waiting`] has found.
pub(super) async fn supersede_waiting(
    store: &Store,
    write: &mut WriteTransaction,
    deployment: &Deployment,
    older: &Answer,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (request, id) = (&deployment.request, &deployment.id);
    let status = match &deployment.rollback {
        Some(_) => ForgeStatus::superseded_by_rollback(id),
        None => ForgeStatus::superseded(id, request.forge_id),
    };
    end_waiting(store, write, &older.rows, &status, now).await
}

/// Ends the deployments of an app that still wait for their cluster, once the app is removed.
pub(super) async fn end_removed(
    store: &Store,
    write: &mut WriteTransaction,
    (target, app): (&TargetName, &AppKey),
    status: &ForgeStatus,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = concat!(
        "SELECT id FROM deployments WHERE target = $1 AND namespace = $2 AND slug = $3 AND ",
        waiting!()
    );
    let rows = query(sql, (target, app)).fetch_all(write.sql(), ENDING).await?;
    end_waiting(store, write, &rows, status, now).await
}

async fn end_waiting(
    store: &Store,
    write: &mut WriteTransaction,
    rows: &[Row],
    status: &ForgeStatus,
    now: Timestamp,
) -> Result<(), StoreError> {
    for row in rows {
        let id = row.id("id")?;
        // A fleet that one cluster has failed has failed, whatever ends the wait for the others.
        let failure = fleet_rows::failure_of_part(write, &id).await?;
        let change = if let Some(failure) = failure {
            let status = ForgeStatus::new(ForgeState::Failure, &failure);
            ClusterChange::end(id, State::Failed, status)
        } else {
            let inactive = ForgeStatus::new(ForgeState::Inactive, status.description());
            ClusterChange::end(id, State::Superseded, inactive)
        };
        fleet_rows::lock_fleet_of(store, write, &change.deployment).await?;
        let Some(row) = set_cluster_state(write, &change, now).await? else { continue };
        if row.maybe_text("fleet")?.is_some() {
            fleet_rows::follow_part(store, write, (&row, true, false), now).await?;
        } else if let Some(status) = &change.status {
            store.enqueue_change(write, &change.deployment, status, now);
        }
    }
    for row in rows {
        write.wake_followers_of(&row.id("id")?, now);
    }
    Ok(())
}
