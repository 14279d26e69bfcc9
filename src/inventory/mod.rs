//! THE INDEX: every app of every target with its live revision, its hosts and whose it is, and the
//! objects of one, from the manifest repositories.
//!
//! One part a target, so that who asks after one waits for no other. Built when the program starts
//! (`keep`), and read from then on only where something has changed (`target`).
//!
//! Our own pushes are seen at once. What others push to a server is seen when it is asked, at most
//! every half minute; when it does not answer, what is known counts for some minutes more. Then it
//! is missing, and only who asks for what it has goes without.

pub mod keep; // built at the start, kept current
mod place; // a repository, and when its server was asked
mod target; // the index of one target

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use crate::git::writer::ManifestRepository;
use crate::inventory::place::{Dated, IndexPlace, not_known};
use crate::inventory::target::{Count, Index, MOST_APPS};
use crate::model::app_instance::{AppInstance, AppListing, Missing, Placed};
use crate::model::facts::{FactUnavailable, LiveApp};
use crate::model::id::{AppKey, TargetName};
use crate::support::sync::lock;

pub use crate::inventory::place::IndexedRepository;
pub(crate) use crate::inventory::target::Looked;

/// Until then a server is not asked again what others have pushed.
const FRESH: SignedDuration = SignedDuration::from_secs(30);
/// Targets whose routes are kept; without configured clusters anybody can name a new one.
const TARGETS: usize = 256;

/// An index for each target, made when it is first asked for.
pub(crate) struct Inventory {
    places: Vec<IndexPlace>,
    targets: Mutex<BTreeMap<TargetName, Arc<tokio::sync::Mutex<Index>>>>,
    /// How many apps they have together.
    count: Arc<Count>,
    /// Rings when something was pushed.
    pushed: Notify,
}

impl Inventory {
    pub(crate) fn new(repositories: Vec<IndexedRepository>) -> Self {
        Self {
            places: repositories.into_iter().map(IndexPlace::new).collect(),
            targets: Mutex::default(),
            count: Arc::new(Count::within(MOST_APPS)),
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
    ) -> Result<Dated<Looked>, FactUnavailable> {
        let place = self.place(target)?;
        let index = self.index(target, &place.repository.repository);
        if place.repository.repository.is_local() {
            return Ok((read(&index, app, hosts).await?, now));
        }
        let seen = place.freshen(now, FRESH).await?;
        match read(&index, app, hosts).await {
            Ok(looked) => Ok((looked, seen.at)),
            Err(_) if !seen.branch => {
                let (routes, own_routes) = (Vec::new(), Vec::new());
                let (live, namespace) = (Ok(LiveApp::default()), Arc::default());
                Ok((Looked { routes, own_routes, live, namespace }, seen.at))
            }
            // The clone may just be made anew: who asks the server waits until that is done.
            Err(_) => {
                let seen = place.freshen(now, SignedDuration::ZERO).await?;
                Ok((read(&index, app, hosts).await?, seen.at))
            }
        }
    }

    /// Asks the server what is new, if it was not asked just now.
    pub(crate) async fn freshen(&self, target: &TargetName, now: Timestamp) {
        let Ok(place) = self.place(target) else { return };
        if !place.repository.repository.is_local() {
            // Whoever looks after this says what went wrong.
            let _seen = place.freshen(now, FRESH).await;
        }
    }

    /// Apps after that one in the order of their spots, of one target or of all, of one name or of all; what others have
    /// pushed to a server counts if it was asked within half a minute. Takes a little longer than
    /// `patience` at the most: a server that is silent is missing by then.
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
        // One that has no manifests gets no index: a caller can name many.
        targets.retain(|one| target.is_none_or(|target| one == target));
        targets.retain(|one| after.is_none_or(|after| *one >= after.target));
        let mut apps = Vec::new();
        for one in targets {
            let after = after.filter(|spot| spot.target == one).map(|spot| spot.app.clone());
            let app = app.cloned();
            let left = most - apps.len();
            let Some((place, index)) = self.indexed(&one).filter(|_| left > 0) else { break };
            match blocking(&index, move |index| index.page(app.as_ref(), after.as_ref(), left))
                .await
            {
                Ok(found) => apps.extend(found),
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

    /// One app, if there is such a one.
    pub(crate) async fn app(
        &self,
        spot: &AppInstance,
        now: Timestamp,
        patience: Duration,
    ) -> Result<Option<Placed>, FactUnavailable> {
        let place = self.place(&spot.target)?;
        let (targets, missing) = self.targets_now(&[place], now, patience).await;
        if let Some(why) = missing.into_values().next() {
            return Err(FactUnavailable::new(why));
        }
        // One that has no manifests gets no index: a caller can name many.
        let indexed = self.indexed(&spot.target).filter(|_| targets.contains(&spot.target));
        let Some((_, index)) = indexed else { return Ok(None) };
        let app = spot.app.clone();
        blocking(&index, move |index| index.app(&app)).await
    }

    /// Asks the server of a target's repository, if that was not done just now; whether it has the
    /// branch.
    pub(crate) async fn current(
        &self,
        target: &TargetName,
        now: Timestamp,
        patience: Duration,
    ) -> Result<bool, FactUnavailable> {
        self.place(target)?.freshen_in(patience, now, FRESH).await.map(|seen| seen.branch)
    }

    /// The targets of these repositories, as their servers have them; and the repositories that
    /// this cannot be told of.
    async fn targets_now(
        &self,
        places: &[&IndexPlace],
        now: Timestamp,
        patience: Duration,
    ) -> (BTreeSet<TargetName>, Missing) {
        let looking = places.iter().map(|place| async {
            let look = async {
                place.freshen_in(patience / 2, now, FRESH).await?;
                self.targets_of(place).await
            };
            let looked = tokio::time::timeout(patience, look).await;
            looked.unwrap_or_else(|_| Err(place.silent(patience)))
        });
        let looked = futures::future::join_all(looking).await;
        let (mut targets, mut missing) = (BTreeSet::new(), Missing::new());
        for (place, found) in places.iter().zip(looked) {
            match found {
                Ok(found) => targets.extend(found),
                Err(FactUnavailable(why)) => drop(missing.insert(place.name().to_owned(), why)),
            }
        }
        (targets, missing)
    }

    /// Returns how many apps the index has.
    fn apps(&self) -> usize {
        self.count.apps()
    }

    /// The targets that have manifests in the repository that is for them, in order. A repository
    /// whose server has no branch yet has none.
    async fn targets_of(&self, place: &IndexPlace) -> Result<Vec<TargetName>, FactUnavailable> {
        let repository = place.repository.repository.clone();
        let found = tokio::task::spawn_blocking(move || repository.targets()).await;
        match found.map_err(|_| fault())? {
            Ok(found) => Ok(found.into_iter().filter(|one| self.is_for(one, place)).collect()),
            Err(_) if place.has_no_branch().await => Ok(Vec::new()),
            Err(error) => Err(not_known(&error)),
        }
    }

    fn is_for(&self, target: &TargetName, place: &IndexPlace) -> bool {
        self.place(target).is_ok_and(|found| std::ptr::eq(found, place))
    }

    /// The index of a target, and the repository that is for it.
    fn indexed(
        &self,
        target: &TargetName,
    ) -> Option<(&IndexPlace, Arc<tokio::sync::Mutex<Index>>)> {
        let place = self.place(target).ok()?;
        Some((place, self.index(target, &place.repository.repository)))
    }

    fn place(&self, target: &TargetName) -> Result<&IndexPlace, FactUnavailable> {
        let found =
            self.places.iter().find(|place| place.repository.targets.is_match(target.as_str()));
        found.ok_or_else(|| FactUnavailable::new(format!("no manifest repository is for {target}")))
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
        let made = || Arc::new(tokio::sync::Mutex::new(index()));
        Arc::clone(targets.entry(target.clone()).or_insert_with(made))
    }
}

/// Does something with an index on a thread where one may block.
async fn blocking<T: Send + 'static>(
    index: &Arc<tokio::sync::Mutex<Index>>,
    work: impl FnOnce(&mut Index) -> Result<T, FactUnavailable> + Send + 'static,
) -> Result<T, FactUnavailable> {
    let mut index = Arc::clone(index).lock_owned().await;
    let done = tokio::task::spawn_blocking(move || work(&mut index)).await;
    done.map_err(|_| fault())?
}

async fn read(
    index: &Arc<tokio::sync::Mutex<Index>>,
    app: &AppKey,
    hosts: &[String],
) -> Result<Looked, FactUnavailable> {
    let (app, hosts) = (app.clone(), hosts.to_vec());
    blocking(index, move |index| index.read_app_facts(&app, &hosts)).await
}

fn fault() -> FactUnavailable {
    FactUnavailable::new("reading the manifest repository failed by a fault of ours")
}
