//! GitHub, and GitHub Enterprise Server.

pub mod address; // where it is for people and for git, pure
pub mod auth; // who we are
pub mod client; // what is asked of it and told to it, over the API
pub mod webhook; // events, pure
