//! What people stop: deployments by a lock, and one that waits. Each is one transaction.

use jiff::{SignedDuration, Timestamp};

use crate::deployments::ledger::Ledger;
use crate::deployments::{AUDIT, BackendError, Deployments};
use crate::model::audit::{AuthMethod, Principal};
use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, LockId};
use crate::model::lock::{Lock, LockFilter, LockScope};
use crate::store::{Cancelled, Locked, Reply, Unlocked};
use crate::support::clock;

/// A lock that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLock {
    /// Whom it is to stop.
    pub scope: LockScope,
    /// Why; not empty.
    pub reason: String,
    /// Until when; absent: until somebody takes it away.
    pub ends: Option<Ends>,
}

/// When a lock ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Then.
    At(Timestamp),
    /// So long after it was placed.
    After(SignedDuration),
}

/// Why a lock was not placed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotLocked {
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Unmeant(String),
    /// It would end too late, or beyond the calendar.
    #[error(
        "a lock with an end lasts a year at most; without `for` and `until` it stays until it is \
         taken away"
    )]
    TooLong,
    /// So many are placed that nobody looks through them any more.
    #[error("so many locks are placed that nobody looks through them any more: take some away")]
    TooMany,
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// Why a lock was not taken away. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotUnlocked {
    /// There never was one of that id.
    #[error("there is no lock {0}")]
    Unknown(LockId),
    /// Somebody took it away before.
    #[error("{by} took lock {id} away at {}: {why}", at.strftime("%F %H:%M UTC"))]
    Gone {
        /// The lock.
        id: LockId,
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
        /// Why.
        why: String,
    },
    /// It has ended.
    #[error("lock {0} has run out by itself: nothing is left to take away")]
    RanOut(LockId),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// Why a deployment was not cancelled. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotCancelled {
    /// There is no such deployment.
    #[error("there is no deployment {0}")]
    Unknown(DeployId),
    /// Its push has begun, or it has ended.
    #[error("{0}")]
    TooLate(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

impl Ledger {
    /// The locks that are placed now and that the filter takes, oldest first.
    pub async fn locks(&self, filter: &LockFilter) -> Result<Vec<(LockId, Lock)>, BackendError> {
        let mut all = self.store.locks(self.clock.now()).await.map_err(BackendError::new)?;
        all.retain(|(_, lock)| filter.takes(&lock.scope));
        Ok(all)
    }

    /// A lock as it was placed, also one that is no more.
    pub async fn find_lock(&self, id: &LockId) -> Result<Option<Lock>, BackendError> {
        self.store.lock(id).await.map_err(BackendError::new)
    }

    /// Places a lock. From when it is answered on, nothing that it is for begins to push.
    pub async fn lock(
        &self,
        request: NewLock,
        by: Principal,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<(LockId, Lock), NotLocked> {
        let NewLock { scope, reason, ends } = request;
        self.is_known(&scope).map_err(NotLocked::Unmeant)?;
        let since = self.clock.now();
        let longest = (by.via != AuthMethod::Operator).then_some(LONGEST_LOCK);
        let until = ends.map(|ends| end(ends, since, longest)).transpose()?;
        let (id, who) = (LockId::of(&clock::random_digits()), by.name.clone());
        let lock = Lock { scope, reason: reason.clone(), by: who.clone(), since, until };
        let entry = self.entry("lock", reason, by);
        let placed = (id, lock);
        let kept = reply.answer(&placed);
        let (id, lock) = &placed;
        let added = self.store.add_lock(id, lock, &entry, kept.as_ref()).await;
        match added.map_err(BackendError::new)? {
            Locked::TooMany => return Err(NotLocked::TooMany),
            Locked::Yes => {}
        }
        let (scope, reason) = (&lock.scope, &lock.reason);
        tracing::info!(target: AUDIT, %id, %scope, by = who, reason, "a lock is placed");
        Ok(placed)
    }

    /// Takes a lock away; what it was.
    pub async fn unlock(
        &self,
        id: &LockId,
        reason: String,
        by: Principal,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<Lock, NotUnlocked> {
        let entry = self.entry("unlock", reason, by);
        let unlocked = self.store.remove_lock(id, &entry, reply).await;
        let lock = match unlocked.map_err(BackendError::new)? {
            Unlocked::Yes(lock) => lock,
            Unlocked::NotThere => return Err(NotUnlocked::Unknown(id.clone())),
            Unlocked::Before { lock: _, by, at, why } => {
                return Err(NotUnlocked::Gone { id: id.clone(), by, at, why });
            }
            Unlocked::RanOut(_) => return Err(NotUnlocked::RanOut(id.clone())),
        };
        let (scope, by, reason) = (&lock.scope, &entry.by.name, &entry.reason);
        tracing::info!(target: AUDIT, %id, %scope, by, reason, "a lock is taken away");
        Ok(lock)
    }

    /// A lock on a mistyped target would do nothing, and look as if it did.
    fn is_known(&self, scope: &LockScope) -> Result<(), String> {
        match scope {
            LockScope::Everything | LockScope::Owner(_) => Ok(()),
            LockScope::Target(target) | LockScope::App(target, _) => {
                self.check_target(target).map_err(|(unknown, hint)| format!("{unknown}: {hint}"))
            }
        }
    }
}

impl Deployments {
    /// Ends a deployment that has not begun to push; what it is now.
    pub(crate) async fn cancel(
        &self,
        id: &DeployId,
        reason: String,
        by: Principal,
        reply: &Reply<Deployment>,
    ) -> Result<Deployment, NotCancelled> {
        let entry = self.ledger.entry("cancel", reason, by);
        match self.store.cancel(id, &entry, reply).await.map_err(BackendError::new)? {
            Cancelled::Yes(deployment) => {
                self.wake.notify_all();
                let (by, reason) = (&entry.by.name, &entry.reason);
                tracing::info!(target: AUDIT, deployment = %id, by, reason, "cancelled");
                Ok(*deployment)
            }
            Cancelled::NotThere => Err(NotCancelled::Unknown(id.clone())),
            Cancelled::Pushing => Err(NotCancelled::TooLate(format!(
                "the push of deployment {id} has begun, and may have arrived: roll back instead"
            ))),
            Cancelled::Ended(was) => Err(NotCancelled::TooLate(format!(
                "deployment {id} has {}: {}",
                was.state.as_str(),
                was.summary
            ))),
        }
    }
}

/// Who means longer means until it is taken away, or has mistyped. An operator may.
const LONGEST_LOCK: SignedDuration = SignedDuration::from_hours(366 * 24);

/// Returns when a lock that begins now ends. A time beyond the calendar is none: the lock would
/// never end, which nobody asked for.
fn end(
    ends: Ends,
    now: Timestamp,
    longest: Option<SignedDuration>,
) -> Result<Timestamp, NotLocked> {
    let at = match ends {
        Ends::At(at) => at,
        Ends::After(lasting) => now.checked_add(lasting).map_err(|_| NotLocked::TooLong)?,
    };
    if at <= now {
        let before = format!("the lock would end before it begins: it is {now} now");
        return Err(NotLocked::Unmeant(before));
    }
    let is_too_long = longest.is_some_and(|longest| at.duration_since(now) > longest);
    if is_too_long { Err(NotLocked::TooLong) } else { Ok(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Option<SignedDuration> = Some(LONGEST_LOCK);

    #[test]
    fn a_lock_ends_after_it_begins_and_within_the_calendar() {
        let now: Timestamp = "2026-11-21T05:48:12Z".parse().unwrap();
        let hours = |n| Ends::After(SignedDuration::from_hours(n));
        assert_eq!(end(hours(2), now, LONGEST).unwrap().to_string(), "2026-11-21T07:48:12Z");
        assert_eq!(
            end(Ends::At(now + SignedDuration::from_secs(1)), now, LONGEST).unwrap(),
            now + SignedDuration::from_secs(1)
        );
        for past in [Ends::At(now), Ends::At(Timestamp::UNIX_EPOCH), hours(0), hours(-2)] {
            assert!(
                end(past, now, LONGEST).unwrap_err().to_string().contains("before it begins"),
                "{past:?}"
            );
        }
        assert!(end(hours(366 * 24), now, LONGEST).is_ok());
        let days = |n: i64| Ends::After(SignedDuration::from_hours(24 * n));
        assert!(end(days(367), now, None).is_ok(), "an operator may");
        assert!(end(days(100_000_000), now, None).is_err(), "it would never end");
        let late = Ends::At("9999-01-01T00:00:00Z".parse().unwrap());
        for long in [days(367), days(1_000_000), hours(100_000_000), late] {
            let said = end(long, now, LONGEST).unwrap_err().to_string();
            assert!(said.contains("a year at most"), "{said}");
        }
    }
}
