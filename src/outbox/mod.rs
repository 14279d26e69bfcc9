//! The outbox relay: sends the store's messages to people and programs.
//!
//! ```text
//! store ─ take ─▶ overtaken? ─▶ breaker closed? ─▶ quota? ─▶ Sinks::deliver ─▶ outcome ─▶ store
//!                  skipped       released                      └─▶ breaker: open, or closed
//! ```
//!
//! Read `relay.rs` first: it has the loops. `outcome.rs` has the retry policies. `circuit_breaker.rs` decides whether a
//! family is called at all and how fast, and [`quota`] which messages are worth a call where the code host takes so
//! many an hour. [`sinks`] has an adapter for each kind of receiver. `report.rs` has lanes that tell of present states, not of
//! changes: `environments/` of preview environments, with what deployments leave of these limits, and `rollouts/`.

mod circuit_breaker; // circuit breaker and rate limit of a family, pure
mod confirm; // checks of final statuses
mod report; // reports of present states: the lanes, and what they share
mod report_outcome; // what is recorded of a report after an attempt, pure
mod environments; // preview environments, in a lane of their own
mod rollouts; // rollouts: a commit status and a Slack thread each
mod delivery; // results of a delivery, plain values
#[cfg(test)]
mod fixture; // a message, for tests
pub mod metrics;
mod outcome; // the retry policies: what is recorded of a message after an attempt, pure
pub mod quota; // priorities where the code host has an hourly quota, pure
mod relay; // the loops: one sender for each family
pub mod sinks; // adapters: GitHub, Slack, CloudEvents, Argo CD, BigQuery

pub use crate::outbox::relay::{Outbox, OutboxSettings};
