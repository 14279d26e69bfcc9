//! The queue of deployments: a worker claims one with a lease, and no other worker touches it until
//! the lease ends.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::deployment::State;
use crate::model::event::RepositoryIdentity;
use crate::model::id::DeployId;
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lane::LaneName;
use crate::store::lease::{Claim, LeaseState, end_of};
use crate::store::query::{Query, query};
use crate::store::row::{self, Row, deployment_columns};
use crate::store::write::WriteTransaction;
use crate::store::{
    cluster_progress, deaths, environments, idempotency_keys, lane, outbox, previews, removals,
    repositories, rollouts, sweeps,
};

/// The number of lanes that one claim tries when other workers change them meanwhile.
const LOOKS: usize = 16;

const DOING: &str = "claiming a deployment";

impl Store {
    /// Claims the oldest deployment that may run, if there is one: it waits, or its worker has
    /// died, and no other of its lane runs.
    pub async fn claim(
        &self,
        worker: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        Ok(self.claim_some(worker, now, lease, 1).await?.pop())
    }

    /// Claims up to so many that may run, each of another lane, the oldest first.
    pub async fn claim_some(
        &self,
        worker: &str,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        for _ in 0..LOOKS {
            let mut write = self.begin(DOING).await?;
            let lanes = self.candidates(&mut write, now, limit).await?;
            let is_idle = lanes.is_empty();
            let claims = self.claim_lanes(&mut write, lanes, (worker, lease), now).await?;
            write.commit().await?;
            // Another worker had the lanes, or they changed: the look is outdated.
            if !claims.is_empty() || is_idle {
                return Ok(claims);
            }
        }
        Ok(Vec::new())
    }

    async fn claim_lanes(
        &self,
        write: &mut WriteTransaction,
        lanes: Vec<LaneName>,
        (worker, lease): (&str, Duration),
        now: Timestamp,
    ) -> Result<Vec<Claim>, StoreError> {
        // Read again: the candidates may have been chosen before the locks.
        let queries = |lane: &LaneName| {
            [
                removals::select_blocking(lane, now),
                lane::entries(lane),
                repositories::select_identity(&lane.repository),
            ]
        };
        let lane_answers = write.ask_many(lanes.iter().flat_map(queries).collect(), DOING).await?;
        let (mut updates, mut identities) = (Vec::new(), Vec::new());
        for [acts, entries, identity_answer] in lane_answers.as_chunks().0 {
            if !acts.rows.is_empty() {
                continue;
            }
            let lane = lane::from_rows(&entries.rows)?;
            let turn = lane.next_turn(now);
            lane::supersede(self, write, &lane, &turn.superseded, now).await?;
            if let Some(id) = turn.take {
                updates.push(take(&id, (worker, lease), now));
                identities.push(
                    identity_answer.rows.first().map(repositories::read_identity).transpose()?,
                );
            }
        }
        let answers = write.ask_many(updates, DOING).await?;
        let claims = answers.iter().zip(identities);
        let claims = claims.filter_map(|(answer, identity)| Some((answer.rows.first()?, identity)));
        claims.map(|(row, identity)| self.start_claim(write, row, identity, now)).collect()
    }

    /// Extends the lease of the claim.
    pub async fn extend(
        &self,
        claim: &Claim,
        now: Timestamp,
        lease: Duration,
    ) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE deployments SET due_at = $3 \
             WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL";
        let extend = query(sql, (claim, end_of(now, lease)));
        self.run(extend, "extending a lease").await.map(LeaseState::by_rows)
    }

    /// Releases the deployment unchanged: any worker may claim it at once. For a shutdown.
    pub async fn release(&self, claim: &Claim, now: Timestamp) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE deployments SET worker = NULL, due_at = $3, \
             state = CASE WHEN state = 'running' THEN 'queued' ELSE state END \
             WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL";
        let release = query(sql, (claim, now));
        self.run(release, "releasing a deployment").await.map(LeaseState::by_rows)
    }

    /// Ends every lease. For a process that starts and knows that it is alone with the database:
    /// all holders are dead, and no one need wait until their leases end. The same holds for acts,
    /// for idempotency keys, and for messages in doubt. The deaths of a deployment's workers still
    /// count.
    pub async fn end_leases(&self, now: Timestamp) -> Result<u64, StoreError> {
        let doing = "ending the leases of a former process";
        let mut write = self.begin(doing).await?;
        let sql = "UPDATE deployments SET due_at = $1 \
             WHERE worker IS NOT NULL AND finished_at IS NULL AND due_at > $1";
        let count = query(sql, now).execute(write.sql(), doing).await?;
        removals::abandon(&mut write, now).await?;
        idempotency_keys::abandon(&mut write, now).await?;
        outbox::abandon(&mut write, now).await?;
        sweeps::abandon(&mut write).await?;
        cluster_progress::abandon(&mut write).await?;
        environments::abandon(&mut write, now).await?;
        previews::abandon(&mut write, now).await?;
        rollouts::abandon(&mut write, now).await?;
        write.commit().await?;
        Ok(count)
    }

    /// Returns the lanes of the oldest deployments that may run, locked; lanes that others have
    /// locked are skipped.
    async fn candidates(
        &self,
        write: &mut WriteTransaction,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<LaneName>, StoreError> {
        let sql = "SELECT d.id, d.repository, d.target, d.app_name FROM deployments d \
             JOIN lanes l ON l.repository = d.repository AND l.target = d.target \
             WHERE d.finished_at IS NULL AND d.fleet IS NULL AND d.due_at <= $1 AND NOT EXISTS \
             (SELECT 1 FROM deployments o WHERE o.repository = d.repository \
             AND o.target = d.target AND o.app_name = d.app_name AND o.finished_at IS NULL AND o.id <> d.id \
             AND o.state IN ('running', 'pushing')) \
             AND NOT EXISTS (SELECT 1 FROM acts a WHERE a.repository = d.repository \
             AND a.target = d.target AND (a.app_name IS NULL OR a.app_name = d.app_name) \
             AND a.finished_at IS NULL AND a.due_at > $1) \
             ORDER BY d.received_at, d.forge_id LIMIT $2";
        let rows = query(self.locking(sql, "FOR UPDATE OF l SKIP LOCKED"), (now, limit))
            .fetch_all(write.sql(), DOING)
            .await?;
        let mut lanes = Vec::with_capacity(rows.len());
        for row in rows {
            let lane = LaneName {
                repository: row.id("repository")?,
                target: row.id("target")?,
                app: row.text("app_name")?,
            };
            // Several deployments of a lane may wait.
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        Ok(lanes)
    }

    /// Returns the claim on a deployment that was taken, and enqueues the messages of its first attempt.
    fn start_claim(
        &self,
        write: &mut WriteTransaction,
        row: &Row,
        identity: Option<RepositoryIdentity>,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let mut deployment = row::deployment(row)?;
        deployment.request.identity = identity;
        let deaths = deaths::count_deaths(&deployment.summary);
        let (failures, refused_since) = (row.count("failures")?, row.maybe_time("refused_since")?);
        let claim = Claim { deployment, failures, refused_since, deaths, at: now };
        if claim.deployment.attempts == 1 && claim.deployment.state == State::Running {
            let status = match claim.deployment.rollback {
                Some(_) => ForgeStatus::rolling_back(),
                None => ForgeStatus::in_progress(),
            };
            self.enqueue_messages(write, &claim.deployment.id, &status, now);
        }
        Ok(claim)
    }
}

/// Returns the statement that marks the deployment as the worker's, unless its former worker came back
/// since the lane was read. A deployment that still had a worker lost it: that attempt has failed.
fn take(id: &DeployId, (worker, lease): (&str, Duration), now: Timestamp) -> Query {
    let sql = concat!(
        "UPDATE deployments SET attempts = attempts + 1, due_at = $3, worker = $2, \
         failures = failures + CASE WHEN worker IS NULL THEN 0 ELSE 1 END, \
         state = CASE WHEN state = 'queued' THEN 'running' ELSE state END, summary = ",
        deaths::deployment_taken!(),
        " WHERE id = $1 AND finished_at IS NULL AND fleet IS NULL AND due_at <= $4 RETURNING ",
        deployment_columns!()
    );
    query(sql, (id, worker, end_of(now, lease), now))
}
