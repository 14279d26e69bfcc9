//! How far the canaries of deployments were, over time. A change of phase, weight or failed checks makes a row; of each
//! deployment the newest are kept.

use jiff::Timestamp;

use crate::model::canary::{CanarySample, CanaryStatus};
use crate::model::id::DeployId;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::query;
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

/// The most rows of one deployment.
const MAX_ROWS: i64 = 100;

const DOING: &str = "recording how far a canary is";
const READING: &str = "reading how far a canary was";

impl Store {
    /// Returns how far the canaries of a deployment were, the oldest first.
    pub async fn canary_samples(&self, id: &DeployId) -> Result<Vec<CanarySample>, StoreError> {
        let sql = "SELECT deployment AS id, workload, at, phase, weight, failed_checks, threshold, reason \
             FROM canary_samples WHERE deployment = $1 ORDER BY number";
        let rows = query(sql, id).fetch_all(&self.readers, READING).await?;
        rows.iter().map(read).collect()
    }
}

/// Notes how far canaries are, in the transaction that changes their deployment and has its row locked.
pub(super) async fn note(
    write: &mut WriteTransaction,
    id: &DeployId,
    canaries: &[CanaryStatus],
    now: Timestamp,
) -> Result<(), StoreError> {
    for CanaryStatus { workload, phase, weight, failed_checks, threshold, reason } in canaries {
        // The reason is read from Flagger's events, and may come after the count.
        let sql = "UPDATE canary_samples SET threshold = $6, reason = COALESCE($7, reason) \
             WHERE deployment = $1 AND workload = $2 AND phase = $3 AND weight = $4 AND failed_checks = $5 \
             AND number = (SELECT MAX(c.number) FROM canary_samples c WHERE c.deployment = $1 AND c.workload = $2)";
        let state = (phase, *weight, *failed_checks, *threshold, reason);
        let same = query(sql, (id, workload, state)).execute(write.sql(), DOING).await?;
        if same > 0 {
            continue;
        }
        let sql = "SELECT '' AS id, COALESCE(MAX(number), 0) AS number FROM canary_samples WHERE deployment = $1";
        let number = query(sql, id).fetch_one(write.sql(), DOING).await?.number("number")? + 1;
        let sql = "INSERT INTO canary_samples \
             (deployment, number, workload, at, phase, weight, failed_checks, threshold, reason) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let values = ((id, number, workload, now), state);
        query(sql, values).execute(write.sql(), DOING).await?;
        let sql = "DELETE FROM canary_samples WHERE deployment = $1 AND number <= $2";
        query(sql, (id, number - MAX_ROWS)).execute(write.sql(), DOING).await?;
    }
    Ok(())
}

/// Deletes what is known of the canaries of a deployment.
pub(super) fn delete(write: &mut WriteTransaction, id: &DeployId) {
    write.later(query("DELETE FROM canary_samples WHERE deployment = $1", id));
}

fn read(row: &Row) -> Result<CanarySample, StoreError> {
    let status = CanaryStatus {
        workload: row.text("workload")?,
        phase: row.text("phase")?,
        weight: row.count("weight")?,
        failed_checks: row.count("failed_checks")?,
        threshold: row.count("threshold")?,
        reason: row.maybe_text("reason")?,
    };
    Ok(CanarySample { at: row.time("at")?, status })
}
