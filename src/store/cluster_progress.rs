//! Progress in clusters: the lease of each cluster's watch, the records of its workloads, and the
//! deployments that are pushed and have no end yet.
//!
//! A deployment that waits for its cluster has left the queue: for workers it has succeeded, and
//! `cluster_state` says how it goes on. Its end is written here, once, together with the records that
//! led to it and its messages. The lease's number fences each write, so that a process which lost the
//! cluster while it was paused changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::app_instance::AppInstance;
use crate::model::deploy_clock::MarkTime;
use crate::model::deployment::{Pushed, State};
use crate::model::environment::EnvironmentChange;
use crate::model::id::{CommitSha, DeployId, TargetName};
use crate::store::canary_samples;
use crate::store::cluster_state::{ClusterChange, set_cluster_state, waiting};
use crate::store::db::Store;
use crate::store::environments;
use crate::store::error::StoreError;
use crate::store::fleet_rows;
use crate::store::inactive;
use crate::store::lease::{LeaseState, end_of};
use crate::store::query::{Query, placeholders, query, query_of};
use crate::store::row::{self, Row, overview_columns};
use crate::store::undo::{self, FailureUndo};
use crate::store::write::WriteTransaction;

/// The right of one process to watch a cluster and to record its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a lease that is dropped keeps others from watching until it ends"]
pub struct ClusterLease {
    /// The cluster.
    pub cluster: TargetName,
    holder: String,
    fence: i64,
}

/// A pushed deployment to a cluster that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedDeployment {
    /// Its id.
    pub id: DeployId,
    /// Its app and target.
    pub place: AppInstance,
    /// The push.
    pub pushed: Pushed,
    /// The time of the push.
    pub pushed_at: Timestamp,
    /// `Syncing` or `Progressing` while it has no end.
    pub state: State,
    /// True once it was recorded how it stands in the cluster, and people were told.
    pub is_announced: bool,
}

/// What was seen in a cluster, to be stored at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterFindings<'a> {
    /// Records of workloads.
    pub workloads: &'a [WorkloadRecord],
    /// Changes of deployments.
    pub changes: &'a [ClusterChange],
    /// The rollbacks of deployments that fail with these changes, or the reasons why there is none.
    pub undos: &'a [(DeployId, FailureUndo)],
    /// Marks of deployments, also of some that have ended.
    pub marks: &'a [(DeployId, Vec<MarkTime>)],
    /// Reports about workloads of others.
    pub environments: &'a [EnvironmentChange],
}

/// The record of one release of a workload. The text is the caller's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadRecord {
    /// The workload: `Deployment/devx/my-app`.
    pub workload: String,
    /// Its uid.
    pub uid: String,
    /// The number of the release on this workload.
    pub sequence: u32,
    /// The deployment that brought the release, where that is known.
    pub deployment: Option<DeployId>,
    /// The record, as JSON.
    pub record: String,
}

const RECORDING: &str = "recording the progress in a cluster";
const READING: &str = "reading the progress in a cluster";

/// The number of a workload's releases that are kept.
const RELEASES: u32 = 16;

impl Store {
    /// Returns the process that has the lease of a cluster.
    pub async fn cluster_holder(
        &self,
        cluster: &TargetName,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT holder AS id FROM cluster_leases WHERE cluster = $1 AND lease_end > $2";
        let row = query(sql, (cluster, now)).first(&self.readers, READING).await?;
        row.map(|row| row.text("id")).transpose()
    }

    /// Takes the lease of a cluster, unless another process has it.
    pub async fn lease_cluster(
        &self,
        cluster: &TargetName,
        holder: &str,
        now: Timestamp,
        length: Duration,
    ) -> Result<Option<ClusterLease>, StoreError> {
        let sql = "INSERT INTO cluster_leases (cluster, holder, fence, lease_end) \
             VALUES ($1, $2, 1, $3) ON CONFLICT (cluster) DO UPDATE SET holder = excluded.holder, \
             fence = cluster_leases.fence + 1, lease_end = excluded.lease_end \
             WHERE cluster_leases.lease_end <= $4 RETURNING cluster AS id, fence";
        let mut write = self.begin("taking the lease of a cluster").await?;
        let values = (cluster, holder, end_of(now, length), now);
        let row = query(sql, values).first(write.sql(), RECORDING).await?;
        let lease = row.map(|row| {
            let fence = row.number("fence")?;
            Ok(ClusterLease { cluster: cluster.clone(), holder: holder.to_owned(), fence })
        });
        write.commit().await?;
        lease.transpose()
    }

    /// Extends the lease, also one that has ended and that no other process has taken since.
    pub async fn extend_cluster_lease(
        &self,
        lease: &ClusterLease,
        now: Timestamp,
        length: Duration,
    ) -> Result<LeaseState, StoreError> {
        let extend = set_lease_end(lease, end_of(now, length));
        self.run(extend, "extending the lease of a cluster").await.map(LeaseState::by_rows)
    }

    /// Ends the lease: another process may watch the cluster at once.
    pub async fn end_cluster_lease(
        &self,
        lease: &ClusterLease,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let end = set_lease_end(lease, end_of(now, Duration::ZERO));
        self.run(end, "ending the lease of a cluster").await.map(LeaseState::by_rows)
    }

    /// Returns the records of a cluster's workloads, as they were stored.
    pub async fn workload_records(&self, cluster: &TargetName) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT workload AS id, record FROM cluster_progress WHERE cluster = $1 \
             ORDER BY workload, uid, sequence";
        let rows = query(sql, cluster).fetch_all(&self.readers, READING).await?;
        rows.iter().map(|row| row.text("record")).collect()
    }

    /// Returns the deployments to a cluster that wait for it, the oldest first.
    pub async fn waiting_for_cluster(
        &self,
        cluster: &TargetName,
    ) -> Result<Vec<PushedDeployment>, StoreError> {
        let sql = concat!(
            "SELECT ",
            overview_columns!(),
            " FROM deployments WHERE target = $1 AND ",
            waiting!(),
            " ORDER BY id"
        );
        let rows = query(sql, cluster).fetch_all(&self.readers, READING).await?;
        Ok(read_pushed(&rows))
    }

    /// Returns deployments that wait for a cluster which is not among these, and whose watch no process has had since
    /// `before`: the configuration has changed. Their push lies before that time, too.
    pub async fn waiting_unwatched(
        &self,
        watched: &[&TargetName],
        before: Timestamp,
    ) -> Result<Vec<(TargetName, DeployId)>, StoreError> {
        let mut sql = concat!("SELECT id, target FROM deployments WHERE ", waiting!()).to_owned();
        // The deployment to a fleet waits for its parts.
        sql += " AND NOT EXISTS (SELECT 1 FROM deployments p WHERE p.fleet = deployments.id)";
        sql += " AND finished_at <= $1 \
             AND target NOT IN (SELECT cluster FROM cluster_leases WHERE lease_end > $1)";
        if !watched.is_empty() {
            sql += &format!(" AND target NOT IN ({})", placeholders(2, watched.len()));
        }
        sql += " ORDER BY id LIMIT 100";
        let rows =
            query_of(sql, (before, watched.to_vec())).fetch_all(&self.readers, READING).await?;
        rows.iter().map(|row| Ok((row.id("target")?, row.id("id")?))).collect()
    }

    /// Returns the time of the newest push to one of these targets.
    pub async fn newest_push(
        &self,
        targets: &[TargetName],
    ) -> Result<Option<Timestamp>, StoreError> {
        if targets.is_empty() {
            return Ok(None);
        }
        // One search of the index for each target.
        let newest = (1..=targets.len()).map(|number| {
            format!(
                "SELECT MAX(finished_at) AS finished_at FROM deployments \
                 WHERE state = 'succeeded' AND target = ${number}"
            )
        });
        let newest = newest.collect::<Vec<_>>().join(" UNION ALL ");
        let sql =
            format!("SELECT '' AS id, MAX(finished_at) AS finished_at FROM ({newest}) newest");
        let targets: Vec<&TargetName> = targets.iter().collect();
        query_of(sql, targets).fetch_one(&self.readers, READING).await?.maybe_time("finished_at")
    }

    /// Returns the newest pushed deployment of each app on a cluster that had one since it is watched.
    pub async fn newest_in_cluster(
        &self,
        cluster: &TargetName,
    ) -> Result<Vec<PushedDeployment>, StoreError> {
        let sql = concat!(
            "SELECT ",
            overview_columns!(),
            " FROM deployments WHERE id IN (SELECT MAX(id) FROM deployments WHERE target = $1 \
             AND state = 'succeeded' AND slug IS NOT NULL GROUP BY namespace, slug) \
             AND cluster_state IS NOT NULL ORDER BY id"
        );
        let rows = query(sql, cluster).fetch_all(&self.readers, READING).await?;
        Ok(read_pushed(&rows))
    }

    /// Returns the commits that deployments to these targets pushed at that time or later, with the
    /// times, the newest first and at most so many: each holds what was pushed before it.
    pub async fn commits_since(
        &self,
        targets: &[TargetName],
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<(Timestamp, CommitSha)>, StoreError> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let places = placeholders(3, targets.len());
        let sql = format!(
            "SELECT id, finished_at, pushed FROM deployments WHERE state = 'succeeded' \
             AND finished_at >= $1 AND LENGTH(pushed) <= 262144 AND target IN ({places}) \
             ORDER BY finished_at DESC LIMIT $2"
        );
        let targets: Vec<&TargetName> = targets.iter().collect();
        let rows =
            query_of(sql, ((since, limit), targets)).fetch_all(&self.readers, READING).await?;
        let commit =
            |row: &Row| Ok((row.time("finished_at")?, row.json::<Pushed>("pushed")?.commit));
        rows.iter().map(commit).collect()
    }

    /// Records what was seen in a cluster: the records of workloads, the changes of deployments and
    /// their messages, marks of deployments, and reports about workloads of others, all or nothing. A deployment that
    /// has ended meanwhile stays as it is, but for its marks. The rollback of one that fails is requested in the same
    /// transaction where its target's policy is that, so that neither a crash nor a second process doubles or loses it.
    pub async fn record_cluster_progress(
        &self,
        lease: &ClusterLease,
        findings: ClusterFindings<'_>,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let ClusterFindings { workloads, changes, undos, marks, environments } = findings;
        // Progress is seen again after a power cut; a rollback that was requested is not.
        let has_rollback = undos.iter().any(|(_, undo)| matches!(undo, FailureUndo::Rollback(_)));
        let mut write = if has_rollback {
            self.begin_durable(RECORDING).await?
        } else {
            self.begin(RECORDING).await?
        };
        let fence = "UPDATE cluster_leases SET lease_end = lease_end \
             WHERE cluster = $1 AND holder = $2 AND fence = $3";
        let values = (&lease.cluster, &lease.holder, lease.fence);
        let count = query(fence, values).execute(write.sql(), RECORDING).await?;
        if LeaseState::by_rows(count) == LeaseState::Lost {
            return Ok(LeaseState::Lost);
        }
        // A workload that is gone may be there again: its former records go first.
        environments::record(&mut write, &lease.cluster, environments, now).await?;
        for record in workloads {
            keep_record(&mut write, &lease.cluster, record, now);
        }
        undo::lock_lanes(&mut write, undos.iter().map(|(_, undo)| undo));
        // Rows are locked in the order of their ids, as everywhere.
        let ids = changes.iter().map(|change| &change.deployment);
        let ids: BTreeSet<&DeployId> = ids.chain(marks.iter().map(|(id, _)| id)).collect();
        let mut mark_changes = Vec::new();
        for id in ids {
            for (_, times) in marks.iter().filter(|(marked, _)| marked == id) {
                mark_changes.extend(self.add_marks(&mut write, id, times).await?);
            }
            for change in changes.iter().filter(|change| change.deployment == *id) {
                let undo = undos.iter().find(|(failed, _)| failed == id).map(|(_, undo)| undo);
                self.change_in_cluster(&mut write, change, undo, now).await?;
            }
        }
        let ends = changes.iter().filter(|change| change.state.is_final());
        for change in ends {
            write.wake_followers_of(&change.deployment, now);
        }
        write.commit().await?;
        for change in &mark_changes {
            self.intervals.observe(change);
        }
        Ok(LeaseState::Held)
    }

    async fn change_in_cluster(
        &self,
        write: &mut WriteTransaction,
        change: &ClusterChange,
        undo: Option<&FailureUndo>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let undo = match undo {
            Some(undo) => Some(undo::admit(write, undo, &change.deployment, now).await?),
            None => None,
        };
        let with_note = undo.as_ref().map(|undo| change.with_note(&undo.note));
        let change = with_note.as_ref().unwrap_or(change);
        fleet_rows::lock_fleet_of(self, write, &change.deployment).await?;
        let Some(row) = set_cluster_state(write, change, now).await? else { return Ok(()) };
        canary_samples::note(write, &change.deployment, &change.canaries, now).await?;
        if let Some(request) = undo.and_then(|undo| undo.request) {
            self.request_undo(write, request, now).await?;
        }
        if row.maybe_text("fleet")?.is_some() {
            let follow = (&row, change.status.is_some(), !change.canaries.is_empty());
            return fleet_rows::follow_part(self, write, follow, now).await;
        }
        let Some(status) = &change.status else { return Ok(()) };
        if change.state == State::Succeeded {
            let deployment = row::overview(&row)?;
            let older = inactive::older(self, &deployment).ask(write.sql(), RECORDING).await?;
            inactive::enqueue_replaced(self, write, &deployment, &older, now).await?;
        }
        self.enqueue_change(write, &change.deployment, status, now);
        if !change.canaries.is_empty() {
            self.enqueue_canary(write, &change.deployment, status, now);
        }
        Ok(())
    }
}

/// Makes the leases of dead processes end at once; see `Store::end_leases`.
pub(super) async fn abandon(write: &mut WriteTransaction) -> Result<(), StoreError> {
    let sql = "UPDATE cluster_leases SET lease_end = 0";
    query(sql, ()).execute(write.sql(), "ending the leases of a former process").await.map(drop)
}

fn set_lease_end(lease: &ClusterLease, end: i64) -> Query {
    let sql = "UPDATE cluster_leases SET lease_end = $4 \
         WHERE cluster = $1 AND holder = $2 AND fence = $3";
    query(sql, ((&lease.cluster, &lease.holder, lease.fence), end))
}

fn keep_record(
    write: &mut WriteTransaction,
    cluster: &TargetName,
    record: &WorkloadRecord,
    now: Timestamp,
) {
    let WorkloadRecord { workload, uid, sequence, deployment, record } = record;
    let sql = "INSERT INTO cluster_progress (cluster, workload, uid, sequence, deployment, record, at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (cluster, workload, uid, sequence) \
         DO UPDATE SET deployment = excluded.deployment, record = excluded.record, at = excluded.at";
    let values = ((cluster, workload, uid, *sequence), (deployment, record, now));
    write.later(query(sql, values));
    if let Some(oldest) = sequence.checked_sub(RELEASES) {
        let sql = "DELETE FROM cluster_progress WHERE cluster = $1 AND workload = $2 \
             AND sequence <= $3";
        write.later(query(sql, (cluster, workload, oldest)));
    }
}

/// Reads the rows, without those that cannot be read: one of them must not stop the others.
fn read_pushed(rows: &[Row]) -> Vec<PushedDeployment> {
    let mut deployments = Vec::new();
    for row in rows {
        let deployment = match row::overview(row) {
            Ok(deployment) => deployment,
            Err(error) => {
                tracing::debug!(%error, "a deployment that waits for its cluster cannot be read");
                continue;
            }
        };
        // A record that a person changed may lack them; there is nothing to watch for then.
        let (Some(app), Some(pushed), Some(pushed_at)) =
            (deployment.app, deployment.pushed, deployment.pushed_at)
        else {
            continue;
        };
        let place = AppInstance { target: deployment.request.target, app };
        let (id, state) = (deployment.id, deployment.state);
        let is_announced = deployment.waiting.is_some();
        deployments.push(PushedDeployment { id, place, pushed, pushed_at, state, is_announced });
    }
    deployments
}
