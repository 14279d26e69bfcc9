//! A code host's own record of the webhook deliveries, and its limits of requests.

use jiff::Timestamp;

/// An event that did not arrive, by the host's own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDelivery {
    /// The number of the delivery, by which its content is read.
    pub id: i64,
    /// The event's own name: `X-GitHub-Delivery`, the same for every attempt.
    pub guid: String,
    /// The kind of event: `deployment`.
    pub event: String,
    /// The time of the last attempt.
    pub delivered_at: Timestamp,
    /// The status of the service's answer; 0 where there was no answer.
    pub status_code: u16,
}

/// The content of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryContent {
    /// The event's kind.
    pub event: String,
    /// The event's own name.
    pub guid: String,
    /// The payload as JSON. It is not byte by byte what was sent, so its signature does not match any more. It needs
    /// none, because the service requested it.
    pub payload: Vec<u8>,
}

/// The number of requests left, by the last answer that had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBudget {
    /// The number of requests in an hour.
    pub limit: u64,
    /// The number of requests left until the reset.
    pub remaining: u64,
    /// The time of the reset.
    pub reset: Timestamp,
}

/// The time until which a host wants no requests, as far as it said; of several accounts the latest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimited {
    /// None at all.
    pub everything: Option<Timestamp>,
    /// None that make or change something: statuses and check runs.
    pub writes: Option<Timestamp>,
}
