//! THE INDEX: every app of every target with its live revision, its hosts and whose it is, and the
//! objects of one, from the manifest repositories.
//!
//! One part a target, so that who asks after one waits for no other. Built when the program starts
//! (`keep`), and read from then on only where something has changed (`target`).
//!
//! Our own pushes are seen at once. What others push to a server is seen when it is asked, at most
//! every half minute; when it does not answer, what is known counts for some minutes more.

mod keep; // built at the start, kept current
mod target; // the index of one target

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

pub use crate::app::facts::index::keep::Metrics;
use crate::app::facts::index::target::{Count, Index, MOST_APPS};
use crate::app::facts::{Dated, Repository, not_known};
use crate::facts::NotKnown;
use crate::git::writer::ManifestRepository;
use crate::model::facts::{LiveObject, Route};
use crate::model::id::{AppKey, TargetName};
use crate::model::placed::{Placed, Spot};

/// Until then a server is not asked again what others have pushed.
const FRESH: SignedDuration = SignedDuration::from_secs(30);
/// Until then what is known counts, if the server does not answer.
const USABLE: SignedDuration = SignedDuration::from_mins(5);
/// A server that is slower is asked again by the next deployment.
const ASKING: Duration = Duration::from_secs(4);
/// Targets whose routes are kept; without configured clusters anybody can name a new one.
const TARGETS: usize = 256;

/// What one look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Looked {
    /// Routes of other apps on the hosts.
    pub(super) routes: Vec<Route>,
    /// What the app's `latest` has; or why that is not known whole.
    pub(super) live: Result<Vec<LiveObject>, String>,
}

/// An index for each target, made when it is first asked for.
pub(super) struct Indexes {
    places: Vec<Place>,
    targets: Mutex<BTreeMap<TargetName, Arc<tokio::sync::Mutex<Index>>>>,
    /// How many apps they have together.
    count: Arc<Count>,
    /// Rings when something was pushed.
    pushed: Notify,
}

/// A manifest repository, and when its server was asked last.
struct Place {
    repository: Repository,
    asked: tokio::sync::Mutex<Option<Seen>>,
}

impl Indexes {
    pub(super) fn new(repositories: Vec<Repository>) -> Self {
        let place = |repository| Place { repository, asked: tokio::sync::Mutex::default() };
        Self {
            places: repositories.into_iter().map(place).collect(),
            targets: Mutex::default(),
            count: Arc::new(Count::within(MOST_APPS)),
            pushed: Notify::new(),
        }
    }

    /// Routes of other apps on these hosts, and the objects of this one.
    pub(super) async fn look(
        &self,
        target: &TargetName,
        app: &AppKey,
        hosts: &[String],
        now: Timestamp,
    ) -> Result<Dated<Looked>, NotKnown> {
        let place = self.place(target)?;
        let index = self.index(target, &place.repository.repository);
        if place.repository.repository.is_local() {
            return Ok((read(&index, app, hosts).await?, now));
        }
        let seen = place.freshen(now, FRESH).await?;
        match read(&index, app, hosts).await {
            Ok(looked) => Ok((looked, seen.at)),
            Err(_) if !seen.branch => {
                Ok((Looked { routes: Vec::new(), live: Ok(Vec::new()) }, seen.at))
            }
            // The clone may just be made anew: who asks the server waits until that is done.
            Err(_) => {
                let seen = place.freshen(now, SignedDuration::ZERO).await?;
                Ok((read(&index, app, hosts).await?, seen.at))
            }
        }
    }

    /// Asks the server what is new, if it was not asked just now.
    pub(super) async fn freshen(&self, target: &TargetName, now: Timestamp) {
        let Ok(place) = self.place(target) else { return };
        if !place.repository.repository.is_local() {
            // Whoever looks after this says what went wrong.
            let _seen = place.freshen(now, FRESH).await;
        }
    }

    /// Apps after that one in the order of their spots, of one target or of all; what others have
    /// pushed to a server counts if it was asked within half a minute.
    pub(super) async fn page(
        &self,
        target: Option<&TargetName>,
        after: Option<&Spot>,
        most: usize,
        now: Timestamp,
    ) -> Result<Vec<Placed>, NotKnown> {
        let from = after.map(|spot| &spot.target);
        self.freshen_all(now).await?;
        let mut targets = self.targets().await?;
        // One that has no manifests gets no index: a caller can name many.
        targets.retain(|one| target.is_none_or(|target| one == target));
        targets.retain(|one| from.is_none_or(|from| one >= from));
        let mut found = Vec::new();
        for one in targets {
            let after = after.filter(|spot| spot.target == one).map(|spot| spot.app.clone());
            let left = most - found.len();
            let Some(index) = self.indexed(&one).filter(|_| left > 0) else { break };
            found.extend(blocking(&index, move |index| index.page(after.as_ref(), left)).await?);
        }
        Ok(found)
    }

    /// Reads what has changed on a target.
    async fn update(&self, target: &TargetName) -> Result<(), NotKnown> {
        let Some(index) = self.indexed(target) else { return Ok(()) };
        blocking(&index, Index::update).await
    }

    /// How many apps the index has.
    fn apps(&self) -> usize {
        self.count.apps()
    }

    /// The targets that have manifests in the repository that is for them, in order. A repository
    /// whose server has no branch yet has none.
    async fn targets(&self) -> Result<BTreeSet<TargetName>, NotKnown> {
        let mut all = BTreeSet::new();
        for place in &self.places {
            let repository = place.repository.repository.clone();
            let found = tokio::task::spawn_blocking(move || repository.targets()).await;
            match found.map_err(|_| fault())? {
                Ok(found) => {
                    let is_for = |one: &TargetName| self.is_for(one, place);
                    all.extend(found.into_iter().filter(is_for));
                }
                Err(_) if place.has_no_branch().await => {}
                Err(error) => return Err(not_known(&error)),
            }
        }
        Ok(all)
    }

    fn is_for(&self, target: &TargetName, place: &Place) -> bool {
        self.place(target).is_ok_and(|found| std::ptr::eq(found, place))
    }

    /// Asks every server what is new that was not asked just now.
    async fn freshen_all(&self, now: Timestamp) -> Result<(), NotKnown> {
        for place in self.places.iter().filter(|place| !place.repository.repository.is_local()) {
            place.freshen(now, FRESH).await?;
        }
        Ok(())
    }

    /// The index of a target that a repository is for.
    fn indexed(&self, target: &TargetName) -> Option<Arc<tokio::sync::Mutex<Index>>> {
        let place = self.place(target).ok()?;
        Some(self.index(target, &place.repository.repository))
    }

    fn place(&self, target: &TargetName) -> Result<&Place, NotKnown> {
        let found = self.places.iter().find(|place| place.repository.targets.have(target));
        found.ok_or_else(|| NotKnown::new(format!("no manifest repository is for {target}")))
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

/// What a server said of the branch when it was asked last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Timestamp,
    /// Whether it is there.
    branch: bool,
}

impl Place {
    /// Whether the server said, when it was asked last, that there is no branch.
    async fn has_no_branch(&self) -> bool {
        self.asked.lock().await.is_some_and(|seen| !seen.branch)
    }

    /// Asks the server unless it was asked within that time; one asks for all that wait.
    async fn freshen(&self, now: Timestamp, within: SignedDuration) -> Result<Seen, NotKnown> {
        let mut asked = self.asked.lock().await;
        let age = |seen: Seen| now.duration_since(seen.at);
        if let Some(seen) = asked.filter(|seen| age(*seen) < within) {
            return Ok(seen);
        }
        let answer = tokio::time::timeout(ASKING, self.repository.repository.tip()).await;
        match (answer, *asked) {
            (Ok(Ok(tip)), _) => Ok(*asked.insert(Seen { at: now, branch: tip.is_some() })),
            (_, Some(seen)) if age(seen) < USABLE => Ok(seen),
            (Ok(Err(error)), _) => Err(not_known(&error)),
            (Err(_), _) => Err(NotKnown::new(format!(
                "the manifest repository did not answer within {ASKING:?}"
            ))),
        }
    }
}

/// Does something with an index on a thread where one may block.
async fn blocking<T: Send + 'static>(
    index: &Arc<tokio::sync::Mutex<Index>>,
    work: impl FnOnce(&mut Index) -> Result<T, NotKnown> + Send + 'static,
) -> Result<T, NotKnown> {
    let mut index = Arc::clone(index).lock_owned().await;
    let done = tokio::task::spawn_blocking(move || work(&mut index)).await;
    done.map_err(|_| fault())?
}

async fn read(
    index: &Arc<tokio::sync::Mutex<Index>>,
    app: &AppKey,
    hosts: &[String],
) -> Result<Looked, NotKnown> {
    let (app, hosts) = (app.clone(), hosts.to_vec());
    blocking(index, move |index| index.look(&app, &hosts)).await
}

fn fault() -> NotKnown {
    NotKnown::new("reading the manifest repository failed by a fault of ours")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
