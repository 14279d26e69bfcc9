//! PEOPLE AND PROGRAMS ARE TOLD: what is said, and the clients that say it. What is said is made
//! by pure functions; when, and what happens after a failure, is decided elsewhere.
//!
//! ```text
//! threading (pure)    what a team was told so far ─▶ what is said now, under which message
//! route (pure)    where that goes, and where if it cannot go there
//! message (pure)  a deployment and how it ended ─▶ Letter: blocks, and the same as text
//! slack           Letter ─▶ Slack, by a bot's token or an incoming webhook
//! events (pure)   a change ─▶ CloudEvents ─ signature ─ webhook ─▶ programs
//! argocd          a push ─▶ GitHub's event of it, signed ─▶ a cluster's Argo CD
//! ```

pub mod threading; // what a team is told now, after what it was told before, pure
pub mod route; // where that goes, pure
pub mod message; // every sentence that a person reads, pure
pub mod slack; // a bot, or an incoming webhook
pub mod events; // CloudEvents for programs, pure
pub mod signature; // how they are signed, pure
pub mod delivery; // what the answer to an event means
pub mod webhook; // who they are sent to
pub mod argocd; // a cluster's Argo CD hears of pushes
