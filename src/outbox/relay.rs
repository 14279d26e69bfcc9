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
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::metrics::OutboxMetrics;
use crate::outbox::outcome;
use crate::outbox::quota::{Hourly, HourlyQuota};
use crate::outbox::sinks::Sinks;
use crate::store::{
    DeliveryOutcome, LeaseState, OutboxBacklog, OutboxMessage, RolloutSink, Store, StoreError,
};
use crate::support::clock::Clock;
use crate::support::lease::Lease;
use crate::support::rate_limit::Rate;
use crate::support::sync::lock;

/// The number of messages that are claimed at once; all must be sent within a lease.
const BATCH: u32 = 32;
/// The number of calls at the same time: code hosts limit the open requests.
const AT_ONCE: usize = 8;
/// The poll interval of a sender that was not woken: for retries, and other replicas' messages.
const POLL: Duration = Duration::from_secs(1);
/// The time for which a sender that has found messages waits for more: under load each look at the
/// database costs more than a message.
const GATHER_DELAY: Duration = Duration::from_millis(25);

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
    /// The rate limit of rows to BigQuery.
    pub bigquery: Rate,
    /// The hourly quota of the code host; `None` means no bound.
    pub forge_hourly: Option<Hourly>,
}

/// The outbox relay of this process.
pub struct Outbox {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) deployments: Deployments,
    pub(super) sinks: Sinks,
    pub(super) settings: OutboxSettings,
    pub(super) metrics: OutboxMetrics,
    /// The senders, one for each configured family, and for each other that had messages so far.
    senders: Mutex<BTreeMap<SinkFamily, Arc<Sender>>>,
}

/// Reports that are sent one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReportLane {
    /// Those about preview environments.
    Environments,
    /// Those about rollouts to one receiver.
    Rollouts(RolloutSink),
    /// Events about rollouts to the program of that name.
    RolloutEvents(String),
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
        let (has_opened, until) = {
            let mut breaker = self.breaker();
            (breaker.observe(observation, now), breaker.open_until(now))
        };
        if let Some(until) = until.filter(|_| has_opened) {
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
    is_counted: bool,
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
        for sender in self.wait_for_senders(&stop).await {
            let (outbox, stop) = (Arc::clone(&self), stop.clone());
            senders.spawn(async move { outbox.relay(&sender, &stop).await });
        }
        // Separate tasks, which end with this one: a panic in them stops no message.
        let mut tasks = JoinSet::new();
        for lane in self.report_lanes() {
            let (outbox, ending) = (Arc::clone(&self), stop.clone());
            tasks.spawn(async move { outbox.relay_lane(&lane, &ending).await });
        }
        tasks.spawn(async move {
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
        let mut count = 0;
        for sender in self.senders_for(&self.store.waiting().await?) {
            count += self.send_to(&sender).await?;
        }
        for lane in self.report_lanes() {
            while self.send_report(&lane).await? {
                count += 1;
            }
        }
        Ok(count)
    }

    /// Returns the time at which a family with waiting messages may be called again, if none may be
    /// called now.
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        let (now, backlogs) = (self.clock.now(), self.store.waiting().await?);
        let has_waiting = |family: &SinkFamily| {
            backlogs.iter().any(|backlog| backlog.waiting > 0 && backlog.family == *family)
        };
        let senders = self.senders_for(&backlogs);
        let waiting_senders = senders.iter().filter(|sender| has_waiting(&sender.family));
        let time = waiting_senders.map(|sender| sender.breaker().next_call(now));
        let mut times: Vec<Timestamp> = time.collect();
        for lane in self.report_lanes() {
            times.extend(self.next_report(&lane, now).await?);
        }
        Ok(times.into_iter().filter(|time| *time > now).min())
    }

    /// Returns the lanes of reports: of present states, and of rollouts to each program that gets events.
    fn report_lanes(&self) -> Vec<ReportLane> {
        let events = self.store.subscriptions().events.iter().cloned();
        let states = [
            ReportLane::Environments,
            ReportLane::Rollouts(RolloutSink::Commit),
            ReportLane::Rollouts(RolloutSink::Channel),
        ];
        states.into_iter().chain(events.map(ReportLane::RolloutEvents)).collect()
    }

    /// Returns the sender of a family, whose limits hold for reports of present states too.
    pub(super) fn sender(&self, family: SinkFamily) -> Arc<Sender> {
        let mut senders = lock(&self.senders);
        self.sender_of(&mut senders, family)
    }

    /// Returns the senders of all configured families; retries until the database answers, or `stop`.
    async fn wait_for_senders(&self, stop: &CancellationToken) -> Vec<Arc<Sender>> {
        loop {
            match self.store.waiting().await {
                Ok(backlogs) => return self.senders_for(&backlogs),
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
    fn senders_for(&self, backlogs: &[OutboxBacklog]) -> Vec<Arc<Sender>> {
        let families = backlogs
            .iter()
            .filter(|backlog| backlog.waiting > 0)
            .map(|backlog| backlog.family.clone());
        let mut senders = lock(&self.senders);
        for family in self.store.subscriptions().families().into_iter().chain(families) {
            self.sender_of(&mut senders, family);
        }
        senders.values().cloned().collect()
    }

    fn sender_of(
        &self,
        senders: &mut BTreeMap<SinkFamily, Arc<Sender>>,
        family: SinkFamily,
    ) -> Arc<Sender> {
        let rate = match &family {
            SinkFamily::Forge => self.settings.forge,
            SinkFamily::BigQuery => self.settings.bigquery,
            SinkFamily::Slack | SinkFamily::Events(_) | SinkFamily::ArgoCd(_) => Rate::FREE,
        };
        let sender = senders.entry(family.clone()).or_insert_with(|| {
            Arc::new(Sender { family, breaker: Mutex::new(CircuitBreaker::new(rate)) })
        });
        Arc::clone(sender)
    }

    /// Sends one family's messages until `stop`, and then those that are left.
    async fn relay(&self, sender: &Sender, stop: &CancellationToken) {
        let mut messages = self.deployments.wake.messages();
        while !stop.is_cancelled() {
            match self.send_to(sender).await {
                Ok(0) => self.wait_for(sender, &mut messages, stop).await,
                Ok(_) => tokio::time::sleep(GATHER_DELAY).await,
                Err(error) => {
                    let family = sender.family.to_string();
                    tracing::error!(%error, family, "messages could not be read or recorded");
                    pause(stop).await;
                }
            }
        }
        // The messages of the last deployments; those that are not sent now wait for the next start.
        let remainder = async { while matches!(self.send_to(sender).await, Ok(1..)) {} };
        let _elapsed = tokio::time::timeout(self.settings.grace, remainder).await;
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
            _closed = messages.changed() => tokio::time::sleep(GATHER_DELAY).await,
            () = tokio::time::sleep(if next.is_zero() { POLL } else { next.min(POLL) }) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn measure(&self) -> Result<(), StoreError> {
        let (now, backlogs) = (self.clock.now(), self.store.waiting().await?);
        for sender in self.senders_for(&backlogs) {
            let backlog = backlogs.iter().find(|backlog| backlog.family == sender.family);
            let open_until = sender.breaker().open_until(now);
            self.metrics.family(&sender.family.to_string(), backlog, open_until, now);
        }
        self.metrics.environments_waiting(self.store.environments_waiting().await?);
        self.metrics.rollouts_waiting(self.store.rollout_reports_waiting().await?);
        self.deployments.rollout_metrics.record_open(&self.store.open_rollouts().await?);
        // Health checks read this count, so that they cost no query.
        let quota = self.quota(&SinkFamily::Forge, now).await?;
        let hour_used_up = quota.and_then(|quota| quota.spent_until());
        self.deployments.forge_hour.set(hour_used_up);
        self.metrics.record_limits(self.deployments.forge.rate_limited(), hour_used_up);
        Ok(())
    }

    /// Sends one family's messages that may be sent now; returns how many were processed.
    async fn send_to(&self, sender: &Sender) -> Result<usize, StoreError> {
        let count = self.send_messages(sender).await?;
        // Messages come first: they are worth more than checks of earlier ones.
        let has_checks = sender.family == SinkFamily::Forge;
        Ok(count + if has_checks { self.confirm_some(sender).await? } else { 0 })
    }

    async fn send_messages(&self, sender: &Sender) -> Result<usize, StoreError> {
        let (asked_at, length) = (self.clock.moment(), self.settings.lease);
        let (family, now) = (&sender.family, asked_at.wall);
        let take = |limit| self.store.take_messages(family, now, length, limit);
        let (messages, quota) = self.take(sender, BATCH, now, take).await?;
        let lease = Lease::requested_at(asked_at, length);
        let messages = messages.into_iter();
        let deliveries =
            messages.map(|message| self.process(sender, message, &lease, quota.as_ref()));
        let at_once = if family.in_order() { 1 } else { AT_ONCE };
        let mut deliveries = stream::iter(deliveries).buffer_unordered(at_once);
        let (results, answers) = mpsc::unbounded_channel();
        let sending = async move {
            while let Some(processed) = deliveries.next().await {
                // If the recorder has stopped, its error is returned below.
                let _unrecorded = results.send(processed);
            }
        };
        let ((), result) = tokio::join!(sending, self.record(sender, answers));
        result
    }

    /// Claims as many messages as the breaker allows, with the rest of the hourly quota.
    pub(super) async fn take<T, F: Future<Output = Result<Vec<T>, StoreError>>>(
        &self,
        sender: &Sender,
        limit: u32,
        now: Timestamp,
        take: impl FnOnce(u32) -> F,
    ) -> Result<(Vec<T>, SharedQuota), StoreError> {
        let permits = sender.breaker().try_acquire(limit, now);
        if permits == 0 {
            return Ok((Vec::new(), None));
        }
        let items = take(permits).await;
        let count = items.as_ref().map_or(0, |items| u32::try_from(items.len()).unwrap_or(permits));
        sender.breaker().release(permits.saturating_sub(count));
        let items = items?;
        let quota = if items.is_empty() { None } else { self.quota(&sender.family, now).await? };
        Ok((items, quota.map(Mutex::new)))
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
        let mut count = 0;
        let mut batch = Vec::new();
        while answers.recv_many(&mut batch, BATCH as usize).await > 0 {
            count += batch.iter().filter(|processed| processed.is_counted).count();
            let answers: Vec<_> = batch
                .drain(..)
                .map(|processed: Processed| (processed.message, processed.answer))
                .collect();
            let leases = self.store.record_outcomes(&answers, self.clock.now()).await?;
            for ((message, answer), lease) in answers.iter().zip(leases) {
                self.metrics.report(&sender.family.to_string(), outcome::word(answer));
                if lease == LeaseState::Lost {
                    let OutboxMessage { deployment, sink, seq, .. } = message;
                    tracing::warn!(%deployment, %sink, seq, "another sender took over");
                }
            }
        }
        Ok(count)
    }

    /// Returns the calls and waiting messages of a family with an hourly quota; `None` for other
    /// families.
    pub(super) async fn quota(
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
        if let Some(reason) = outcome::skip_reason(&message, now) {
            sender.breaker().release(1);
            return Processed {
                message,
                answer: DeliveryOutcome::Skipped(reason),
                is_counted: true,
            };
        }
        // The lease must not end during a call, or another sender would send the message as well.
        let is_late = lease.left(self.clock.moment()) < self.settings.lease / 2;
        if is_late || sender.breaker().open_until(now).is_some() {
            sender.breaker().release(1);
            return Processed {
                answer: outcome::release_outcome(&message),
                message,
                is_counted: false,
            };
        }
        let decision = quota.map(|quota| lock(quota).decide(&message, now));
        if let Some(answer) =
            decision.and_then(|decision| outcome::quota_outcome(&message, decision))
        {
            sender.breaker().release(1);
            return Processed { message, answer, is_counted: true };
        }
        if message.begins_there() {
            // The deployment is created at the code host before its first status.
            sender.breaker().spend(1, now);
        }
        let result = self.deliver(&message, lease).await;
        let now = self.clock.now();
        let answer = match result {
            Ok(delivery) => {
                match &delivery {
                    Delivered::Yes { .. } => sender.observe(Observation::Answer, now, ""),
                    // No call was made, so there is no observation of the receiver.
                    Delivered::Nothing(_) | Delivered::Later { .. } => sender.breaker().release(1),
                }
                outcome::delivery_outcome(&message, delivery, now)
            }
            Err(failure) => {
                let reason = failure.problem.message.clone();
                let (answer, observation) =
                    outcome::failure_outcome((&message).into(), failure, &outcome::RETRY, now);
                sender.observe(observation, now, &reason);
                log(&message, &answer, &reason);
                answer
            }
        };
        Processed { message, answer, is_counted: true }
    }

    /// Delivers a message. A process that was suspended during the call records nothing: by now another may have sent
    /// what came after.
    async fn deliver(
        &self,
        message: &OutboxMessage,
        lease: &Lease,
    ) -> Result<Delivered, DeliveryFailure> {
        // Boxed: the clients of all receivers are in it, deeper than the compiler follows from the loops.
        let delivery = self.sinks.deliver(message, self.clock.now()).boxed();
        self.run_call(lease, delivery).await?
    }

    /// Makes a call, with an end even if it panics or takes too long, and not after the lease: by then another sender may
    /// have the claim.
    pub(super) async fn run_call<T>(
        &self,
        lease: &Lease,
        call: impl Future<Output = T>,
    ) -> Result<T, DeliveryFailure> {
        let longest = self.settings.lease / 2;
        let call = AssertUnwindSafe(call).catch_unwind();
        let call = lease.run_while_held(|| self.clock.moment(), call);
        match tokio::time::timeout(longest, call).await {
            Ok(Some(Ok(result))) => Ok(result),
            Ok(Some(Err(_panic))) => Err(DeliveryFailure::panicked()),
            Ok(None) | Err(_) => Err(DeliveryFailure::never_ended(longest)),
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
