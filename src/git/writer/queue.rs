//! The queue of the writer of a repository, and its wait for jobs of the same release.
//!
//! An idle writer takes a job at once. While it pushes, jobs gather, and all of them go into the next push. The queue
//! has a limit: when it is full, callers wait.

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
/// The time for which a job waits for other targets of its release that are on their way: they are planned in
/// milliseconds. One that takes longer goes with the next push.
const LINGER: Duration = Duration::from_millis(150);

/// The base of a push; no commit where there was no branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::git) struct Base(pub(in crate::git) Option<Oid>);

/// Changes that are made together or not at all, mostly one, with a waiting caller.
pub(in crate::git) struct Job {
    pub(in crate::git) changes: Vec<ManifestChange>,
    /// The time of their commits.
    pub(in crate::git) at: Timestamp,
    /// The lease: they may be pushed until its end.
    pub(in crate::git) lease: Lease,
    pub(in crate::git) answer: oneshot::Sender<Result<Vec<PushOutcome>, WriteError>>,
    /// The number of lost races.
    pub(in crate::git) lost: u32,
    /// The base of its first push that was sent and did not get through, or whose outcome is unknown.
    pub(in crate::git) tried_on: Option<Base>,
    /// The announcement, as long as the job is here, that it is on its way: see [`PendingReleases`].
    pub(in crate::git) pending: Option<PendingRelease>,
}

impl Job {
    /// Answers the caller; a caller that has gone needs no answer.
    pub(in crate::git) fn answer(self, outcome: Result<Vec<PushOutcome>, WriteError>) {
        let _gone = self.answer.send(outcome);
    }

    /// Returns true if the caller still waits for the change. A change without a waiting caller is not made: the caller
    /// has lost it to another process, or was stopped.
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
    /// Returns the next jobs, as soon as there is one; `None` when no caller is left.
    pub(in crate::git) async fn next(&mut self) -> Option<Vec<Job>> {
        let mut jobs = vec![self.jobs.recv().await?];
        self.join(&mut jobs);
        let _enough = tokio::time::timeout(LINGER, self.linger(&mut jobs)).await;
        Some(jobs)
    }

    /// Waits until every target of these releases that is on its way is here.
    async fn linger(&mut self, jobs: &mut Vec<Job>) {
        while self.coming.has_more_coming(jobs) {
            self.coming.0.changed.notified().await;
            self.join(jobs);
        }
    }

    /// Adds the jobs that have arrived meanwhile.
    pub(in crate::git) fn join(&mut self, jobs: &mut Vec<Job>) {
        while jobs.len() < LONGEST
            && let Ok(job) = self.jobs.try_recv()
        {
            jobs.push(job);
        }
    }
}

/// The releases that are on their way to the writer, with the number of targets of each. A deployment counts from its
/// plan until its job is answered. Clones share them.
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
        // All apps of a repository come with one release.
        let release = Release { app: None, ..release.clone() };
        *lock(&self.0.counts).entry(release.clone()).or_default() += 1;
        PendingRelease { coming: self.clone(), release }
    }

    /// Wakes the waiting writer: a job has arrived.
    pub(in crate::git) fn notify_arrival(&self) {
        self.0.changed.notify_one();
    }

    /// Returns true if all jobs here are of one release, and more of it is on its way. Jobs of other releases do not
    /// wait for its targets: under load no job waits.
    fn has_more_coming(&self, jobs: &[Job]) -> bool {
        let releases = jobs.iter().map(|job| job.pending.as_ref().map(|way| &way.release));
        let Some(Some(first)) = releases.clone().next() else { return false };
        let is_one_release = releases.into_iter().all(|release| release == Some(first));
        is_one_release
            && lock(&self.0.counts).get(first).is_some_and(|pending| *pending > jobs.len())
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
        self.coming.notify_arrival();
    }
}
