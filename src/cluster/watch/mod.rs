//! Watches of a cluster: what happens there, told to one consumer.
//!
//! ```text
//! connection ─▶ protocol ─▶ reflector ─▶ events, for the index
//!                              │  ▲
//!                     health ◀─┘  └─ schedule: list or watch, and when (pure)
//! ```

pub mod kinds; // where each kind is listed, and which of it
mod protocol; // pages of lists and lines of watches
pub mod schedule; // what a watch does next, and when
pub mod health; // what is seen, and what is not
pub mod metrics; // the same for Prometheus
pub mod event; // what they tell, and what the index makes of it
pub mod reflector; // the watches of one cluster

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use protocol::fuzz;
