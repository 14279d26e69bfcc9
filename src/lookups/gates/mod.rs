//! Questions of a rollout's gates: does an address answer with 2xx, is a query's value within its bound, does an alert
//! fire?
//!
//! ```text
//! clients ─┬─ hosts     an address of a developer, only at hosts that the operator allows
//!          ├─ promql    GET /api/v1/query at Prometheus                     pure
//!          └─ alerts    GET /api/v2/alerts, then /status at Alertmanager    pure
//! ```
//!
//! Each question has one try, one time for all of it, and an answer of at most [`MAX_ANSWER_BYTES`]; a few go out at
//! the same time. No redirect is followed: a page for a login answers with 200, and a token must not go along. What
//! cannot be asked is unanswered, with a reason for people, and never passed. How often a gate is asked is the caller's
//! business. Nothing here has a clock: times come in.

pub mod clients; // asks
pub mod hosts; // the hosts that an HTTP gate may be at
pub mod promql; // judges what Prometheus answers
mod alerts; // judges what Alertmanager answers

use std::time::Duration;

use crate::support::credential::Credential;

/// The longest time of a question, unless the configuration sets another.
pub const GATE_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit of an answer's bytes: a longer one is refused. One value, or the alerts of one app, are far below.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// The limit of an address with its query: it is the first line of a request, which proxies limit to 8 KiB.
pub const MAX_ADDRESS_BYTES: usize = 7 * 1024;

/// The settings of the clients for gates. A part that is absent leaves its gates unanswered.
#[derive(Debug, Clone)]
pub struct GateSettings {
    /// Prometheus, or what has its API.
    pub prometheus: Option<GateServer>,
    /// Alertmanager.
    pub alertmanager: Option<GateServer>,
    /// Globs of the hosts that an HTTP gate may be at; with a port where it is not the scheme's own.
    pub http_hosts: Vec<String>,
    /// The longest time of an HTTP gate's question.
    pub http_timeout: Duration,
}

/// A server that gates ask.
#[derive(Debug, Clone)]
pub struct GateServer {
    /// The address, to which the path of the API is added.
    pub url: String,
    /// The token, sent as a bearer.
    pub token: Option<Credential>,
    /// The longest time of a question.
    pub timeout: Duration,
}

/// The reply of a gate, each with the value or the reason for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateReply {
    /// The condition holds.
    Passed(String),
    /// The condition does not hold.
    NotPassed(String),
    /// The gate could not be asked.
    Unanswered(String),
}
