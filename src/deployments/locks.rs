//! Places and removes locks, and cancels deployments that wait. Each is one transaction.

use jiff::{SignedDuration, Timestamp};

use crate::deployments::ledger::Ledger;
use crate::deployments::{AUDIT, BackendError, Deployments};
use crate::model::audit::{AuthMethod, Principal};
use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, LockId};
use crate::model::lock::{Lock, LockFilter, LockScope};
use crate::store::{Cancelled, LockPlacement, Reply, Unlocked};
use crate::support::clock;

/// The request for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLock {
    /// The deployments that it stops.
    pub scope: LockScope,
    /// The reason; not empty.
    pub reason: String,
    /// The end; `None` means until a person takes it away.
    pub ends: Option<LockExpiry>,
}

/// The time at which a lock ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockExpiry {
    /// The lock ends at this time.
    At(Timestamp),
    /// This long after it was placed.
    After(SignedDuration),
}

/// The reason why a lock was not placed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The request cannot be carried out as it stands.
    #[error("{0}")]
    Unmeant(String),
    /// The lock would end too late, or beyond the calendar.
    #[error(
        "a lock with an end lasts a year at most; without `for` and `until` it stays until it is \
         taken away"
    )]
    TooLong,
    /// There are as many locks as a person can still look through.
    #[error("there are too many locks: take some away first")]
    TooMany,
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The reason why a lock was not taken away. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum UnlockError {
    /// There never was a lock of that id.
    #[error("there is no lock {0}")]
    Unknown(LockId),
    /// It was taken away before.
    #[error("{by} took lock {id} away at {}: {why}", at.strftime("%F %H:%M UTC"))]
    Gone {
        /// The lock.
        id: LockId,
        /// The principal that took it away.
        by: String,
        /// The time.
        at: Timestamp,
        /// The reason.
        why: String,
    },
    /// It has ended by itself.
    #[error("lock {0} has ended by itself: there is nothing to take away")]
    RanOut(LockId),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The reason why a deployment was not cancelled. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// There is no such deployment.
    #[error("there is no deployment {0}")]
    Unknown(DeployId),
    /// Its push has begun, or it has ended.
    #[error("{0}")]
    TooLate(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

impl Ledger {
    /// Returns the locks that are placed now and match the filter, oldest first.
    pub async fn locks(&self, filter: &LockFilter) -> Result<Vec<(LockId, Lock)>, BackendError> {
        let mut locks = self.store.locks(self.clock.now()).await.map_err(BackendError::new)?;
        locks.retain(|(_, lock)| filter.takes(&lock.scope));
        Ok(locks)
    }

    /// Returns a lock as it was placed, also one that has ended.
    pub async fn find_lock(&self, id: &LockId) -> Result<Option<Lock>, BackendError> {
        self.store.lock(id).await.map_err(BackendError::new)
    }

    /// Places a lock. Once this has returned, no deployment that it stops begins to push.
    pub async fn lock(
        &self,
        request: NewLock,
        by: Principal,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<(LockId, Lock), LockError> {
        let NewLock { scope, reason, ends } = request;
        self.check_scope(&scope).map_err(LockError::Unmeant)?;
        let since = self.clock.now();
        let longest = (by.via != AuthMethod::Operator).then_some(LONGEST_LOCK);
        let until = ends.map(|ends| end(ends, since, longest)).transpose()?;
        let (id, holder) = (LockId::of(&clock::random_digits()), by.name.clone());
        let lock = Lock { scope, reason: reason.clone(), by: holder.clone(), since, until };
        let entry = self.entry("lock", reason, by);
        let placed_lock = (id, lock);
        let answer = reply.answer(&placed_lock);
        let (id, lock) = &placed_lock;
        let placement = self.store.add_lock(id, lock, &entry, answer.as_ref()).await;
        match placement.map_err(BackendError::new)? {
            LockPlacement::TooMany => return Err(LockError::TooMany),
            LockPlacement::Yes => {}
        }
        let (scope, reason) = (&lock.scope, &lock.reason);
        tracing::info!(target: AUDIT, %id, %scope, by = holder, reason, "lock placed");
        Ok(placed_lock)
    }

    /// Takes a lock away and returns it.
    pub async fn unlock(
        &self,
        id: &LockId,
        reason: String,
        by: Principal,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<Lock, UnlockError> {
        let entry = self.entry("unlock", reason, by);
        let result = self.store.remove_lock(id, &entry, reply).await;
        let lock = match result.map_err(BackendError::new)? {
            Unlocked::Yes(lock) => lock,
            Unlocked::NotThere => return Err(UnlockError::Unknown(id.clone())),
            Unlocked::Before { lock: _, by, at, why } => {
                return Err(UnlockError::Gone { id: id.clone(), by, at, why });
            }
            Unlocked::RanOut(_) => return Err(UnlockError::RanOut(id.clone())),
        };
        let (scope, by, reason) = (&lock.scope, &entry.by.name, &entry.reason);
        tracing::info!(target: AUDIT, %id, %scope, by, reason, "lock removed");
        Ok(lock)
    }

    /// Checks that the scope exists: a lock on a mistyped target would do nothing and look as if it
    /// did.
    fn check_scope(&self, scope: &LockScope) -> Result<(), String> {
        match scope {
            LockScope::Everything | LockScope::Owner(_) => Ok(()),
            LockScope::Target(target) | LockScope::App(target, _) => {
                self.check_target(target).map_err(|(problem, hint)| format!("{problem}: {hint}"))
            }
        }
    }
}

impl Deployments {
    /// Cancels a deployment that has not begun to push, and returns it.
    pub(crate) async fn cancel(
        &self,
        id: &DeployId,
        reason: String,
        by: Principal,
        reply: &Reply<Deployment>,
    ) -> Result<Deployment, CancelError> {
        let entry = self.ledger.entry("cancel", reason, by);
        match self.store.cancel(id, &entry, reply).await.map_err(BackendError::new)? {
            Cancelled::Yes(deployment) => {
                self.wake.notify_all();
                let (by, reason) = (&entry.by.name, &entry.reason);
                tracing::info!(target: AUDIT, deployment = %id, by, reason, "deployment cancelled");
                Ok(*deployment)
            }
            Cancelled::NotThere => Err(CancelError::Unknown(id.clone())),
            Cancelled::Pushing => Err(CancelError::TooLate(format!(
                "the push of deployment {id} has begun, and may have arrived: roll back instead"
            ))),
            Cancelled::Ended(deployment) => Err(CancelError::TooLate(format!(
                "deployment {id} has {}: {}",
                deployment.state.as_str(),
                deployment.summary
            ))),
        }
    }
}

/// The longest lock with an end: a longer one is either meant to last until it is taken away, or
/// mistyped. An operator may place it.
const LONGEST_LOCK: SignedDuration = SignedDuration::from_hours(366 * 24);

/// Returns the time at which a lock that begins now ends. A time beyond the calendar is an error:
/// the lock would never end, which the caller did not ask for.
fn end(
    ends: LockExpiry,
    now: Timestamp,
    longest: Option<SignedDuration>,
) -> Result<Timestamp, LockError> {
    let at = match ends {
        LockExpiry::At(at) => at,
        LockExpiry::After(duration) => now.checked_add(duration).map_err(|_| LockError::TooLong)?,
    };
    if at <= now {
        let message = format!("the lock would end before it begins: it is {now} now");
        return Err(LockError::Unmeant(message));
    }
    let is_too_long = longest.is_some_and(|longest| at.duration_since(now) > longest);
    if is_too_long { Err(LockError::TooLong) } else { Ok(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Option<SignedDuration> = Some(LONGEST_LOCK);

    #[test]
    fn a_lock_ends_after_it_begins_and_within_the_calendar() {
        let now: Timestamp = "2026-11-21T05:48:12Z".parse().unwrap();
        let hours = |n| LockExpiry::After(SignedDuration::from_hours(n));
        assert_eq!(end(hours(2), now, LONGEST).unwrap().to_string(), "2026-11-21T07:48:12Z");
        assert_eq!(
            end(LockExpiry::At(now + SignedDuration::from_secs(1)), now, LONGEST).unwrap(),
            now + SignedDuration::from_secs(1)
        );
        for past in
            [LockExpiry::At(now), LockExpiry::At(Timestamp::UNIX_EPOCH), hours(0), hours(-2)]
        {
            assert!(
                end(past, now, LONGEST).unwrap_err().to_string().contains("before it begins"),
                "{past:?}"
            );
        }
        assert!(end(hours(366 * 24), now, LONGEST).is_ok());
        let days = |n: i64| LockExpiry::After(SignedDuration::from_hours(24 * n));
        assert!(end(days(367), now, None).is_ok(), "an operator may");
        assert!(end(days(100_000_000), now, None).is_err(), "it would never end");
        let late = LockExpiry::At("9999-01-01T00:00:00Z".parse().unwrap());
        for long in [days(367), days(1_000_000), hours(100_000_000), late] {
            let message = end(long, now, LONGEST).unwrap_err().to_string();
            assert!(message.contains("a year at most"), "{message}");
        }
    }
}
