//! The writer's loop: it takes waiting jobs, keeps to the push budget, and brings jobs to their end.
//!
//! ```text
//! queue ─► round ─► answered
//!            │ ▲
//!            │ └── lost a race: again at once, with the jobs that have arrived meanwhile
//!            └──── refused: by halves, until the job at fault stands alone
//! ```
//!
//! A refusal hits a whole push, and one commit may be its cause: a hook that looks for secrets must not stop the five
//! hundred others that wait. So the jobs go again in halves. Where three in a row that stand alone are refused, it may
//! be about none of them: the others come again a little later. Each round sorts out the jobs whose lease has ended:
//! see `fence`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::git::error::WriteError;
use crate::git::transport::push_rejection::PushRefusal;
use crate::git::writer::fence::Now;
use crate::git::writer::push_attempt::{PushAttempt, PushAttemptEnd, TRIES, Writer};
use crate::git::writer::push_limiter::PushLimiter;
use crate::git::writer::queue::{Job, Queue};
use crate::support::sync::lock;

/// The number of jobs refused in a row, each by itself, after which the others are not pushed now.
const ALONE: u32 = 3;

/// The counters of a repository's writer since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Moves of the branch.
    pub pushes: u64,
    /// Changes that were answered in them.
    pub changes: u64,
    /// Changes that wait, or are under way.
    pub waiting: usize,
}

/// The same, counted.
#[derive(Debug, Default)]
pub(in crate::git) struct Counters(Mutex<WriterCounts>);

/// Counts a change that waits, until it is dropped.
pub(in crate::git) struct WaitingGuard<'a>(&'a Counters);

impl Counters {
    pub(in crate::git) fn one_waits(&self) -> WaitingGuard<'_> {
        lock(&self.0).waiting += 1;
        WaitingGuard(self)
    }

    pub(in crate::git) fn counts(&self) -> WriterCounts {
        *lock(&self.0)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.0).waiting -= 1;
    }
}

/// The loop, with its writer and limits.
pub(in crate::git) struct PushLoop {
    pub(in crate::git) writer: Arc<tokio::sync::Mutex<Writer>>,
    pub(in crate::git) queue: Queue,
    pub(in crate::git) limiter: PushLimiter,
    pub(in crate::git) now: Now,
    pub(in crate::git) counters: Arc<Counters>,
    /// The jobs that go again before any new one, in this order.
    pub(in crate::git) again: VecDeque<JobGroup>,
    /// The number of jobs refused in a row, each by itself.
    pub(in crate::git) alone: u32,
}

/// Jobs that go together.
pub(in crate::git) struct JobGroup {
    jobs: Vec<Job>,
    /// True if other jobs may join: not while a refusal is narrowed down.
    open: bool,
}

impl PushLoop {
    /// Runs until no caller is left.
    pub(in crate::git) async fn run(mut self) {
        while let Some(group) = self.next().await {
            let JobGroup { mut jobs, open } = group;
            self.wait().await;
            if open {
                self.queue.join(&mut jobs);
            }
            let Some(round) = self.round(jobs).await else { continue };
            if round.pushed {
                self.limiter.spend(self.now.now().wall);
            }
            self.settle(round, open).await;
        }
    }

    async fn next(&mut self) -> Option<JobGroup> {
        match self.again.pop_front() {
            Some(group) => Some(group),
            None => Some(JobGroup { jobs: self.queue.next().await?, open: true }),
        }
    }

    /// Waits until the budget allows a push.
    async fn wait(&mut self) {
        let pause = self.limiter.wait(self.now.now().wall);
        if !pause.is_zero() {
            tracing::debug!(?pause, "push budget used up, changes wait");
            tokio::time::sleep(pause).await;
        }
    }

    /// Runs one round; `None` if it panicked: then the end of its channel tells the callers.
    async fn round(&self, jobs: Vec<Job>) -> Option<PushAttempt> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        let working = tokio::task::spawn_blocking(move || {
            let round = writer.round(jobs);
            // Callers have their answers before the housekeeping, which the next round waits for.
            writer.home.run_maintenance();
            round
        });
        working.await.ok()
    }

    async fn settle(&mut self, PushAttempt { pushed: _, landed, end }: PushAttempt, open: bool) {
        if landed > 0 {
            self.alone = 0;
            let mut counts = lock(&self.counters.0);
            counts.pushes += 1;
            counts.changes += landed as u64;
        }
        match end {
            PushAttemptEnd::Answered(rest) if rest.is_empty() => {}
            PushAttemptEnd::Answered(rest) => self.again.push_front(JobGroup { jobs: rest, open }),
            PushAttemptEnd::Lost(jobs, error) => self.requeue(jobs, &error, open).await,
            PushAttemptEnd::Refused(jobs, refusal) => self.narrow_down(jobs, refusal).await,
        }
    }

    /// Queues all jobs again, except those that lost too many races.
    async fn requeue(&mut self, mut jobs: Vec<Job>, error: &WriteError, open: bool) {
        for job in &mut jobs {
            job.lost += 1;
        }
        let (exhausted, jobs): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.lost >= TRIES);
        answer_all(exhausted, error);
        let Some(failures) = jobs.iter().map(|job| job.lost).max() else { return };
        give_way(failures).await;
        self.again.push_front(JobGroup { jobs, open });
    }

    /// Handles a refusal by halves; a job that stands alone gets the answer. After the third in a row the others are
    /// not pushed now: their callers come again by themselves, and no job gets another's refusal.
    async fn narrow_down(&mut self, mut jobs: Vec<Job>, refusal: PushRefusal) {
        if jobs.len() > 1 {
            let rest = jobs.split_off(jobs.len() / 2);
            self.again.push_front(JobGroup { jobs: rest, open: false });
            self.again.push_front(JobGroup { jobs, open: false });
            return;
        }
        self.alone += 1;
        let (refused_error, not_asked_error) = {
            let writer = self.writer.lock().await;
            (writer.refused_error(refusal.clone()), writer.not_asked_error(refusal))
        };
        answer_all(jobs, &refused_error);
        if self.alone >= ALONE {
            answer_all(self.again.drain(..).flat_map(|group| group.jobs), &not_asked_error);
        }
        if self.again.is_empty() {
            self.alone = 0;
        }
    }
}

fn answer_all(jobs: impl IntoIterator<Item = Job>, error: &WriteError) {
    for job in jobs {
        job.answer(Err(error.clone()));
    }
}

/// Waits after a lost race: not at first, then longer, so that many writers do not meet for ever.
async fn give_way(failures: u32) {
    let millis = u64::from(failures.saturating_sub(1)).pow(2) * 5;
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
