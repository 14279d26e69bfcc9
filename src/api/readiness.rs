//! Whether the service is ready: what `/readyz` answers, which is no part of the API's document.

use serde::{Deserialize, Serialize};

/// Whether the service is ready, and what it waits for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether every check is.
    pub ready: bool,
    /// All of them.
    pub checks: Vec<ReadinessCheck>,
}

/// One thing that must work.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadinessCheck {
    /// What is looked at.
    pub name: String,
    /// Whether it works.
    pub ready: bool,
    /// What it waits for, if it does not.
    pub waiting_for: Option<String>,
    /// What else there is to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
