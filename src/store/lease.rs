//! A worker's hold on what it works at, when that ends, and what an attempt has found out.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::claim::{Claims, ObjectClaim};
use crate::model::deployment::{Contact, Deployment, StageTime};
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha};
use crate::model::route::RouteClaim;
use crate::store::query::{Bind, Bound};
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

/// Its id and the number of its attempt: `$1` and `$2` of a statement that is fenced by them.
impl Bind for &Claim {
    fn bind(self, query: Bound) -> Bound {
        (&self.deployment.id, self.deployment.attempts).bind(query)
    }
}

/// What a worker has found out so far. What is not known leaves what was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The app that the WAML describes.
    pub app: Option<AppKey>,
    /// The template and its version.
    pub template: Option<String>,
    /// The commit of the templates.
    pub templates_commit: Option<CommitSha>,
    /// Where the people of the app are reached.
    pub contact: Option<Contact>,
    /// Where the app is reached.
    pub address: Option<String>,
    /// What somebody had changed by hand in the manifest repository.
    pub hand_edit: Option<HandEdit>,
    /// The routes that it makes live.
    pub routes: Vec<RouteClaim>,
    /// The objects that it makes live.
    pub objects: Vec<ObjectClaim>,
    /// The stages of this attempt.
    pub stages: Vec<StageTime>,
}

impl Findings {
    /// Takes what the deployment makes live in place of what was claimed before.
    pub fn take_claims(&mut self, claims: Claims) {
        let Claims { routes, objects } = claims;
        (self.routes, self.objects) = (routes, objects);
    }
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

/// Returns when a lease that begins now ends, in milliseconds.
pub(super) fn end_of(now: Timestamp, lease: Duration) -> i64 {
    let lease = SignedDuration::try_from(lease).unwrap_or(SignedDuration::MAX);
    saturating_add(now, lease).as_millisecond()
}
