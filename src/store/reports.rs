//! The outcome of an attempt to tell people of a present state, for lanes that have a row for each thing with what was
//! last told of it, and no queue of messages: preview environments and rollouts.

use jiff::Timestamp;

/// The outcome of an attempt to tell people of a present state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateOutcome {
    /// The receiver has the newest state.
    Sent {
        /// The time at which it is checked again.
        check_at: Option<Timestamp>,
        /// True while an earlier status may be applied after it.
        doubted: bool,
    },
    /// There was nothing to send, for this reason.
    Nothing(String),
    /// It is tried again.
    Later {
        /// The time of the next attempt.
        at: Timestamp,
        /// True if it may have arrived nevertheless.
        unsure: bool,
        /// True if the attempt failed. False where the receiver asked to wait.
        failed: bool,
        /// The reason.
        reason: String,
    },
    /// It is not tried any more, for this reason.
    Refused(String),
}

/// The part of an outcome that each table of reports stores.
pub(super) struct Ending {
    pub(super) due_at: Timestamp,
    pub(super) done_at: Option<Timestamp>,
    pub(super) unsure: bool,
    pub(super) failures: u32,
    pub(super) refused: bool,
    pub(super) summary: String,
}

/// Returns what an outcome stores; `doubt` is true if an earlier attempt may have arrived.
pub(super) fn ending(outcome: &StateOutcome, failures: u32, doubt: bool, now: Timestamp) -> Ending {
    let done = |summary: &str, refused| Ending {
        due_at: now,
        done_at: Some(now),
        unsure: false,
        failures: 0,
        refused,
        summary: summary.to_owned(),
    };
    match outcome {
        StateOutcome::Sent { check_at: None, .. } => done("sent", false),
        StateOutcome::Sent { check_at: Some(at), .. } => {
            Ending { due_at: *at, done_at: None, ..done("sent, and checked again", false) }
        }
        StateOutcome::Nothing(reason) => Ending { unsure: doubt, ..done(reason, false) },
        StateOutcome::Refused(reason) => done(reason, true),
        StateOutcome::Later { at, unsure, failed, reason } => Ending {
            due_at: *at,
            done_at: None,
            unsure: *unsure,
            failures: failures.saturating_add(u32::from(*failed)),
            refused: false,
            summary: reason.clone(),
        },
    }
}
