//! GitHub, and GitHub Enterprise Server.

pub mod client; // files and statuses, over the API
pub mod webhook; // events, pure
