//! PEOPLE: what they read of a deployment, and how it reaches them.
//!
//! ```text
//! story (pure)    what the team has been told so far ─▶ what is said now, under which message
//! message (pure)  a deployment and how it ended ─▶ Letter: blocks, and the same as text
//! slack           Letter ─▶ Slack, by a bot token or an incoming webhook
//! ```
//!
//! Knows nothing of stores, retries or other sinks: a [`slack::error::SlackError`] says what may
//! help, and whoever called decides when.

pub mod story; // what is said now, after what was said before
pub mod message; // every sentence that a person reads
pub mod slack; // Slack: a bot, or an incoming webhook
