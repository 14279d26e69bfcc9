//! Wakes the rollouts of deployments that end.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::model::id::{DeployId, RolloutId};
use crate::store::error::StoreError;
use crate::store::query::{placeholders, query, query_of};
use crate::store::write::WriteTransaction;

const DOING: &str = "waking rollouts";
/// The number of deployments in one statement.
const AT_ONCE: usize = 100;

/// Makes the rollout due that a deployment belongs to, in the transaction that ends the deployment. Its time is another
/// one than before in any case: by that a turn that is under way knows that it was woken.
pub(super) fn wake_rollout(write: &mut WriteTransaction, deployment: &DeployId, now: Timestamp) {
    let sql = "UPDATE rollouts SET due_at = CASE WHEN due_at = $2 THEN $2 - 1 ELSE $2 END WHERE ended_at IS NULL AND id IN \
         (SELECT r.id FROM deployments d JOIN rollouts r ON r.id = d.rollout WHERE d.id = $1 \
         UNION ALL SELECT r.id FROM deployments d JOIN rollouts r ON r.undo_id = d.rollout WHERE d.id = $1)";
    write.later(query(sql, (deployment, now)));
}

/// The same for the deployments of one report. Rows are locked in the order of their ids: two reports may have
/// deployments of the same rollouts.
pub(super) async fn wake_rollouts(
    write: &mut WriteTransaction,
    deployments: &[&DeployId],
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut ids = BTreeSet::new();
    for chunk in deployments.chunks(AT_ONCE) {
        let sql = format!(
            "SELECT r.id FROM deployments d JOIN rollouts r ON r.id = d.rollout WHERE d.id IN ({ids}) \
             UNION SELECT r.id FROM deployments d JOIN rollouts r ON r.undo_id = d.rollout WHERE d.id IN ({ids})",
            ids = placeholders(1, chunk.len())
        );
        for row in &query_of(sql, chunk.to_vec()).fetch_all(write.sql(), DOING).await? {
            ids.insert(row.id::<RolloutId>("id")?);
        }
    }
    for id in &ids {
        let sql = "UPDATE rollouts SET due_at = CASE WHEN due_at = $2 THEN $2 - 1 ELSE $2 END \
             WHERE ended_at IS NULL AND id = $1";
        write.later(query(sql, (id, now)));
    }
    Ok(())
}
