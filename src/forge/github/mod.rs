//! GitHub, and GitHub Enterprise Server.

pub mod address; // where it is for people and for git, pure
pub mod client; // files and statuses, over the API
pub mod webhook; // events, pure
