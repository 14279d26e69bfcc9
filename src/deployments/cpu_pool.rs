//! Limits computations to one a processor, each with a bound on its time.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::deployments::outcome::DeployError;
use crate::support::sync::lock;

/// The longest duration of a computation. Planning takes milliseconds, and what a template or a
/// policy may compute is limited.
const LONGEST_PLAN: Duration = Duration::from_secs(30);

/// The longest wait for a free place: abandoned computations may hold all of them.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The places for computations: one a processor. More would not finish sooner, and would take
/// memory and the processors from tasks that answer events.
///
/// Each place is a thread that plans and does nothing else: what one plan has freed, the next one uses again while it
/// is in the processor's cache. Spread over the runtime's threads, plans would take new memory on each.
#[derive(Clone)]
pub(crate) struct CpuPool {
    computations: Arc<Semaphore>,
    /// Gives work to the threads, which end with the last clone.
    threads: mpsc::Sender<Computation>,
    dry_runs: Arc<Semaphore>,
    longest_wait: Duration,
    /// The place of a dry run, shared by its parts, where this is the pool of one.
    dry_run: Option<Arc<OwnedSemaphorePermit>>,
}

type Computation = Box<dyn FnOnce() + Send>;

/// The number of dry runs at the same time: each may query the code host, registries and the
/// repository, and deployments come first.
const DRY_RUNS: usize = 4;

impl CpuPool {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::with_limits(processors, LONGEST_WAIT)
    }

    fn with_limits(processors: usize, longest_wait: Duration) -> Self {
        let places = |n| Arc::new(Semaphore::new(n));
        let (computations, dry_runs) = (places(processors), places(DRY_RUNS));
        let threads = start_threads(processors);
        Self { computations, threads, dry_runs, longest_wait, dry_run: None }
    }

    /// Returns the pool for one dry run if a place is free now, without waiting. The place is
    /// free again when it is dropped and every computation that it began has ended.
    pub(super) fn for_dry_run(&self) -> Option<Self> {
        let place = Arc::clone(&self.dry_runs).try_acquire_owned().ok()?;
        Some(Self { dry_run: Some(Arc::new(place)), ..self.clone() })
    }

    /// Runs a part of planning on a thread of its own. It cannot be interrupted: its place stays
    /// taken until it ends, also after its time is over or the caller has gone.
    pub(super) async fn run_blocking<T: Send + 'static>(
        &self,
        part: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DeployError> {
        let place = Arc::clone(&self.computations).acquire_owned();
        let Ok(place) = tokio::time::timeout(self.longest_wait, place).await else {
            return Err(DeployError::retry(format!(
                "for {} s no processor was free to plan: other plans are being computed and none of them \
                 ends; tell the operator",
                self.longest_wait.as_secs()
            )));
        };
        let places = (place, self.dry_run.clone());
        let (sender, result) = oneshot::channel();
        let computation = move || {
            let value = part();
            drop(places);
            // The caller may have gone.
            drop(sender.send(value));
        };
        // There is a thread for each place; if this one fails, the sender of the result is dropped.
        drop(self.threads.send(Box::new(computation)));
        match tokio::time::timeout(LONGEST_PLAN, result).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_fault)) => Err(DeployError::give_up(
                "planning failed by a fault in the-deployer itself; its log has the details",
            )),
            Err(_elapsed) => Err(DeployError::give_up(format!(
                "planning took longer than {} s: a template does not end, or the machine is overloaded; \
                 tell the operator",
                LONGEST_PLAN.as_secs()
            ))),
        }
    }
}

/// Starts threads that compute what they are given, until the sender is dropped.
fn start_threads(count: usize) -> mpsc::Sender<Computation> {
    let (sender, receiver) = mpsc::channel::<Computation>();
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..count {
        let receiver = Arc::clone(&receiver);
        let compute = move || {
            loop {
                let next = lock(&receiver).recv();
                let Ok(computation) = next else { return };
                // A panic's words are in the log, and its caller is told.
                drop(catch_unwind(AssertUnwindSafe(computation)));
            }
        };
        let thread = std::thread::Builder::new().name("planner".to_owned()).spawn(compute);
        thread.expect("the machine has room for a thread a processor");
    }
    sender
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::deployments::outcome::Remedy;

    /// Begins a part that ends when the sender is dropped, and is not waited for.
    async fn begin_and_leave(cpu_pool: &CpuPool) -> mpsc::Sender<()> {
        let (end, end_signal) = mpsc::channel::<()>();
        let (begin, mut started) = tokio::sync::mpsc::channel::<()>(1);
        let part = cpu_pool.run_blocking(move || {
            drop(begin);
            let _ = end_signal.recv();
        });
        tokio::select! {
            _ = part => panic!("it ended"),
            _ = started.recv() => {}
        }
        end
    }

    #[tokio::test]
    async fn a_place_stays_taken_until_the_part_has_ended() {
        let cpu_pool = CpuPool::with_limits(1, LONGEST_WAIT);
        let end = begin_and_leave(&cpu_pool).await;
        let has_run = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&has_run);
        let mut second =
            Box::pin(cpu_pool.run_blocking(move || flag.store(true, Ordering::SeqCst)));
        let result = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
        assert!(result.is_err() && !has_run.load(Ordering::SeqCst), "two computed in one place");
        drop(end);
        second.await.unwrap();
        assert!(has_run.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_dry_runs_place_stays_taken_as_long() {
        let cpu_pool = CpuPool::with_limits(DRY_RUNS + 1, LONGEST_WAIT);
        let mut ends = Vec::new();
        for _ in 0..DRY_RUNS {
            ends.push(begin_and_leave(&cpu_pool.for_dry_run().unwrap()).await);
        }
        assert!(cpu_pool.for_dry_run().is_none(), "they compute, though nobody waits");
        cpu_pool.run_blocking(|| ()).await.unwrap();
        drop(ends);
        while cpu_pool.for_dry_run().is_none() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_panic_is_told_and_takes_no_place() {
        let cpu_pool = CpuPool::with_limits(1, LONGEST_WAIT);
        for _ in 0..3 {
            let problem = cpu_pool.run_blocking(|| -> () { panic!("for a test") }).await;
            assert_eq!(problem.unwrap_err().remedy, Remedy::GiveUp);
        }
        assert_eq!(cpu_pool.run_blocking(|| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_place_is_not_waited_for_for_ever() {
        let cpu_pool = CpuPool::with_limits(1, Duration::from_millis(10));
        let end = begin_and_leave(&cpu_pool).await;
        let problem = cpu_pool.run_blocking(|| ()).await.unwrap_err();
        assert_eq!(problem.remedy, Remedy::Retry { after: None });
        drop(end);
    }
}
