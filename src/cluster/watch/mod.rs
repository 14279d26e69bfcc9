//! Watches of a cluster: its changes as events for one consumer.
//!
//! ```text
//! connection ─▶ protocol ─▶ reflector ─▶ events, for the index
//!                              │  ▲
//!                     health ◀─┘  └─ schedule: list or watch, and when (pure)
//! ```

pub mod kinds; // addresses and selectors of the kinds
pub(in crate::cluster) mod protocol; // pages of lists and lines of watches
pub mod schedule; // the next request of a watch, and its time
pub mod health; // the kinds that are seen, and those that are not
pub mod metrics; // the same for Prometheus
pub mod event; // events for the index
mod canary_events; // the reason for which a canary is held back
pub mod reflector; // the watches of one cluster

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use protocol::fuzz;
