//! The loops: they work on deployments, follow them in clusters, recover missed events and preview pull requests.
//!
//! ```text
//! webhook ─► accept ─► store ◄─ worker ─► attempt: fetch → plan → push
//!                                           └─ outcome: end it, or schedule a retry
//! ```
//!
//! Everything durable is in the store; a loop that dies loses nothing. Loops wake one another
//! by signals without data, and by a timer where a signal is lost. A step's work is a use case of
//! [`Deployments`](crate::deployments::Deployments). The outbox sends the messages about it.
//!
//! Read `worker.rs` first: it claims deployments and starts attempts. [`outcome`] decides what follows an
//! attempt, without side effects. [`clusters`], [`previews`], [`rollouts`] and [`sweep`] are loops of their own.

pub mod clusters; // follows pushed deployments in a cluster
mod cluster_source; // the events of a cluster: of watches, or of an agent's reports
mod failures; // what is read and decided about failures before they are recorded
mod held_commits; // the commits of others that hold a followed revision
mod cluster_news; // what is stored, sent and logged of them, pure
mod environments; // reports about commits that workloads of others name
pub mod unwatched; // ends those whose cluster nothing watches any more
mod attempt; // one claimed deployment: lease, panic, shutdown, stages
pub mod metrics;
pub mod outcome; // what follows each end and each failure, pure
pub mod previews; // the loop of previews of pull requests
pub mod rollouts; // the loop of rollouts
pub mod sweep; // recovery of missed events
mod worker; // the loop that claims deployments

pub use crate::controller::worker::{Controller, WorkerSettings};
