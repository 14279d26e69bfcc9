//! What a code host knows of the events that it sent us, and of how often it may be asked.

use jiff::Timestamp;

/// An event that did not arrive, by the host's own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDelivery {
    /// The delivery's number, by which its content is asked for.
    pub id: i64,
    /// The event's own name: `X-GitHub-Delivery`, the same for every attempt.
    pub guid: String,
    /// Its kind: `deployment`.
    pub event: String,
    /// When the last attempt was made.
    pub delivered_at: Timestamp,
    /// What we answered; 0 where there was no answer.
    pub status_code: u16,
}

/// What was delivered, or should have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryContent {
    /// The event's kind.
    pub event: String,
    /// The event's own name.
    pub guid: String,
    /// The payload as JSON. Not byte by byte what was sent: its signature does not fit any more. It
    /// needs none, because we asked for it.
    pub payload: Vec<u8>,
}

/// How many requests are left, by the last answer that said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBudget {
    /// How many there are in an hour.
    pub limit: u64,
    /// How many are left until the reset.
    pub remaining: u64,
    /// When all of them are there again.
    pub reset: Timestamp,
}

/// Until when a host wants no requests of ours, as far as it said; of several accounts the latest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limited {
    /// None at all.
    pub everything: Option<Timestamp>,
    /// None that make or change something: statuses and check runs.
    pub writes: Option<Timestamp>,
}
