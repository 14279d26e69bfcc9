//! Lists apps: what is live where, from the manifest repositories, and what is locked or held.

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::lookups::FactUnavailable;
use crate::model::app_instance::{AppInstance, AppListing, InstanceState, UnreadableRepositories};
use crate::model::id::{AppKey, DeployId, ImageTag, LockId, TargetName};
use crate::model::lock::{Lock, LockScope};
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
        let holds =
            self.store.holds(target.as_ref()).await.map_err(|error| database_error(&error))?;
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
            let (instance, owner) = (&state.instance, state.owner.as_deref());
            AppLine {
                locked: locks.iter().any(|(_, lock)| stops(&lock.scope, instance, owner)),
                held: holds.iter().any(|hold| hold.target == *target && hold.app == *app),
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

/// Returns those of the locks that stop an app, in their order.
pub(super) fn stopping_locks(
    locks: Vec<(LockId, Lock)>,
    instance: &AppInstance,
    owner: Option<&str>,
) -> Vec<(LockId, Lock)> {
    locks.into_iter().filter(|(_, lock)| stops(&lock.scope, instance, owner)).collect()
}

/// Returns true if a lock of that scope stops the app. Owners are compared without case.
pub(super) fn stops(scope: &LockScope, instance: &AppInstance, owner: Option<&str>) -> bool {
    match scope {
        LockScope::Everything => true,
        LockScope::Target(target) => *target == instance.target,
        LockScope::Owner(locked_owner) => {
            owner.is_some_and(|owner| owner.eq_ignore_ascii_case(locked_owner))
        }
        LockScope::App(target, app) => *target == instance.target && *app == instance.app,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_stops_what_it_is_for() {
        let instance = AppInstance::parse("prod/devx/shop").unwrap();
        let owner = Some("Squad@example.com");
        let other = AppInstance::parse("prod/devx/cart").unwrap();
        for (scope, is_stopped) in [
            (LockScope::Everything, true),
            (LockScope::Target("prod".parse().unwrap()), true),
            (LockScope::Target("dev".parse().unwrap()), false),
            (LockScope::Owner("squad@example.com".to_owned()), true),
            (LockScope::Owner("other@example.com".to_owned()), false),
            (LockScope::App(instance.target.clone(), instance.app.clone()), true),
            (LockScope::App("dev".parse().unwrap(), instance.app.clone()), false),
            (LockScope::App(other.target.clone(), other.app.clone()), false),
        ] {
            assert_eq!(stops(&scope, &instance, owner), is_stopped, "{scope}");
        }
        assert!(!stops(&LockScope::Owner("squad@example.com".to_owned()), &instance, None));
    }
}
