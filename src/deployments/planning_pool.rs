//! Places for what is computed: as many as there are processors, each with an end.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::deployments::outcome::DeployError;

/// Planning is milliseconds of work, and what a template or a policy may compute is limited: a part that
/// takes this long is not waited for.
const LONGEST_PLAN: Duration = Duration::from_secs(30);

/// Nor is a place, where all are taken by what nobody waits for any more.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Who may compute now: as many at once as there are processors. More would not be done sooner, and
/// would take the processors from those who answer events, and memory.
#[derive(Clone)]
pub(crate) struct PlanningPool {
    all: Arc<Semaphore>,
    dry_runs: Arc<Semaphore>,
    longest_wait: Duration,
    /// Where these are for one dry run: its place, which each part of it keeps.
    dry_run: Option<Arc<OwnedSemaphorePermit>>,
}

/// So many dry runs are made at once: each may ask the code host, registries and the repository, and
/// deployments come first.
const DRY_RUNS: usize = 4;

impl PlanningPool {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::with_limits(processors, LONGEST_WAIT)
    }

    fn with_limits(processors: usize, longest_wait: Duration) -> Self {
        let places = |n| Arc::new(Semaphore::new(n));
        let (all, dry_runs) = (places(processors), places(DRY_RUNS));
        Self { all, dry_runs, longest_wait, dry_run: None }
    }

    /// The planning for one dry run, if there is a place for it now: nobody waits for it. The place is
    /// free again when they are dropped and nothing that they began computes any more.
    pub(super) fn for_dry_run(&self) -> Option<Self> {
        let place = Arc::clone(&self.dry_runs).try_acquire_owned().ok()?;
        Some(Self { dry_run: Some(Arc::new(place)), ..self.clone() })
    }

    /// Runs a part of planning on a thread of its own. It cannot be interrupted: its place stays taken
    /// until it ends, also when it is not waited for that long, or the caller has gone.
    pub(super) async fn run_blocking<T: Send + 'static>(
        &self,
        part: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DeployError> {
        let place = Arc::clone(&self.all).acquire_owned();
        let Ok(place) = tokio::time::timeout(self.longest_wait, place).await else {
            return Err(DeployError::retry(format!(
                "nothing could be planned for {} s: as many plans as there are processors are computed, \
                 and none of them ends",
                self.longest_wait.as_secs()
            )));
        };
        let places = (place, self.dry_run.clone());
        let running = tokio::task::spawn_blocking(move || {
            let _places = places;
            part()
        });
        match tokio::time::timeout(LONGEST_PLAN, running).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_fault)) => Err(DeployError::give_up(
                "planning failed by a fault in the-deployer itself; its log has the details",
            )),
            Err(_elapsed) => Err(DeployError::give_up(format!(
                "planning took longer than {} s: a template does not end, or the machine is busy; \
                 tell the operator",
                LONGEST_PLAN.as_secs()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::deployments::outcome::Remedy;

    /// Begins a part that ends when the sender is dropped, and is not waited for.
    async fn begin_and_leave(planning: &PlanningPool) -> mpsc::Sender<()> {
        let (end, ended) = mpsc::channel::<()>();
        let (begin, mut started) = tokio::sync::mpsc::channel::<()>(1);
        let part = planning.run_blocking(move || {
            drop(begin);
            let _ = ended.recv();
        });
        tokio::select! {
            _ = part => panic!("it ended"),
            _ = started.recv() => {}
        }
        end
    }

    #[tokio::test]
    async fn a_place_stays_taken_until_the_part_has_ended() {
        let planning = PlanningPool::with_limits(1, LONGEST_WAIT);
        let end = begin_and_leave(&planning).await;
        let ran = Arc::new(AtomicBool::new(false));
        let run = Arc::clone(&ran);
        let mut second = Box::pin(planning.run_blocking(move || run.store(true, Ordering::SeqCst)));
        let waited = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
        assert!(waited.is_err() && !ran.load(Ordering::SeqCst), "two computed in one place");
        drop(end);
        second.await.unwrap();
        assert!(ran.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_dry_runs_place_stays_taken_as_long() {
        let planning = PlanningPool::with_limits(DRY_RUNS + 1, LONGEST_WAIT);
        let mut ends = Vec::new();
        for _ in 0..DRY_RUNS {
            ends.push(begin_and_leave(&planning.for_dry_run().unwrap()).await);
        }
        assert!(planning.for_dry_run().is_none(), "they compute, though nobody waits");
        planning.run_blocking(|| ()).await.unwrap();
        drop(ends);
        while planning.for_dry_run().is_none() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_place_is_not_waited_for_for_ever() {
        let planning = PlanningPool::with_limits(1, Duration::from_millis(10));
        let end = begin_and_leave(&planning).await;
        let problem = planning.run_blocking(|| ()).await.unwrap_err();
        assert_eq!(problem.remedy, Remedy::Retry { after: None });
        drop(end);
    }
}
