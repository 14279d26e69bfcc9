//! The loops: each does what there is to do, then waits for a signal or for the timer.

use std::future::Future;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controller::job::Did;
use crate::controller::outside::Outside;
use crate::controller::{Controller, Parts};
use crate::store::StoreError;

impl<O: Outside> Controller<O> {
    /// Runs the loops until `stop`; then nothing new begins, running deployments may end within
    /// the grace period or are given back, and the forge is told what is left to tell.
    pub async fn run(&self, stop: CancellationToken) {
        let mut workers = JoinSet::new();
        for number in 1..=self.0.settings.workers.max(1) {
            let (this, stop) = (self.clone(), stop.clone());
            let name = format!("{}:{number}", self.0.settings.name);
            workers.spawn(async move { this.0.work(&name, &stop).await });
        }
        let workers_done = CancellationToken::new();
        let mut others = JoinSet::new();
        let (this, done) = (self.clone(), workers_done.clone());
        others.spawn(async move { this.0.send(&done).await });
        let (this, done) = (self.clone(), workers_done.clone());
        others.spawn(async move { this.0.measure_now_and_then(&done).await });
        workers.join_all().await;
        workers_done.cancel();
        others.join_all().await;
    }

    /// Claims one deployment and works on it to its end; `None` if there was nothing to do.
    pub async fn step(&self) -> Result<Option<Did>, StoreError> {
        self.0.step(&self.0.settings.name, &CancellationToken::new()).await
    }

    /// Sends the statuses that may be sent now; how many that were.
    pub async fn send(&self) -> Result<usize, StoreError> {
        self.0.send_some().await
    }

    /// Brings the gauges up to date.
    pub async fn measure(&self) -> Result<(), StoreError> {
        self.0.measure().await
    }
}

impl<O: Outside> Parts<O> {
    async fn work(&self, name: &str, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.step(name, stop).await {
                Ok(Some(_)) => {}
                Ok(None) => self.wait(&self.wake.workers, stop).await,
                Err(error) => {
                    tracing::error!(%error, worker = name, "a worker could not go on, it waits");
                    self.pause(stop).await;
                }
            }
        }
    }

    async fn step(&self, name: &str, stop: &CancellationToken) -> Result<Option<Did>, StoreError> {
        let claim = self.store.claim(name, self.clock.now(), self.settings.lease).await?;
        let Some(claim) = claim else { return Ok(None) };
        if stop.is_cancelled() {
            // The shutdown came while the claim was made: nothing new begins. Who has lost the
            // claim meanwhile has nothing to give back.
            let _held = self.store.release(&claim, self.clock.now()).await?;
            return Ok(None);
        }
        // One signal wakes one worker; where there was one to do there may be more.
        self.wake.workers.notify_one();
        self.wake.outbox.notify_one();
        self.job(&claim, stop).await.map(Some)
    }

    async fn send(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.send_some().await {
                Ok(0) => self.wait(&self.wake.outbox, stop).await,
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "statuses could not be read or recorded");
                    self.pause(stop).await;
                }
            }
        }
        // What the last deployments had to say; what does not get out now, waits for the next start.
        let last = async { while matches!(self.send_some().await, Ok(1..)) {} };
        let _elapsed = tokio::time::timeout(self.settings.grace, last).await;
    }

    async fn measure_now_and_then(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.measure().await {
                tracing::warn!(%error, "the queue could not be measured");
            }
            self.pause(stop).await;
        }
    }

    async fn measure(&self) -> Result<(), StoreError> {
        let depth = self.store.depth().await?;
        self.metrics.depth(&depth, self.clock.now());
        Ok(())
    }

    async fn wait(&self, signal: &Notify, stop: &CancellationToken) {
        first(signal.notified(), self.pause(stop)).await;
    }

    async fn pause(&self, stop: &CancellationToken) {
        first(tokio::time::sleep(self.settings.poll), stop.cancelled()).await;
    }
}

async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}
