//! The index: every app of every target with its live revision, its hosts and its owner, and the objects of each
//! namespace, from the manifest repositories.
//!
//! The index has one part for each target, so that a reader of one waits for no other. It is built when the service
//! starts (`keep.rs`), and from then on only changes are read (`target.rs`).
//!
//! The service's own pushes are visible at once. Pushes of others become visible with the next fetch, at most every
//! half minute (`place.rs`). While a server does not answer, its last state counts for some minutes more; after
//! that it is missing, and only readers of its targets go without.

pub mod keep; // builds the index at the start and keeps it current
mod place; // a repository, and the time of its last fetch
mod target; // the index of one target

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use crate::git::writer::ManifestRepository;
use crate::inventory::place::{Dated, IndexPlace, not_known};
use crate::inventory::target::{Count, Index, MAX_APPS};
use crate::model::app_instance::{AppInstance, AppListing, InstanceState, UnreadableRepositories};
use crate::model::facts::{FactUnavailable, LiveApp};
use crate::model::id::{AppKey, TargetName};
use crate::support::sync::lock;

pub use crate::inventory::place::IndexedRepository;
pub(crate) use crate::inventory::target::TargetReading;

/// The time after a fetch before the next one.
const FRESH: SignedDuration = SignedDuration::from_secs(30);
/// The most targets whose routes are kept; without configured clusters a caller can name any.
const TARGETS: usize = 256;

/// The index of each target, created when it is first read.
pub(crate) struct Inventory {
    places: Vec<IndexPlace>,
    targets: Mutex<BTreeMap<TargetName, Arc<tokio::sync::Mutex<Index>>>>,
    /// The number of apps in all indexes together.
    count: Arc<Count>,
    /// The signal that something was pushed.
    pushed: Notify,
}

impl Inventory {
    pub(crate) fn new(repositories: Vec<IndexedRepository>) -> Self {
        Self {
            places: repositories.into_iter().map(IndexPlace::new).collect(),
            targets: Mutex::default(),
            count: Arc::new(Count::within(MAX_APPS)),
            pushed: Notify::new(),
        }
    }

    /// Reads the routes of other apps on these hosts, and the objects of this one.
    pub(crate) async fn read_app_facts(
        &self,
        target: &TargetName,
        app: &AppKey,
        hosts: &[String],
        now: Timestamp,
    ) -> Result<Dated<TargetReading>, FactUnavailable> {
        let place = self.place(target)?;
        let index = self.index(target, &place.repository.repository);
        if place.repository.repository.is_local() {
            return Ok((read(&index, app, hosts).await?, now));
        }
        let tip = place.freshen(now, FRESH).await?;
        match read(&index, app, hosts).await {
            Ok(facts) => Ok((facts, tip.at)),
            Err(_) if !tip.branch => {
                let (routes, own_routes) = (Vec::new(), Vec::new());
                let (live, namespace) = (Ok(LiveApp::default()), Arc::default());
                Ok((TargetReading { routes, own_routes, live, namespace }, tip.at))
            }
            // The clone may be under replacement: a fetch waits until that is done.
            Err(_) => {
                let tip = place.freshen(now, SignedDuration::ZERO).await?;
                Ok((read(&index, app, hosts).await?, tip.at))
            }
        }
    }

    /// Fetches what is new from the server, unless that was done just now.
    pub(crate) async fn freshen(&self, target: &TargetName, now: Timestamp) {
        let Ok(place) = self.place(target) else { return };
        if !place.repository.repository.is_local() {
            // A reader that comes after this reports what went wrong.
            let _seen = place.freshen(now, FRESH).await;
        }
    }

    /// Returns apps after `after` in the order of app instances, of one target or all, of one name
    /// or all. Pushes of others count if the server was asked within half a minute. Takes a little
    /// longer than `patience` at the most: a server that does not answer is missing by then.
    pub(crate) async fn page(
        &self,
        target: Option<&TargetName>,
        app: Option<&AppKey>,
        after: Option<&AppInstance>,
        most: usize,
        now: Timestamp,
        patience: Duration,
    ) -> Result<AppListing, FactUnavailable> {
        let places: Vec<&IndexPlace> = match target {
            Some(target) => self.place(target).ok().into_iter().collect(),
            None => self.places.iter().collect(),
        };
        let (mut targets, mut missing) = self.targets_now(&places, now, patience).await;
        // A target without manifests gets no index: a caller can name any.
        targets.retain(|candidate| target.is_none_or(|target| candidate == target));
        targets.retain(|candidate| after.is_none_or(|after| *candidate >= after.target));
        let mut apps = Vec::new();
        for name in targets {
            let after = after
                .filter(|instance| instance.target == name)
                .map(|instance| instance.app.clone());
            let app = app.cloned();
            let room = most - apps.len();
            let Some((place, index)) = self.indexed(&name).filter(|_| room > 0) else { break };
            match blocking(&index, move |index| index.page(app.as_ref(), after.as_ref(), room))
                .await
            {
                Ok(page) => apps.extend(page),
                Err(FactUnavailable(why)) => drop(missing.insert(place.name().to_owned(), why)),
            }
        }
        match missing.iter().next() {
            Some((_, why)) if missing.len() == places.len() => {
                Err(FactUnavailable::new(why.clone()))
            }
            _ => Ok(AppListing { apps, missing }),
        }
    }

    /// Returns one app, if there is one.
    pub(crate) async fn app(
        &self,
        instance: &AppInstance,
        now: Timestamp,
        patience: Duration,
    ) -> Result<Option<InstanceState>, FactUnavailable> {
        let place = self.place(&instance.target)?;
        let (targets, missing) = self.targets_now(&[place], now, patience).await;
        if let Some(why) = missing.into_values().next() {
            return Err(FactUnavailable::new(why));
        }
        // A target without manifests gets no index: a caller can name any.
        let indexed = self.indexed(&instance.target).filter(|_| targets.contains(&instance.target));
        let Some((_, index)) = indexed else { return Ok(None) };
        let app = instance.app.clone();
        blocking(&index, move |index| index.app(&app)).await
    }

    /// Fetches from the server of a target's repository, unless that was done just now; returns
    /// true if the branch exists.
    pub(crate) async fn current(
        &self,
        target: &TargetName,
        now: Timestamp,
        patience: Duration,
    ) -> Result<bool, FactUnavailable> {
        self.place(target)?.freshen_in(patience, now, FRESH).await.map(|tip| tip.branch)
    }

    /// Returns the targets of these repositories, as their servers have them, and the repositories
    /// that could not be read.
    async fn targets_now(
        &self,
        places: &[&IndexPlace],
        now: Timestamp,
        patience: Duration,
    ) -> (BTreeSet<TargetName>, UnreadableRepositories) {
        let looking = places.iter().map(|place| async {
            let look = async {
                place.freshen_in(patience / 2, now, FRESH).await?;
                self.targets_of(place).await
            };
            let result = tokio::time::timeout(patience, look).await;
            result.unwrap_or_else(|_| Err(place.silent(patience)))
        });
        let results = futures::future::join_all(looking).await;
        let (mut targets, mut missing) = (BTreeSet::new(), UnreadableRepositories::new());
        for (place, result) in places.iter().zip(results) {
            match result {
                Ok(names) => targets.extend(names),
                Err(FactUnavailable(why)) => drop(missing.insert(place.name().to_owned(), why)),
            }
        }
        (targets, missing)
    }

    /// Returns the number of apps in the index.
    fn apps(&self) -> usize {
        self.count.apps()
    }

    /// Returns the targets that have manifests in the repository configured for them, in order. A
    /// repository whose server has no branch yet has none.
    async fn targets_of(&self, place: &IndexPlace) -> Result<Vec<TargetName>, FactUnavailable> {
        let repository = place.repository.repository.clone();
        let result = tokio::task::spawn_blocking(move || repository.targets()).await;
        match result.map_err(|_| fault())? {
            Ok(names) => Ok(names.into_iter().filter(|name| self.is_for(name, place)).collect()),
            Err(_) if place.has_no_branch().await => Ok(Vec::new()),
            Err(error) => Err(not_known(&error)),
        }
    }

    fn is_for(&self, target: &TargetName, place: &IndexPlace) -> bool {
        self.place(target).is_ok_and(|responsible| std::ptr::eq(responsible, place))
    }

    /// Returns the index of a target, and the repository that is configured for it.
    fn indexed(
        &self,
        target: &TargetName,
    ) -> Option<(&IndexPlace, Arc<tokio::sync::Mutex<Index>>)> {
        let place = self.place(target).ok()?;
        Some((place, self.index(target, &place.repository.repository)))
    }

    fn place(&self, target: &TargetName) -> Result<&IndexPlace, FactUnavailable> {
        let place =
            self.places.iter().find(|place| place.repository.targets.is_match(target.as_str()));
        place.ok_or_else(|| {
            FactUnavailable::new(format!("no manifest repository is configured for {target}"))
        })
    }

    fn index(
        &self,
        target: &TargetName,
        repository: &ManifestRepository,
    ) -> Arc<tokio::sync::Mutex<Index>> {
        let mut targets = lock(&self.targets);
        if targets.len() >= TARGETS && !targets.contains_key(target) {
            targets.clear();
        }
        let index = || Index::new(repository, target, Arc::clone(&self.count));
        let new_index = || Arc::new(tokio::sync::Mutex::new(index()));
        Arc::clone(targets.entry(target.clone()).or_insert_with(new_index))
    }
}

/// Runs a function on an index in a thread that may block.
async fn blocking<T: Send + 'static>(
    index: &Arc<tokio::sync::Mutex<Index>>,
    work: impl FnOnce(&mut Index) -> Result<T, FactUnavailable> + Send + 'static,
) -> Result<T, FactUnavailable> {
    let mut index = Arc::clone(index).lock_owned().await;
    let result = tokio::task::spawn_blocking(move || work(&mut index)).await;
    result.map_err(|_| fault())?
}

async fn read(
    index: &Arc<tokio::sync::Mutex<Index>>,
    app: &AppKey,
    hosts: &[String],
) -> Result<TargetReading, FactUnavailable> {
    let (app, hosts) = (app.clone(), hosts.to_vec());
    blocking(index, move |index| index.read_app_facts(&app, &hosts)).await
}

fn fault() -> FactUnavailable {
    FactUnavailable::new(
        "reading the manifest repository failed by a fault in the-deployer itself; its log has the details",
    )
}
