//! What all open pages share: the grid, and the versions of records. Each is read when the first of them needs it, and
//! not again for some time, however many pages are open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as SyncMutex};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

use crate::deployments::Deployments;
use crate::deployments::rollouts::RolloutView;
use crate::model::app_instance::AppInstance;
use crate::model::deployment::Deployment;
use crate::server::call::{no_deployment, unavailable};
use crate::server::limits::{ServerLimits, StreamLimit};
use crate::server::pages::document;
use crate::server::pages::grid::{GridEntry, GridSnapshot};
use crate::server::pages::live::LiveRecord;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::routes;
use crate::store::{Filter, RolloutFilter};
use crate::support::sync::lock;

/// The shortest time between two reads of the grid.
const GRID_APART: Duration = Duration::from_millis(500);
/// Beside that, the share of the time that reading may take: one in so many parts.
const GRID_SHARE: u32 = 10;
/// The time after which the grid is read without a signal: another replica, or a person in the manifest repository, may
/// have changed something.
const GRID_LIFETIME: Duration = Duration::from_secs(5);
/// The time for which the version of a record counts.
const VERSION_LIFETIME: Duration = Duration::from_millis(400);
/// The number of pages that are rendered for streams at the same time.
const TURNS: usize = 8;
/// The number of the newest deployments that have a part in the version of their list.
const NEWEST: u32 = 50;

/// The version of a record, and the time when it was read.
type VersionSlot = Arc<Mutex<Option<(Instant, String)>>>;

/// What all open pages share.
pub(in crate::server) struct LiveFeeds {
    grid: Mutex<GridFeed>,
    versions: SyncMutex<BTreeMap<LiveRecord, VersionSlot>>,
    turns: Semaphore,
    /// The slots of all open pages.
    pub(super) pages: Arc<Semaphore>,
    /// The open pages of each caller.
    pub(super) callers: StreamLimit,
}

#[derive(Default)]
struct GridFeed {
    bell: Option<watch::Receiver<()>>,
    last: Option<GridRead>,
}

struct GridRead {
    at: Instant,
    took: Duration,
    snapshot: Arc<GridSnapshot>,
}

impl LiveFeeds {
    pub(in crate::server) fn new(limits: &ServerLimits) -> Self {
        Self {
            grid: Mutex::default(),
            versions: SyncMutex::default(),
            turns: Semaphore::new(TURNS),
            pages: Arc::new(Semaphore::new(limits.open_pages)),
            callers: StreamLimit::default(),
        }
    }

    /// Waits for a turn to render a page.
    pub(super) async fn take_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Returns the grid as it is now, or was a moment ago. The same snapshot means that nothing has changed.
    pub(super) async fn grid(
        &self,
        deployments: &Deployments,
    ) -> Result<Arc<GridSnapshot>, Problem> {
        let mut feed = self.grid.lock().await;
        let feed = &mut *feed;
        let bell = feed.bell.get_or_insert_with(|| deployments.store.changes());
        if let Some(GridRead { at, took, snapshot }) = &feed.last {
            let age = at.elapsed();
            let apart = GRID_APART.max(*took * GRID_SHARE);
            let is_changed = bell.has_changed().unwrap_or(true) && age >= apart;
            if !is_changed && age < GRID_LIFETIME.max(apart) {
                return Ok(Arc::clone(snapshot));
            }
        }
        bell.mark_unchanged();
        let begin = Instant::now();
        let overview = deployments.overview(None).await;
        let overview = overview.map_err(|detail| Problem::new(ProblemKind::Unavailable, detail))?;
        let mut snapshot = GridSnapshot::new(overview);
        let before = feed.last.as_ref().map(|read| &read.snapshot);
        let is_same = before.is_some_and(|before| snapshot.share_with(before));
        let snapshot = match before {
            Some(before) if is_same => Arc::clone(before),
            _ => Arc::new(snapshot),
        };
        let (at, took) = (Instant::now(), begin.elapsed());
        feed.last = Some(GridRead { at, took, snapshot: Arc::clone(&snapshot) });
        Ok(snapshot)
    }

    /// Returns a version that changes with the record, or did a moment ago.
    pub(super) async fn version(
        &self,
        deployments: &Deployments,
        record: &LiveRecord,
    ) -> Result<String, Problem> {
        let entry = {
            let mut versions = lock(&self.versions);
            // Those that no stream waits for and that no longer count.
            versions.retain(|_, entry| {
                Arc::strong_count(entry) > 1
                    || entry.try_lock().is_ok_and(|version| is_fresh(version.as_ref()))
            });
            Arc::clone(versions.entry(record.clone()).or_default())
        };
        let mut version = entry.lock().await;
        if let Some((_, text)) = version.as_ref().filter(|_| is_fresh(version.as_ref())) {
            return Ok(text.clone());
        }
        let text = read_version(deployments, record).await?;
        *version = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

fn is_fresh(version: Option<&(Instant, String)>) -> bool {
    version.is_some_and(|(at, _)| at.elapsed() < VERSION_LIFETIME)
}

/// Reads the version of a record. What one caller may see of it is none of its business.
async fn read_version(deployments: &Deployments, record: &LiveRecord) -> Result<String, Problem> {
    let store = &deployments.store;
    match record {
        LiveRecord::Deployments => read_deployments(deployments, &Filter::default()).await,
        LiveRecord::Deployment(id) => {
            let version = store.deployment_version(id).await;
            let version = version.map_err(|error| unavailable(&error))?;
            let messages = store.messages_version(id).await;
            let messages = messages.map_err(|error| unavailable(&error))?;
            Ok(format!("{} {messages}", version.ok_or_else(|| no_deployment(id))?))
        }
        LiveRecord::App(instance) => read_app(deployments, instance).await,
        LiveRecord::Rollouts => {
            let rollouts = deployments.rollouts(&RolloutFilter::default(), None, NEWEST).await;
            let rollouts = rollouts.map_err(|error| routes::rollouts::unavailable(&error))?;
            let line = |one: &RolloutView| format!("{} {}\n", one.record.id, one.record.version);
            Ok(document::version(rollouts.rollouts.iter().map(line).collect::<String>()))
        }
        LiveRecord::Rollout(id) => {
            let version = store.rollout_version(id).await;
            let version = version.map_err(|error| routes::rollouts::unavailable(&error))?;
            version.ok_or_else(|| routes::rollouts::no_rollout(id))
        }
    }
}

/// Returns a version of the newest deployments.
async fn read_deployments(deployments: &Deployments, filter: &Filter) -> Result<String, Problem> {
    let newest = deployments.store.deployments(filter, None, NEWEST).await;
    let newest = newest.map_err(|error| unavailable(&error))?.deployments;
    let line = |one: &Deployment| {
        let waiting = one.waiting.as_ref().map(|waiting| &waiting.what);
        format!("{} {} {} {waiting:?}\n", one.id, one.state.as_str(), one.summary)
    };
    Ok(document::version(newest.iter().map(line).collect::<String>()))
}

/// Returns a version of an app: of its deployments, and of what stands in the way of others.
async fn read_app(deployments: &Deployments, instance: &AppInstance) -> Result<String, Problem> {
    let AppInstance { target, app } = instance;
    let filter =
        Filter { target: Some(target.clone()), app: Some(app.clone()), ..Filter::default() };
    let newest = read_deployments(deployments, &filter).await?;
    let store = &deployments.store;
    let hold = store.hold(target, app).await.map_err(|error| unavailable(&error))?;
    let locks = store.locks(deployments.clock.now()).await.map_err(|error| unavailable(&error))?;
    let locks: Vec<_> = locks.into_iter().map(|(id, _)| id).collect();
    Ok(format!("{newest} {:?} {locks:?}", hold.map(|hold| hold.since)))
}

impl GridSnapshot {
    /// Takes over the entries of the snapshot before that have not changed; returns true if none has.
    fn share_with(&mut self, before: &Self) -> bool {
        let mut is_same = self.has_remarks_of(before) && self.entries.len() == before.entries.len();
        let mut old = before.entries.iter().peekable();
        for entry in &mut self.entries {
            while old.next_if(|old| old.instance < entry.instance).is_some() {}
            match old.next_if(|old: &&Arc<GridEntry>| ***old == **entry) {
                Some(old) => *entry = Arc::clone(old),
                None => is_same = false,
            }
        }
        is_same
    }
}
