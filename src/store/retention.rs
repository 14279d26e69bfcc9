//! Retention: deployments that ended long ago are deleted with their messages, in small batches, unless
//! something still needs them.
//!
//! Kept at any age: deployments that have not ended; those with a message that waits; of each lane the
//! newest that ended and the newest that succeeded, by which later events are ordered; of each app and target
//! the newest success, which is live, and the newest that made revisions, to which a rollback can go back;
//! the rollback that took a hold which still exists; the deployments of a rollout that has not ended. Records of other people's workloads in clusters go by their age
//! alone. Removals, locks, holds and the audit log are kept for ever: people make them, and they stay few.

use jiff::Timestamp;

use crate::model::id::DeployId;
use crate::model::violation::Violations;
use crate::store::canary_samples;
use crate::store::claims;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::query;
use crate::store::row::{first_values, to_json, violation_count};

/// The number of revision-making deployments that are kept of an app: twice as many as the manifest
/// repository keeps, since each of those must be known.
const REVISIONS: i64 = 10;

const DOING: &str = "deleting old deployments";
const BOUNDING: &str = "bounding the violations of a former version";

/// One batch of old deployments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedBatch {
    /// The number of deleted deployments.
    pub deleted: u64,
    /// The last deployment that was checked, if there may be more behind it.
    pub last: Option<DeployId>,
}

impl Store {
    /// Deletes up to so many deployments that ended before that time, after the given one.
    ///
    /// A deployment whose existence makes another one superfluous is never deleted itself, so
    /// several processes may prune at the same time.
    pub async fn prune_deployments(
        &self,
        ended_before: Timestamp,
        after: Option<&DeployId>,
        limit: u32,
    ) -> Result<PrunedBatch, StoreError> {
        let ids = self.find_superfluous(ended_before, after, limit).await?;
        let last = ids.last().filter(|_| ids.len() == limit as usize).cloned();
        let mut deleted = 0;
        if !ids.is_empty() {
            let mut write = self.begin(DOING).await?;
            for id in &ids {
                // With the row locked, no transaction enqueues a message about it meanwhile.
                let sql = self.locking("SELECT id FROM deployments WHERE id = $1", "FOR UPDATE");
                query(sql, id).first(write.sql(), DOING).await?;
                let sql = "DELETE FROM outbox WHERE deployment = $1 AND NOT EXISTS (SELECT 1 FROM outbox o \
                     WHERE o.deployment = $1 AND o.outcome IS NULL)";
                query(sql, id).execute(write.sql(), DOING).await?;
                let sql = "DELETE FROM cluster_progress WHERE deployment = $1";
                query(sql, id).execute(write.sql(), DOING).await?;
                let sql = "DELETE FROM deployments WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM outbox o \
                     WHERE o.deployment = $1)";
                let count = query(sql, id).execute(write.sql(), DOING).await?;
                if count > 0 {
                    // A later success has deleted them as a rule.
                    claims::delete_claims(&mut write, id);
                    canary_samples::delete(&mut write, id);
                }
                deleted += count;
            }
            write.commit().await?;
        }
        Ok(PrunedBatch { deleted, last })
    }

    /// Deletes up to so many rollouts that ended before that time, and as many requests for rollouts that are done since
    /// then; returns their number.
    pub async fn prune_rollouts(
        &self,
        ended_before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let sql = "DELETE FROM rollouts WHERE id IN (SELECT r.id FROM rollouts r \
             WHERE r.ended_at < $1 ORDER BY r.id LIMIT $2)";
        let rollouts = self.run(query(sql, (ended_before, limit.max(1))), DOING).await?;
        if rollouts > 0 {
            let sql = "DELETE FROM rollout_reports WHERE NOT EXISTS \
                 (SELECT 1 FROM rollouts r WHERE r.id = rollout_reports.rollout)";
            self.run(query(sql, ()), DOING).await?;
            let sql = "DELETE FROM rollout_events WHERE NOT EXISTS \
                 (SELECT 1 FROM rollouts r WHERE r.id = rollout_events.rollout)";
            self.run(query(sql, ()), DOING).await?;
            let sql = "DELETE FROM rollout_gate_answers WHERE NOT EXISTS \
                 (SELECT 1 FROM rollouts r WHERE r.id = rollout_gate_answers.rollout)";
            self.run(query(sql, ()), DOING).await?;
        }
        let sql = "DELETE FROM rollout_requests WHERE (repository, forge_id) IN \
             (SELECT r.repository, r.forge_id FROM rollout_requests r \
             WHERE r.done_at < $1 ORDER BY r.done_at LIMIT $2)";
        Ok(rollouts + self.run(query(sql, (ended_before, limit.max(1))), DOING).await?)
    }

    /// Deletes up to so many records of other people's workloads that did not change since that time; returns their
    /// number. Those of the service's own workloads go with their deployments.
    pub async fn prune_foreign_progress(
        &self,
        changed_before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let sql = "DELETE FROM cluster_progress WHERE (cluster, workload, uid, sequence) IN \
             (SELECT p.cluster, p.workload, p.uid, p.sequence FROM cluster_progress p \
             WHERE p.deployment IS NULL AND p.at < $1 AND NOT EXISTS (SELECT 1 FROM cluster_progress o \
             WHERE o.cluster = p.cluster AND o.workload = p.workload AND o.deployment IS NOT NULL) \
             ORDER BY p.at LIMIT $2)";
        self.run(query(sql, (changed_before, limit.max(1))), DOING).await
    }

    /// Counts and cuts the violations of up to so many deployments that a former version ended;
    /// returns their number. Until then lists count the violations at the beginning of a long text.
    pub async fn bound_violations(&self, limit: u32) -> Result<u64, StoreError> {
        let sql = concat!(
            "SELECT id, SUBSTR(violations, 1, 262144) AS violations, ",
            violation_count!("violations", "error"),
            " AS counted_errors, ",
            violation_count!("violations", "warning"),
            " AS counted_warnings FROM deployments \
             WHERE errors IS NULL AND finished_at IS NOT NULL ORDER BY id LIMIT $1"
        );
        let rows = query(sql, limit).fetch_all(&self.readers, BOUNDING).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut write = self.begin(BOUNDING).await?;
        let mut count = 0;
        for row in rows {
            let id: DeployId = row.id("id")?;
            let first_violations = first_values(&row.text("violations")?);
            let (errors, warnings) = (row.count("counted_errors")?, row.count("counted_warnings")?);
            let violations = Violations::of_record(first_violations, errors, warnings);
            let sql = "UPDATE deployments SET violations = $2, errors = $3, warnings = $4 \
                 WHERE id = $1 AND errors IS NULL";
            let values = (&id, to_json(&violations), violations.errors(), violations.warnings());
            count += query(sql, values).execute(write.sql(), BOUNDING).await?;
        }
        write.commit().await?;
        Ok(count)
    }

    /// Returns the deployments that nothing needs, the oldest first. Ids are in the order of time,
    /// so that later ones need not be checked.
    async fn find_superfluous(
        &self,
        ended_before: Timestamp,
        after: Option<&DeployId>,
        limit: u32,
    ) -> Result<Vec<DeployId>, StoreError> {
        let sql = "SELECT d.id FROM deployments d \
             WHERE d.id > $1 AND d.id < $2 AND d.received_at < $3 AND d.finished_at < $3 \
             AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.deployment = d.id \
             AND o.outcome IS NULL) \
             AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.rollback = d.id AND h.ended_at IS NULL) \
             AND (d.rollout IS NULL OR NOT EXISTS (SELECT 1 FROM rollouts r WHERE r.ended_at IS NULL \
             AND (r.id = d.rollout OR r.undo_id = d.rollout))) \
             AND EXISTS (SELECT 1 FROM deployments n WHERE n.repository = d.repository \
             AND n.target = d.target AND (n.app_name = d.app_name OR (d.slug IS NULL AND d.app_name <> '*')) \
             AND n.state IN ('succeeded', 'failed') \
             AND (n.place > d.place OR (n.place = d.place AND n.id > d.id))) \
             AND (d.state <> 'succeeded' OR EXISTS (SELECT 1 FROM deployments n \
             WHERE n.repository = d.repository AND n.target = d.target AND n.app_name = d.app_name \
             AND n.state = 'succeeded' \
             AND (n.place > d.place OR (n.place = d.place AND n.id > d.id)))) \
             AND (d.state <> 'succeeded' OR d.slug IS NULL OR EXISTS (SELECT 1 FROM deployments n \
             WHERE n.target = d.target AND n.namespace = d.namespace AND n.slug = d.slug \
             AND n.state = 'succeeded' AND n.id > d.id)) \
             AND (d.state <> 'succeeded' OR d.slug IS NULL OR (SELECT COUNT(*) FROM \
             (SELECT n.id FROM deployments n WHERE n.target = d.target \
             AND n.namespace = d.namespace AND n.slug = d.slug AND n.state = 'succeeded' \
             AND n.rollback IS NULL AND n.pushed LIKE '%\"changed\":true%' AND n.id > d.id \
             LIMIT $4) AS newer) >= $4) \
             ORDER BY d.id LIMIT $5";
        let first = after.map_or("", DeployId::as_str);
        let last = ended_before.strftime("%Y%m%d-%H%M%S").to_string();
        let values = (first, last, ended_before, REVISIONS, limit.max(1));
        let rows = query(sql, values).fetch_all(&self.readers, DOING).await?;
        rows.into_iter().map(|row| row.id("id")).collect()
    }
}
