//! Messages for people and programs, and the clients that send them. Pure functions write the messages; the outbox
//! decides when they are sent, and about retries.
//!
//! ```text
//! threading (pure)  the messages that a team got so far ─▶ the next message and its thread
//! route (pure)      the channel of a message, and the default channel as a fallback
//! message (pure)    a deployment and its outcome, or a rollout ─▶ SlackMessage: blocks, and the same as text
//! slack             SlackMessage ─▶ Slack, by a bot's token or an incoming webhook
//! events (pure)     a change ─▶ CloudEvents ─ signature ─ webhook ─▶ programs
//! argocd            a push ─▶ GitHub's event of it, signed ─▶ a cluster's Argo CD
//! bigquery          a deployment that has ended ─▶ a row of a table
//! ```

pub mod threading; // the next message for a team, and its thread, pure
pub mod route; // the channel of a message, pure
pub mod message; // every sentence that a person reads, pure
pub mod slack; // a bot, or an incoming webhook
pub mod events; // CloudEvents for programs, pure
pub mod signature; // the signature of events, pure
pub mod delivery; // the result of one POST of an event
pub mod webhook; // the receivers of events
pub mod argocd; // pushes for a cluster's Argo CD
pub mod bigquery; // rows of deployments that have ended
#[cfg(test)]
pub(crate) mod fixture; // a deployment, for tests
