//! DURABLE STATE: what arrived, where each deployment is in its life, and what the forge is still
//! to be told. One portable SQL on SQLite and PostgreSQL.
//!
//! ```text
//! accept ─► queued ─ claim ─► running ─ begin_push ─► pushing ─ finish ─► succeeded, failed
//!              │ ▲               │ │                   │  ▲
//!              │ └── retry_at ◄──┘ │       retry_at ◄──┘──┘ (stays pushing)
//!              └─────► superseded ◄┘
//!                      cancelled
//! ```
//!
//! Each operation is one transaction, and writes what the forge is to be told of it in the same
//! one. Who is next and who is superseded is decided by `model::lane`; here is only SQL. Knows no
//! clock: times come in. Leases of several replicas compare their clocks, so a lease must be
//! much longer than these can differ.

mod audit; // who did what, and why
mod cancel; // a person stops a deployment
mod claims; // what a deployment that pushes takes
mod connect; // a URL becomes a pool
mod db; // the database that all of this is about
mod deaths; // attempts that died one after the other
pub mod embedded; // the SQLite file, copied and put back
mod error; // what can go wrong
mod health; // whether it takes writes
mod holds; // what keeps automation from deploying
mod idempotency_keys; // acts that may be repeated, and their answers
mod inactive; // what is no longer live
mod intake; // accept
mod lane; // the lane that an operation is about, locked
mod lease; // a worker's hold, when it ends, and what an attempt found out
mod life; // begin_push, retry_at, finish
mod locks; // who may not be deployed
mod next_due; // when there is something to do again, and times too far ahead
mod notifications; // what was told, and what waits
mod outbox; // what is still to be told, and to whom
mod owners; // whose an app is
mod previews; // pull requests that are to be previewed
mod query; // a statement with its values
mod queue; // claim, extend, release
mod read; // for pages and people
mod rebuild; // what the manifest repositories know, written into the tables
mod removals; // an app is taken off a target
mod repositories; // which repository has which name
mod retention; // what is old and not needed is deleted
mod rollbacks; // a rollback is asked for
mod row; // rows become values
mod sweeps; // where the search for lost events is
mod write; // a transaction, and what becomes of its connection

pub use crate::store::cancel::Cancelled;
pub use crate::store::claims::ClaimConflict;
pub use crate::store::db::Store;
pub use crate::store::deaths::MOST_DEATHS;
pub use crate::store::error::{Ailment, StoreError};
pub use crate::store::idempotency_keys::{
    Begin, IdempotencyKey, KeyLease, PendingAnswer, Reply, StoredAnswer,
};
pub use crate::store::intake::Accepted;
pub use crate::store::lease::{Claim, Findings, Held};
pub use crate::store::life::{Completion, FinalState, PushTurn};
pub use crate::store::locks::{Locked, Unlocked};
pub use crate::store::next_due::{LongestDelays, LongestRests};
pub use crate::store::notifications::{ForgeCalls, Notification, OutboxBacklog};
pub use crate::store::outbox::{Confirmation, DeliveryOutcome, OutboxMessage};
pub use crate::store::owners::{Moved, Owned};
pub use crate::store::previews::{Noted, PreviewClaim, ShownCheck};
pub use crate::store::read::{Counts, Depth, Filter, Page};
pub use crate::store::rebuild::{Rebuilt, Remembered, RememberedDeployment};
pub use crate::store::removals::ActTurn;
pub use crate::store::retention::PrunedBatch;
pub use crate::store::rollbacks::{NewRollback, RollbackTurn};
pub use crate::store::sweeps::{Sweeping, Swept};
