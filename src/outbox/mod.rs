//! RELAY: people and programs are told what the store has for them.
//!
//! ```text
//! store ─ take ─▶ overtaken? ─▶ breaker closed? ─▶ quota? ─▶ Sinks::deliver ─▶ outcome ─▶ store
//!                  skipped       given back                    └─▶ breaker: open, or closed
//! ```
//!
//! How often each is tried is decided in `outcome.rs`, whether anything is tried at all and how fast in
//! `circuit_breaker.rs`, and what is worth a call where there are so many an hour in `quota.rs`.

mod circuit_breaker; // whether and how fast a family is called, pure
mod confirm; // ends are looked at again
mod delivery; // how a delivery came out, plain values
#[cfg(test)]
mod fixture; // a message, for tests
pub mod metrics;
mod outcome; // what becomes of a message, pure
pub mod quota; // which messages an hour's calls are spent on, pure
mod relay; // the loops: a sender for each family
pub mod sinks; // who is told: GitHub, Slack, programs, Argo CD

pub use crate::outbox::relay::{Outbox, OutboxSettings};
