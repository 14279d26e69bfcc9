//! What keeps a writer that stood still from pushing the past.
//!
//! A change may be pushed as long as whoever brought it still holds what it is of: a deployment's
//! claim, a removal's record. Its [`Lease`] says so, and is looked at when a round begins, right
//! before anything is sent, and all the time while it is under way; with its end the exchange is cut.
//!
//! A process may stand still between the look and the sending. Then the branch is the fence: the tip
//! that a push builds on was read before the look. Whoever took over did so after the lease's end,
//! so what they pushed moved the branch from that tip, and the server refuses ours. After a race
//! that was lost nothing is applied again before the leases were looked at again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::support::lease::{Lease, Moment};

/// How often the clocks are looked at while something is under way; one may have been moved.
const LOOK: Duration = Duration::from_millis(250);

/// Says what time it is. Clones share it.
#[derive(Clone)]
pub struct Now(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Now {
    /// Makes a clock of the function that is asked for the time.
    pub fn by(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(in crate::git) fn now(&self) -> Moment {
        (self.0)()
    }
}

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Now")
    }
}

/// The leases of all that goes together.
#[derive(Debug, Clone)]
pub(in crate::git) struct Fence {
    leases: Vec<Lease>,
    now: Option<Now>,
}

impl Fence {
    /// For exchanges that change nothing.
    pub(in crate::git) fn none() -> Self {
        Self { leases: Vec::new(), now: None }
    }

    /// For the push of what is held by these leases.
    pub(in crate::git) fn of<'a>(leases: impl Iterator<Item = &'a Lease>, now: &Now) -> Self {
        Self { leases: leases.cloned().collect(), now: Some(now.clone()) }
    }

    /// Returns whether one of the leases has ended: then nothing of it may be sent.
    pub(in crate::git) fn is_closed(&self) -> bool {
        self.left().is_zero()
    }

    /// Until one of the leases has ended; each may be extended meanwhile.
    pub(in crate::git) async fn closed(&self) {
        loop {
            let left = self.left();
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK)).await;
        }
    }

    fn left(&self) -> Duration {
        let Some(now) = &self.now else { return Duration::MAX };
        let now = now.now();
        self.leases.iter().map(|lease| lease.left(now)).min().unwrap_or(Duration::MAX)
    }
}
