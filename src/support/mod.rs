//! SMALL SHARED THINGS: a leaf that imports nothing of ours.

pub mod text; // characters that nobody sees
