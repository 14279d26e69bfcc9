//! Lists apps: what is live where, from the manifest repositories, and what is locked or held.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::lookups::FactUnavailable;
use crate::model::app_instance::{AppInstance, AppListing, InstanceState, UnreadableRepositories};
use crate::model::fleets::Fleets;
use crate::model::id::{AppKey, DeployId, ImageTag, LockId, TargetName};
use crate::model::lock::{Lock, LockScope};
use crate::model::rollback::Hold;
use crate::store::{StoreError, UnreadDeployment};

/// The filter of a list of apps; an absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppsQuery {
    /// Only this target.
    pub target: Option<TargetName>,
    /// Only this app.
    pub app: Option<AppKey>,
    /// Only this owner, compared without case.
    pub owner: Option<String>,
    /// Only this state.
    pub state: Option<AppState>,
    /// Only apps after this one, in the order of app instances.
    pub after: Option<AppInstance>,
    /// The most apps on the page; at least 1.
    pub limit: u32,
}

/// The state of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppState {
    /// A revision is live, as it was pushed.
    Live,
    /// The live files have manual edits.
    Edited,
    /// A lock stops deployments of it.
    Locked,
    /// A hold stops automation.
    Held,
}

impl AppState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Live, Self::Edited, Self::Locked, Self::Held];

    /// Returns the word that callers write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Edited => "edited",
            Self::Locked => "locked",
            Self::Held => "held",
        }
    }
}

/// An app in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppLine {
    /// The app in the manifest repository.
    pub state: InstanceState,
    /// True if a lock stops deployments of the app.
    pub locked: bool,
    /// True if a hold stops automation.
    pub held: bool,
    /// The tag of the live revision, where the database knows it.
    pub tag: Option<ImageTag>,
    /// The time at which that revision was created; without the database, the time in its id.
    pub at: Option<Timestamp>,
    /// The newest deployment, if it has failed, also before its app was known: what is live is older.
    pub failed: Option<(DeployId, ImageTag)>,
}

impl AppLine {
    /// Returns true if the app is in that state.
    pub fn is(&self, state: AppState) -> bool {
        match state {
            AppState::Live => self.state.live.is_some(),
            AppState::Edited => self.state.live.is_none(),
            AppState::Locked => self.locked,
            AppState::Held => self.held,
        }
    }
}

/// One page of apps, in the order of app instances.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppsPage {
    /// The apps.
    pub apps: Vec<AppLine>,
    /// The `after` of the next page, if there is one.
    pub next: Option<AppInstance>,
    /// The repositories that cannot be read now: there may be more apps in them.
    pub missing: UnreadableRepositories,
}

impl Deployments {
    /// Returns one page of apps from the manifest repositories. The error's text is for callers.
    pub(crate) async fn apps(&self, query: &AppsQuery) -> Result<AppsPage, String> {
        let AppsQuery { target, app, owner, state, after, limit } = query;
        let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
        // One more tells whether there is another page.
        let facts = &self.facts;
        let listing = facts.apps(target.as_ref(), app.as_ref(), after.as_ref(), limit + 1).await;
        let AppListing { mut apps, missing } = listing.map_err(|FactUnavailable(why)| why)?;
        let has_more = apps.len() > limit;
        apps.truncate(limit);
        let next = apps.last().filter(|_| has_more).map(|app| app.instance.clone());
        let locks =
            self.store.locks(self.clock.now()).await.map_err(|error| database_error(&error))?;
        let holds = self.store.holds_that_concern(target.as_ref()).await;
        let holds = holds.map_err(|error| database_error(&error))?;
        let targets = apps.iter().map(|app| app.instance.target.clone()).collect();
        let stops = TargetStops::of_each(targets, &self.fleets, &locks, &holds);
        let live: Vec<DeployId> = apps.iter().filter_map(|app| app.live.clone()).collect();
        let releases = self.store.releases(&live).await.map_err(|error| database_error(&error))?;
        let instances: Vec<&AppInstance> = apps.iter().map(|app| &app.instance).collect();
        let mut failures =
            self.store.newest_failed(&instances).await.map_err(|error| database_error(&error))?;
        let unread = self.store.unread_deployments(target.as_ref(), None).await;
        failures.extend(unread.map_err(|error| database_error(&error))?.into_iter().filter_map(
            |UnreadDeployment { target, newest, app, .. }| {
                let instance = AppInstance { target, app: app? };
                Some((instance, (newest.id, newest.tag)))
            },
        ));
        let to_line = |state: InstanceState| {
            let release = state.live.as_ref().and_then(|id| releases.get(id));
            let at = state.live.as_ref().and_then(DeployId::time);
            let AppInstance { target, app } = &state.instance;
            let (stops, owner) = (stops.get(target), state.owner.as_deref());
            AppLine {
                locked: stops.is_some_and(|stops| stops.is_locked(app, owner)),
                held: stops.is_some_and(|stops| stops.is_held(app)),
                tag: release.map(|(tag, _)| tag.clone()),
                at: release.map(|(_, at)| *at).or(at),
                failed: failures.remove(&state.instance),
                state,
            }
        };
        // A page of those that are left may be short; `next` leads on all the same.
        let has_owner = |line: &AppLine| {
            let line_owner = line.state.owner.as_deref();
            owner
                .as_ref()
                .is_none_or(|owner| line_owner.is_some_and(|name| name.eq_ignore_ascii_case(owner)))
        };
        let is_in_state = |line: &AppLine| state.is_none_or(|state| line.is(state));
        let apps =
            apps.into_iter().map(to_line).filter(|line| has_owner(line) && is_in_state(line));
        Ok(AppsPage { apps: apps.collect(), next, missing })
    }
}

fn database_error(error: &StoreError) -> String {
    tracing::error!(%error, "locks or holds could not be read");
    "the database cannot be read now".to_owned()
}

/// What stops the apps of one target: the locks and holds of the target, and of the clusters and fleets that it shares a
/// cluster with.
pub(super) struct TargetStops<'a> {
    /// The locks that stop some of its apps.
    locks: Vec<&'a LockScope>,
    /// The apps that are held.
    held: BTreeSet<&'a AppKey>,
}

impl<'a> TargetStops<'a> {
    /// Finds what stops the apps of each of these targets.
    pub(super) fn of_each(
        targets: BTreeSet<TargetName>,
        fleets: &Fleets,
        locks: &'a [(LockId, Lock)],
        holds: &'a [Hold],
    ) -> BTreeMap<TargetName, Self> {
        let stops = |target: TargetName| {
            let overlapping = fleets.overlapping(&target);
            let locks = locks.iter().map(|(_, lock)| &lock.scope);
            let locks = locks.filter(|scope| concerns(scope, &overlapping)).collect();
            let held = holds.iter().filter(|hold| overlapping.contains(&hold.target));
            (target, Self { locks, held: held.map(|hold| &hold.app).collect() })
        };
        targets.into_iter().map(stops).collect()
    }

    /// Returns true if a lock stops deployments of the app.
    pub(super) fn is_locked(&self, app: &AppKey, owner: Option<&str>) -> bool {
        self.locks.iter().any(|scope| stops(scope, app, owner))
    }

    /// Returns true if a hold stops automation.
    pub(super) fn is_held(&self, app: &AppKey) -> bool {
        self.held.contains(app)
    }
}

/// Returns those of the locks that stop an app, in their order. The targets are those that overlap with the app's.
pub(super) fn stopping_locks(
    locks: Vec<(LockId, Lock)>,
    (targets, app): (&[TargetName], &AppKey),
    owner: Option<&str>,
) -> Vec<(LockId, Lock)> {
    let is_stopped = |scope: &LockScope| concerns(scope, targets) && stops(scope, app, owner);
    locks.into_iter().filter(|(_, lock)| is_stopped(&lock.scope)).collect()
}

/// Returns true if a lock of that scope stops apps on one of the targets.
fn concerns(scope: &LockScope, targets: &[TargetName]) -> bool {
    match scope {
        LockScope::Everything | LockScope::Owner(_) => true,
        LockScope::Target(target) | LockScope::App(target, _) => targets.contains(target),
    }
}

/// Returns true if a lock of that scope, which concerns the app's target, stops the app. Owners are compared without case.
fn stops(scope: &LockScope, app: &AppKey, owner: Option<&str>) -> bool {
    match scope {
        LockScope::Everything | LockScope::Target(_) => true,
        LockScope::Owner(locked_owner) => {
            owner.is_some_and(|owner| owner.eq_ignore_ascii_case(locked_owner))
        }
        LockScope::App(_, locked_app) => locked_app == app,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> TargetName {
        name.parse().unwrap()
    }

    fn is_locked(scope: LockScope, fleets: &Fleets, owner: Option<&str>) -> bool {
        let AppInstance { target, app } = AppInstance::parse("prod/devx/shop").unwrap();
        let since = Timestamp::UNIX_EPOCH;
        let lock = Lock { scope, reason: String::new(), by: String::new(), since, until: None };
        let locks = vec![(LockId::of("3f9a2c41"), lock)];
        let stops = TargetStops::of_each(BTreeSet::from([target.clone()]), fleets, &locks, &[]);
        let is_locked = stops[&target].is_locked(&app, owner);
        let overlapping = fleets.overlapping(&target);
        let stopping = stopping_locks(locks.clone(), (&overlapping, &app), owner);
        assert_eq!(!stopping.is_empty(), is_locked, "a page says the same as the grid");
        is_locked
    }

    #[test]
    fn a_lock_stops_what_it_is_for() {
        let app = |text: &str| {
            let AppInstance { target, app } = AppInstance::parse(text).unwrap();
            LockScope::App(target, app)
        };
        let owner = Some("Squad@example.com");
        let of_owner = |name: &str| LockScope::Owner(name.to_owned());
        for (scope, is_stopped) in [
            (LockScope::Everything, true),
            (LockScope::Target(target("prod")), true),
            (LockScope::Target(target("dev")), false),
            (of_owner("squad@example.com"), true),
            (of_owner("other@example.com"), false),
            (app("prod/devx/shop"), true),
            (app("dev/devx/shop"), false),
            (app("prod/devx/cart"), false),
        ] {
            assert_eq!(is_locked(scope.clone(), &Fleets::default(), owner), is_stopped, "{scope}");
        }
        assert!(!is_locked(of_owner("squad@example.com"), &Fleets::default(), None));
    }

    #[test]
    fn locks_and_holds_of_fleets_and_clusters_that_overlap_stop_an_app() {
        let clusters = BTreeSet::from([target("prod"), target("eu-1")]);
        let fleets = Fleets::new(BTreeMap::from([(target("all"), clusters)]));
        let shop: AppKey = AppInstance::parse("all/devx/shop").unwrap().app;
        assert!(is_locked(LockScope::Target(target("all")), &fleets, None));
        assert!(is_locked(LockScope::App(target("all"), shop.clone()), &fleets, None));
        assert!(!is_locked(LockScope::Target(target("eu-1")), &fleets, None), "it is beside it");
        let holds = [Hold {
            target: target("all"),
            app: shop.clone(),
            by: String::new(),
            reason: String::new(),
            since: Timestamp::UNIX_EPOCH,
            rollback: None,
            away: None,
            to: None,
        }];
        let names = ["all", "dev", "eu-1", "prod"];
        let stops =
            TargetStops::of_each(names.map(target).into_iter().collect(), &fleets, &[], &holds);
        let flags = names.map(|name| stops[&target(name)].is_held(&shop));
        assert_eq!(flags, [true, false, true, true]);
    }
}
