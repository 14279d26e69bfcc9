//! The progress of a deployment to a fleet: what happens to a part in its cluster is summed up in the fleet's deployment, in
//! the same transaction.

use jiff::Timestamp;

use crate::model::deployment::{ClusterPhase, ForgeState, State};
use crate::model::fleet_progress::{self, FleetProgress};
use crate::model::id::DeployId;
use crate::model::status::{ForgeStatus, one_line};
use crate::store::cluster_state::{ClusterChange, set_cluster_state};
use crate::store::connect::DatabaseBackend;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::inactive;
use crate::store::query::{Query, query};
use crate::store::row::{self, Row, overview_columns};
use crate::store::write::WriteTransaction;

const DOING: &str = "recording the progress of a deployment to a fleet";
/// The longest summary, in characters.
const LONGEST_SUMMARY: usize = 2000;

pub(super) fn select_parts(fleet: &DeployId) -> Query {
    let sql = concat!(
        "SELECT ",
        overview_columns!(),
        " FROM deployments WHERE fleet = $1 ORDER BY target"
    );
    query(sql, fleet)
}

/// Finds the failure of the first failed part of a fleet's deployment, in one line; `None` for any other deployment.
pub(super) async fn failure_of_part(
    write: &mut WriteTransaction,
    fleet: &DeployId,
) -> Result<Option<String>, StoreError> {
    let sql = "SELECT id, target, summary FROM deployments \
         WHERE fleet = $1 AND COALESCE(cluster_state, state) = 'failed' ORDER BY target LIMIT 1";
    let Some(part) = query(sql, fleet).first(write.sql(), DOING).await? else { return Ok(None) };
    let failure = format!("failed on {}: {}", part.text("target")?, part.text("summary")?);
    Ok(Some(one_line(&failure, LONGEST_SUMMARY)))
}

/// Locks the deployment of the fleet that a deployment is a part of, if it is one: every transaction locks that before the
/// part.
pub(super) async fn lock_fleet_of(
    store: &Store,
    write: &mut WriteTransaction,
    part: &DeployId,
) -> Result<(), StoreError> {
    if store.kind == DatabaseBackend::Sqlite {
        return Ok(());
    }
    let sql =
        "SELECT id FROM deployments WHERE id = (SELECT p.fleet FROM deployments p WHERE p.id = $1)";
    query(store.locking(sql, "FOR UPDATE"), part).first(write.sql(), DOING).await.map(drop)
}

/// Follows a change of a part in its cluster: sums up all parts in their fleet's deployment, and tells of it where the
/// change is told of.
pub(super) async fn follow_part(
    store: &Store,
    write: &mut WriteTransaction,
    (part, is_told, has_canary): (&Row, bool, bool),
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(fleet) = part.maybe_id::<DeployId>("fleet")? else { return Ok(()) };
    // Of two clusters whose parts change at once, the second one sees the change of the first.
    let sql = "SELECT id, summary, COALESCE(cluster_state, state) AS state FROM deployments WHERE id = $1";
    let sql = store.locking(sql, "FOR UPDATE");
    let Some(former) = query(sql, &fleet).first(write.sql(), DOING).await? else { return Ok(()) };
    let rows = select_parts(&fleet).fetch_all(write.sql(), DOING).await?;
    let parts = rows.iter().map(row::overview).collect::<Result<Vec<_>, _>>()?;
    let FleetProgress { state, summary, waiting } = fleet_progress::sum_up(&parts);
    let summary = one_line(&summary, LONGEST_SUMMARY);
    let is_news =
        former.text("summary")? != summary || former.word("state", State::parse)? != state;
    let status = match state {
        State::Syncing => ForgeStatus::in_cluster(ClusterPhase::Syncing, &summary),
        State::Succeeded => ForgeStatus::new(ForgeState::Success, &summary),
        State::Failed => ForgeStatus::new(ForgeState::Failure, &summary),
        State::Superseded => ForgeStatus::new(ForgeState::Inactive, &summary),
        _ => ForgeStatus::in_cluster(ClusterPhase::Progressing, &summary),
    };
    let log_tail = match parts.iter().find(|part| part.state == State::Failed) {
        Some(failed) if state == State::Failed => log_of(write, &failed.id).await?,
        _ => Vec::new(),
    };
    // A canary is told by its samples, also where the fleet's sentence is the same.
    let canary_status = (has_canary && is_told).then(|| status.clone());
    let status = (state.is_final() || (is_told && is_news)).then_some(status);
    let change = ClusterChange {
        deployment: fleet.clone(),
        state,
        summary,
        waiting,
        log_tail,
        canaries: Vec::new(),
        status,
        // The policy for a failed canary is about one cluster, not about the fleet.
        is_canary_failure: false,
    };
    let Some(row) = set_cluster_state(write, &change, now).await? else { return Ok(()) };
    if state == State::Succeeded {
        let deployment = row::overview(&row)?;
        let older = inactive::older(store, &deployment).ask(write.sql(), DOING).await?;
        inactive::enqueue_replaced(store, write, &deployment, &older, now).await?;
    }
    if state.is_final() {
        write.wake_followers_of(&fleet, now);
    }
    if let Some(status) = &change.status {
        store.enqueue_change(write, &fleet, status, now);
    }
    if let Some(status) = &canary_status {
        store.enqueue_canary(write, &fleet, status, now);
    }
    Ok(())
}

async fn log_of(write: &mut WriteTransaction, id: &DeployId) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT id, CASE WHEN LENGTH(log_tail) <= 65536 THEN log_tail END AS log_tail \
         FROM deployments WHERE id = $1";
    let row = query(sql, id).first(write.sql(), DOING).await?;
    row.map_or(Ok(None), |row| row.json::<Option<Vec<String>>>("log_tail"))
        .map(Option::unwrap_or_default)
}
