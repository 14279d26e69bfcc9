//! What waits for the writer of a repository, and how long the writer waits for company.
//!
//! A writer that is idle takes a job at once. While it pushes, jobs gather, and all of them go into
//! the next push. The queue has a bound: who comes when it is full, waits before its door.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use git2::Oid;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::git::changes::ManifestChange;
use crate::git::error::WriteError;
use crate::git::writer::outcome::PushOutcome;
use crate::model::release::Release;
use crate::support::lease::Lease;
use crate::support::sync::lock;

/// The most jobs that wait, and so the most commits of one push. Each holds a deployment's files,
/// some tens of kilobytes.
pub(in crate::git) const LONGEST: usize = 1_000;
/// How long a job waits for other targets of its release that are on their way: they are planned in
/// milliseconds. One that takes longer goes with the next push.
const LINGER: Duration = Duration::from_millis(150);

/// What a push builds on; no commit where there was no branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::git) struct Base(pub(in crate::git) Option<Oid>);

/// A change that somebody waits for.
pub(in crate::git) struct Job {
    pub(in crate::git) change: ManifestChange,
    /// The time of its commit.
    pub(in crate::git) at: Timestamp,
    /// Until when it may be pushed.
    pub(in crate::git) lease: Lease,
    pub(in crate::git) answer: oneshot::Sender<Result<PushOutcome, WriteError>>,
    /// How often others were faster.
    pub(in crate::git) lost: u32,
    /// The tip that it was tried on first, where a push of it was sent and did not get through, or
    /// nobody knows whether it did.
    pub(in crate::git) tried_on: Option<Base>,
    /// Says, as long as the job is here, that it is on its way: see [`PendingReleases`].
    pub(in crate::git) pending: Option<PendingRelease>,
}

impl Job {
    /// Answers whoever waits; who has gone needs no answer.
    pub(in crate::git) fn answer(self, with: Result<PushOutcome, WriteError>) {
        let _gone = self.answer.send(with);
    }

    /// Returns whether somebody still waits for the change. A change that nobody waits for is not
    /// made: whoever brought it has lost it to another, or has been told to stop.
    pub(in crate::git) fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }
}

/// The writer's end of the queue.
pub(in crate::git) struct Queue {
    pub(in crate::git) jobs: mpsc::Receiver<Job>,
    pub(in crate::git) coming: PendingReleases,
}

impl Queue {
    /// The next jobs, as soon as there is one; `None` when nobody can bring one any more.
    pub(in crate::git) async fn next(&mut self) -> Option<Vec<Job>> {
        let mut jobs = vec![self.jobs.recv().await?];
        self.join(&mut jobs);
        let _enough = tokio::time::timeout(LINGER, self.linger(&mut jobs)).await;
        Some(jobs)
    }

    /// Until every target of these releases that is on its way is here.
    async fn linger(&mut self, jobs: &mut Vec<Job>) {
        while self.coming.awaits(jobs) {
            self.coming.0.changed.notified().await;
            self.join(jobs);
        }
    }

    /// Adds what has come meanwhile.
    pub(in crate::git) fn join(&mut self, jobs: &mut Vec<Job>) {
        while jobs.len() < LONGEST
            && let Ok(job) = self.jobs.try_recv()
        {
            jobs.push(job);
        }
    }
}

/// Which releases are on their way to the writer, and to how many targets. A deployment is, from the
/// moment it is planned until its job is answered. Clones share it.
#[derive(Clone, Default)]
pub(in crate::git) struct PendingReleases(Arc<Shared>);

#[derive(Default)]
struct Shared {
    counts: Mutex<HashMap<Release, usize>>,
    changed: Notify,
}

/// A deployment is on its way to the writer, until this is dropped.
#[must_use = "dropping it says that the deployment is no longer on its way"]
pub struct PendingRelease {
    coming: PendingReleases,
    release: Release,
}

impl PendingReleases {
    pub(in crate::git) fn announce(&self, release: &Release) -> PendingRelease {
        *lock(&self.0.counts).entry(release.clone()).or_default() += 1;
        PendingRelease { coming: self.clone(), release: release.clone() }
    }

    /// A job has come: whoever waits for it looks again.
    pub(in crate::git) fn arrived(&self) {
        self.0.changed.notify_one();
    }

    /// Returns whether all that is here is one release, and more of it is on its way. Who waits
    /// beside it waits for nobody else's targets: under load nobody ever waits for company.
    fn awaits(&self, jobs: &[Job]) -> bool {
        let releases = jobs.iter().map(|job| job.pending.as_ref().map(|way| &way.release));
        let Some(Some(first)) = releases.clone().next() else { return false };
        let one = releases.into_iter().all(|release| release == Some(first));
        one && lock(&self.0.counts).get(first).is_some_and(|all| *all > jobs.len())
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        let mut counts = lock(&self.coming.0.counts);
        if let Some(count) = counts.get_mut(&self.release) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.release);
            }
        }
        drop(counts);
        self.coming.arrived();
    }
}
