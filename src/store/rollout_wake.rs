//! Wakes the rollout of a deployment that ends.

use jiff::Timestamp;

use crate::model::id::DeployId;
use crate::store::query::query;
use crate::store::write::WriteTransaction;

/// Makes the rollout due that a deployment belongs to, in the transaction that ends the deployment. Its time is another
/// one than before in any case: by that a turn that is under way knows that it was woken.
pub(super) fn wake_rollout(write: &mut WriteTransaction, deployment: &DeployId, now: Timestamp) {
    let sql = "UPDATE rollouts SET due_at = CASE WHEN due_at = $2 THEN $2 - 1 ELSE $2 END WHERE ended_at IS NULL AND id IN \
         (SELECT r.id FROM deployments d JOIN rollouts r ON r.id = d.rollout WHERE d.id = $1 \
         UNION ALL SELECT r.id FROM deployments d JOIN rollouts r ON r.undo_id = d.rollout WHERE d.id = $1)";
    write.later(query(sql, (deployment, now)));
}
