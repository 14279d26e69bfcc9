//! The relay loops. Messages are sent in order per deployment and sink, for several deployments at
//! a time (one after the other where a family is in order); each family of sinks has a sender of
//! its own, so that one that is down or slow delays no other.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::deployments::Deployments;
use crate::model::notice::SinkFamily;
use crate::outbox::circuit_breaker::{CircuitBreaker, Observation};
use crate::outbox::delivery::{Delivered, NotDelivered};
use crate::outbox::metrics::OutboxMetrics;
use crate::outbox::outcome;
use crate::outbox::quota::{Hourly, HourlyQuota};
use crate::outbox::sinks::Sinks;
use crate::store::{DeliveryOutcome, LeaseState, OutboxBacklog, OutboxMessage, Store, StoreError};
use crate::support::clock::Clock;
use crate::support::lease::Lease;
use crate::support::rate_limit::Rate;
use crate::support::sync::lock;

/// The number of messages that are claimed at once; all must be sent within a lease.
const TAKEN: u32 = 32;
/// The number of calls at the same time: code hosts limit the open requests.
const AT_ONCE: usize = 8;
/// The poll interval of a sender that was not woken: for retries, and other replicas' messages.
const POLL: Duration = Duration::from_secs(1);
/// The time for which a sender that has found messages waits for more: under load each look at the
/// database costs more than a message.
const GATHERED: Duration = Duration::from_millis(25);

/// The settings of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxSettings {
    /// The lease of a claimed message. Much longer than the clocks of two replicas can differ.
    pub lease: Duration,
    /// The time that messages have after a shutdown was asked for.
    pub grace: Duration,
    /// The rate limit of calls to the code host. Slack's channels have limits of their own, and
    /// webhooks none.
    pub forge: Rate,
    /// The hourly quota of the code host; `None` means no bound.
    pub forge_hourly: Option<Hourly>,
}

/// The outbox relay of this process.
pub struct Outbox {
    pub(super) store: Store,
    pub(super) clock: Clock,
    deployments: Deployments,
    pub(super) sinks: Sinks,
    pub(super) settings: OutboxSettings,
    metrics: OutboxMetrics,
    /// The senders, one for each configured family, and for each other that had messages so far.
    senders: Mutex<BTreeMap<SinkFamily, Arc<Sender>>>,
}

/// The sender of one family of sinks.
#[derive(Debug)]
pub(super) struct Sender {
    family: SinkFamily,
    breaker: Mutex<CircuitBreaker>,
}

impl Sender {
    pub(super) fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        lock(&self.breaker)
    }

    /// Records the result of one call; a change of the breaker is logged once.
    pub(super) fn observe(&self, observation: Observation, now: Timestamp, reason: &str) {
        let (opened, until) = {
            let mut breaker = self.breaker();
            (breaker.observe(observation, now), breaker.open_until(now))
        };
        if let Some(until) = until.filter(|_| opened) {
            let family = &self.family;
            tracing::warn!(%family, %until, reason, "circuit breaker opened");
        }
    }
}

/// A message and its outcome.
struct Processed {
    message: OutboxMessage,
    answer: DeliveryOutcome,
    /// False where it was released unchanged.
    tried: bool,
}

/// The rest of the hourly quota, shared by messages that are sent at the same time.
type SharedQuota = Option<Mutex<HourlyQuota>>;

impl Outbox {
    /// Creates an outbox with these sinks; nothing runs before [`Outbox::run`].
    pub fn new(sinks: Sinks, settings: OutboxSettings, metrics: OutboxMetrics) -> Self {
        let deployments = sinks.deployments.clone();
        let (store, clock) = (deployments.store.clone(), deployments.clock.clone());
        Self { store, clock, deployments, sinks, settings, metrics, senders: Mutex::default() }
    }

    /// Sends messages until `stop`, and then those that are left within the grace period.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut senders = JoinSet::new();
        for sender in self.known_senders(&stop).await {
            let (this, stop) = (Arc::clone(&self), stop.clone());
            senders.spawn(async move { this.relay(&sender, &stop).await });
        }
        // A separate task, which ends with this one: a panic in it stops no message.
        let mut beside = JoinSet::new();
        beside.spawn(async move {
            while !stop.is_cancelled() {
                if let Err(error) = self.measure().await {
                    tracing::warn!(%error, "outbox depth could not be measured");
                }
                pause(&stop).await;
            }
        });
        senders.join_all().await;
    }

    /// Sends all messages that may be sent now; returns their number.
    pub async fn send(&self) -> Result<usize, StoreError> {
        let mut sent = 0;
        for sender in self.senders_beside(&self.store.waiting().await?) {
            sent += self.send_to(&sender).await?;
        }
        Ok(sent)
    }

    /// Returns the time at which a family with waiting messages may be called again, if none may be
    /// called now.
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        let (now, waiting) = (self.clock.now(), self.store.waiting().await?);
        let waits = |family: &SinkFamily| {
            waiting.iter().any(|one| one.waiting > 0 && one.family == *family)
        };
        let senders = self.senders_beside(&waiting);
        let waited_for = senders.iter().filter(|sender| waits(&sender.family));
        let opens = waited_for.map(|sender| sender.breaker().next_call(now));
        Ok(opens.filter(|opens| *opens > now).min())
    }

    /// Returns the senders of all configured families; retries until the database answers, or `stop`.
    async fn known_senders(&self, stop: &CancellationToken) -> Vec<Arc<Sender>> {
        loop {
            match self.store.waiting().await {
                Ok(waiting) => return self.senders_beside(&waiting),
                Err(_) if stop.is_cancelled() => return Vec::new(),
                Err(error) => {
                    tracing::error!(%error, "messages could not be read");
                    pause(stop).await;
                }
            }
        }
    }

    /// Returns a sender for every configured family, and for those that still have messages
    /// although they are not configured any more: those messages need an outcome, too.
    fn senders_beside(&self, waiting: &[OutboxBacklog]) -> Vec<Arc<Sender>> {
        let waiting = waiting.iter().filter(|one| one.waiting > 0).map(|one| one.family.clone());
        let mut senders = lock(&self.senders);
        for family in self.store.subscriptions().families().into_iter().chain(waiting) {
            let rate = if family == SinkFamily::Forge { self.settings.forge } else { Rate::FREE };
            senders.entry(family.clone()).or_insert_with(|| {
                Arc::new(Sender { family, breaker: Mutex::new(CircuitBreaker::new(rate)) })
            });
        }
        senders.values().cloned().collect()
    }

    /// Sends one family's messages until `stop`, and then those that are left.
    async fn relay(&self, sender: &Sender, stop: &CancellationToken) {
        let mut messages = self.deployments.wake.messages();
        while !stop.is_cancelled() {
            match self.send_to(sender).await {
                Ok(0) => self.wait_for(sender, &mut messages, stop).await,
                Ok(_) => tokio::time::sleep(GATHERED).await,
                Err(error) => {
                    let family = sender.family.to_string();
                    tracing::error!(%error, family, "messages could not be read or recorded");
                    pause(stop).await;
                }
            }
        }
        // The messages of the last deployments; those that are not sent now wait for the next start.
        let last = async { while matches!(self.send_to(sender).await, Ok(1..)) {} };
        let _elapsed = tokio::time::timeout(self.settings.grace, last).await;
    }

    /// Waits until there may be a message or the timer ends, or until the breaker closes.
    async fn wait_for(
        &self,
        sender: &Sender,
        messages: &mut watch::Receiver<()>,
        stop: &CancellationToken,
    ) {
        let now = self.clock.now();
        let next = sender.breaker().next_call(now).duration_since(now);
        let next = Duration::try_from(next).unwrap_or(Duration::ZERO);
        tokio::select! {
            // The signal lives as long as the use cases do.
            _closed = messages.changed() => tokio::time::sleep(GATHERED).await,
            () = tokio::time::sleep(if next.is_zero() { POLL } else { next.min(POLL) }) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn measure(&self) -> Result<(), StoreError> {
        let (now, waiting) = (self.clock.now(), self.store.waiting().await?);
        for sender in self.senders_beside(&waiting) {
            let of = waiting.iter().find(|one| one.family == sender.family);
            let open_until = sender.breaker().open_until(now);
            self.metrics.family(&sender.family.to_string(), of, open_until, now);
        }
        // Health checks read this count, so that they cost no query.
        let quota = self.quota(&SinkFamily::Forge, now).await?;
        let hour_used_up = quota.and_then(|quota| quota.spent_until());
        self.deployments.forge_hour.set(hour_used_up);
        self.metrics.limited(self.deployments.forge.limited(), hour_used_up);
        Ok(())
    }

    /// Sends one family's messages that may be sent now; returns how many were processed.
    async fn send_to(&self, sender: &Sender) -> Result<usize, StoreError> {
        let sent = self.send_messages(sender).await?;
        // Messages come first: they are worth more than checks of earlier ones.
        let looks = sender.family == SinkFamily::Forge;
        Ok(sent + if looks { self.confirm_some(sender).await? } else { 0 })
    }

    async fn send_messages(&self, sender: &Sender) -> Result<usize, StoreError> {
        let (asked_at, length) = (self.clock.moment(), self.settings.lease);
        let (family, now) = (&sender.family, asked_at.wall);
        let take = |most| self.store.take_messages(family, now, length, most);
        let (taken, quota) = self.take(sender, TAKEN, now, take).await?;
        let lease = Lease::asked_for(asked_at, length);
        let messages = taken.into_iter();
        let processing =
            messages.map(|message| self.process(sender, message, &lease, quota.as_ref()));
        let at_once = if family.in_order() { 1 } else { AT_ONCE };
        let mut processing = stream::iter(processing).buffer_unordered(at_once);
        let (done, answers) = mpsc::unbounded_channel();
        let sending = async move {
            while let Some(processed) = processing.next().await {
                // If the recorder has stopped, its error is returned below.
                let _unrecorded = done.send(processed);
            }
        };
        let ((), recorded) = tokio::join!(sending, self.record(sender, answers));
        recorded
    }

    /// Claims as many messages as the breaker allows, with the rest of the hourly quota.
    pub(super) async fn take<T, F: Future<Output = Result<Vec<T>, StoreError>>>(
        &self,
        sender: &Sender,
        most: u32,
        now: Timestamp,
        take: impl FnOnce(u32) -> F,
    ) -> Result<(Vec<T>, SharedQuota), StoreError> {
        let acquired = sender.breaker().try_acquire(most, now);
        if acquired == 0 {
            return Ok((Vec::new(), None));
        }
        let taken = take(acquired).await;
        let came = taken.as_ref().map_or(0, |taken| u32::try_from(taken.len()).unwrap_or(acquired));
        sender.breaker().release(acquired.saturating_sub(came));
        let taken = taken?;
        let quota = if taken.is_empty() { None } else { self.quota(&sender.family, now).await? };
        Ok((taken, quota.map(Mutex::new)))
    }

    /// Records outcomes as they come, several at once where they come together; returns how many
    /// were tried.
    ///
    /// It runs beside the calls, not between them: a call may hold a connection to the database,
    /// and the record would wait for it for ever.
    async fn record(
        &self,
        sender: &Sender,
        mut answers: mpsc::UnboundedReceiver<Processed>,
    ) -> Result<usize, StoreError> {
        let mut tried = 0;
        let mut together = Vec::new();
        while answers.recv_many(&mut together, TAKEN as usize).await > 0 {
            tried += together.iter().filter(|one| one.tried).count();
            let answers: Vec<_> =
                together.drain(..).map(|one: Processed| (one.message, one.answer)).collect();
            let held = self.store.record_outcomes(&answers, self.clock.now()).await?;
            for ((message, answer), held) in answers.iter().zip(held) {
                self.metrics.report(&sender.family.to_string(), outcome::word(answer));
                if held == LeaseState::Lost {
                    let OutboxMessage { deployment, sink, seq, .. } = message;
                    tracing::warn!(%deployment, %sink, seq, "another sender took over");
                }
            }
        }
        Ok(tried)
    }

    /// Returns the calls and waiting messages of a family with an hourly quota; `None` for other
    /// families.
    async fn quota(
        &self,
        family: &SinkFamily,
        now: Timestamp,
    ) -> Result<Option<HourlyQuota>, StoreError> {
        let hourly = self.settings.forge_hourly.filter(|_| *family == SinkFamily::Forge);
        let Some(hourly) = hourly.filter(|_| self.deployments.forge.names_limits()) else {
            return Ok(None);
        };
        Ok(Some(HourlyQuota::new(hourly, &self.store.forge_calls(now).await?, now)))
    }

    async fn process(
        &self,
        sender: &Sender,
        message: OutboxMessage,
        lease: &Lease,
        quota: Option<&Mutex<HourlyQuota>>,
    ) -> Processed {
        let now = self.clock.now();
        if let Some(reason) = outcome::overtaken(&message, now) {
            sender.breaker().release(1);
            return Processed { message, answer: DeliveryOutcome::Skipped(reason), tried: true };
        }
        // The lease must not end during a call, or another sender would send the message as well.
        let late = lease.left(self.clock.moment()) < self.settings.lease / 2;
        if late || sender.breaker().open_until(now).is_some() {
            sender.breaker().release(1);
            return Processed { answer: outcome::untried(&message), message, tried: false };
        }
        let decision = quota.map(|quota| lock(quota).decide(&message, now));
        if let Some(answer) = decision.and_then(|one| outcome::not_granted(&message, one)) {
            sender.breaker().release(1);
            return Processed { message, answer, tried: true };
        }
        if message.begins_there() {
            // The deployment is created at the code host before its first status.
            sender.breaker().spend(1, now);
        }
        let delivered = self.deliver(&message, lease).await;
        let now = self.clock.now();
        let answer = match delivered {
            Ok(delivered) => {
                match &delivered {
                    Delivered::Yes { .. } => sender.observe(Observation::Answer, now, ""),
                    // No call was made, so there is no observation of the receiver.
                    Delivered::Nothing(_) | Delivered::Later { .. } => sender.breaker().release(1),
                }
                outcome::delivered(&message, delivered, now)
            }
            Err(trouble) => {
                let reason = trouble.problem.message.clone();
                let (answer, observation) =
                    outcome::not_delivered(&message, trouble, &outcome::RETRY, now);
                sender.observe(observation, now, &reason);
                log(&message, &answer, &reason);
                answer
            }
        };
        Processed { message, answer, tried: true }
    }

    /// Makes the call, with an end even if it panics or takes too long. A process that was
    /// suspended during the call records nothing: by now another may have sent what came after.
    async fn deliver(
        &self,
        message: &OutboxMessage,
        lease: &Lease,
    ) -> Result<Delivered, NotDelivered> {
        let longest = self.settings.lease / 2;
        let delivering = self.sinks.deliver(message, self.clock.now());
        let delivering = AssertUnwindSafe(delivering).catch_unwind();
        let delivering = lease.while_it_lasts(|| self.clock.moment(), delivering);
        match tokio::time::timeout(longest, delivering).await {
            Ok(Some(Ok(delivered))) => delivered,
            Ok(Some(Err(_panic))) => Err(NotDelivered::panicked()),
            Ok(None) | Err(_) => Err(NotDelivered::never_ended(longest)),
        }
    }
}

async fn pause(stop: &CancellationToken) {
    let _elapsed = tokio::time::timeout(POLL, stop.cancelled()).await;
}

fn log(message: &OutboxMessage, answer: &DeliveryOutcome, reason: &str) {
    let OutboxMessage { deployment, sink, status, attempts: attempt, .. } = message;
    let state = status.state.as_str();
    match answer {
        DeliveryOutcome::Sent { .. } | DeliveryOutcome::Skipped(_) => {}
        // An open breaker has been logged, once for all messages that wait behind it.
        DeliveryOutcome::Again { at, failed: false, .. } => {
            tracing::debug!(%deployment, %sink, state, attempt, reason, %at, "message waits");
        }
        DeliveryOutcome::Again { at, failed: true, .. } => {
            tracing::warn!(%deployment, %sink, state, attempt, reason, %at, "message not delivered, retry scheduled");
        }
        DeliveryOutcome::Parked(_) => {
            tracing::error!(%deployment, %sink, state, attempt, reason, "message parked");
        }
    }
}
