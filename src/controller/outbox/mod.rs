//! People and programs are told what the store has for them: in order per deployment and sink,
//! deployments side by side (but one after the other where a family is in order), and each family of sinks by a sender of its own, so that one that is
//! down or slow holds up no other.
//!
//! ```text
//! store ─ take ─▶ overtaken? ─▶ door open? ─▶ Deployments::tell ─▶ answer ─▶ store
//!                  skipped       given back                     └─▶ door: closed, or open
//! ```
//!
//! How often each is tried is decided in `answer.rs`, whether anything is tried at all in `door.rs`,
//! how fast in `pace.rs`, and what is worth a call where there are so many an hour in `quota.rs`.

mod quota; // which messages an hour's calls are spent on, pure
pub mod answer; // what becomes of a message, pure
mod confirm; // ends are looked at again
mod door; // open or closed, pure
#[cfg(test)]
mod fixture; // a message, for tests
pub mod rates; // how fast, pure
mod senders; // one for each family

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::controller::Parts;
use crate::controller::outbox::door::Heard;
use crate::controller::outbox::quota::HourlyQuota;
use crate::deployments::outcome::{Delivered, NotDelivered, Problem, Remedy};
use crate::model::notice::Family;
use crate::store::{Answer, Held, Message, StoreError, Waiting};
use crate::support::lease::Lease;

pub(super) use crate::controller::outbox::senders::{Sender, Senders};

/// How many messages are taken at once; they must all be sent within a lease.
const TAKEN: u32 = 8;

/// How many are on their way at once: forges limit how many requests one may have open.
const AT_ONCE: usize = 8;

impl Parts {
    /// Sends what may be sent now, to everybody; how many that were.
    pub(super) async fn send_some(&self) -> Result<usize, StoreError> {
        let mut sent = 0;
        for sender in self.senders().await? {
            sent += self.send_to(&sender).await?;
        }
        Ok(sent)
    }

    /// A sender for everybody who is to be told, and for those who still have messages although
    /// they are configured no more: somebody must say so.
    pub(super) async fn senders(&self) -> Result<Vec<Arc<Sender>>, StoreError> {
        Ok(self.senders_beside(&self.store.waiting().await?))
    }

    /// The same, where it is known what waits.
    pub(super) fn senders_beside(&self, waiting: &[Waiting]) -> Vec<Arc<Sender>> {
        let waiting = waiting.iter().filter(|one| one.waiting > 0).map(|one| one.family.clone());
        for family in self.store.audience().families().into_iter().chain(waiting) {
            self.senders.of(&family, &self.settings.rates);
        }
        self.senders.all()
    }

    /// Sends what may be sent now to one family; how many were dealt with.
    pub(super) async fn send_to(&self, sender: &Sender) -> Result<usize, StoreError> {
        let sent = self.send_messages(sender).await?;
        // Only now: what is told is worth more than a second look at what was told.
        let looks = sender.family == Family::Forge;
        let confirmed = if looks { self.confirm_some(sender).await? } else { 0 };
        Ok(sent + confirmed)
    }

    async fn send_messages(&self, sender: &Sender) -> Result<usize, StoreError> {
        let asked_at = self.clock.moment();
        let now = asked_at.wall;
        let admitted = sender.admit(TAKEN, now);
        if admitted == 0 {
            return Ok(0);
        }
        let length = self.settings.lease;
        let taken = self.store.take_messages(&sender.family, now, length, admitted).await;
        let lease = Lease::asked_for(asked_at, length);
        let came = taken.as_ref().map_or(0, |taken| u32::try_from(taken.len()).unwrap_or(admitted));
        sender.turned_back(admitted.saturating_sub(came));
        let taken = taken?;
        let quota = if taken.is_empty() { None } else { self.quota(&sender.family, now).await? };
        let quota = quota.map(Mutex::new);
        let messages = taken.into_iter();
        let told = messages.map(|message| self.tell(sender, message, &lease, quota.as_ref()));
        let told = stream::iter(told);
        let at_once = if sender.family.in_order() { 1 } else { AT_ONCE };
        let mut told = told.buffer_unordered(at_once);
        let (done, answers) = mpsc::unbounded_channel();
        let telling = async move {
            while let Some(dealt) = told.next().await {
                // If nobody records any more, that is told below.
                let _unrecorded = done.send(dealt);
            }
        };
        let ((), dealt_with) = tokio::join!(telling, self.record_told(sender, answers));
        dealt_with
    }

    /// Records what has been told at once, and together what was told together; how many were tried.
    ///
    /// Beside the telling, not in its pauses: who tells may hold a connection to the database, and
    /// recording would wait for it for ever.
    async fn record_told(
        &self,
        sender: &Sender,
        mut answers: mpsc::UnboundedReceiver<Dealt>,
    ) -> Result<usize, StoreError> {
        let mut dealt_with = 0;
        let mut together = Vec::new();
        while answers.recv_many(&mut together, AT_ONCE).await > 0 {
            dealt_with += together.iter().filter(|told| told.tried).count();
            self.record_answers(sender, std::mem::take(&mut together)).await?;
        }
        Ok(dealt_with)
    }

    /// What a family that takes so many calls an hour was told and is to be told; none of others.
    async fn quota(
        &self,
        family: &Family,
        now: Timestamp,
    ) -> Result<Option<HourlyQuota>, StoreError> {
        let hourly = self.settings.rates.forge_hourly.filter(|_| *family == Family::Forge);
        let Some(hourly) = hourly.filter(|_| self.deployments.forge.names_limits()) else {
            return Ok(None);
        };
        let calls = self.store.forge_calls(now).await?;
        Ok(Some(HourlyQuota::new(hourly, &calls, now)))
    }

    /// Counts what the forge was told within the hour, and remembers until when that hour is used up: whoever
    /// asks how the service is gets the count, and costs none.
    pub(in crate::controller) async fn count_forge_hour(
        &self,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let quota = self.quota(&Family::Forge, now).await?;
        let until = quota.and_then(|quota| quota.spent_until());
        self.deployments.forge_hour.set(until);
        Ok(until)
    }

    async fn tell(
        &self,
        sender: &Sender,
        message: Message,
        lease: &Lease,
        quota: Option<&Mutex<HourlyQuota>>,
    ) -> Dealt {
        let now = self.clock.now();
        if let Some(reason) = answer::overtaken(&message, now) {
            sender.turned_back(1);
            return Dealt { message, answer: Answer::Skipped(reason), tried: true };
        }
        // The lease must not end while one is on its way, or another would tell it as well.
        let late = lease.left(self.clock.moment()) < self.settings.lease / 2;
        if late || sender.is_closed(now) {
            sender.turned_back(1);
            return Dealt { answer: answer::untried(&message), message, tried: false };
        }
        if let Some(quota) = quota {
            let decision =
                quota.lock().unwrap_or_else(PoisonError::into_inner).decide(&message, now);
            if let Some(answer) = answer::not_granted(&message, decision) {
                sender.turned_back(1);
                return Dealt { message, answer, tried: true };
            }
        }
        if message.begins_there() {
            // The forge is asked to make a deployment before it is told of it.
            sender.spends_more(1, now);
        }
        let answer = match self.told(&message, lease).await {
            Ok(delivered) => self.delivered(sender, &message, delivered),
            Err(trouble) => self.not_delivered(sender, &message, trouble),
        };
        Dealt { message, answer, tried: true }
    }

    /// The call itself, with an end even if it panics or never ends. A process that stood still in
    /// the middle of it says no more: by now another may have told what came after.
    async fn told(&self, message: &Message, lease: &Lease) -> Result<Delivered, NotDelivered> {
        let longest = self.settings.lease / 2;
        let telling = self.deployments.tell(message, self.clock.now());
        let telling = AssertUnwindSafe(telling).catch_unwind();
        let telling = lease.while_it_lasts(|| self.clock.moment(), telling);
        match tokio::time::timeout(longest, telling).await {
            Ok(Some(Ok(told))) => told,
            Ok(Some(Err(_panic))) => Err(panicked()),
            Ok(None) | Err(_) => Err(never_ended(longest)),
        }
    }

    fn delivered(&self, sender: &Sender, message: &Message, delivered: Delivered) -> Answer {
        let now = self.clock.now();
        match &delivered {
            Delivered::Yes { .. } => sender.heard(Heard::Answer, now, ""),
            // Nobody was asked, so nobody knows how the other side is.
            Delivered::Nothing(_) | Delivered::Later { .. } => sender.turned_back(1),
        }
        answer::delivered(message, delivered, now)
    }

    fn not_delivered(&self, sender: &Sender, message: &Message, trouble: NotDelivered) -> Answer {
        let (patiences, now) = (&self.settings.report_patience, self.clock.now());
        let reason = trouble.problem.message.clone();
        let (answer, heard) = answer::not_delivered(message, trouble, patiences, now);
        sender.heard(heard, now, &reason);
        log(message, &answer, &reason);
        answer
    }

    async fn record_answers(&self, sender: &Sender, told: Vec<Dealt>) -> Result<(), StoreError> {
        let answers: Vec<_> = told.into_iter().map(|told| (told.message, told.answer)).collect();
        let held = self.store.answered(&answers, self.clock.now()).await?;
        for ((message, answer), held) in answers.iter().zip(held) {
            self.metrics.report(&sender.name(), outcome(answer));
            if held == Held::Lost {
                let Message { deployment, sink, seq, .. } = message;
                tracing::warn!(%deployment, %sink, seq, "another sender took over");
            }
        }
        Ok(())
    }
}

/// A message and what became of it.
struct Dealt {
    message: Message,
    answer: Answer,
    /// Not so where it was given back as it was.
    tried: bool,
}

fn outcome(answer: &Answer) -> &'static str {
    match answer {
        Answer::Sent { .. } => "sent",
        Answer::Skipped(_) => "skipped",
        Answer::Again { failed: true, .. } => "put_off",
        Answer::Again { failed: false, .. } => "waits",
        Answer::Parked(_) => "parked",
    }
}

fn log(message: &Message, answer: &Answer, reason: &str) {
    let Message { deployment, sink, status, .. } = message;
    let state = status.state.as_str();
    match answer {
        Answer::Sent { .. } | Answer::Skipped(_) => {}
        // That the door is closed has been logged, once for all that wait behind it.
        Answer::Again { at, failed: false, .. } => {
            tracing::debug!(%deployment, %sink, state, reason, %at, "not told yet");
        }
        Answer::Again { at, failed: true, .. } => {
            tracing::warn!(%deployment, %sink, state, reason, %at, "not told, tried again");
        }
        Answer::Parked(_) => {
            tracing::error!(%deployment, %sink, state, reason, "not told, given up");
        }
    }
}

/// The panic's own words are in the log; they are for developers.
fn panicked() -> NotDelivered {
    let message = "a fault in the-deployer itself; its log has the details".to_owned();
    NotDelivered { problem: Problem { remedy: Remedy::GiveUp, message }, unsure: true }
}

fn never_ended(longest: Duration) -> NotDelivered {
    let message = format!("telling took longer than {} s and was stopped", longest.as_secs());
    NotDelivered {
        problem: Problem { remedy: Remedy::Retry { after: None }, message },
        unsure: true,
    }
}
