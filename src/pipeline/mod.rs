//! MERGE → DEFAULT → VALIDATE → RENDER → PUSH
pub mod default;
pub mod merge;
