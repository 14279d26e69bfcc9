//! Tells of rollouts: the commit of the release has a status with the whole, and the team's channel a thread.
//!
//! Both are states, not logs: what was overtaken before it could be sent is never sent. The two lanes have the circuit
//! breakers of their families, and do not wait for each other.

mod events; // events for other programs
mod status; // the commit status, pure
mod thread; // what a thread gets next, pure

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::notice::SinkFamily;
use crate::model::rollout_news::RolloutNews;
use crate::notify::message::rollout::{
    NoticeAudience, RolloutMessage, compose_notice, compose_overview, stamp,
};
use crate::notify::message::{NewsKind, SlackMessage, Undeliverable};
use crate::notify::route::{self, Destination};
use crate::notify::slack::address::{Channel, SlackAddress};
use crate::notify::threading::MessageRef;
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::quota::QuotaDecision;
use crate::outbox::relay::{Outbox, Sender};
use crate::outbox::report::{Attempt, CallCount, SENDER, warn_of_loss};
use crate::outbox::report_outcome::{
    FailedAttempt, SentReport, failure_outcome, sent_outcome, word,
};
use crate::outbox::rollouts::status::commit_status;
use crate::outbox::rollouts::thread::{ThreadStep, content_of, next_step, told_after};
use crate::outbox::sinks::SlackSink;
use crate::outbox::sinks::slack::{MessageSearch, SlackDelivery, send, update};
use crate::store::{RolloutReportClaim, RolloutSink, RolloutTold, StateOutcome, StoreError};
use crate::support::lease::{Lease, Moment};
use crate::support::time::saturating_add;

/// The delay after a rollout could not be read.
const UNREADABLE_RETRY: Duration = Duration::from_mins(1);

/// A claimed report with the rollout as it stands now.
struct RolloutReport<'a> {
    claim: &'a RolloutReportClaim,
    news: &'a RolloutNews,
    page: &'a str,
}

impl Outbox {
    /// Returns the time at which the next report to that receiver may be sent, if one waits.
    pub(super) async fn next_rollout(
        &self,
        sink: RolloutSink,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let Some(due) = self.store.next_rollout_report(sink).await? else { return Ok(None) };
        let next_call = self.rollout_sender(sink).map(|sender| sender.breaker().next_call(now));
        Ok(Some(next_call.map_or(due, |next_call| due.max(next_call))))
    }

    /// Sends the report to that receiver that has been due for longest. Returns false where there is none, or it may not
    /// be sent now.
    pub(super) async fn send_rollout(&self, sink: RolloutSink) -> Result<bool, StoreError> {
        let asked_at = self.clock.moment();
        let now = asked_at.wall;
        let due = self.store.next_rollout_report(sink).await?;
        if due.is_none_or(|due| due > now) {
            return Ok(false);
        }
        let sender = self.rollout_sender(sink);
        if let Some(sender) = &sender
            && sender.breaker().try_acquire(1, now) == 0
        {
            return Ok(false);
        }
        let result = self.claim_and_send_rollout(sink, sender.as_deref(), asked_at).await;
        if let Some(sender) = &sender
            && !matches!(result, Ok(true))
        {
            sender.breaker().release(1);
        }
        result
    }

    async fn claim_and_send_rollout(
        &self,
        sink: RolloutSink,
        sender: Option<&Sender>,
        asked_at: Moment,
    ) -> Result<bool, StoreError> {
        let (now, lease) = (asked_at.wall, self.settings.lease);
        let claim = self.store.claim_rollout_report(sink, SENDER, now, lease).await?;
        let Some(claim) = claim else { return Ok(false) };
        let held = Lease::requested_at(asked_at, lease);
        self.send_claimed_rollout(sender, &claim, &held).await?;
        Ok(true)
    }

    /// Returns the sender whose limits hold for that receiver; `None` where it is not configured.
    fn rollout_sender(&self, sink: RolloutSink) -> Option<Arc<Sender>> {
        let (is_configured, family) = match sink {
            RolloutSink::Commit => (self.store.subscriptions().commits, SinkFamily::Forge),
            RolloutSink::Channel => (self.sinks.slack.is_some(), SinkFamily::Slack),
        };
        is_configured.then(|| self.sender(family))
    }

    async fn send_claimed_rollout(
        &self,
        sender: Option<&Sender>,
        claim: &RolloutReportClaim,
        held: &Lease,
    ) -> Result<(), StoreError> {
        let (mut calls, mut told, mut is_open) = (CallCount::default(), claim.told.clone(), false);
        let news = self.deployments.rollout_news(&claim.rollout).await;
        let attempt = match (&news, sender) {
            (Err(error), _) => Attempt::without_call(StateOutcome::Later {
                at: saturating_add(self.clock.now(), UNREADABLE_RETRY),
                unsure: claim.unsure,
                failed: true,
                reason: error.to_string(),
            }),
            (Ok(None), _) => Attempt::with_nothing("the rollout is not on record any more"),
            (Ok(Some(_)), None) => Attempt::with_nothing("the receiver is not configured"),
            (Ok(Some(news)), Some(_)) => {
                let page = self.deployments.rollout_page_of(&claim.rollout);
                let report = RolloutReport { claim, news, page: &page };
                match claim.sink {
                    RolloutSink::Commit => {
                        self.send_rollout_status(&report, held, &mut calls, &mut told).await?
                    }
                    RolloutSink::Channel => {
                        self.send_rollout_message(&report, held, &mut told, &mut is_open).await?
                    }
                }
            }
        };
        let now = self.clock.now();
        if let Some(sender) = sender {
            attempt.observe(sender, now);
        }
        let outcome = attempt.outcome;
        self.metrics.rollout_report(claim.sink.as_str(), word(&outcome));
        if let StateOutcome::Refused(reason) = &outcome {
            let (rollout, sink) = (&claim.rollout, claim.sink.as_str());
            tracing::warn!(%rollout, sink, reason, "rollout not reported");
        }
        let news = news.ok().flatten();
        let calls = news.as_ref().map(|news| (&news.repository, calls.0));
        let record = (&outcome, &told, is_open);
        let lease = self.store.record_rollout_report(claim, record, calls, now).await?;
        warn_of_loss(lease, "a rollout");
        Ok(())
    }

    /// Writes the commit status, unless it is there already.
    async fn send_rollout_status(
        &self,
        report: &RolloutReport<'_>,
        held: &Lease,
        calls: &mut CallCount,
        told: &mut RolloutTold,
    ) -> Result<Attempt, StoreError> {
        let RolloutReport { claim, news, page } = report;
        let status = commit_status(news, (*page).to_owned());
        let content = format!("{:?} {}", status.state, status.description);
        let is_repeat = told.content.as_ref() == Some(&content);
        let verify = claim.unsure || claim.doubted;
        if is_repeat && !verify {
            return Ok(Attempt::with_nothing("it was sent before"));
        }
        if let Some(newer) = self.store.newer_rollout_of_commit(news).await? {
            return Ok(Attempt::with_nothing(&format!(
                "rollout {newer} is a newer one of that name and commit"
            )));
        }
        let now = self.clock.now();
        if let Some(quota) = self.quota(&SinkFamily::Forge, now).await? {
            let is_pending = !news.phase.is_end() && !news.phase.needs_person();
            match quota.decide_rollout(&news.repository, is_pending, now) {
                QuotaDecision::Send => {}
                QuotaDecision::Shed(reason) => return Ok(Attempt::with_nothing(&reason)),
                QuotaDecision::Defer(at) => {
                    let reason = "the code host's hour is used up";
                    return Ok(Attempt::without_call(later(claim, at, reason)));
                }
            }
        }
        let commit = (&news.repository, &news.commit);
        let call = self.write_commit_status(commit, &status, verify, calls);
        let result = self.call_forge(held, call).await;
        let now = self.clock.now();
        Ok(match result {
            Ok(()) => {
                *told = RolloutTold { content: Some(content), at: Some(now), ..told.clone() };
                Attempt::answered(sent_outcome(sent_report(report, is_repeat), now))
            }
            Err(error) => self.fail(failed_attempt(report), error, now),
        })
    }

    /// Sends the next message of the thread.
    async fn send_rollout_message(
        &self,
        report: &RolloutReport<'_>,
        held: &Lease,
        told: &mut RolloutTold,
        is_open: &mut bool,
    ) -> Result<Attempt, StoreError> {
        let RolloutReport { claim, news, page } = report;
        let Some(sink) = &self.sinks.slack else {
            return Ok(Attempt::with_nothing("Slack is not configured"));
        };
        let contact = self.store.last_contact_of(&news.repository, &news.app).await?;
        let team = contact.as_ref().and_then(|contact| contact.slack.as_deref());
        let message = RolloutMessage {
            news,
            page,
            team: team.filter(|_| !sink.slack.is_bot()),
            acts: sink.acts,
            undeliverable: None,
        };
        let overview = compose_overview(message);
        let content = content_of(news, &overview);
        let now = self.clock.now();
        let is_doubted = claim.unsure || claim.doubted;
        // An incoming webhook has no thread, also none that a bot has begun before.
        let reference = told.reference.as_deref().and_then(MessageRef::parse);
        let reference = reference.filter(|_| sink.slack.is_bot());
        let thread = RolloutTold {
            reference: reference.as_ref().map(MessageRef::reference),
            ..told.clone()
        };
        let step = next_step(news, &thread, (&content, is_doubted), now);
        let (places, broadcast) = match step {
            ThreadStep::Nothing(reason) => return Ok(Attempt::with_nothing(reason)),
            ThreadStep::Wait(at) => {
                let reason = "its text has changed a moment ago";
                return Ok(Attempt::without_call(later(claim, at, reason)));
            }
            ThreadStep::Update => (Vec::new(), false),
            ThreadStep::Begin => (first_places(sink, team), true),
            ThreadStep::Notify(audience) => {
                let places = thread_place(reference.as_ref())
                    .map_or_else(|| first_places(sink, team), |one| vec![one]);
                (places, audience == NoticeAudience::Channel)
            }
        };
        if places.is_empty() && step != ThreadStep::Update {
            // What waits for the thread waits no longer.
            *told = told_after(step, news, told, (content, None), now);
            return Ok(Attempt::with_nothing(
                "the WAML names no channel, and notify.slack.default_channel is not set",
            ));
        }
        let notice = news.notice_name();
        let mark = stamp(news, if step == ThreadStep::Begin { "overview" } else { &notice });
        let since = if step == ThreadStep::Begin { claim.begun_at } else { news.since };
        let search = MessageSearch { stamp: &mark, since };
        let delivery = SlackDelivery {
            places: &places,
            broadcast,
            search: claim.unsure.then_some(search),
            is_personal: false,
        };
        let compose = |undeliverable: Option<&Undeliverable>| -> SlackMessage {
            let message = RolloutMessage { undeliverable, ..message };
            if step == ThreadStep::Begin {
                compose_overview(message)
            } else {
                compose_notice(message)
            }
        };
        let call = async {
            match (step, &reference) {
                (ThreadStep::Update, Some(first)) => {
                    // Where it was meant to go stays in it.
                    let undeliverable = first.undeliverable.as_ref();
                    let overview = compose_overview(RolloutMessage { undeliverable, ..message });
                    update(sink, first, &overview, now).await
                }
                _ => send(sink, delivery, &compose, now).await,
            }
        };
        let result = self.run_call(held, call).await.unwrap_or_else(Err);
        let now = self.clock.now();
        Ok(finish_message(report, (step, content), result, (told, is_open), now))
    }
}

/// Decides what follows an attempt at a message of a thread, and what the thread has now.
fn finish_message(
    report: &RolloutReport<'_>,
    (step, content): (ThreadStep, String),
    result: Result<Delivered, DeliveryFailure>,
    (told, is_open): (&mut RolloutTold, &mut bool),
    now: Timestamp,
) -> Attempt {
    let RolloutReport { claim, news, .. } = report;
    match result {
        Ok(Delivered::Yes { reference }) => {
            let is_repeat = told.content.as_ref() == Some(&content);
            *told = told_after(step, news, told, (content, reference), now);
            *is_open = step != ThreadStep::Update;
            Attempt::answered(if step == ThreadStep::Update {
                sent_outcome(sent_report(report, is_repeat), now)
            } else {
                StateOutcome::Sent { check_at: None, doubted: claim.doubted }
            })
        }
        Ok(Delivered::Nothing(reason)) => Attempt::with_nothing(&reason),
        Ok(Delivered::Later { at }) => {
            Attempt::without_call(later(claim, at, "Slack asked to wait"))
        }
        Err(failure) => {
            let (outcome, observation) = failure_outcome(failed_attempt(report), failure, now);
            if let StateOutcome::Refused(_) = &outcome {
                // It would be refused again: what comes after it is sent all the same.
                *told = told_after(step, news, told, (content, None), now);
                *is_open = step != ThreadStep::Update;
            }
            Attempt { outcome, observation: Some(observation) }
        }
    }
}

/// Returns the outcome of an attempt that made no call, and is made at that time.
fn later(claim: &RolloutReportClaim, at: Timestamp, reason: &str) -> StateOutcome {
    StateOutcome::Later { at, unsure: claim.unsure, failed: false, reason: reason.to_owned() }
}

fn sent_report(report: &RolloutReport<'_>, is_repeat: bool) -> SentReport {
    let RolloutReport { claim, news, .. } = report;
    let RolloutReportClaim { unsure, doubted, .. } = **claim;
    SentReport { is_end: news.phase.is_end(), is_repeat, unsure, doubted }
}

fn failed_attempt(report: &RolloutReport<'_>) -> FailedAttempt {
    FailedAttempt {
        failures: report.claim.failures,
        changed_at: report.claim.changed_at,
        // Without it people see a rollout that is over as if it were under way, or none.
        is_outdated: true,
        unsure: report.claim.unsure,
    }
}

/// Lists the places for a message outside a thread, in order.
fn first_places(sink: &SlackSink, team: Option<&str>) -> Vec<Destination> {
    if sink.slack.is_bot() {
        route::places(team, sink.default_channel.as_ref(), NewsKind::Deployed, None)
    } else {
        vec![Destination { address: SlackAddress::Hook, thread: None, undeliverable: None }]
    }
}

/// Returns the place of a reply; `None` where there is no thread.
fn thread_place(first: Option<&MessageRef>) -> Option<Destination> {
    let first = first?;
    Some(Destination {
        address: SlackAddress::Channel(Channel::parse(&first.channel)?),
        thread: Some(first.thread().to_owned()),
        undeliverable: None,
    })
}
