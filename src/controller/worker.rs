//! The loops: each does what there is to do, then waits for a signal or for the timer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controller::job::{Did, Leased};
use crate::controller::outbox::Sender;
use crate::controller::{Controller, Parts, Settings};
use crate::store::{LongestDelays, StoreError};
use crate::support::lease::Lease;
use crate::support::retry::LONGEST_RETRY_AFTER;

/// How many deployments one transaction claims at most. A transaction for each would take longer
/// than the rest of the claim; a long one would let an event wait.
const CLAIMED_AT_ONCE: usize = 4;

/// How often it is asked whether a clock was set back: an app that waits for no reason waits this long.
const TIMES_LOOKED_AT: Duration = Duration::from_mins(1);

impl Controller {
    /// Runs the loops until `stop`; then nothing new begins, running deployments may end within
    /// the grace period or are given back, and the forge is told what is left to tell.
    pub async fn run(&self, stop: CancellationToken) {
        let workers_done = CancellationToken::new();
        let mut others = JoinSet::new();
        for sender in self.0.known_senders(&stop).await {
            let (this, done) = (self.clone(), workers_done.clone());
            others.spawn(async move { this.0.send(&sender, &done).await });
        }
        let (this, done) = (self.clone(), workers_done.clone());
        others.spawn(async move { this.0.measure_now_and_then(&done).await });
        let (this, done) = (self.clone(), workers_done.clone());
        others.spawn(async move { this.keep_times_down(&done).await });
        self.give_out(&stop).await;
        workers_done.cancel();
        others.join_all().await;
    }

    /// Gives out deployments to as many workers as there may be, until `stop`; then waits for those.
    ///
    /// One loop claims for all: workers that claimed for themselves would each have to ask the
    /// database now and then, and stand in each other's way when many are free.
    async fn give_out(&self, stop: &CancellationToken) {
        let places = Arc::new(Semaphore::new(self.0.settings.workers.max(1)));
        let mut workers = JoinSet::new();
        while let Some(free) = free(&places, stop).await {
            while workers.try_join_next().is_some() {}
            match self.0.claim(&self.0.settings.name, free.len(), stop).await {
                Ok(claims) if claims.is_empty() => {
                    self.0.wait(&self.0.deployments.wake.workers, stop).await;
                }
                Ok(claims) => {
                    for (leased, place) in claims.into_iter().zip(free) {
                        let (this, stop) = (self.clone(), stop.clone());
                        workers.spawn(async move {
                            this.0.work_on(&leased, &stop).await;
                            drop(place);
                        });
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "nothing could be claimed, all wait");
                    self.0.pause(stop).await;
                }
            }
        }
        workers.join_all().await;
    }

    /// Claims one deployment and works on it to its end; `None` if there was nothing to do.
    pub async fn step(&self) -> Result<Option<Did>, StoreError> {
        self.0.step(&self.0.settings.name, &CancellationToken::new()).await
    }

    /// Sends what may be sent now, to everybody; how many messages that were.
    pub async fn send(&self) -> Result<usize, StoreError> {
        self.0.send_some().await
    }

    /// When something that waits can be done, if something waits that time alone brings on.
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        let now = self.0.clock.now();
        let waiting = self.0.store.waiting().await?;
        let waits = |name: &str| {
            waiting.iter().any(|one| one.waiting > 0 && one.family.to_string() == name)
        };
        let senders = self.0.senders_beside(&waiting);
        let doors = senders.iter().filter(|sender| waits(&sender.name()));
        let doors = doors.map(|sender| sender.next(now)).filter(|opens| *opens > now);
        Ok(doors.chain(self.0.store.next_due(now).await?).min())
    }

    /// Brings down times that lie further ahead than anything waits, because a clock was set back; how
    /// many those were.
    pub async fn bring_down_times(&self) -> Result<u64, StoreError> {
        let Settings { lease, act, patience, report_patience, .. } = &self.0.settings;
        let told = [report_patience.silence.longest, report_patience.refusal.longest];
        let retry = told.into_iter().fold(patience.longest.max(LONGEST_RETRY_AFTER), Duration::max);
        let longest = LongestDelays { lease: *lease, retry, act: *act };
        self.0.store.bring_down_due_times(longest, self.0.clock.now()).await
    }

    /// At the start, and then again and again: the clock may be set back at any time.
    async fn keep_times_down(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.bring_down_times().await {
                tracing::warn!(%error, "it is not known whether times lie too far ahead");
            }
            first(tokio::time::sleep(TIMES_LOOKED_AT), stop.cancelled()).await;
        }
    }
}

impl Parts {
    /// Everybody who is to be told; asks until the database answers.
    async fn known_senders(&self, stop: &CancellationToken) -> Vec<Arc<Sender>> {
        loop {
            match self.senders().await {
                Ok(senders) => return senders,
                Err(_) if stop.is_cancelled() => return self.senders.all(),
                Err(error) => {
                    tracing::error!(%error, "messages could not be read");
                    self.pause(stop).await;
                }
            }
        }
    }

    async fn work_on(&self, leased: &Leased, stop: &CancellationToken) {
        if let Err(error) = self.job(leased, stop).await {
            let deployment = &leased.claim.deployment.id;
            tracing::error!(%error, %deployment, "a worker could not go on, it waits");
            self.pause(stop).await;
        }
        // The next of its lane can be claimed now.
        self.deployments.wake.workers.notify_one();
    }

    async fn step(&self, name: &str, stop: &CancellationToken) -> Result<Option<Did>, StoreError> {
        match self.claim(name, 1, stop).await?.pop() {
            Some(leased) => self.job(&leased, stop).await.map(Some),
            None => Ok(None),
        }
    }

    async fn claim(
        &self,
        name: &str,
        most: usize,
        stop: &CancellationToken,
    ) -> Result<Vec<Leased>, StoreError> {
        let (asked_at, length) = (self.clock.moment(), self.settings.lease);
        let claims = self.store.claim_some(name, asked_at.wall, length, most).await?;
        if stop.is_cancelled() {
            // The shutdown came while the claims were made: nothing new begins. Who has lost a
            // claim meanwhile has nothing to give back.
            for claim in claims {
                let _held = self.store.release(&claim, self.clock.now()).await?;
            }
            return Ok(Vec::new());
        }
        if !claims.is_empty() {
            self.deployments.wake.outbox();
        }
        let leased = |claim| Leased { claim, lease: Lease::asked_for(asked_at, length) };
        Ok(claims.into_iter().map(leased).collect())
    }

    /// Tells one family until `stop`, and then what is left to tell.
    async fn send(&self, sender: &Sender, stop: &CancellationToken) {
        let mut messages = self.deployments.wake.messages();
        while !stop.is_cancelled() {
            match self.send_to(sender).await {
                Ok(0) => self.wait_for(sender, &mut messages, stop).await,
                Ok(_) => {}
                Err(error) => {
                    let family = sender.name();
                    tracing::error!(%error, family, "messages could not be read or recorded");
                    self.pause(stop).await;
                }
            }
        }
        // What the last deployments had to say; what does not get out now, waits for the next start.
        let last = async { while matches!(self.send_to(sender).await, Ok(1..)) {} };
        let _elapsed = tokio::time::timeout(self.settings.grace, last).await;
    }

    /// Until there may be a message or the timer ends; a door that opens sooner is waited for.
    async fn wait_for(
        &self,
        sender: &Sender,
        messages: &mut watch::Receiver<()>,
        stop: &CancellationToken,
    ) {
        let now = self.clock.now();
        let opens = sender.next(now).duration_since(now).try_into().unwrap_or(Duration::ZERO);
        let pause =
            if opens.is_zero() { self.settings.poll } else { opens.min(self.settings.poll) };
        let pause = first(tokio::time::sleep(pause), stop.cancelled());
        let changed = async {
            // The signal lives as long as the use cases do.
            let _closed = messages.changed().await;
        };
        first(changed, pause).await;
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
        let (depth, now) = (self.store.depth().await?, self.clock.now());
        self.metrics.depth(&depth, now);
        let waiting = self.store.waiting().await?;
        for sender in self.senders_beside(&waiting) {
            let name = sender.name();
            let of = waiting.iter().find(|one| one.family.to_string() == name);
            self.metrics.outbox(&name, of, sender.closed_until(now), now);
        }
        self.metrics.limited(self.deployments.forge.limited(), self.count_forge_hour(now).await?);
        Ok(())
    }

    async fn wait(&self, signal: &Notify, stop: &CancellationToken) {
        first(signal.notified(), self.pause(stop)).await;
    }

    async fn pause(&self, stop: &CancellationToken) {
        first(tokio::time::sleep(self.settings.poll), stop.cancelled()).await;
    }
}

/// Places for more workers, at least one; none once it is time to stop.
async fn free(
    places: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        place = Arc::clone(places).acquire_owned() => place.ok()?,
    };
    let more = std::iter::from_fn(|| Arc::clone(places).try_acquire_owned().ok());
    Some(std::iter::once(first).chain(more.take(CLAIMED_AT_ONCE - 1)).collect())
}

async fn first(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}
