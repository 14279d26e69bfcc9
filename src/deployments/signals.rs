//! What use cases and loops tell one another without the store: that there may be something to do, where lost
//! events are looked for soon, and until when the code host limits us.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use crate::forge::delivery::Limited;
use crate::model::id::RepoName;
use crate::support::sync::lock;

/// Signals without data: one that is lost costs the time until the loops' timer.
#[derive(Debug, Default)]
pub struct Wake {
    /// Deployments wait, or their lanes are free.
    pub(crate) workers: Notify,
    /// Messages wait.
    outbox: watch::Sender<()>,
    /// Previews wait.
    pub(crate) previews: Notify,
}

impl Wake {
    /// There may be a deployment to work on, and something to tell of it.
    pub(crate) fn notify_all(&self) {
        self.workers.notify_one();
        self.outbox();
    }

    /// There may be something to tell; to whom, is in the store.
    pub(crate) fn outbox(&self) {
        self.outbox.send_replace(());
    }

    /// Changes whenever there may be something to tell.
    pub(crate) fn messages(&self) -> watch::Receiver<()> {
        self.outbox.subscribe()
    }
}

/// So many repositories are looked at out of turn; what is more is found in the round.
const MOST_HINTS: usize = 64;

/// Where to look soon. Hints are not kept: the round comes to every repository.
#[derive(Debug, Clone, Default)]
pub struct Hints(Arc<HintsInner>);

#[derive(Debug, Default)]
struct HintsInner {
    repositories: Mutex<BTreeSet<RepoName>>,
    wake: Notify,
}

impl Hints {
    /// One of the repository's deployments needs somebody to say something about it.
    pub(crate) fn look_at(&self, repository: &RepoName) {
        let mut hints = lock(&self.0.repositories);
        if hints.len() < MOST_HINTS && hints.insert(repository.clone()) {
            self.0.wake.notify_one();
        }
    }

    /// It was not looked at; the next run will.
    pub(crate) fn put_back(&self, repository: RepoName) {
        lock(&self.0.repositories).insert(repository);
    }

    pub(crate) fn take(&self) -> BTreeSet<RepoName> {
        std::mem::take(&mut *lock(&self.0.repositories))
    }

    /// Until there may be a new one.
    pub(crate) async fn wait(&self) {
        self.0.wake.notified().await;
    }
}

/// Until when the code host's hour is used up, as it was counted last.
#[derive(Debug)]
pub struct ForgeHour(AtomicI64);

/// In milliseconds since the epoch: the hour has room.
const HAS_ROOM: i64 = 0;

impl Default for ForgeHour {
    fn default() -> Self {
        Self(AtomicI64::new(HAS_ROOM))
    }
}

impl ForgeHour {
    /// Remembers a count.
    pub(crate) fn set(&self, until: Option<Timestamp>) {
        self.0.store(until.map_or(HAS_ROOM, Timestamp::as_millisecond), Ordering::Relaxed);
    }

    /// Until when it is used up, if it is.
    pub(crate) fn used_up_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp::from_millisecond(self.0.load(Ordering::Relaxed));
        until.ok().filter(|until| *until > now)
    }
}

/// One sentence; none while nothing is limited. What holds up most is said.
pub(crate) fn limit_sentence(limited: Limited, hour_used_up: Option<Timestamp>) -> Option<String> {
    let Limited { everything, writes } = limited;
    let time = |at: Timestamp| at.strftime("%H:%M:%S UTC");
    match (everything, writes, hour_used_up) {
        (Some(until), _, _) => Some(format!(
            "GitHub limits us: it takes no requests until {}. Deployments that have to read there wait, \
             and what it shows comes late",
            time(until)
        )),
        (None, Some(until), _) => Some(format!(
            "GitHub limits us: it takes no statuses until {}. Deployments go on, and what it shows comes \
             late",
            time(until)
        )),
        (None, None, Some(until)) => Some(format!(
            "GitHub limits us: as many statuses as it takes an hour are told, the next at {}. Deployments \
             go on, and what it shows comes late",
            time(until)
        )),
        (None, None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_up_most_is_said_with_its_end() {
        let at = |second| Timestamp::from_second(second).ok();
        let said = |everything, writes, hour| {
            limit_sentence(Limited { everything, writes }, hour).unwrap_or_default()
        };
        assert!(said(at(60), at(120), at(180)).contains("no requests until 00:01:00 UTC"));
        assert!(said(None, at(120), at(180)).contains("no statuses until 00:02:00 UTC"));
        assert!(said(None, None, at(180)).contains("the next at 00:03:00 UTC"));
        assert_eq!(said(None, None, None), "");
    }
}
