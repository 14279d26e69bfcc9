//! What all open pages share: the grid, and the versions of records. Each is read when the first of them needs it, and
//! not again for some time, however many pages are open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as SyncMutex};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

use crate::deployments::Deployments;
use crate::server::limits::{ServerLimits, StreamLimit};
use crate::server::pages::grid::{GridEntry, GridSnapshot};
use crate::server::problem::{Problem, ProblemKind};
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

/// The version of a record, and the time when it was read.
type VersionSlot = Arc<Mutex<Option<(Instant, String)>>>;

/// What all open pages share.
pub(crate) struct LiveFeeds {
    grid: Mutex<GridFeed>,
    versions: SyncMutex<BTreeMap<String, VersionSlot>>,
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
    pub(crate) fn new(limits: &ServerLimits) -> Self {
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

    /// Returns the version of the record with that key, which was read a moment ago or is read now.
    pub(super) async fn version(
        &self,
        key: String,
        read: impl Future<Output = Result<String, Problem>>,
    ) -> Result<String, Problem> {
        let slot = {
            let mut versions = lock(&self.versions);
            // Those that no stream waits for and that no longer count.
            versions.retain(|_, slot| {
                Arc::strong_count(slot) > 1
                    || slot.try_lock().is_ok_and(|version| is_fresh(version.as_ref()))
            });
            Arc::clone(versions.entry(key).or_default())
        };
        let mut version = slot.lock().await;
        if let Some((_, text)) = version.as_ref().filter(|_| is_fresh(version.as_ref())) {
            return Ok(text.clone());
        }
        let text = read.await?;
        *version = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

fn is_fresh(version: Option<&(Instant, String)>) -> bool {
    version.is_some_and(|(at, _)| at.elapsed() < VERSION_LIFETIME)
}

impl GridSnapshot {
    /// Takes over the entries of the snapshot before that have not changed; returns true if none has.
    fn share_with(&mut self, before: &Self) -> bool {
        let mut is_same = self.has_remarks_of(before) && self.entries.len() == before.entries.len();
        let mut old = before.entries.iter().peekable();
        for entry in &mut self.entries {
            while old.next_if(|old| old.place < entry.place).is_some() {}
            match old.next_if(|old: &&Arc<GridEntry>| ***old == **entry) {
                Some(old) => *entry = Arc::clone(old),
                None => is_same = false,
            }
        }
        is_same
    }
}
