//! GitHub, and GitHub Enterprise Server.
//!
//! ```text
//! client ─▶ auth ─▶ wire ─▶ answer, limits ─▶ request ─▶ permission
//! ```

pub mod address; // where it is for people and for git, pure
mod answer; // what an answer that is no success means, pure
pub mod auth; // who we are
pub mod client; // what is asked of it and told to it, over the API
mod limits; // how many requests are left, and who was told to wait
pub mod permission; // what is needed, and what was granted, pure
mod request; // a request, and by what right it is made
pub mod webhook; // events, pure
mod wire; // one request, its redirects and its answer
