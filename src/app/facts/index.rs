//! The routes of all apps of a target, and the objects of one, from the manifest repository.
//!
//! Our own pushes are seen at once. What others push to a server is seen when it is asked, at most
//! every half minute; when it does not answer, what is known counts for some minutes more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::app::facts::{Dated, Repository, not_known};
use crate::facts::NotKnown;
use crate::git::index::{Changes, Follower};
use crate::git::writer::ManifestRepository;
use crate::model::facts::{LiveObject, Route};
use crate::model::id::{AppKey, TargetName};
use crate::model::revision::ManifestFile;
use crate::pipeline::reading::{self, Read, routes};

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
}

/// A manifest repository, and when its server was asked last.
struct Place {
    repository: Repository,
    asked: tokio::sync::Mutex<Option<Seen>>,
}

impl Indexes {
    pub(super) fn new(repositories: Vec<Repository>) -> Self {
        let place = |repository| Place { repository, asked: tokio::sync::Mutex::default() };
        Self { places: repositories.into_iter().map(place).collect(), targets: Mutex::default() }
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
        let made = || Arc::new(tokio::sync::Mutex::new(Index::new(repository, target)));
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

/// Reads on a thread where one may block.
async fn read(
    index: &Arc<tokio::sync::Mutex<Index>>,
    app: &AppKey,
    hosts: &[String],
) -> Result<Looked, NotKnown> {
    let mut index = Arc::clone(index).lock_owned().await;
    let (app, hosts) = (app.clone(), hosts.to_vec());
    let looked = tokio::task::spawn_blocking(move || index.look(&app, &hosts)).await;
    let fault = |_| NotKnown::new("reading the manifest repository failed by a fault of ours");
    looked.map_err(fault)?
}

/// The routes of one target.
struct Index {
    target: TargetName,
    follower: Follower,
    /// The hosts of each app, so that they can be taken out again.
    hosts: BTreeMap<AppKey, BTreeSet<String>>,
    routes: HashMap<String, Vec<Route>>,
}

impl Index {
    fn new(repository: &ManifestRepository, target: &TargetName) -> Self {
        Self {
            target: target.clone(),
            follower: repository.follow(target, routes::can_be_in),
            hosts: BTreeMap::new(),
            routes: HashMap::new(),
        }
    }

    /// Reads what has changed, and answers. Blocks.
    fn look(&mut self, app: &AppKey, hosts: &[String]) -> Result<Looked, NotKnown> {
        let routes = if hosts.is_empty() { Vec::new() } else { self.others(app, hosts)? };
        let latest = self.follower.latest(&self.target, app);
        let (files, left_out) = latest.map_err(|error| not_known(&error))?;
        let Read { found, unreadable } = reading::objects(&files);
        self.tell(app, &unreadable);
        let missed = unreadable.first().or(left_out.first());
        let live = match missed {
            None => Ok(found),
            Some(file) => {
                Err(format!("{file} in the app's `latest` is no manifest that can be read"))
            }
        };
        Ok(Looked { routes, live })
    }

    fn others(&mut self, app: &AppKey, hosts: &[String]) -> Result<Vec<Route>, NotKnown> {
        let changes = self.follower.changes().map_err(|error| not_known(&error))?;
        self.apply(changes);
        let hosts: BTreeSet<String> =
            hosts.iter().filter_map(|host| routes::normal_host(host)).collect();
        let found = hosts.iter().filter_map(|host| self.routes.get(host)).flatten();
        Ok(found.filter(|route| route.app != *app).cloned().collect())
    }

    fn apply(&mut self, changes: Changes) {
        let Changes { changed, gone } = changes;
        for app in gone {
            self.forget(&app);
        }
        for (app, files) in changed {
            self.forget(&app);
            self.learn(app, &files);
        }
    }

    fn forget(&mut self, app: &AppKey) {
        for host in self.hosts.remove(app).unwrap_or_default() {
            let Some(routes) = self.routes.get_mut(&host) else { continue };
            routes.retain(|route| route.app != *app);
            if routes.is_empty() {
                self.routes.remove(&host);
            }
        }
    }

    fn learn(&mut self, app: AppKey, files: &[ManifestFile]) {
        let Read { found, unreadable } = routes::of(&app, files);
        self.tell(&app, &unreadable);
        let mut hosts = BTreeSet::new();
        for route in found {
            hosts.insert(route.host.clone());
            self.routes.entry(route.host.clone()).or_default().push(route);
        }
        if !hosts.is_empty() {
            self.hosts.insert(app, hosts);
        }
    }

    fn tell(&self, app: &AppKey, unreadable: &[String]) {
        for file in unreadable {
            tracing::warn!(target = %self.target, %app, file, "a manifest cannot be read");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
