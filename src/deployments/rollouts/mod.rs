//! The use cases of rollouts: one release over many targets.

pub mod gates; // the questions of gates
