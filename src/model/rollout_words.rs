//! The words of rollouts: their states, those of their targets, the policy for failures, the results of gates.

use crate::model::words::words;

words! {
    /// The policy for failures of a rollout.
    pub enum RolloutFailurePolicy {
        /// Every changed target gets its former revision back.
        Undo = "undo",
        /// The rollout waits for a person.
        Pause = "pause",
        /// The rollout goes on with the next target.
        Continue = "continue",
    }
}

words! {
    /// The state of a rollout.
    pub enum RolloutStatus {
        /// No target has been begun.
        Created = "created",
        /// It goes on by itself.
        RollingOut = "rolling_out",
        /// It begins no target and no gate.
        Paused = "paused",
        /// Changed targets get their former revision back.
        Undoing = "undoing",
        /// All steps are complete.
        Done = "done",
        /// Each changed target has its former revision, or belongs to another release by now.
        Undone = "undone",
        /// A target has not got its former revision back: a person must act.
        UndoFailed = "undo_failed",
        /// A person has ended it where it was.
        Cancelled = "cancelled",
    }
}

words! {
    /// The state of one target of a rollout.
    pub enum RolloutTargetStatus {
        /// It has not been begun, or is tried again.
        Pending = "pending",
        /// Its deployment is under way.
        Deploying = "deploying",
        /// The release runs there, or is pushed where nothing watches.
        Complete = "complete",
        /// Its deployment failed, or took too long.
        Failed = "failed",
        /// Another release was deployed there by a person.
        Superseded = "superseded",
        /// It is no target of the service any more.
        Skipped = "skipped",
        /// It waits for its undo.
        UndoPending = "undo_pending",
        /// Its undo is under way.
        Undoing = "undoing",
        /// It has its former revision.
        Undone = "undone",
        /// Its deployment changed nothing, so there is nothing to undo.
        Unchanged = "unchanged",
        /// Its undo failed: a person must act.
        UndoFailed = "undo_failed",
    }
}

words! {
    /// The result of a question to a gate.
    pub enum GateOutcome {
        /// The condition holds.
        Passed = "passed",
        /// The condition does not hold.
        NotPassed = "not_passed",
        /// The gate could not be asked, which is not passed.
        Unanswered = "unanswered",
    }
}

impl RolloutStatus {
    /// Checks that nothing happens any more unless a person acts, and that the service waits for none.
    pub fn is_end(self) -> bool {
        match self {
            Self::Done | Self::Undone | Self::UndoFailed | Self::Cancelled => true,
            Self::Created | Self::RollingOut | Self::Paused | Self::Undoing => false,
        }
    }
}
