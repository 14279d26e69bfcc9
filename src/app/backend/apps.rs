//! What is where, read from the manifest repositories, and what is locked.

use crate::app::backend::Backend;
use crate::facts::NotKnown;
use crate::model::id::DeployId;
use crate::model::lock::{Lock, LockId, LockScope};
use crate::model::placed::{Listed, Placed, Spot};
use crate::model::target::Clusters;
use crate::server::ports::{self, AppLine, AppsPage, AppsQuery};
use crate::store::StoreError;

impl ports::Apps for Backend {
    fn clusters(&self) -> &Clusters {
        &self.world.clusters
    }

    async fn apps(&self, query: &AppsQuery) -> Result<AppsPage, String> {
        let AppsQuery { target, app, owner, state, after, limit } = query;
        let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
        // One more tells whether there is another page.
        let facts = &self.world.facts;
        let found = facts.apps(target.as_ref(), app.as_ref(), after.as_ref(), limit + 1).await;
        let Listed { mut apps, missing } = found.map_err(|NotKnown(why)| why)?;
        let more = apps.len() > limit;
        apps.truncate(limit);
        let next = apps.last().filter(|_| more).map(|last| last.spot.clone());
        let locks =
            self.store.locks(self.world.clock.now()).await.map_err(|error| unread(&error))?;
        let holds = self.store.holds(target.as_ref()).await.map_err(|error| unread(&error))?;
        let live: Vec<DeployId> = apps.iter().filter_map(|one| one.live.clone()).collect();
        let made = self.store.releases(&live).await.map_err(|error| unread(&error))?;
        let spots: Vec<&Spot> = apps.iter().map(|one| &one.spot).collect();
        let mut failed = self.store.newest_failed(&spots).await.map_err(|error| unread(&error))?;
        let to_line = |placed: Placed| {
            let known = placed.live.as_ref().and_then(|id| made.get(id));
            let at = placed.live.as_ref().and_then(DeployId::time);
            let Spot { target, app } = &placed.spot;
            let (spot, owner) = (&placed.spot, placed.owner.as_deref());
            AppLine {
                locked: locks.iter().any(|(_, lock)| stops(&lock.scope, spot, owner)),
                held: holds.iter().any(|hold| hold.target == *target && hold.app == *app),
                tag: known.map(|(tag, _)| tag.clone()),
                at: known.map(|(_, at)| *at).or(at),
                failed: failed.remove(&placed.spot),
                placed,
            }
        };
        // A page of those that are left may be short; `next` leads on all the same.
        let of_owner = |line: &AppLine| {
            let theirs = line.placed.owner.as_deref();
            owner
                .as_ref()
                .is_none_or(|owner| theirs.is_some_and(|one| one.eq_ignore_ascii_case(owner)))
        };
        let in_state = |line: &AppLine| state.is_none_or(|state| line.is(state));
        let apps = apps.into_iter().map(to_line).filter(|line| of_owner(line) && in_state(line));
        Ok(AppsPage { apps: apps.collect(), next, missing })
    }
}

fn unread(error: &StoreError) -> String {
    tracing::error!(%error, "locks or holds could not be read");
    "the database cannot be read now".to_owned()
}

/// Those of the locks that stop an app, in their order.
pub(super) fn stopping(
    locks: Vec<(LockId, Lock)>,
    spot: &Spot,
    owner: Option<&str>,
) -> Vec<(LockId, Lock)> {
    locks.into_iter().filter(|(_, lock)| stops(&lock.scope, spot, owner)).collect()
}

/// Whether a lock of that scope stops the app. An owner is the same in either case of letters.
fn stops(scope: &LockScope, spot: &Spot, owner: Option<&str>) -> bool {
    match scope {
        LockScope::Everything => true,
        LockScope::Target(target) => *target == spot.target,
        LockScope::Owner(whose) => owner.is_some_and(|owner| owner.eq_ignore_ascii_case(whose)),
        LockScope::App(target, app) => *target == spot.target && *app == spot.app,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_stops_what_it_is_for() {
        let spot = Spot::parse("prod/devx/shop").unwrap();
        let owner = Some("Squad@example.com");
        let other = Spot::parse("prod/devx/cart").unwrap();
        for (scope, stopped) in [
            (LockScope::Everything, true),
            (LockScope::Target("prod".parse().unwrap()), true),
            (LockScope::Target("dev".parse().unwrap()), false),
            (LockScope::Owner("squad@example.com".to_owned()), true),
            (LockScope::Owner("other@example.com".to_owned()), false),
            (LockScope::App(spot.target.clone(), spot.app.clone()), true),
            (LockScope::App("dev".parse().unwrap(), spot.app.clone()), false),
            (LockScope::App(other.target.clone(), other.app.clone()), false),
        ] {
            assert_eq!(stops(&scope, &spot, owner), stopped, "{scope}");
        }
        assert!(!stops(&LockScope::Owner("squad@example.com".to_owned()), &spot, None));
    }
}
