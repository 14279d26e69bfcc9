//! What people do to a rollout: pause, resume, approve a gate, cancel, undo, retry.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::model::rollout_words::RolloutStatus;
use crate::rollout::plan::{Gate, RolloutStep};
use crate::rollout::record::{
    GateApproval, Pause, RolloutRecord, RolloutState, RolloutTargetStatus,
};

/// An act. The caller has checked the rights of the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutAct {
    /// Begins nothing more; what is under way goes on.
    Pause {
        /// The reason.
        reason: String,
    },
    /// Goes on, also past targets that have failed.
    Resume {
        /// The reason.
        reason: String,
    },
    /// Approves the gate of a step, which must be the current one.
    Approve {
        /// The number of the step, as the person saw it: the next gate may be for other people.
        step: usize,
        /// The person.
        by: String,
        /// The reason.
        reason: String,
    },
    /// Ends the rollout where it is; what is under way goes on by itself.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// Gives every changed target its former revision back.
    Undo {
        /// The reason.
        reason: String,
    },
    /// Deploys to the failed targets of the current step again, or tries an undo that failed again.
    Retry {
        /// The reason.
        reason: String,
    },
}

/// The reason why an act is refused, with what can be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ActRefusal(pub String);

impl RolloutRecord {
    /// Applies an act; returns the next record.
    ///
    /// # Errors
    /// [`ActRefusal`] where the state does not allow the act.
    pub fn apply(&self, act: RolloutAct, now: Timestamp) -> Result<Self, ActRefusal> {
        let mut next = self.clone();
        match act {
            RolloutAct::Pause { reason } => next.pause(reason, now)?,
            RolloutAct::Resume { reason: _ } => next.resume(now)?,
            RolloutAct::Approve { step, by, reason } => {
                next.approve(step, GateApproval { by, reason, at: now })?;
            }
            RolloutAct::Cancel { reason } => next.cancel(reason, now)?,
            RolloutAct::Undo { reason } => next.undo(reason, now)?,
            RolloutAct::Retry { reason: _ } => next.retry(now)?,
        }
        next.version += 1;
        Ok(next)
    }

    fn pause(&mut self, reason: String, now: Timestamp) -> Result<(), ActRefusal> {
        match self.state {
            RolloutState::Created
            | RolloutState::RollingOut
            | RolloutState::Paused(Pause::Blocked(_)) => {
                self.set_state(RolloutState::Paused(Pause::Person(reason)), now);
                Ok(())
            }
            RolloutState::Undoing { .. } => {
                Err(ActRefusal("it is being undone, which is not paused".to_owned()))
            }
            RolloutState::Paused(_) => Err(ActRefusal("it is paused already".to_owned())),
            _ => Err(self.has_ended()),
        }
    }

    fn resume(&mut self, now: Timestamp) -> Result<(), ActRefusal> {
        let RolloutState::Paused(_) = self.state else {
            return Err(ActRefusal(format!("it is {}, and not paused", self.state.as_str())));
        };
        self.accepted_failures = self.failures();
        if matches!(self.step(), Some(RolloutStep::Gate { .. }))
            && matches!(self.state, RolloutState::Paused(Pause::Failure(_) | Pause::Person(_)))
        {
            // A gate that took too long, or that nobody asked meanwhile, has its whole time again.
            self.step_since = now;
        }
        self.set_state(RolloutState::RollingOut, now);
        Ok(())
    }

    fn approve(&mut self, step: usize, approval: GateApproval) -> Result<(), ActRefusal> {
        match self.state {
            RolloutState::RollingOut | RolloutState::Paused(_) => {}
            _ => return Err(ActRefusal(format!("it is {}: no gate waits", self.state.as_str()))),
        }
        let Some(RolloutStep::Gate { gate: Gate::Approval { .. }, .. }) = self.step() else {
            return Err(ActRefusal("no gate waits for an approval now".to_owned()));
        };
        let index = self.index;
        if index != step {
            return Err(ActRefusal(
                "the gate has passed meanwhile, and another one waits".to_owned(),
            ));
        }
        let former = &mut self.gates.entry(index).or_default().approval;
        if let Some(former) = former.as_ref().filter(|former| former.by != approval.by) {
            return Err(ActRefusal(format!("{} has approved it already", former.by)));
        }
        former.get_or_insert(approval);
        Ok(())
    }

    fn cancel(&mut self, reason: String, now: Timestamp) -> Result<(), ActRefusal> {
        match self.state {
            RolloutState::Created | RolloutState::RollingOut | RolloutState::Paused(_) => {
                // One that was to be tried again has failed after all.
                for target in self.targets.iter_mut().filter(|target| target.awaits_retry()) {
                    target.set_state(RolloutTargetStatus::Failed, now);
                }
                self.set_state(RolloutState::Cancelled { reason }, now);
                Ok(())
            }
            RolloutState::Undoing { .. } => Err(ActRefusal(
                "it is being undone; half an undo would leave targets on either release".to_owned(),
            )),
            _ => Err(self.has_ended()),
        }
    }

    fn undo(&mut self, reason: String, now: Timestamp) -> Result<(), ActRefusal> {
        match self.state {
            RolloutState::Created => {
                Err(ActRefusal("nothing is deployed yet: cancel it".to_owned()))
            }
            RolloutState::RollingOut
            | RolloutState::Paused(_)
            | RolloutState::Done
            | RolloutState::Cancelled { .. } => {
                self.begin_undo(reason, now);
                Ok(())
            }
            RolloutState::Undoing { .. } => Err(ActRefusal("it is being undone".to_owned())),
            RolloutState::Undone => Err(ActRefusal("it is undone".to_owned())),
            RolloutState::UndoFailed => Err(ActRefusal(
                "its undo failed: retry tries the targets that are left again".to_owned(),
            )),
        }
    }

    fn retry(&mut self, now: Timestamp) -> Result<(), ActRefusal> {
        let (from, to) = match self.state {
            RolloutState::UndoFailed => {
                (RolloutTargetStatus::UndoFailed, RolloutTargetStatus::UndoPending)
            }
            RolloutState::RollingOut | RolloutState::Paused(_) => {
                (RolloutTargetStatus::Failed, RolloutTargetStatus::Pending)
            }
            _ => {
                return Err(ActRefusal(format!(
                    "it is {}: nothing is tried again",
                    self.state.as_str()
                )));
            }
        };
        let index = self.index;
        let mut count = 0;
        let later = self.numbers_with_later_steps();
        for (number, target) in self.targets.iter_mut().enumerate() {
            let is_current = from == RolloutTargetStatus::UndoFailed || target.step == index;
            if target.state == from && is_current && !later.contains(&number) {
                target.set_state(to, now);
                (target.note, target.attempts) = (None, 0);
                count += 1;
            }
        }
        if count == 0 {
            return Err(ActRefusal(
                "no target of the current step has failed: deploy to earlier ones with `bart deploy`"
                    .to_owned(),
            ));
        }
        self.step_since = now;
        let state = if from == RolloutTargetStatus::UndoFailed {
            RolloutState::Undoing { reason: "a person tries again".to_owned() }
        } else {
            RolloutState::RollingOut
        };
        self.set_state(state, now);
        Ok(())
    }

    /// Turns back: every target that the rollout may have changed waits for its undo.
    pub(super) fn begin_undo(&mut self, reason: String, now: Timestamp) {
        let later = self.numbers_with_later_steps();
        for (number, target) in self.targets.iter_mut().enumerate() {
            // The last step of a target is undone, to what was there before the first.
            if later.contains(&number) {
                continue;
            }
            match target.state {
                RolloutTargetStatus::Deploying
                | RolloutTargetStatus::Complete
                | RolloutTargetStatus::Failed => {
                    target.set_state(RolloutTargetStatus::UndoPending, now);
                }
                RolloutTargetStatus::Pending if target.awaits_retry() => {
                    target.set_state(RolloutTargetStatus::UndoPending, now);
                }
                RolloutTargetStatus::Pending
                | RolloutTargetStatus::Superseded
                | RolloutTargetStatus::Skipped
                | RolloutTargetStatus::UndoPending
                | RolloutTargetStatus::Undoing
                | RolloutTargetStatus::Undone
                | RolloutTargetStatus::Unchanged
                | RolloutTargetStatus::UndoFailed => {}
            }
        }
        self.step_since = now;
        self.set_state(RolloutState::Undoing { reason }, now);
    }

    fn numbers_with_later_steps(&self) -> BTreeSet<usize> {
        (0..self.targets.len()).filter(|number| self.has_later_step(*number)).collect()
    }

    fn has_ended(&self) -> ActRefusal {
        ActRefusal(format!("it has ended: it is {}", self.state.as_str()))
    }
}

impl RolloutState {
    /// Returns the word for the state, as it is stored and served.
    pub fn as_str(&self) -> &'static str {
        self.status().as_str()
    }

    /// Returns the state without its reason.
    pub fn status(&self) -> RolloutStatus {
        match self {
            Self::Created => RolloutStatus::Created,
            Self::RollingOut => RolloutStatus::RollingOut,
            Self::Paused(_) => RolloutStatus::Paused,
            Self::Undoing { .. } => RolloutStatus::Undoing,
            Self::Done => RolloutStatus::Done,
            Self::Undone => RolloutStatus::Undone,
            Self::UndoFailed => RolloutStatus::UndoFailed,
            Self::Cancelled { .. } => RolloutStatus::Cancelled,
        }
    }
}
