//! The service without its loops, for tests: it answers HTTP, and the test runs the loops' steps
//! one by one and moves the clock. Days take a second.

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::home::DataDirLock;
use crate::app::wiring::Loops;
use crate::app::{App, StartError};
use crate::cluster::watch::schedule::WatchLimits;
use crate::controller::clusters::{ClusterFollower, FollowerSettings};
use crate::controller::sweep::SweepReport;
use crate::controller::unwatched::end_unwatched;
use crate::deployments::{Deployments, removal};
use crate::server;
use crate::store::{Store, StoreError};

/// An [`App`] that answers requests and runs no loop. Dropped, it ends as if it were killed: work
/// under way stays as it is in the database.
#[must_use = "it ends when it is dropped"]
pub struct SteppedApp {
    loops: Loops,
    address: SocketAddr,
    serving: JoinHandle<()>,
    _home: DataDirLock,
}

impl App {
    /// Answers HTTP from now on, and runs no loop.
    ///
    /// # Errors
    /// When the operating system does not tell the listener's address.
    pub fn stepped(self) -> Result<SteppedApp, StartError> {
        let address = self.address()?;
        let Self { loops, router, connections, listener, grace, home, .. } = self;
        let serving = tokio::spawn(async move {
            let stop = CancellationToken::new();
            let _ = server::serve::serve(listener, router, connections, stop, grace).await;
        });
        Ok(SteppedApp { loops, address, serving, _home: home })
    }
}

impl SteppedApp {
    /// Returns the listener's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the database, to inspect it.
    pub fn store(&self) -> &Store {
        &self.loops.deployments.store
    }

    /// Returns the use cases, for those that a test calls itself.
    pub fn deployments(&self) -> &Deployments {
        &self.loops.deployments
    }

    /// Follows the clusters until `stop`, beside the steps of the test.
    pub fn follow_clusters(&self, limits: WatchLimits, stop: &CancellationToken) {
        for follower in &self.loops.followers {
            let settings = FollowerSettings { limits, ..follower.settings.clone() };
            let follower = ClusterFollower { settings, ..ClusterFollower::clone(follower) };
            tokio::spawn(Arc::new(follower).run(stop.clone()));
        }
    }

    /// Runs every step once that can be done now; returns how many were done. At 0 nothing can be
    /// done until the clock moves, or an event arrives.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn run_once(&self) -> Result<usize, StoreError> {
        let mut count = removal::keep_records_once(&self.loops.deployments).await?;
        count += end_unwatched(&self.loops.deployments).await?;
        count += self.advance_rollouts().await?;
        while self.step().await? {
            count += 1;
        }
        count += self.loops.outbox.send().await?;
        count += self.preview().await?;
        Ok(count)
    }

    /// Claims the next deployment, if there is one, and runs one attempt; messages stay.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn step(&self) -> Result<bool, StoreError> {
        Ok(self.loops.controller.step().await?.is_some())
    }

    /// Gives the next rollout that is due one turn; returns false if there was none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn advance_rollout(&self) -> Result<bool, StoreError> {
        Ok(self.loops.rollouts.step().await?.is_some())
    }

    /// Gives each rollout that is due its turn, until all wait; returns the number of turns.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn advance_rollouts(&self) -> Result<usize, StoreError> {
        let mut count = self.loops.rollouts.answer_requests().await?;
        while self.loops.rollouts.step().await?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Computes the previews that are due; returns the number of attempts.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn preview(&self) -> Result<usize, StoreError> {
        let Some(previews) = &self.loops.previews else { return Ok(0) };
        let mut count = 0;
        previews.renew().await?;
        while previews.step().await?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Sweeps once, due or not: all kinds of events, and the repositories of hints. Returns the
    /// report of each run; none where sweeps are off, or may not run now.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn sweep(&self) -> Result<Vec<SweepReport>, StoreError> {
        let Some(sweeps) = &self.loops.sweeps else { return Ok(Vec::new()) };
        let mut reports = Vec::new();
        for kind in sweeps.kinds() {
            reports.extend(sweeps.sweep_now(*kind).await?);
        }
        Ok(reports)
    }

    /// Sweeps the repositories of hints, and no others; returns the report of the run.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn follow_hints(&self) -> Result<Option<SweepReport>, StoreError> {
        match &self.loops.sweeps {
            Some(sweeps) => sweeps.follow_hints().await,
            None => Ok(None),
        }
    }

    /// Returns the time at which waiting work is due, if any work waits for a time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        let Loops { outbox, previews, deployments, .. } = &self.loops;
        let preview = match previews {
            Some(previews) => previews.due().await?,
            None => None,
        };
        let deployment = deployments.store.next_due(deployments.clock.now()).await?;
        Ok([outbox.due().await?, deployment, preview].into_iter().flatten().min())
    }
}

impl Drop for SteppedApp {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
