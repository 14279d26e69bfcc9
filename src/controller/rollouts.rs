//! The loop of rollouts: it gives each rollout that is due its turn. It is woken by people and by deployments that end,
//! and looks by itself now and again. Several replicas may run it: a turn has a lease, and a change of a rollout names
//! the version that it is based on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::deployments::Deployments;
use crate::deployments::rollouts::turn::TurnOutcome;
use crate::store::{RolloutClaim, StoreError};
use crate::support::telemetry::export_zeros;

/// The lease of a turn: another replica takes the rollout over after this.
const LEASE: Duration = Duration::from_mins(2);
/// The longest duration of a turn.
const LONGEST_TURN: Duration = Duration::from_secs(90);
/// The most turns at the same time.
const MAX_TURNS: usize = 8;
/// The most requests that are worked on between two looks at the rollouts.
const MAX_REQUESTS: usize = 100;
/// The poll interval: for rollouts of other replicas, and for those whose time has come.
const POLL: Duration = Duration::from_secs(1);

/// The pause after a change of the database, which may be the first of many.
const PAUSE: Duration = Duration::from_millis(50);

/// The metrics of the loop. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct RolloutMetrics {
    turns: Family<TurnLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabel {
    outcome: &'static str,
}

impl TurnLabel {
    fn of(outcome: TurnOutcome) -> Self {
        Self { outcome: outcome.as_str() }
    }
}

impl RolloutMetrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { turns } = new.clone();
        export_zeros(&turns, TurnOutcome::ALL.map(TurnLabel::of));
        registry.register("rollout_turns", "Turns of rollouts, by how they ended", turns);
        new
    }
}

/// The loop of rollouts.
pub struct RolloutLoop {
    deployments: Deployments,
    metrics: RolloutMetrics,
}

impl RolloutLoop {
    /// Creates a loop over these use cases; nothing runs before [`RolloutLoop::run`].
    pub fn new(deployments: Deployments, metrics: RolloutMetrics) -> Self {
        Self { deployments, metrics }
    }

    /// Gives rollouts their turns until `stop`, and starts those that the code host asks for; turns under way may finish.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::join!(self.give_turns(&stop), self.keep_answering(&stop));
    }

    async fn keep_answering(&self, stop: &CancellationToken) {
        let mut changes = self.deployments.store.changes();
        while !stop.is_cancelled() {
            // A fault of one request ends this look; it is put off by its lease.
            match AssertUnwindSafe(Box::pin(self.answer_requests())).catch_unwind().await {
                Ok(Ok(_count)) => {}
                Ok(Err(error)) => tracing::error!(%error, "requests for rollouts wait"),
                Err(_panic) => {}
            }
            rest(&mut changes, stop).await;
        }
    }

    async fn give_turns(self: &Arc<Self>, stop: &CancellationToken) {
        let places = Arc::new(Semaphore::new(MAX_TURNS));
        let mut turns = JoinSet::new();
        let mut changes = self.deployments.store.changes();
        let mut wakes = self.deployments.store.rollout_wakes();
        loop {
            while turns.try_join_next().is_some() {}
            let place = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            let Ok(place) = place else { break };
            match self.claim().await {
                Ok(Some(claim)) => {
                    let this = Arc::clone(self);
                    turns.spawn(async move {
                        this.take_turn(&claim).await;
                        drop(place);
                        // The next turn of the same rollout may be due.
                        this.deployments.wake.rollouts.notify_one();
                    });
                }
                Ok(None) => self.rest((&mut wakes, &mut changes), stop).await,
                Err(error) => {
                    tracing::error!(%error, "rollouts cannot be read, they wait");
                    self.rest((&mut wakes, &mut changes), stop).await;
                }
            }
        }
        turns.join_all().await;
    }

    /// Works on the requests of the code host that are due; returns their number.
    pub async fn answer_requests(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        while count < MAX_REQUESTS && self.deployments.answer_rollout_request().await? {
            count += 1;
        }
        Ok(count)
    }

    /// Gives the next rollout that is due its turn; `None` if there was none.
    pub async fn step(&self) -> Result<Option<TurnOutcome>, StoreError> {
        let Some(claim) = self.claim().await? else { return Ok(None) };
        Ok(Some(self.take_turn(&claim).await))
    }

    async fn claim(&self) -> Result<Option<RolloutClaim>, StoreError> {
        self.deployments.store.claim_rollout(self.deployments.clock.now(), LEASE).await
    }

    /// Waits until a person has acted or a deployment of a rollout has ended, or for another change of the database.
    async fn rest(
        &self,
        (wakes, changes): (&mut watch::Receiver<()>, &mut watch::Receiver<()>),
        stop: &CancellationToken,
    ) {
        tokio::select! {
            () = self.deployments.wake.rollouts.notified() => {}
            _ = wakes.changed() => {}
            () = rest(changes, stop) => {}
        }
    }

    /// Runs one turn; a fault of it, or a panic, leaves the rollout to the next turn, and stops no other.
    async fn take_turn(&self, claim: &RolloutClaim) -> TurnOutcome {
        let span =
            tracing::info_span!("rollout", rollout = %claim.rollout.id, app = %claim.rollout.app);
        let turn =
            AssertUnwindSafe(Box::pin(self.deployments.advance_rollout(claim))).catch_unwind();
        let outcome = match tokio::time::timeout(LONGEST_TURN, turn.instrument(span)).await {
            Ok(Ok(Ok(outcome))) => outcome,
            Ok(Ok(Err(error))) => {
                tracing::error!(rollout = %claim.rollout.id, %error, "turn of a rollout failed");
                TurnOutcome::Failed
            }
            // The panic's own words are in the log.
            Ok(Err(_panic)) => TurnOutcome::Failed,
            Err(_elapsed) => {
                tracing::error!(rollout = %claim.rollout.id, "turn of a rollout took too long");
                TurnOutcome::Failed
            }
        };
        if outcome == TurnOutcome::Failed {
            self.deployments.put_off_rollout(claim).await;
        }
        self.metrics.turns.get_or_create(&TurnLabel::of(outcome)).inc();
        outcome
    }
}

/// Waits for a change of the database, and for those that follow it at once.
async fn rest(changes: &mut watch::Receiver<()>, stop: &CancellationToken) {
    let settled = async {
        let _closed = changes.changed().await;
        tokio::time::sleep(PAUSE).await;
    };
    tokio::select! {
        () = settled => {}
        () = tokio::time::sleep(POLL) => {}
        () = stop.cancelled() => {}
    }
}
