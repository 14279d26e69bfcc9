//! The fence, which stops a writer that stood still from pushing an outdated change.
//!
//! A change may be pushed as long as its caller holds its deployment's claim or its removal's record. Its [`Lease`]
//! says so, and is checked when a round begins, right before anything is sent, and all the time while an exchange is
//! under way; when the lease ends, the exchange is cut.
//!
//! A process may stand still between the check and the sending. Then the branch is the fence: the tip that a push
//! builds on was read before the check. Another process that took over did so after the lease's end, so its push moved
//! the branch from that tip, and the server refuses this one. After a lost race nothing is applied again before the
//! leases were checked again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::support::lease::{Lease, Moment};

/// The interval of checks of the clocks while an exchange is under way; a clock may have been moved.
const INTERVAL: Duration = Duration::from_millis(250);

/// Says what time it is. Clones share it.
#[derive(Clone)]
pub struct Now(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Now {
    /// Builds a clock of the function that returns the time.
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

/// The leases of all changes of one push.
#[derive(Debug, Clone)]
pub(in crate::git) struct Fence {
    leases: Vec<Lease>,
    now: Option<Now>,
}

impl Fence {
    /// Returns a fence for exchanges that change nothing.
    pub(in crate::git) fn none() -> Self {
        Self { leases: Vec::new(), now: None }
    }

    /// Returns the fence for a push of changes with these leases.
    pub(in crate::git) fn of<'a>(leases: impl Iterator<Item = &'a Lease>, now: &Now) -> Self {
        Self { leases: leases.cloned().collect(), now: Some(now.clone()) }
    }

    /// Returns whether one of the leases has ended: then nothing of it may be sent.
    pub(in crate::git) fn is_closed(&self) -> bool {
        self.time_left().is_zero()
    }

    /// Waits until one of the leases has ended; each may be extended meanwhile.
    pub(in crate::git) async fn closed(&self) {
        loop {
            let remaining = self.time_left();
            if remaining.is_zero() {
                return;
            }
            sleep(remaining.min(INTERVAL)).await;
        }
    }

    fn time_left(&self) -> Duration {
        let Some(now) = &self.now else { return Duration::MAX };
        let now = now.now();
        self.leases.iter().map(|lease| lease.left(now)).min().unwrap_or(Duration::MAX)
    }
}
