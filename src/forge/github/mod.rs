//! GitHub, and GitHub Enterprise Server.

pub mod auth; // who we are: a token, or an App
pub mod client; // everything that is asked and told, over the API
pub mod webhook; // events, pure
