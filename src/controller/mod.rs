//! THE LOOPS: events come in, deployments are worked off, lost events are found, pull requests are previewed.
//!
//! ```text
//! webhook ─► accept ─► store ◄─ worker ─► attempt: fetch → plan → push
//!                                           └─ outcome: end it, or try again when
//! ```
//!
//! Everything durable is in the store; a loop that dies loses nothing. Loops wake one another
//! by signals without data, and by a timer where a signal is lost. What a step does is a use case of
//! [`Deployments`](crate::deployments::Deployments). Who is told of it is the outbox's business.

mod attempt; // one claimed deployment: lease, panic, shutdown, and what is done with it
pub mod metrics;
pub mod outcome; // every end and every failure: what happens next, pure
pub mod previews; // pull requests are previewed, beside the deployments
pub mod sweep; // events that were lost are found
mod worker; // the loops

pub use crate::controller::worker::{Controller, WorkerSettings};
