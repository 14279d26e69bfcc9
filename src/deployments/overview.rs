//! Reads the overview: every app on every target, with what is live, what is under way and what stands in the way. Apps
//! that nothing was ever pushed of are in it, too, and repositories whose WAML could never be read.
//!
//! A deployment that has failed before its app was known is the newest one of the app that its repository deployed to that
//! target before; where there is none, of the repository itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::apps::TargetStops;
use crate::lookups::FactUnavailable;
use crate::model::app_instance::{AppInstance, AppListing, InstanceState, UnreadableRepositories};
use crate::model::deployment::{Deployment, State};
use crate::model::id::{AppKey, DeployId, ImageTag, RepoName, TargetName};
use crate::store::{Filter, NewestDeployment, StoreError, UnpushedApp, UnreadDeployment};

/// The most apps on targets that are read: a page shows fewer, and each takes some hundred bytes.
const MAX_APPS: usize = 20_000;
/// The most deployments under way that are read.
const MAX_UNDER_WAY: u32 = 500;

/// The subject of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverviewSubject {
    /// An app.
    App(AppKey),
    /// A repository whose app is unknown: no WAML of it could be read for the target.
    Repository(RepoName),
}

impl fmt::Display for OverviewSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App(app) => app.fmt(f),
            Self::Repository(repository) => repository.fmt(f),
        }
    }
}

/// The place of an entry: no two have the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverviewPlace {
    /// The target.
    pub target: TargetName,
    /// The app, or its repository.
    pub subject: OverviewSubject,
}

/// An app on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub struct OverviewEntry {
    /// The app and its target.
    pub place: OverviewPlace,
    /// The owning team's e-mail address.
    pub owner: Option<String>,
    /// The repository of its deployments where nothing of it was ever pushed: then they are all that is known of it.
    pub unpushed: Option<RepoName>,
    /// The live revision; `None` after a manual edit, and before the first push.
    pub live: Option<LiveTag>,
    /// True if the live files have manual edits.
    pub is_edited: bool,
    /// True if a lock stops deployments of the app.
    pub is_locked: bool,
    /// True if a hold stops automation.
    pub is_held: bool,
    /// The newest deployment.
    pub newest: Option<NewestDeployment>,
    /// True if it has failed because its WAML could not be read.
    pub is_waml_unreadable: bool,
    /// True if the target is a fleet: its clusters have what is live.
    pub is_fleet: bool,
    /// The sentence of the deployment that is under way.
    pub progress: Option<String>,
}

/// A live revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveTag {
    /// Its id.
    pub id: DeployId,
    /// The image tag, where the database knows it.
    pub tag: Option<ImageTag>,
    /// The time at which it was created.
    pub at: Option<Timestamp>,
}

/// Every app on every target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overview {
    /// The apps, in the order of their places.
    pub entries: Vec<OverviewEntry>,
    /// The repositories that cannot be read now: there may be more apps in them.
    pub missing: UnreadableRepositories,
    /// True if there are more apps than are read.
    pub is_cut: bool,
}

impl OverviewEntry {
    /// Returns true if the newest deployment has not ended.
    pub fn is_under_way(&self) -> bool {
        self.newest.as_ref().is_some_and(|newest| !newest.state.is_final())
    }
}

impl Deployments {
    /// Returns every app on every target, or on one. The error's text is for callers.
    pub(crate) async fn overview(&self, target: Option<&TargetName>) -> Result<Overview, String> {
        let listing = self.facts.apps(target, None, None, MAX_APPS + 1).await;
        let AppListing { mut apps, missing } = listing.map_err(|FactUnavailable(why)| why)?;
        let is_cut = apps.len() > MAX_APPS;
        apps.truncate(MAX_APPS);
        let entries = self.overview_entries(target, apps).await.map_err(|error| {
            tracing::error!(%error, "overview could not be read");
            "the database cannot be read now; try again later".to_owned()
        })?;
        Ok(Overview { entries, missing, is_cut })
    }

    async fn overview_entries(
        &self,
        target: Option<&TargetName>,
        apps: Vec<InstanceState>,
    ) -> Result<Vec<OverviewEntry>, StoreError> {
        let store = &self.store;
        let filter = Filter { unfinished: true, target: target.cloned(), ..Filter::default() };
        let under_way = store.deployments(&filter, None, MAX_UNDER_WAY).await?.deployments;
        let under_way = Progress::new(&under_way);
        let mut states: BTreeMap<AppInstance, Option<InstanceState>> =
            under_way.instances().map(|instance| (instance, None)).collect();
        let unpushed = store.unpushed_apps(target).await?;
        let mut unpushed: BTreeMap<AppInstance, UnpushedApp> =
            unpushed.into_iter().map(|app| (app.instance.clone(), app)).collect();
        states.extend(unpushed.keys().map(|instance| (instance.clone(), None)));
        states.extend(apps.into_iter().map(|state| (state.instance.clone(), Some(state))));
        let mut newest = store.newest_of_owned(target, MAX_APPS).await?;
        // A fleet is in no manifest repository, and what has failed before its parts were made is in none of its clusters.
        let of_fleets = newest.iter().filter(|(instance, newest)| {
            self.fleets.is_fleet(&instance.target) && newest.state == State::Failed
        });
        for (instance, _) in of_fleets {
            states.entry(instance.clone()).or_default();
        }
        let others: Vec<&AppInstance> =
            states.keys().filter(|instance| !newest.contains_key(instance)).collect();
        newest.extend(store.newest_deployments(&others).await?);
        // The newest deployment is the live one, mostly.
        let lives = states.iter().filter_map(|(instance, state)| {
            let live = state.as_ref()?.live.as_ref()?;
            let is_newest = newest.get(instance).is_some_and(|newest| newest.id == *live);
            (!is_newest).then(|| live.clone())
        });
        let releases = store.packed_releases(&lives.collect::<Vec<_>>()).await?;
        let locks = store.locks(self.clock.now()).await?;
        let holds = store.holds_that_concern(target).await?;
        let targets: BTreeSet<TargetName> =
            states.keys().map(|instance| instance.target.clone()).collect();
        let stops = TargetStops::of_each(targets, &self.fleets, &locks, &holds);
        let entry = |(instance, state): (AppInstance, Option<InstanceState>)| {
            let newest = newest.remove(&instance);
            let unpushed = unpushed.remove(&instance).filter(|_| state.is_none());
            let is_edited = state.as_ref().is_some_and(|state| state.live.is_none());
            let (live, owner) = state.map(|state| (state.live, state.owner)).unwrap_or_default();
            let (repository, contact) = unpushed.map(|app| (app.repository, app.owner)).unzip();
            let owner = owner.or(contact.flatten());
            let live = live.map(|id| {
                let newest = newest.as_ref().filter(|newest| newest.id == id);
                let newest = newest.map(|newest| (newest.tag.clone(), newest.received_at));
                let (tag, at) = newest.or_else(|| releases.get(&id).cloned()).unzip();
                LiveTag { at: at.or_else(|| id.time()), tag, id }
            });
            let stops = stops.get(&instance.target);
            OverviewEntry {
                is_locked: stops
                    .is_some_and(|stops| stops.is_locked(&instance.app, owner.as_deref())),
                is_held: stops.is_some_and(|stops| stops.is_held(&instance.app)),
                progress: under_way.find(&instance).map(str::to_owned),
                is_fleet: self.fleets.is_fleet(&instance.target),
                place: instance.into(),
                owner,
                unpushed: repository,
                live,
                is_edited,
                newest,
                is_waml_unreadable: false,
            }
        };
        // One that was cancelled since has failed no more.
        let is_shown = |entry: &OverviewEntry| {
            let has_failed =
                entry.newest.as_ref().is_some_and(|newest| newest.state == State::Failed);
            entry.unpushed.is_none() || has_failed || entry.is_under_way()
        };
        let mut entries: Vec<_> = states.into_iter().map(entry).filter(is_shown).collect();
        let unread = store.unread_deployments(target, None).await?;
        add_unread(&mut entries, unread, |target| self.fleets.is_fleet(target));
        Ok(entries)
    }
}

impl From<AppInstance> for OverviewPlace {
    fn from(AppInstance { target, app }: AppInstance) -> Self {
        Self { target, subject: OverviewSubject::App(app) }
    }
}

/// Adds deployments whose app is not known to the entries, which are in the order of their places.
fn add_unread(
    entries: &mut Vec<OverviewEntry>,
    unread: Vec<UnreadDeployment>,
    is_fleet: impl Fn(&TargetName) -> bool,
) {
    let mut rows = Vec::new();
    for deployment in unread {
        let former = deployment.app.clone().and_then(|app| {
            let place = OverviewPlace {
                target: deployment.target.clone(),
                subject: OverviewSubject::App(app),
            };
            entries.binary_search_by(|entry| entry.place.cmp(&place)).ok()
        });
        if let Some(entry) = former.and_then(|position| entries.get_mut(position)) {
            let UnreadDeployment { newest, is_waml_unreadable, .. } = deployment;
            if entry.newest.as_ref().is_none_or(|other| other.id < newest.id) {
                (entry.newest, entry.is_waml_unreadable) = (Some(newest), is_waml_unreadable);
            }
            continue;
        }
        let is_fleet = is_fleet(&deployment.target);
        // An app that was pushed and is not there was removed.
        if is_fleet || !deployment.was_pushed {
            rows.push(OverviewEntry { is_fleet, ..OverviewEntry::from(deployment) });
        }
    }
    if !rows.is_empty() {
        entries.extend(rows);
        entries.sort_by(|one, other| one.place.cmp(&other.place));
    }
}

impl From<UnreadDeployment> for OverviewEntry {
    fn from(deployment: UnreadDeployment) -> Self {
        let UnreadDeployment { repository, target, newest, is_waml_unreadable, app, was_pushed } =
            deployment;
        let (subject, unpushed) = match app.filter(|_| was_pushed) {
            Some(app) => (OverviewSubject::App(app), None),
            None => (OverviewSubject::Repository(repository.clone()), Some(repository)),
        };
        Self {
            place: OverviewPlace { target, subject },
            owner: None,
            unpushed,
            live: None,
            is_edited: false,
            is_locked: false,
            is_held: false,
            newest: Some(newest),
            is_waml_unreadable,
            is_fleet: false,
            progress: None,
        }
    }
}

/// The sentences of the deployments that are under way.
struct Progress<'a>(BTreeMap<(&'a TargetName, &'a AppKey), &'a str>);

impl<'a> Progress<'a> {
    /// Takes the newest of each app; the WAML of others has not been read yet.
    fn new(under_way: &'a [Deployment]) -> Self {
        let oldest_first = under_way.iter().rev();
        let sentence = |deployment: &'a Deployment| {
            let app = deployment.app.as_ref()?;
            let waiting = deployment.waiting.as_ref().map(|waiting| waiting.what.as_str());
            let sentence = waiting.unwrap_or(&deployment.summary);
            Some(((&deployment.request.target, app), sentence))
        };
        Self(oldest_first.filter_map(sentence).collect())
    }

    fn find(&self, AppInstance { target, app }: &AppInstance) -> Option<&str> {
        self.0.get(&(target, app)).copied()
    }

    fn instances(&self) -> impl Iterator<Item = AppInstance> {
        let instance = |(target, app): &(&TargetName, &AppKey)| AppInstance {
            target: (*target).clone(),
            app: (*app).clone(),
        };
        self.0.keys().map(instance)
    }
}
