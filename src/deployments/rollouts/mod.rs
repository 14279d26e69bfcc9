//! The use cases of rollouts: one release over many targets.

pub mod gates; // the questions of gates
pub mod gate_clients; // their clients and metrics
