//! The state of a pushed deployment in its cluster: how it changes, and how a newer push or the removal of
//! the app ends what still waits.

use jiff::Timestamp;

use crate::model::deployment::{Deployment, ForgeState, State};
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::status::ForgeStatus;
use crate::model::waiting::WaitingOn;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::fleets;
use crate::store::query::{Answer, Query, query};
use crate::store::row::{Row, overview_columns, to_json};
use crate::store::write::WriteTransaction;

/// A change of a deployment in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterChange {
    /// The deployment.
    pub deployment: DeployId,
    /// `Syncing` or `Progressing`, or its end: `Succeeded`, `Failed` or `Superseded`.
    pub state: State,
    /// One sentence for people.
    pub summary: String,
    /// The condition that it waits for; `None` for an end.
    pub waiting: Option<WaitingOn>,
    /// The last lines of the failed container's log; empty where there are none.
    pub log_tail: Vec<String>,
    /// True if it failed because Flagger took its canary back.
    pub is_canary_failure: bool,
    /// The message to send about the change; `None` where no receiver needs one.
    pub status: Option<ForgeStatus>,
}

impl ClusterChange {
    /// Makes the end of a deployment, of which people are told in the words of its record.
    pub fn end(deployment: DeployId, state: State, status: ForgeStatus) -> Self {
        Self {
            deployment,
            state,
            summary: status.description().to_owned(),
            waiting: None,
            log_tail: Vec::new(),
            is_canary_failure: false,
            status: Some(status),
        }
    }

    /// Returns the same, and what becomes of it: a clause for people, which no long cause cuts off.
    pub(super) fn with_note(&self, note: &str) -> Self {
        let status =
            self.status.as_ref().map(|one| ForgeStatus::with_note(one.state, &self.summary, note));
        Self { summary: format!("{}; {note}", self.summary), status, ..self.clone() }
    }
}

/// Selects the deployments that wait for their cluster.
macro_rules! waiting {
    () => {
        "cluster_state IN ('syncing', 'progressing')"
    };
}

pub(super) use waiting;

const ENDING: &str = "ending deployments that wait for a cluster";

/// Records a change, and returns the deployment's row; `None` where it has ended meanwhile.
pub(super) async fn set_cluster_state(
    write: &mut WriteTransaction,
    change: &ClusterChange,
    now: Timestamp,
) -> Result<Option<Row>, StoreError> {
    let ClusterChange { deployment, state, summary, waiting, log_tail, .. } = change;
    let sql = concat!(
        "UPDATE deployments SET cluster_state = $2, cluster_at = CASE WHEN cluster_state = $2 \
         THEN cluster_at ELSE $3 END, summary = $4, waiting = $5, \
         log_tail = COALESCE($6, log_tail) WHERE id = $1 AND ",
        waiting!(),
        " RETURNING ",
        overview_columns!()
    );
    let log = (!log_tail.is_empty()).then(|| to_json(log_tail));
    let waiting = waiting.as_ref().map(to_json);
    let values = (deployment, state.as_str(), now, (summary, waiting, log));
    query(sql, values).first(write.sql(), "recording the progress in a cluster").await
}

/// Returns the query for the older deployments of a lane that still wait for their cluster, once a newer one is pushed.
pub(super) fn older_waiting(deployment: &Deployment) -> Query {
    let sql = concat!(
        "SELECT id FROM deployments WHERE target = $1 AND ",
        waiting!(),
        " AND id <> $2 AND EXISTS (SELECT 1 FROM deployments b WHERE b.id = $2 \
         AND (b.repository = deployments.repository \
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
        let inactive = ForgeStatus::new(ForgeState::Inactive, status.description());
        let change = ClusterChange::end(row.id("id")?, State::Superseded, inactive);
        fleets::lock_fleet_of(store, write, &change.deployment).await?;
        let Some(row) = set_cluster_state(write, &change, now).await? else { continue };
        if row.maybe_text("fleet")?.is_some() {
            fleets::follow_part(store, write, (&row, true), now).await?;
        } else if let Some(status) = &change.status {
            store.enqueue_change(write, &change.deployment, status, now);
        }
    }
    for row in rows {
        write.wake_rollout_of(&row.id("id")?, now);
    }
    Ok(())
}
