//! GitHub, and GitHub Enterprise Server.

pub mod webhook; // events, pure
