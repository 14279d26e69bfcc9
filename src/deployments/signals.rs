//! Signals between use cases and loops, beside the store: there may be work, a repository should be
//! swept soon, and the code host's hourly quota is used up until some time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use crate::forge::delivery::RateLimited;
use crate::model::id::RepoName;
use crate::support::sync::lock;

/// Wakes the loops, without data: a signal that is lost costs the time until the loops' timer.
#[derive(Debug, Default)]
pub struct Wake {
    /// Wakes the workers: deployments wait, or their lanes are free.
    pub(crate) workers: Notify,
    /// Wakes the outbox: messages wait.
    outbox: watch::Sender<()>,
    /// Wakes the loop of previews.
    pub(crate) previews: Notify,
    /// Wakes the loop of rollouts.
    pub(crate) rollouts: Notify,
}

impl Wake {
    /// Wakes the workers and the outbox.
    pub(crate) fn notify_all(&self) {
        self.workers.notify_one();
        self.outbox();
    }

    /// Wakes the outbox; the store has the messages.
    pub(crate) fn outbox(&self) {
        self.outbox.send_replace(());
    }

    /// Returns a receiver that changes whenever there may be messages to send.
    pub(crate) fn messages(&self) -> watch::Receiver<()> {
        self.outbox.subscribe()
    }
}

/// The most repositories that wait as hints; the rounds of the sweep find the rest.
const MAX_HINTS: usize = 64;

/// The repositories to sweep soon. Hints are in memory only: the round comes to every repository.
#[derive(Debug, Clone, Default)]
pub struct SweepHints(Arc<HintsInner>);

#[derive(Debug, Default)]
struct HintsInner {
    repositories: Mutex<BTreeSet<RepoName>>,
    wake: Notify,
}

impl SweepHints {
    /// Adds a hint: a deployment of the repository needs an answer.
    pub(crate) fn add_hint(&self, repository: &RepoName) {
        let mut hints = lock(&self.0.repositories);
        if hints.len() < MAX_HINTS && hints.insert(repository.clone()) {
            self.0.wake.notify_one();
        }
    }

    /// Puts a hint back that the run did not process.
    pub(crate) fn put_back(&self, repository: RepoName) {
        lock(&self.0.repositories).insert(repository);
    }

    pub(crate) fn take(&self) -> BTreeSet<RepoName> {
        std::mem::take(&mut *lock(&self.0.repositories))
    }

    /// Waits until there may be a new hint.
    pub(crate) async fn wait(&self) {
        self.0.wake.notified().await;
    }
}

/// The time until which the code host's hourly quota is used up, by the last count.
#[derive(Debug)]
pub struct ForgeHour(AtomicI64);

/// The value for a quota with room; in milliseconds since the epoch.
const ROOM: i64 = 0;

impl Default for ForgeHour {
    fn default() -> Self {
        Self(AtomicI64::new(ROOM))
    }
}

impl ForgeHour {
    /// Stores the result of a count.
    pub(crate) fn set(&self, until: Option<Timestamp>) {
        self.0.store(until.map_or(ROOM, Timestamp::as_millisecond), Ordering::Relaxed);
    }

    /// Returns the time until which the quota is used up, if it is.
    pub(crate) fn used_up_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp::from_millisecond(self.0.load(Ordering::Relaxed));
        until.ok().filter(|until| *until > now)
    }
}

/// Returns a sentence about the tightest limit of the code host; `None` while nothing is limited.
pub(crate) fn limit_sentence(
    limited: RateLimited,
    hour_used_up: Option<Timestamp>,
) -> Option<String> {
    let RateLimited { everything, writes } = limited;
    let time = |at: Timestamp| at.strftime("%H:%M:%S UTC");
    match (everything, writes, hour_used_up) {
        (Some(until), _, _) => Some(format!(
            "GitHub limits this service and takes no requests until {}. Deployments that read from \
             GitHub wait, and statuses arrive late",
            time(until)
        )),
        (None, Some(until), _) => Some(format!(
            "GitHub limits this service and takes no statuses until {}. Deployments go on, and statuses \
             arrive late",
            time(until)
        )),
        (None, None, Some(until)) => Some(format!(
            "GitHub limits this service: the hourly quota of statuses is used up, the next at {}. \
             Deployments go on, and statuses arrive late",
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
        let sentence = |everything, writes, hour| {
            limit_sentence(RateLimited { everything, writes }, hour).unwrap_or_default()
        };
        assert!(sentence(at(60), at(120), at(180)).contains("no requests until 00:01:00 UTC"));
        assert!(sentence(None, at(120), at(180)).contains("no statuses until 00:02:00 UTC"));
        assert!(sentence(None, None, at(180)).contains("the next at 00:03:00 UTC"));
        assert_eq!(sentence(None, None, None), "");
    }
}
