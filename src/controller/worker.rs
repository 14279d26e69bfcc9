//! The loop that claims deployments and starts attempts; it waits for a signal or for its timer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controller::metrics::WorkerMetrics;
use crate::controller::outcome::AttemptOutcome;
use crate::deployments::Deployments;
use crate::store::{Claim, LongestDelays, Store, StoreError};
use crate::support::clock::Clock;
use crate::support::lease::Lease;
use crate::support::retry::LONGEST_RETRY_AFTER;

/// The most deployments that one transaction claims. A transaction for each would take longer than
/// the rest of the claim; a long one would delay an event.
const CLAIM_BATCH: usize = 8;
/// The pause after a claim that took the last free places. The deployments of a push end together, and a claim for each
/// place that becomes free would cost as much as one for eight.
const GATHER_DELAY: Duration = Duration::from_millis(10);
/// The poll interval of a loop that was not woken: for retries, and other replicas' events.
const POLL: Duration = Duration::from_secs(1);
/// The interval of the check for due times too far ahead, which a clock that was set back leaves:
/// an app waits in vain at most this long.
const TIMES_INTERVAL: Duration = Duration::from_mins(1);

/// The settings of the loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSettings {
    /// The name of this process, for people who look into the database: `host:pid`.
    pub name: String,
    /// The number of deployments that run at once.
    pub workers: usize,
    /// The lease: another worker takes over after this long without a sign of life. Much longer
    /// than the clocks of two replicas can differ.
    pub lease: Duration,
    /// The time for which an act beside deploying has its app to itself.
    pub act: Duration,
    /// The longest duration of an attempt.
    pub longest_job: Duration,
    /// The time that running deployments have to finish after a shutdown was asked for.
    pub grace: Duration,
}

/// The workers of this process.
pub struct Controller {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) deployments: Deployments,
    pub(super) settings: WorkerSettings,
    pub(super) metrics: WorkerMetrics,
    /// The slot of the worker of a deployment whose attempt died. Those run one at a time, so that the
    /// service learns which of them kills the process.
    pub(super) suspect: Semaphore,
}

/// A claim, and the time until which this process may act on it.
pub(super) struct LeasedClaim {
    pub(super) claim: Claim,
    pub(super) lease: Lease,
}

impl Controller {
    /// Creates workers over these use cases; nothing runs before [`Controller::run`].
    pub fn new(deployments: Deployments, settings: WorkerSettings, metrics: WorkerMetrics) -> Self {
        let (store, clock) = (deployments.store.clone(), deployments.clock.clone());
        Self { store, clock, deployments, settings, metrics, suspect: Semaphore::new(1) }
    }

    /// Runs the loops until `stop`; then nothing new begins, and running deployments finish within
    /// the grace period or are released.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        // Separate tasks, which end with this one: a panic in one of them ends no deployment.
        let mut tasks = JoinSet::new();
        let (measurer, corrector) = (Arc::clone(&self), Arc::clone(&self));
        tasks.spawn(async move { measurer.measure().await });
        tasks.spawn(async move { corrector.keep_times_down().await });
        self.give_out(&stop).await;
    }

    /// Gives deployments to free workers until `stop`; then waits for those that run.
    ///
    /// One loop claims for all: workers that claimed for themselves would each have to ask the
    /// database now and then, and stand in each other's way when many are free.
    async fn give_out(self: &Arc<Self>, stop: &CancellationToken) {
        let places = Arc::new(Semaphore::new(self.settings.workers.max(1)));
        let mut workers = JoinSet::new();
        while let Some(permits) = take_permits(&places, stop).await {
            while workers.try_join_next().is_some() {}
            match self.claim(permits.len(), stop).await {
                Ok(claims) if claims.is_empty() => {
                    tokio::select! {
                        () = self.deployments.wake.workers.notified() => {}
                        () = pause(stop) => {}
                    }
                }
                Ok(claims) => {
                    let is_full = claims.len() == permits.len() && permits.len() < CLAIM_BATCH;
                    for (leased_claim, place) in claims.into_iter().zip(permits) {
                        let (controller, stop) = (Arc::clone(self), stop.clone());
                        workers.spawn(async move {
                            controller.work_on(&leased_claim, &stop).await;
                            drop(place);
                        });
                    }
                    if is_full {
                        tokio::time::sleep(GATHER_DELAY).await;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "claim failed, workers wait");
                    pause(stop).await;
                }
            }
        }
        workers.join_all().await;
    }

    /// Claims one deployment and works on it to its end; `None` if there was nothing to do.
    pub async fn step(&self) -> Result<Option<AttemptOutcome>, StoreError> {
        let stop = CancellationToken::new();
        match self.claim(1, &stop).await?.pop() {
            Some(leased_claim) => self.job(&leased_claim, &stop).await.map(Some),
            None => Ok(None),
        }
    }

    /// Corrects due times that lie too far ahead because a clock was set back; returns their
    /// number.
    pub async fn bring_down_times(&self) -> Result<u64, StoreError> {
        let WorkerSettings { lease, act, .. } = self.settings;
        // No retry of the service waits longer than the longest wait that the other side may ask for.
        let longest = LongestDelays { lease, retry: LONGEST_RETRY_AFTER, act };
        self.store.bring_down_due_times(longest, self.clock.now()).await
    }

    /// Corrects due times at the start and at an interval: the clock may be set back at any time.
    async fn keep_times_down(&self) {
        loop {
            if let Err(error) = self.bring_down_times().await {
                tracing::warn!(%error, "due times that lie too far ahead could not be corrected");
            }
            tokio::time::sleep(TIMES_INTERVAL).await;
        }
    }

    async fn measure(&self) {
        loop {
            match self.store.depth().await {
                Ok(depth) => self.metrics.depth(&depth, self.clock.now()),
                Err(error) => tracing::warn!(%error, "queue depth could not be measured"),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn work_on(&self, leased_claim: &LeasedClaim, stop: &CancellationToken) {
        if let Err(error) = self.job(leased_claim, stop).await {
            let deployment = &leased_claim.claim.deployment.id;
            tracing::error!(%error, %deployment, "attempt interrupted by the database, the worker waits");
            pause(stop).await;
        }
        // The next of its lane can be claimed now.
        self.deployments.wake.workers.notify_one();
    }

    async fn claim(
        &self,
        limit: usize,
        stop: &CancellationToken,
    ) -> Result<Vec<LeasedClaim>, StoreError> {
        let (asked_at, length) = (self.clock.moment(), self.settings.lease);
        let claims =
            self.store.claim_some(&self.settings.name, asked_at.wall, length, limit).await?;
        if stop.is_cancelled() {
            // The shutdown came while the claims were made: nothing new begins. A claim
            // that was lost meanwhile needs no release.
            for claim in claims {
                let _held = self.store.release(&claim, self.clock.now()).await?;
            }
            return Ok(Vec::new());
        }
        if !claims.is_empty() {
            self.deployments.wake.outbox();
        }
        let to_leased = |claim| LeasedClaim { claim, lease: Lease::requested_at(asked_at, length) };
        Ok(claims.into_iter().map(to_leased).collect())
    }
}

async fn pause(stop: &CancellationToken) {
    let _elapsed = tokio::time::timeout(POLL, stop.cancelled()).await;
}

/// Takes permits for more workers, at least one; none once it is time to stop.
async fn take_permits(
    places: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        place = Arc::clone(places).acquire_owned() => place.ok()?,
    };
    let more = std::iter::from_fn(|| Arc::clone(places).try_acquire_owned().ok());
    Some(std::iter::once(first).chain(more.take(CLAIM_BATCH - 1)).collect())
}
