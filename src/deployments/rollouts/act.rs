//! What people do to a rollout. An act and its entry in the audit log are one transaction.

use crate::deployments::rollouts::start::progress;
use crate::deployments::rollouts::view::{read_record, view};
use crate::deployments::rollouts::{RolloutActError, RolloutView};
use crate::deployments::{AUDIT, BackendError, Deployments};
use crate::model::audit::{AuditRecord, Principal};
use crate::model::id::RolloutId;
use crate::rollout::acts::RolloutAct;
use crate::store::{Reply, RolloutChange, RolloutCommit};

/// The number of tries, where the loop changes the rollout at the same moment.
const TRIES: usize = 5;

impl Deployments {
    /// Does an act of a person, who has the rights for it. It takes effect with the next turn of the loop.
    pub async fn act_on_rollout(
        &self,
        id: &RolloutId,
        act: RolloutAct,
        by: Principal,
        reply: &Reply<RolloutView>,
    ) -> Result<RolloutView, RolloutActError> {
        for _ in 0..TRIES {
            let rollout = self.store.rollout(id).await.map_err(BackendError::new)?;
            let rollout = rollout.ok_or_else(|| RolloutActError::Unknown(id.clone()))?;
            let (record, now) = (read_record(&rollout)?, self.clock.now());
            let after = record.apply(act.clone(), now)?;
            let (word, reason) = describe(&act);
            let entry = AuditRecord {
                app: Some(rollout.app.clone()),
                subject: format!("rollout {}", rollout.id),
                outcome: format!("it is {}", after.state.as_str()),
                ..self.ledger.entry(word, reason, by.clone())
            };
            let next = progress(&after, rollout.progress.waits.clone(), now);
            let events = self.rollout_events(&rollout, (&record, &after), now);
            let mut changed = rollout.clone();
            changed.progress.clone_from(&next);
            let picture = view(changed)?;
            let change = RolloutChange {
                rollout: &rollout,
                next: &next,
                orders: &[],
                entries: &[entry],
                events: &events,
                gate_answer: None,
                answer: reply.answer(&picture),
                lease_end: None,
            };
            let commit = self.store.change_rollout(change, now).await;
            match commit.map_err(BackendError::new)? {
                RolloutCommit::Stored => {
                    tracing::info!(target: AUDIT, rollout = %id, act = word, by = by.name, "rollout changed");
                    self.rollout_metrics.observe(&record, &after);
                    self.wake.rollouts.notify_one();
                    self.wake.outbox();
                    return Ok(picture);
                }
                RolloutCommit::Overlaps(other) => return Err(RolloutActError::Overlap(other)),
                RolloutCommit::Lost | RolloutCommit::Busy { .. } => {}
            }
        }
        Err(RolloutActError::Busy(id.clone()))
    }
}

/// Returns the word of an act in the audit log, and its reason.
fn describe(act: &RolloutAct) -> (&'static str, String) {
    match act {
        RolloutAct::Pause { reason } => ("rollout-pause", reason.clone()),
        RolloutAct::Resume { reason } => ("rollout-resume", reason.clone()),
        RolloutAct::Approve { reason, step: _, by: _ } => ("rollout-approve", reason.clone()),
        RolloutAct::Cancel { reason } => ("rollout-cancel", reason.clone()),
        RolloutAct::Undo { reason } => ("rollout-undo", reason.clone()),
        RolloutAct::Retry { reason } => ("rollout-retry", reason.clone()),
    }
}
