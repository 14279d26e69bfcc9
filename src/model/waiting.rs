//! The condition that an unfinished deployment waits for, in one form for every part that waits.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The condition that something waits for, with its start, the last event and the time at which it gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingOn {
    /// The condition, without "waiting for": `Argo CD to sync devx/my-app`.
    pub what: String,
    /// The time at which the wait began.
    pub since: Timestamp,
    /// The last event.
    pub last_event: Option<LastEvent>,
    /// The time at which it fails if nothing happens; null where it waits for as long as it takes.
    pub gives_up_at: Option<Timestamp>,
}

/// The last event of something that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastEvent {
    /// The time of the event.
    pub at: Timestamp,
    /// The event as a sentence for people.
    pub text: String,
}
