//! ROLLOUTS: one release over many targets, with gates between them, and back by itself.
//!
//! ```text
//!             ┌──────────────────────── resume, retry ───────────────────────┐
//!             ▼                                                              │
//! created ─▶ rolling_out ──────────────── last step complete ──▶ done        │
//!             │    │  └── a person, a lock, a failure ──▶ paused ────────────┘
//!             │    └───── a person ──▶ cancelled            │
//!             │ a failure, a gate in time, a person         │ a person
//!             ▼                                             ▼
//!          undoing ◀────────────────────────────────────────┘
//!             ├── each changed target has its former revision ──▶ undone
//!             └── one has not ──▶ undo_failed ── retry ──▶ undoing
//! ```
//!
//! Everything here is pure. [`advance`](advance::advance) takes the record of a rollout, the facts of its targets and
//! gates, and the time; it returns the next record, the orders that bring it about, and what the rollout waits for. The
//! caller stores record and orders in one transaction, and only if the record's `version` is still the one that it
//! read: of several replicas that advance the same rollout, one wins. Orders that were stored are carried out
//! by the queue of deployments, whatever happens to the process.
//!
//! The sequence of targets is fixed when the rollout is created. The rules of undo are those of
//! `docs/decisions/0023-rollouts.md`.

pub mod plan; // steps, gates and the policy for failures
pub mod record; // what is remembered of a rollout
pub mod facts; // what is known of targets and gates
pub mod advance; // the next step
pub mod forward; // steps that deploy, and gates
mod undo; // back to the former revisions
pub mod acts; // what people do to a rollout
mod news; // what people are told of it
#[cfg(test)]
mod simulation; // a world with targets, people and outages, moved by hand
#[cfg(test)]
mod tests; // stories
#[cfg(test)]
mod random_tests; // random ones
