//! The queue of deployments: a worker claims one with a lease, and no other worker touches it until
//! the lease ends.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::deployment::State;
use crate::model::id::{DeployId, RepoName, TargetName};
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{Claim, LeaseState, end_of};
use crate::store::query::query;
use crate::store::row::{self, deployment_columns};
use crate::store::write::WriteTransaction;
use crate::store::{deaths, idempotency_keys, lane, outbox, previews, removals, sweeps};

/// The number of lanes that one claim tries when other workers change them meanwhile.
const LOOKS: usize = 16;

const DOING: &str = "claiming a deployment";

/// The result of one look at the queue.
enum Look {
    Claimed(Box<Claim>),
    /// Another worker had the lane, or it changed: the look is outdated.
    Again,
    /// No deployment can run now.
    Nothing,
}

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
        most: usize,
    ) -> Result<Vec<Claim>, StoreError> {
        let mut claims = Vec::new();
        for _ in 0..LOOKS {
            let mut write = self.begin(DOING).await?;
            let mut look = Look::Again;
            while claims.len() < most {
                look = self.claim_next(&mut write, worker, now, lease).await?;
                match look {
                    Look::Claimed(claim) => claims.push(*claim),
                    Look::Again | Look::Nothing => break,
                }
                look = Look::Again;
            }
            write.commit().await?;
            if !claims.is_empty() || matches!(look, Look::Nothing) {
                break;
            }
        }
        Ok(claims)
    }

    async fn claim_next(
        &self,
        write: &mut WriteTransaction,
        worker: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Look, StoreError> {
        let Some((repository, target)) = self.candidate(write, now).await? else {
            return Ok(Look::Nothing);
        };
        // Read again: the candidate may have been chosen before the lock.
        if removals::keep_still(write, &repository, &target, now).await? {
            return Ok(Look::Again);
        }
        let lane = lane::read(write, &repository, &target).await?;
        let turn = lane.turn(now);
        lane::supersede(self, write, &lane, &turn.superseded, now).await?;
        let Some(id) = &turn.take else { return Ok(Look::Again) };
        let claim = take(self, write, id, worker, now, lease).await?;
        Ok(claim.map_or(Look::Again, |claim| Look::Claimed(Box::new(claim))))
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
        let done = query(sql, now).execute(write.sql(), doing).await?;
        removals::abandon(&mut write, now).await?;
        idempotency_keys::abandon(&mut write, now).await?;
        outbox::abandon(&mut write, now).await?;
        sweeps::abandon(&mut write).await?;
        previews::abandon(&mut write, now).await?;
        write.commit().await?;
        Ok(done)
    }

    /// Returns the lane of the oldest deployment that may run, locked; lanes that others have
    /// locked are skipped.
    async fn candidate(
        &self,
        write: &mut WriteTransaction,
        now: Timestamp,
    ) -> Result<Option<(RepoName, TargetName)>, StoreError> {
        let sql = "SELECT d.id, d.repository, d.target FROM deployments d \
             JOIN lanes l ON l.repository = d.repository AND l.target = d.target \
             WHERE d.finished_at IS NULL AND d.due_at <= $1 AND NOT EXISTS \
             (SELECT 1 FROM deployments o WHERE o.repository = d.repository \
             AND o.target = d.target AND o.finished_at IS NULL AND o.id <> d.id \
             AND o.state IN ('running', 'pushing')) \
             AND NOT EXISTS (SELECT 1 FROM acts a WHERE a.repository = d.repository \
             AND a.target = d.target AND a.finished_at IS NULL AND a.due_at > $1) \
             ORDER BY d.received_at, d.forge_id LIMIT 1";
        let row = query(self.locking(sql, "FOR UPDATE OF l SKIP LOCKED"), now)
            .first(write.sql(), DOING)
            .await?;
        row.map(|row| Ok((row.id("repository")?, row.id("target")?))).transpose()
    }
}

/// Marks the deployment as the worker's, unless its former worker came back since the lane was
/// read. A deployment that still had a worker lost it: that attempt has failed.
async fn take(
    store: &Store,
    write: &mut WriteTransaction,
    id: &DeployId,
    worker: &str,
    now: Timestamp,
    lease: Duration,
) -> Result<Option<Claim>, StoreError> {
    let sql = concat!(
        "UPDATE deployments SET attempts = attempts + 1, due_at = $3, worker = $2, \
         failures = failures + CASE WHEN worker IS NULL THEN 0 ELSE 1 END, \
         state = CASE WHEN state = 'queued' THEN 'running' ELSE state END, summary = ",
        deaths::deployment_taken!(),
        " WHERE id = $1 AND finished_at IS NULL AND due_at <= $4 RETURNING ",
        deployment_columns!()
    );
    let row = query(sql, (id, worker, end_of(now, lease), now)).first(write.sql(), DOING).await?;
    let Some(row) = row else { return Ok(None) };
    let deployment = row::deployment(&row)?;
    let deaths = deaths::count_deaths(&deployment.summary);
    let (failures, refused_since) = (row.count("failures")?, row.maybe_time("refused_since")?);
    let claim = Claim { deployment, failures, refused_since, deaths, at: now };
    if claim.deployment.attempts == 1 && claim.deployment.state == State::Running {
        let begun = match claim.deployment.rollback {
            Some(_) => ForgeStatus::rolling_back(),
            None => ForgeStatus::in_progress(),
        };
        store.enqueue_messages(write, id, &begun, now).await?;
    }
    Ok(Some(claim))
}
