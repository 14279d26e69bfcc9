//! SMALL SHARED THINGS: a leaf that imports nothing of ours.

pub mod disk; // whether a folder takes writes
pub mod text; // characters that nobody sees
