//! Requests for rollouts by deployments of the code host: stored before they are answered, once each.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::event::RolloutTrigger;
use crate::model::id::{RepoName, RolloutId};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::end_of;
use crate::store::query::query;
use crate::store::repositories;
use crate::store::row::{Row, to_json};
use crate::store::write::WriteTransaction;

/// A request that one replica works on for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutRequestClaim {
    /// The request, under the present name of its repository.
    pub trigger: RolloutTrigger,
    /// The rollout that it started.
    pub rollout: Option<RolloutId>,
    /// The reason why it started none.
    pub error: Option<String>,
    /// The state that the code host has been told.
    pub reported: Option<String>,
    /// The number of failures since the last success.
    pub failures: u32,
    /// The end of the lease.
    lease_end: Timestamp,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutRequestUpdate {
    /// The reason why it started no rollout.
    pub error: Option<String>,
    /// The state that the code host has been told.
    pub reported: Option<String>,
    /// The number of failures since the last success.
    pub failures: u32,
    /// The time from which it is looked at again; `None` where nothing is left to do.
    pub due_at: Option<Timestamp>,
}

const DOING: &str = "storing a request for a rollout";

impl Store {
    /// Stores a request; returns false where it was stored before. When this returns, it is on disk.
    pub async fn accept_rollout_request(
        &self,
        trigger: &RolloutTrigger,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let name = &trigger.release.repository;
        let name = repositories::recognize(self, &mut write, trigger.identity, name, now).await?;
        let sql = "INSERT INTO rollout_requests (repository, forge_id, request, received_at, failures, due_at) \
             VALUES ($1, $2, $3, $4, 0, $4) ON CONFLICT (repository, forge_id) DO NOTHING";
        let values = (&name, trigger.forge_id, to_json(trigger), now);
        let count = query(sql, values).execute(write.sql(), DOING).await?;
        write.commit().await?;
        Ok(count == 1)
    }

    /// Takes the next request that is due; no other replica takes it until the lease ends.
    pub async fn claim_rollout_request(
        &self,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<RolloutRequestClaim>, StoreError> {
        let sql = "SELECT repository AS id, forge_id FROM rollout_requests \
             WHERE done_at IS NULL AND due_at <= $1 ORDER BY due_at, forge_id LIMIT 1";
        // In most cases there is none: that takes no turn to write.
        if query(sql, now).first(&self.readers, DOING).await?.is_none() {
            return Ok(None);
        }
        let mut write = self.begin(DOING).await?;
        let sql = self.locking(sql, "FOR UPDATE SKIP LOCKED");
        let Some(row) = query(sql, now).first(write.sql(), DOING).await? else { return Ok(None) };
        let sql = "UPDATE rollout_requests SET due_at = $3 WHERE repository = $1 AND forge_id = $2 \
             RETURNING repository AS id, request, rollout, error, told, failures, due_at";
        let values = (row.text("id")?, row.number("forge_id")?, end_of(now, lease));
        let row = query(sql, values).fetch_one(write.sql(), DOING).await?;
        write.commit().await?;
        read(&row).map(Some)
    }

    /// Records what has become of a request, unless another replica has it by now.
    pub async fn record_rollout_request(
        &self,
        claim: &RolloutRequestClaim,
        update: &RolloutRequestUpdate,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let RolloutRequestUpdate { error, reported, failures, due_at } = update;
        // One that was woken meanwhile stays due.
        let sql = "UPDATE rollout_requests SET error = $3, told = $4, failures = $5, \
             due_at = CASE WHEN due_at = $6 THEN $7 ELSE due_at END, done_at = $8 \
             WHERE repository = $1 AND forge_id = $2 AND done_at IS NULL";
        let key = (&claim.trigger.release.repository, claim.trigger.forge_id);
        let done_at = due_at.is_none().then_some(now);
        let times = (claim.lease_end, due_at.unwrap_or(now), done_at);
        self.run(query(sql, (key, error, reported, *failures, times)), DOING).await.map(drop)
    }
}

fn read(row: &Row) -> Result<RolloutRequestClaim, StoreError> {
    let mut trigger: RolloutTrigger = row.json("request")?;
    trigger.release.repository = row.id("id")?;
    Ok(RolloutRequestClaim {
        trigger,
        rollout: row.maybe_id("rollout")?,
        error: row.maybe_text("error")?,
        reported: row.maybe_text("told")?,
        failures: row.count("failures")?,
        lease_end: row.time("due_at")?,
    })
}

/// Notes the rollout that a request starts, in the transaction that creates it; returns false where it has started one.
pub(super) async fn note_start(
    write: &mut WriteTransaction,
    (repository, forge_id): (&RepoName, i64),
    rollout: &RolloutId,
) -> Result<bool, StoreError> {
    let sql = "UPDATE rollout_requests SET rollout = $3 WHERE repository = $1 AND forge_id = $2 AND rollout IS NULL";
    let count = query(sql, (repository, forge_id, rollout)).execute(write.sql(), DOING).await?;
    Ok(count == 1)
}

/// Makes the request due that started a rollout, in the transaction that ends the rollout: the code host is told.
pub(super) fn wake(write: &mut WriteTransaction, rollout: &RolloutId, now: Timestamp) {
    let sql = "UPDATE rollout_requests SET due_at = $2 WHERE rollout = $1 AND done_at IS NULL AND due_at > $2";
    write.later(query(sql, (rollout, now)));
}
