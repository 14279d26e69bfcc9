//! Durable state: events that arrived, the state of each deployment, and the messages that wait. One portable SQL
//! on SQLite and PostgreSQL.
//!
//! ```text
//! accept ─► queued ─ claim ─► running ─ begin_push ─► pushing ─ finish ─► succeeded, failed
//!              │ ▲               │ │                   │  ▲
//!              │ └── retry_at ◄──┘ │       retry_at ◄──┘──┘ (stays pushing)
//!              └─────► superseded ◄┘                          │ where a cluster is watched
//!                      cancelled                             ▼
//!                                    syncing ─► progressing ─► succeeded, failed, superseded
//! ```
//!
//! Each operation is one transaction, and enqueues its messages in the same one. `model::lane` decides which
//! deployment is next and which are superseded; here is only SQL. The store has no clock: callers pass times. Leases
//! of several replicas compare their clocks, so a lease must be much longer than these can differ.
//!
//! Read `db.rs` first, for [`Store`] and its transactions; then `intake.rs`, `queue.rs` and `life.rs` for the way of a
//! deployment, `outbox.rs` for messages, and `read.rs` for queries. Every other file is about one noun.

mod app_split; // deployments of all apps of a repository
mod audit; // the audit log
mod cancel; // cancels a deployment
mod canary_samples; // how far the canaries of deployments were, over time
mod claims; // reservations of apps, routes and objects
mod cluster_progress; // progress in clusters: leases and records
mod cluster_state; // the state of a pushed deployment in its cluster
mod connect; // connects to the database of a URL
mod db; // the database and its transactions
mod deaths; // counts attempts that died one after the other
pub mod embedded; // backup and restore of the SQLite file
mod environment_claims; // claims of those who tell of preview environments
mod environments; // preview environments: reports, and what of them is due
mod error; // errors and faults
mod facts; // reads the records that the rules need
mod followers; // wakes what follows deployments that end
mod fleet_rows; // the rows of a fleet's parts, and their progress
mod fleets; // deployments to fleets, and their parts
mod health; // the check for writes
mod holds; // holds, which stop automation
mod idempotency_keys; // acts that may be repeated, and their answers
mod inactive; // statuses of deployments that are no longer live
mod insights; // queries about all deployments of a window
mod intake; // accepts events
mod interval_metrics; // histograms of the deploy clock
mod lane; // locks and reads a lane
mod lease; // claims, leases and findings
mod life; // steps of a claimed deployment: begin_push, retry_at, finish
mod locks; // locks, which stop deployments
mod mark_text; // the text of a deployment's marks
mod marks; // marks that are known after the push
mod next_due; // the next due time, and times too far ahead
mod notifications; // queries about sent and waiting messages
mod outbox; // the outbox: messages to send
mod overview; // queries for the overview of all apps
mod owners; // owners of apps
mod previews; // previews of pull requests
mod push_turn; // the answer to a worker that wants to push
mod query; // statements with their values
mod queue; // claim, extend, release
mod read; // queries for pages and people
mod readers; // the connections for reads
mod rebuild; // restores records from the manifest repositories
mod removals; // records of removals
mod reports; // outcomes of those who tell of a present state
mod repositories; // names of repositories
mod retention; // deletes old deployments
mod rollbacks; // accepts rollbacks
mod rollout_answers; // answers of the gates of rollouts
mod rollout_events; // events about rollouts, for other programs
mod rollout_requests; // deployments of the code host that start a rollout
mod rollout_orders; // the transaction in which a rollout moves and its orders become deployments
mod rollouts; // records of rollouts, and the targets that each has
mod rollout_reports; // what people were last told of rollouts
mod row; // reads values from rows
mod sessions; // browsers of people who have signed in
mod sweeps; // progress of the sweeps
mod system; // replicas, leases, messages that were given up
mod undo; // the rollback of a deployment that failed in its cluster
mod waiting_ends; // the end of deployments that wait for their cluster
mod write; // a write transaction and its connection
mod writers; // the queue of SQLite's writers, and the transaction that they share

pub use crate::store::app_split::AppsTurn;
pub use crate::store::cancel::Cancelled;
pub use crate::store::claims::ClaimConflict;
pub use crate::store::cluster_progress::{
    ClusterFindings, ClusterLease, PushedDeployment, WorkloadRecord,
};
pub use crate::store::cluster_state::ClusterChange;
pub use crate::store::db::Store;
pub use crate::store::deaths::MAX_DEATHS;
pub use crate::store::environment_claims::{
    EnvironmentCommentClaim, EnvironmentStatusClaim, ShownComment,
};
pub use crate::store::error::{Ailment, StoreError};
pub use crate::store::facts::RecordedFacts;
pub use crate::store::idempotency_keys::{
    Begin, IdempotencyKey, KeyLease, PendingAnswer, Reply, StoredAnswer,
};
pub use crate::store::insights::{
    ChangeFailure, DeploymentKind, DeploymentPlace, FailureReason, InsightScope, OutcomeCount,
    PackedDeployments, PackedLapses, RolloutOutcome, WindowDeployment,
};
pub use crate::store::intake::Accepted;
pub use crate::store::interval_metrics::IntervalMetrics;
pub use crate::store::lease::{Claim, Findings, FleetPart, FleetPartPush, LeaseState};
pub use crate::store::life::{Completion, FinalState};
pub use crate::store::locks::{LockPlacement, Unlocked};
pub use crate::store::next_due::{LongestDelays, LongestRests};
pub use crate::store::notifications::{ForgeCalls, Notification, OutboxBacklog};
pub use crate::store::outbox::{Confirmation, DeliveryOutcome, OutboxMessage};
pub use crate::store::overview::{NewestDeployment, UnpushedApp, UnreadDeployment};
pub use crate::store::owners::{OwnerMove, OwnerRecord};
pub use crate::store::previews::{PostedCheck, PreviewClaim, PreviewIntake};
pub use crate::store::push_turn::PushTurn;
pub use crate::store::read::{Filter, Page, QueueDepth, StateCounts};
pub use crate::store::rebuild::{Rebuilt, RememberedDeployment, RestorableRecords};
pub use crate::store::removals::ActTurn;
pub use crate::store::reports::StateOutcome;
pub use crate::store::retention::PrunedBatch;
pub use crate::store::rollbacks::{NewRollback, RollbackTurn};
pub use crate::store::rollout_answers::GateAnswers;
pub use crate::store::rollout_events::{RolloutEvent, RolloutEventClaim};
pub use crate::store::rollout_orders::{RolloutChange, RolloutCommit, RolloutOrder};
pub use crate::store::rollout_reports::{RolloutReportClaim, RolloutSink, RolloutTold};
pub use crate::store::rollout_requests::{RolloutRequestClaim, RolloutRequestUpdate};
pub use crate::store::rollouts::{
    RolloutClaim, RolloutFilter, RolloutOrigin, RolloutProgress, RolloutStart, StoredRollout,
};
pub use crate::store::sessions::{SessionProof, SessionRecord};
pub use crate::store::sweeps::{NextSweep, Sweeping};
pub use crate::store::system::DeadLetter;
pub use crate::store::undo::{FailureUndo, UndoRequest};
