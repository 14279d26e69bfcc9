//! A worker's hold on what it works at, and when that ends.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::Deployment;
use crate::support::time::saturating_add;

/// A worker's hold on one deployment. Only what carries it can move the deployment on, and only
/// until another worker has taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks its lane until the lease ends"]
pub struct Claim {
    /// As it was when it was claimed: `Running`, or `Pushing` where an earlier worker, or an
    /// earlier attempt, may have pushed already.
    pub deployment: Deployment,
    /// How many attempts at it failed or died before this one.
    pub failures: u32,
    /// Since when the attempts before this one were refused, if they were.
    pub refused_since: Option<Timestamp>,
    /// How many of those died one after the other, just before this one: the first of anything, the
    /// others when it was planned alone.
    pub deaths: u32,
    /// When it was claimed: what is known of the world is not older.
    pub at: Timestamp,
}

/// Whether a claim still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a worker that lost its claim must stop"]
pub enum Held {
    /// It does, and what was asked is done.
    Yes,
    /// Another worker took over, or the deployment has ended. Nothing was changed.
    Lost,
}

impl Held {
    /// Fenced statements change one row, or none when the fence is closed.
    pub(super) fn by_rows(rows: u64) -> Self {
        if rows == 0 { Self::Lost } else { Self::Yes }
    }
}

/// When a lease that begins now ends, in milliseconds.
pub(super) fn end_of(now: Timestamp, lease: Duration) -> i64 {
    let lease = SignedDuration::try_from(lease).unwrap_or(SignedDuration::MAX);
    saturating_add(now, lease).as_millisecond()
}
