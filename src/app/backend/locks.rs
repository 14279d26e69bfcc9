//! What people stop: deployments by a lock, and one that waits. Each is one transaction.

use jiff::{SignedDuration, Timestamp};

use crate::app::backend::Backend;
use crate::app::operator::AUDIT;
use crate::clock;
use crate::model::audit::{By, Entry};
use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, TargetName};
use crate::model::lock::{Lock, LockFilter, LockId, LockScope};
use crate::server::ports::{self, Ends, Fault, LockRequest, NotCancelled, NotLocked, NotUnlocked};
use crate::store::{Cancelled, Locked, Reply, Unlocked};
use crate::waml::suggest;

impl ports::Locks for Backend {
    async fn locks(&self, filter: &LockFilter) -> Result<Vec<(LockId, Lock)>, Fault> {
        let mut all = self.store.locks(self.world.clock.now()).await.map_err(Fault::new)?;
        all.retain(|(_, lock)| filter.takes(&lock.scope));
        Ok(all)
    }

    async fn placed(&self, id: &LockId) -> Result<Option<Lock>, Fault> {
        self.store.lock(id).await.map_err(Fault::new)
    }

    async fn lock(
        &self,
        request: LockRequest,
        by: By,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<(LockId, Lock), NotLocked> {
        let LockRequest { scope, reason, ends } = request;
        self.is_known(&scope).map_err(NotLocked::Unmeant)?;
        let since = self.world.clock.now();
        let until = ends.map(|ends| end(ends, since)).transpose().map_err(NotLocked::Unmeant)?;
        let (id, who) = (clock::lock_id(), by.name.clone());
        let lock = Lock { scope, reason: reason.clone(), by: who.clone(), since, until };
        let entry = self.act("lock", reason, by);
        let placed = (id, lock);
        let kept = reply.answer(&placed);
        let (id, lock) = &placed;
        let added = self.store.add_lock_idempotent(id, lock, &entry, kept.as_ref()).await;
        match added.map_err(Fault::new)? {
            Locked::TooMany => return Err(NotLocked::TooMany),
            Locked::Yes => {}
        }
        let (scope, reason) = (&lock.scope, &lock.reason);
        tracing::info!(target: AUDIT, %id, %scope, by = who, reason, "a lock is placed");
        Ok(placed)
    }

    async fn unlock(
        &self,
        id: &LockId,
        reason: String,
        by: By,
        reply: &Reply<(LockId, Lock)>,
    ) -> Result<Lock, NotUnlocked> {
        let entry = self.act("unlock", reason, by);
        let unlocked = self.store.remove_lock_idempotent(id, &entry, reply).await;
        let lock = match unlocked.map_err(Fault::new)? {
            Unlocked::Yes(lock) => lock,
            Unlocked::NotThere => return Err(NotUnlocked::Unknown(id.clone())),
            Unlocked::Before { lock: _, by, at, why } => {
                let at = at.strftime("%F %H:%M UTC");
                let said = format!("{by} took lock {id} away at {at}: {why}");
                return Err(NotUnlocked::Gone(said));
            }
            Unlocked::RanOut(_) => {
                let said = format!("lock {id} has run out by itself: nothing is left to take away");
                return Err(NotUnlocked::Gone(said));
            }
        };
        let (scope, by, reason) = (&lock.scope, &entry.by.name, &entry.reason);
        tracing::info!(target: AUDIT, %id, %scope, by, reason, "a lock is taken away");
        Ok(lock)
    }

    async fn cancel(
        &self,
        id: &DeployId,
        reason: String,
        by: By,
        reply: &Reply<Deployment>,
    ) -> Result<Deployment, NotCancelled> {
        let entry = self.act("cancel", reason, by);
        match self.store.cancel_idempotent(id, &entry, reply).await.map_err(Fault::new)? {
            Cancelled::Yes(deployment) => {
                self.inbox.wake();
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

impl Backend {
    /// A lock on a mistyped target would do nothing, and look as if it did.
    fn is_known(&self, scope: &LockScope) -> Result<(), String> {
        match scope {
            LockScope::Everything | LockScope::Owner(_) => Ok(()),
            LockScope::Target(target) | LockScope::App(target, _) => self.has(target),
        }
    }

    fn has(&self, target: &TargetName) -> Result<(), String> {
        let clusters = &self.world.clusters;
        if clusters.find(target).is_some() {
            return Ok(());
        }
        let known = clusters.names().iter().map(|name| name.as_str()).collect::<Vec<_>>();
        let hint = suggest::hint(target.as_str(), known);
        Err(format!("the configuration has no cluster `{target}`: {hint}"))
    }

    /// What the audit log gets of an act; what it is about comes with what it is done to.
    fn act(&self, act: &'static str, reason: String, by: By) -> Entry {
        let (id, at) = (self.world.clock.deploy_id(), self.world.clock.now());
        let (subject, outcome) = (String::new(), "done".to_owned());
        Entry { id, at, by, act, target: None, app: None, subject, reason, outcome }
    }
}

/// Who means longer means until it is taken away, or has mistyped.
const LONGEST_LOCK: SignedDuration = SignedDuration::from_hours(366 * 24);

/// When a lock that begins now ends. A time beyond the calendar is none: the lock would never end,
/// which nobody asked for.
fn end(ends: Ends, now: Timestamp) -> Result<Timestamp, String> {
    let at = match ends {
        Ends::At(at) => at,
        // Beyond the calendar is beyond the bound, too.
        Ends::After(lasting) => now.checked_add(lasting).unwrap_or(Timestamp::MAX),
    };
    if at > now && at.duration_since(now) <= LONGEST_LOCK {
        return Ok(at);
    }
    if at > now {
        return Err(
            "a lock with an end lasts a year at most; without `for` and `until` it stays until it \
                    is taken away"
                .to_owned(),
        );
    }
    Err(format!("the lock would end before it begins: it is {now} now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_after_it_begins_and_within_the_calendar() {
        let now: Timestamp = "2026-11-21T05:48:12Z".parse().unwrap();
        let hours = |n| Ends::After(SignedDuration::from_hours(n));
        assert_eq!(end(hours(2), now).unwrap().to_string(), "2026-11-21T07:48:12Z");
        assert_eq!(
            end(Ends::At(now + SignedDuration::from_secs(1)), now).unwrap(),
            now + SignedDuration::from_secs(1)
        );
        for past in [Ends::At(now), Ends::At(Timestamp::UNIX_EPOCH), hours(0), hours(-2)] {
            assert!(end(past, now).unwrap_err().contains("before it begins"), "{past:?}");
        }
        assert!(end(hours(366 * 24), now).is_ok());
        let days = |n: i64| Ends::After(SignedDuration::from_hours(24 * n));
        let late = Ends::At("9999-01-01T00:00:00Z".parse().unwrap());
        for long in [days(367), days(1_000_000), hours(100_000_000), late] {
            let said = end(long, now).unwrap_err();
            assert!(said.contains("a year at most"), "{said}");
        }
    }
}
