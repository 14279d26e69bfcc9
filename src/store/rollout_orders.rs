//! Moves a rollout: its next record and the deployments that it orders are one transaction.
//!
//! A step becomes a deployment behind all others of its lane, and an undo a rollback: from here on the queue, locks,
//! messages and the recovery after a crash are those of any deployment. A deployment that a person asked for is not
//! superseded by one of a rollout: while it waits or runs, nothing is stored, and the rollout looks again.

use jiff::Timestamp;

use crate::model::audit::AuditRecord;
use crate::model::deployment::State;
use crate::model::event::DeploymentRequest;
use crate::model::id::{DeployId, RolloutId, TargetName};
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::{self, PendingAnswer};
use crate::store::lane::LaneName;
use crate::store::query::{query, query_of};
use crate::store::rollbacks::{self, NewRollback};
use crate::store::rollout_answers::GateAnswers;
use crate::store::rollout_events::RolloutEvent;
use crate::store::rollouts::{RolloutProgress, StoredRollout, claim_targets, free_targets};
use crate::store::write::WriteTransaction;
use crate::store::{
    audit, intake, lane, removals, rollout_answers, rollout_events, rollout_reports,
    rollout_requests,
};

/// A change of a rollout, all or nothing.
#[derive(Debug)]
pub struct RolloutChange<'a> {
    /// The rollout as it was read.
    pub rollout: &'a StoredRollout,
    /// Its next state; the version differs from the one that was read where the record has changed.
    pub next: &'a RolloutProgress,
    /// The orders.
    pub orders: &'a [RolloutOrder],
    /// The entries in the audit log.
    pub entries: &'a [AuditRecord],
    /// The events about the change, for other programs.
    pub events: &'a [RolloutEvent],
    /// The answer of a gate that the next record has.
    pub gate_answer: Option<&'a GateAnswers>,
    /// The answer to an idempotent request.
    pub answer: Option<PendingAnswer>,
    /// The end of the lease of a turn: a rollout that was woken during the turn stays due.
    pub lease_end: Option<Timestamp>,
}

/// An order that becomes a deployment, or ends one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutOrder {
    /// A new deployment.
    Deploy {
        /// Its id.
        id: DeployId,
        /// The request; its number is provisional.
        request: Box<DeploymentRequest>,
    },
    /// A new rollback.
    RollBack(Box<NewRollback>),
    /// The end of a deployment that has pushed nothing.
    Cancel {
        /// The deployment.
        id: DeployId,
        /// Its target.
        target: TargetName,
        /// The name of the principal, and the reason.
        by: (String, String),
    },
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it may not have been stored"]
pub enum RolloutCommit {
    /// Everything is stored.
    Stored,
    /// Another replica or a person has changed the rollout since it was read. Nothing is stored.
    Lost,
    /// A deployment or a removal of another is under way where this one would begin. Nothing is stored.
    Busy {
        /// The target.
        target: TargetName,
        /// The deployment or removal.
        other: DeployId,
    },
    /// It has ended before, and another rollout has one of its targets by now. Nothing is stored.
    Overlaps(RolloutId),
}

const DOING: &str = "moving a rollout";

impl Store {
    /// Stores the next state of a rollout and its orders, if it is still the one that was read.
    pub async fn change_rollout(
        &self,
        change: RolloutChange<'_>,
        now: Timestamp,
    ) -> Result<RolloutCommit, StoreError> {
        let RolloutChange {
            rollout,
            next,
            orders,
            entries,
            events,
            gate_answer,
            answer,
            lease_end,
        } = change;
        let repository = &rollout.repository;
        let mut write = self.begin_durable(DOING).await?;
        // In the order in which every transaction locks several lanes.
        let mut targets: Vec<&TargetName> = orders.iter().map(RolloutOrder::target).collect();
        targets.sort();
        targets.dedup();
        for target in &targets {
            lane::ensure(&mut write, repository, target);
        }
        if !is_current(&mut write, rollout).await? {
            // A dropped transaction releases the lanes only some time later.
            write.commit().await?;
            return Ok(RolloutCommit::Lost);
        }
        for order in orders.iter().filter(|order| order.begins()) {
            let place = (order.target(), order.app_name());
            if let Some(other) = find_other(&mut write, rollout, place, now).await? {
                write.commit().await?;
                return Ok(RolloutCommit::Busy { target: order.target().clone(), other });
            }
        }
        let was_open = rollout.progress.ended_at.is_none();
        if !was_open
            && next.ended_at.is_none()
            && let Some(other) = claim_targets(&mut write, rollout).await?
        {
            write.commit().await?;
            return Ok(RolloutCommit::Overlaps(other));
        }
        for order in orders {
            self.carry_out(&mut write, rollout, order, now).await?;
        }
        if was_open && next.ended_at.is_some() {
            free_targets(&mut write, &rollout.id);
        }
        if !update(&mut write, rollout, next, lease_end).await? {
            // Dropped, it is undone.
            return Ok(RolloutCommit::Lost);
        }
        if next.version != rollout.progress.version {
            rollout_reports::announce(&mut write, &rollout.id, now);
        }
        rollout_events::enqueue(self, &mut write, (&rollout.id, next.version), events, now);
        if let Some(answer) = gate_answer {
            rollout_answers::note(&mut write, (&rollout.id, next.version), answer).await?;
        }
        if was_open && next.ended_at.is_some() {
            wake_queued(self, &mut write, rollout, now);
            rollout_requests::wake(&mut write, &rollout.id, now);
        }
        for entry in entries {
            audit::note(&mut write, entry).await?;
        }
        idempotency_keys::keep(&mut write, answer.as_ref()).await?;
        write.commit().await?;
        Ok(RolloutCommit::Stored)
    }

    async fn carry_out(
        &self,
        write: &mut WriteTransaction,
        rollout: &StoredRollout,
        order: &RolloutOrder,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match order {
            RolloutOrder::Deploy { id, request } => {
                let own_lane = LaneName::of(request);
                let place = rollbacks::newest_place(write, &own_lane, Some(&rollout.app)).await?;
                let delivery = format!("rollout/{id}");
                let insert =
                    intake::insert(&delivery, request, id, (place, Some(&rollout.id)), now);
                if insert.execute(write.sql(), DOING).await? == 0 {
                    return Err(StoreError::IdTaken(id.clone()));
                }
                self.enqueue_messages(write, id, &ForgeStatus::queued(), now);
                let lane = lane::read(write, &own_lane).await?;
                lane::supersede(self, write, &lane, &lane.next_turn(now).superseded, now).await
            }
            RolloutOrder::RollBack(new) => self.enqueue(write, new, now).await,
            RolloutOrder::Cancel { id, target: _, by: (name, reason) } => {
                let sql = "UPDATE deployments SET state = $2, finished_at = $3, summary = $4, worker = NULL \
                     WHERE id = $1 AND state IN ('queued', 'running')";
                let summary = format!("cancelled by {name}: {reason}");
                let values = (id, State::Cancelled.as_str(), now, &summary);
                if query(sql, values).execute(write.sql(), DOING).await? == 1 {
                    let status = ForgeStatus::cancelled(name, reason);
                    self.enqueue_messages(write, id, &status, now);
                }
                Ok(())
            }
        }
    }
}

impl RolloutOrder {
    /// Returns the target.
    pub fn target(&self) -> &TargetName {
        match self {
            Self::Deploy { request, .. } => &request.target,
            Self::RollBack(new) => &new.request.target,
            Self::Cancel { target, .. } => target,
        }
    }

    /// Returns the name of the app, as deployments have it.
    fn app_name(&self) -> &str {
        let release = match self {
            Self::Deploy { request, .. } => &request.release,
            Self::RollBack(new) => &new.request.release,
            Self::Cancel { .. } => return "",
        };
        lane::app_word(release.app.as_ref())
    }

    /// Checks that it makes a deployment.
    fn begins(&self) -> bool {
        match self {
            Self::Deploy { .. } | Self::RollBack(_) => true,
            Self::Cancel { .. } => false,
        }
    }
}

/// Makes the rollouts due that are queued for the targets of one that has ended.
fn wake_queued(store: &Store, write: &mut WriteTransaction, ended: &StoredRollout, now: Timestamp) {
    // In the order of their ids, as every transaction locks several rollouts.
    let sql = "SELECT w.id FROM rollouts w WHERE w.repository = $1 AND w.namespace = $2 AND w.slug = $3 \
         AND w.ended_at IS NULL AND w.claimed = 0 AND w.due_at > $4 ORDER BY w.id";
    let queued = store.locking(sql, "FOR UPDATE").0;
    let sql = format!("UPDATE rollouts SET due_at = $4 WHERE id IN ({queued})");
    write.later(query_of(sql, (&ended.repository, &ended.app, now)));
}

async fn is_current(
    write: &mut WriteTransaction,
    rollout: &StoredRollout,
) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM rollouts WHERE id = $1 AND version = $2 AND repository = $3";
    let values = (&rollout.id, rollout.progress.version, &rollout.repository);
    Ok(query(sql, values).first(write.sql(), DOING).await?.is_some())
}

/// Returns a deployment in the lane of a target that others asked for, or a removal there. One that names no app may be of
/// every app of its repository.
async fn find_other(
    write: &mut WriteTransaction,
    rollout: &StoredRollout,
    (target, app_name): (&TargetName, &str),
    now: Timestamp,
) -> Result<Option<DeployId>, StoreError> {
    let StoredRollout { id, undo_id, repository, app, .. } = rollout;
    let sql = "SELECT id FROM deployments WHERE repository = $1 AND target = $2 AND finished_at IS NULL \
         AND (rollout IS NULL OR rollout NOT IN ($3, $4)) \
         AND (app_name IN ($5, '') OR (namespace = $6 AND slug = $7)) ORDER BY id LIMIT 1";
    let others = query(sql, (repository, target, id, undo_id, (app_name, app)));
    let removal = removals::select_blocking_app(target, app, now);
    let [others, removal] = write.ask_all([others, removal], DOING).await?;
    let row = others.rows.first().or(removal.rows.first());
    row.map(|row| row.id("id")).transpose()
}

async fn update(
    write: &mut WriteTransaction,
    rollout: &StoredRollout,
    next: &RolloutProgress,
    lease_end: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let RolloutProgress { state, version, record, waits, since, ended_at, due_at } = next;
    let sql = "UPDATE rollouts SET state = $4, version = $5, record = $6, waits = $7, since = $8, ended_at = $9, \
         due_at = CASE WHEN $13 = 1 OR due_at = $11 THEN $10 ELSE due_at END, claimed = CASE WHEN $12 = 1 THEN 1 ELSE claimed END \
         WHERE id = $1 AND version = $2 AND repository = $3";
    let read = (&rollout.id, rollout.progress.version, &rollout.repository);
    let values = (state, version, record, waits, since, ended_at);
    let due_at = (due_at, lease_end.unwrap_or(rollout.progress.due_at));
    let is_reopened = rollout.progress.ended_at.is_some() && ended_at.is_none();
    // An act of a person is due at once, whoever has the turn.
    let flags = (is_reopened, lease_end.is_none());
    let count = query(sql, (read, values, due_at, flags)).execute(write.sql(), DOING).await?;
    Ok(count == 1)
}
