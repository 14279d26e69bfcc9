//! What an unfinished deployment waits for: said in one form by every part that waits.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What something waits for, since when, what happened last, and when it gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingOn {
    /// What must happen, without "waiting for": `Argo CD to sync devx/my-app`.
    pub what: String,
    /// Since when it is waited for.
    pub since: Timestamp,
    /// What happened last.
    pub last_event: Option<LastEvent>,
    /// When it fails if nothing happens; null where it waits for as long as it takes.
    pub gives_up_at: Option<Timestamp>,
}

/// What happened last to something that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastEvent {
    /// When.
    pub at: Timestamp,
    /// What, as a sentence for people.
    pub text: String,
}
