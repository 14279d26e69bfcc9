//! Wakes the rollouts of deployments that end.
//!
//! Rows are locked in one order: lanes, deployments, claims, rollouts. A transaction that ends deployments of several
//! rollouts meets them in any order, and has more deployments to lock after the first. So it only notes them
//! (`WriteTransaction::wake_rollout_of`), and one statement before the commit locks all their rollouts, by their ids.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::model::id::DeployId;
use crate::store::connect::DatabaseBackend;
use crate::store::query::{Query, placeholders, query_of};

/// Returns the statement that makes the rollouts due that these deployments belong to. Their time is another one than
/// before in any case: by that a turn that is under way knows that it was woken.
pub(super) fn wake_statement(
    kind: DatabaseBackend,
    deployments: &BTreeSet<DeployId>,
    now: Timestamp,
) -> Query {
    let ids = placeholders(2, deployments.len());
    let lock = match kind {
        DatabaseBackend::Postgres => " FOR UPDATE",
        DatabaseBackend::Sqlite => "",
    };
    let sql = format!(
        "UPDATE rollouts SET due_at = CASE WHEN due_at = $1 THEN $1 - 1 ELSE $1 END WHERE id IN \
         (SELECT w.id FROM rollouts w WHERE w.ended_at IS NULL AND w.id IN \
         (SELECT r.id FROM deployments d JOIN rollouts r ON r.id = d.rollout WHERE d.id IN ({ids}) \
         UNION ALL SELECT r.id FROM deployments d JOIN rollouts r ON r.undo_id = d.rollout WHERE d.id IN ({ids})) \
         ORDER BY w.id{lock})"
    );
    query_of(sql, (now, deployments.iter().collect::<Vec<_>>()))
}
