//! Sends messages to Slack: to the team's channel, and to the person who started the deployment.
//!
//! ```text
//! threading: what to send? ─▶ route: where? ─▶ find_sent, if it may have arrived already ─▶ post, once
//! ```
//!
//! A message in doubt is posted again only after a search has not found it. Where the service cannot search,
//! the message is parked: a message that is missing can be looked up on the deployment's page, and one
//! that comes twice cannot be taken back.

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::outcome::{DeployError, Remedy};
use crate::model::deployment::{Contact, Deployment, ForgeState, State};
use crate::model::event::Recipient;
use crate::model::id::DeployId;
use crate::model::notice::Sink;
use crate::model::release::Release;
use crate::notify::message::{
    self, LastGoodRelease, Links, MessageAudience, News, NewsKind, SlackPerson, Stamp,
    Undeliverable,
};
use crate::notify::route::{self, Destination};
use crate::notify::slack::address::SlackAddress;
use crate::notify::slack::error::SlackError;
use crate::notify::slack::{MessageForm, MessageUpdate, Post, Posted};
use crate::notify::threading::{
    self, Action, ChannelPrefs, DeliveryState, EarlierEnd, MessageRef, RolloutThread,
};
use crate::outbox::delivery::{Delivered, DeliveryFailure};
use crate::outbox::sinks::{Sinks, SlackSink, not_configured};
use crate::store::{Filter, Notification, OutboxMessage, RolloutTold, StoreError};
use crate::support::time::saturating_add;

/// The most failures in a row of a lane that are counted; of longer rows the newest count.
const LONGEST_ROW: u32 = 50;
/// The time for the search for a message, over all pages and places, so that the lease of the
/// message outlasts it.
const LONGEST_LOOK: Duration = Duration::from_secs(6);
/// The time for the lookup of a profile, so that it does not delay the messages to others.
const LONGEST_PROFILE: Duration = Duration::from_secs(2);
/// The time for the lookup of a person: together with what comes after it, less than half a lease.
const LONGEST_PERSON: Duration = Duration::from_secs(5);
/// The number of newest deployments among which a good release is searched for.
const SEARCH_LIMIT: u32 = 50;
/// The delay before a search: Slack may apply a message that it did not answer for, but not much
/// later than this.
const SEARCH_DELAY: Duration = Duration::from_secs(30);

/// The reason why a deployment of all apps has no message.
const MESSAGES_OF_APPS: &str = "the deployments of its apps have messages of their own";

pub(super) type SlackOutcome = Result<Delivered, DeliveryFailure>;

impl Sinks {
    /// Sends a message to the team's channel.
    pub(super) async fn channel(&self, message: &OutboxMessage, now: Timestamp) -> SlackOutcome {
        let Some(sink) = &self.slack else { return Ok(not_configured(message)) };
        let is_canary = message.status.state == ForgeState::InProgress;
        if is_canary && message.followed && !message.unsure {
            return Ok(nothing_to_send("a newer message about the canary replaced it"));
        }
        let deployment = self.deployment(message).await?;
        if deployment.all_apps {
            return Ok(nothing_to_send(MESSAGES_OF_APPS));
        }
        let waml = self.deployments.waml_path(deployment.request.release.app.as_ref());
        let contact = self.contact(&deployment).await?;
        let successes = contact.as_ref().is_some_and(|contact| contact.successes);
        let canary_messages = self.told_canary(sink, message).await?;
        let canaries = if is_canary { self.canaries(&deployment).await? } else { Vec::new() };
        let mut action = if is_canary {
            threading::for_canary(
                canaries.iter().map(|canary| canary.failed_checks).sum(),
                successes && deployment.rollout.is_none(),
                &canary_messages,
            )
        } else {
            let prefs = ChannelPrefs { successes, rollback: deployment.rollback.is_some() };
            let earlier = self.deployments.store.earlier_messages(message, LONGEST_ROW).await?;
            let earlier: Vec<_> = earlier.iter().map(earlier_message).collect();
            let state = message.status.state;
            threading::after_canary(
                threading::for_channel(state, prefs, &earlier),
                state,
                &canary_messages,
            )
        };
        if deployment.rollout.is_some()
            && let Some(told) = self.deployments.store.rollout_thread(&deployment.id).await?
        {
            action = threading::within_rollout(action, rollout_thread(&told));
        }
        if !is_canary && let Some(posted) = threading::unanswered_canary(&action, &canary_messages)
        {
            let outcome =
                self.update_canary(sink, message, (&deployment, Vec::new()), posted, now).await;
            // A change can be made twice: it puts no message in doubt that was not posted yet.
            let outcome =
                outcome.map_err(|failure| DeliveryFailure { unsure: message.unsure, ..failure });
            let is_done = matches!(outcome, Ok(Delivered::Yes { .. }));
            if !is_done || matches!(action, Action::Skip(_)) {
                return outcome;
            }
        }
        let (kind, thread, broadcast) = match action {
            Action::Skip(why) => return Ok(nothing_to_send(why)),
            Action::Defer => return Ok(defer(message, now)),
            Action::Update(posted) => {
                let canaries = (&deployment, canaries);
                return self.update_canary(sink, message, canaries, &posted, now).await;
            }
            Action::Post { kind, thread, broadcast } => (kind, thread, broadcast),
        };
        let team_channel = contact.as_ref().and_then(|contact| contact.slack.as_deref());
        let places = if sink.slack.is_bot() {
            route::places(team_channel, sink.default_channel.as_ref(), kind, thread.as_ref())
        } else {
            vec![Destination { address: SlackAddress::Hook, thread: None, undeliverable: None }]
        };
        if places.is_empty() {
            return Ok(nothing_to_send(
                "the WAML names no channel, and notify.slack.default_channel is not set",
            ));
        }
        let person = match self.find_person(sink, &deployment, now).await {
            Ok(person) => person,
            Err(error) => return error_outcome(&error, now),
        };
        let reader = MessageAudience::Team(team_channel.filter(|_| !sink.slack.is_bot()));
        let news = self.news(message, &deployment, (kind, reader, person), &waml).await?;
        let news = News { canaries, ..news };
        send_news(sink, message, &places, broadcast, news, now).await
    }

    /// Sends a message to the person who started the deployment.
    pub(super) async fn person(&self, message: &OutboxMessage, now: Timestamp) -> SlackOutcome {
        let Some(sink) = &self.slack else { return Ok(not_configured(message)) };
        let kind = match threading::for_person(message.status.state) {
            Action::Post { kind, .. } => kind,
            Action::Skip(why) => return Ok(nothing_to_send(why)),
            Action::Defer | Action::Update(_) => return Ok(defer(message, now)),
        };
        if !sink.slack.is_bot() {
            return Ok(nothing_to_send("an incoming webhook cannot write to people"));
        }
        if !sink.direct_messages {
            return Ok(nothing_to_send("notify.slack.direct_messages is off"));
        }
        let deployment = self.deployment(message).await?;
        if deployment.all_apps {
            return Ok(nothing_to_send(MESSAGES_OF_APPS));
        }
        let waml = self.deployments.waml_path(deployment.request.release.app.as_ref());
        let person = match self.find_person(sink, &deployment, now).await {
            Ok(person) => person,
            Err(error) => return error_outcome(&error, now),
        };
        let Some(user) = person.slack.clone() else {
            return Ok(Delivered::Nothing(format!("{} was not found on Slack", person.name)));
        };
        let news = (kind, MessageAudience::Person, person);
        let news = self.news(message, &deployment, news, &waml).await?;
        let place =
            Destination { address: SlackAddress::Person(user), thread: None, undeliverable: None };
        send_news(sink, message, &[place], true, news, now).await
    }

    async fn deployment(&self, message: &OutboxMessage) -> Result<Deployment, DeliveryFailure> {
        let record = self.deployments.store.deployment(&message.deployment).await?;
        record.ok_or_else(|| {
            let id = &message.deployment;
            DeployError::reject(format!("there is no deployment {id} any more")).into()
        })
    }

    /// Returns the contact in the deployment's WAML; where that could not be read, that of the last
    /// one that could.
    async fn contact(&self, deployment: &Deployment) -> Result<Option<Contact>, StoreError> {
        if deployment.contact.is_some() {
            return Ok(deployment.contact.clone());
        }
        let Release { repository, app, .. } = &deployment.request.release;
        self.deployments.store.last_contact(repository, app.as_ref()).await
    }

    pub(super) async fn news<'a>(
        &'a self,
        message: &OutboxMessage,
        deployment: &'a Deployment,
        (kind, reader, person): (NewsKind, MessageAudience<'a>, SlackPerson),
        waml: &'a str,
    ) -> Result<News<'a>, StoreError> {
        let clusters = self.deployments.clusters_of(&deployment.request.target);
        let target = clusters.first().and_then(|cluster| self.deployments.clusters.find(cluster));
        Ok(News {
            deployment,
            kind,
            reader,
            person,
            links: Links {
                pages: &self.deployments.external_url,
                forge: self.deployments.forge_url.as_deref(),
                waml,
            },
            last_good: self.last_good(deployment).await?,
            undo: self.undo(deployment).await?,
            canaries: Vec::new(),
            acts: self.slack.as_ref().is_some_and(|sink| sink.acts),
            is_fleet: self.deployments.fleets.is_fleet(&deployment.request.target),
            // The actors that a hold stops there.
            holds: target.map(|target| target.policies.holds).unwrap_or_default(),
            undeliverable: None,
            stamp: stamp(message),
        })
    }

    /// Returns the newest release of the lane that arrived before, and from which no rollback went
    /// back since. A rollback makes that release live: there is none to offer beside it.
    async fn last_good(
        &self,
        deployment: &Deployment,
    ) -> Result<Option<LastGoodRelease>, StoreError> {
        if deployment.rollback.is_some() && deployment.state == State::Succeeded {
            return Ok(None);
        }
        let request = &deployment.request;
        let filter = Filter {
            state: Some(State::Succeeded),
            target: Some(request.target.clone()),
            repository: Some(request.release.repository.clone()),
            app: deployment.app.clone(),
            ..Filter::default()
        };
        let page = self.deployments.store.deployments(&filter, None, SEARCH_LIMIT).await?;
        Ok(good_before(&page.deployments, &deployment.id))
    }

    /// Returns the rollback by which the service takes back what failed in its cluster, unless that has failed itself.
    async fn undo(&self, deployment: &Deployment) -> Result<Option<DeployId>, StoreError> {
        if deployment.state != State::Failed || deployment.pushed.is_none() {
            return Ok(None);
        }
        let undo = self.deployments.store.undo_of(&deployment.id).await?;
        let has_failed = |undo: &Deployment| undo.finished_at.is_some() && undo.pushed.is_none();
        Ok(undo.filter(|undo| !has_failed(undo)).map(|undo| undo.id))
    }

    pub(super) async fn find_person(
        &self,
        sink: &SlackSink,
        deployment: &Deployment,
        now: Timestamp,
    ) -> Result<SlackPerson, SlackError> {
        let login = match &deployment.request.recipient {
            Recipient::Actor => &deployment.request.actor,
            Recipient::Login(login) => login,
            Recipient::Nobody => {
                return Ok(SlackPerson { name: deployment.request.actor.clone(), slack: None });
            }
        };
        let profile = async || {
            // Without an answer of the code host the message has no mention, but it is sent.
            let email = self.deployments.forge.email_of(login);
            tokio::time::timeout(LONGEST_PROFILE, email).await.ok()?.ok()?
        };
        let search = tokio::time::timeout(LONGEST_PERSON, sink.people.find(login, profile, now));
        let timeout_error =
            || SlackError::Unreachable("looking a person up took too long".to_owned());
        Ok(SlackPerson { name: login.clone(), slack: search.await.map_err(|_| timeout_error())?? })
    }
}

/// Returns, of successes newest first, the newest before the deployment from which no later one
/// went back. One that changed nothing made no revision to go back to; the one before it has the same files.
fn good_before(successes: &[Deployment], id: &DeployId) -> Option<LastGoodRelease> {
    let mut left_revisions: Vec<&DeployId> = Vec::new();
    for deployment in successes {
        // A rollback's own id stands for the revision that it made live.
        let revision = deployment.rollback.as_ref().map_or(&deployment.id, |rollback| &rollback.to);
        let has_revision = deployment.pushed.as_ref().is_none_or(|pushed| pushed.changed);
        if deployment.id < *id && has_revision && !left_revisions.contains(&revision) {
            return Some(LastGoodRelease {
                id: deployment.id.clone(),
                tag: deployment.request.release.tag.clone(),
            });
        }
        left_revisions
            .extend(deployment.rollback.as_ref().and_then(|rollback| rollback.from.as_ref()));
    }
    None
}

/// Returns the thread of a rollout, by what the channel has of it.
fn rollout_thread(told: &RolloutTold) -> RolloutThread {
    match &told.content {
        None => RolloutThread::Waits,
        Some(_) => RolloutThread::Begun(told.reference.as_deref().and_then(MessageRef::parse)),
    }
}

/// Returns the state of an earlier message.
fn earlier_message(notification: &Notification) -> EarlierEnd {
    let Notification { status, sent_at, parked, skipped, reference, .. } = notification;
    let message = if sent_at.is_some() {
        DeliveryState::Sent(reference.as_deref().and_then(MessageRef::parse))
    } else if parked.is_some() || skipped.is_some() {
        DeliveryState::Unsent
    } else {
        DeliveryState::Waits
    };
    EarlierEnd { state: status.state, message }
}

/// Sends the news of a deployment.
async fn send_news(
    sink: &SlackSink,
    message: &OutboxMessage,
    places: &[Destination],
    broadcast: bool,
    news: News<'_>,
    now: Timestamp,
) -> SlackOutcome {
    let (stamp, since) = (stamp(message), message.at);
    let search = message.unsure.then_some(MessageSearch { stamp: &stamp, since });
    let is_personal = message.sink == Sink::Person;
    let delivery = SlackDelivery { places, broadcast, search, is_personal };
    let compose = |undeliverable: Option<&Undeliverable>| {
        message::compose_message(&News { undeliverable: undeliverable.cloned(), ..news.clone() })
    };
    send(sink, delivery, &compose, now).await
}

/// A message to deliver: where it goes, and where it may be already.
#[derive(Debug, Clone, Copy)]
pub(in crate::outbox) struct SlackDelivery<'a> {
    /// The places to try, in order.
    pub(in crate::outbox) places: &'a [Destination],
    /// True if the channel shows a reply, too.
    pub(in crate::outbox) broadcast: bool,
    /// The search before it, where it may have arrived.
    pub(in crate::outbox) search: Option<MessageSearch<'a>>,
    /// True for a message to a person, whom a refusal concerns alone.
    pub(in crate::outbox) is_personal: bool,
}

/// The search for a message that may have arrived.
#[derive(Debug, Clone, Copy)]
pub(in crate::outbox) struct MessageSearch<'a> {
    /// The name of the message.
    pub(in crate::outbox) stamp: &'a Stamp,
    /// The time before which it was not sent.
    pub(in crate::outbox) since: Timestamp,
}

/// Searches the places where it may be, then posts it to the first place that accepts it. `compose` writes it for a
/// place, with the channel that refused it before.
pub(in crate::outbox) async fn send(
    sink: &SlackSink,
    delivery: SlackDelivery<'_>,
    compose: &(dyn Fn(Option<&Undeliverable>) -> message::SlackMessage + Sync),
    now: Timestamp,
) -> SlackOutcome {
    let SlackDelivery { places, broadcast, search, is_personal } = delivery;
    if let Some(search) = search {
        match find_sent(sink, search, places, now).await {
            Ok(Some((place, posted))) => {
                return Ok(delivery_to(place, place.undeliverable.as_ref(), Some(posted)));
            }
            Ok(None) => {}
            Err(error) => return search_error_outcome(&error, now),
        }
    }
    let mut refusals: Vec<Undeliverable> = Vec::new();
    for place in places {
        let undeliverable = refusals.first().or(place.undeliverable.as_ref());
        let slack_message = compose(undeliverable);
        match post(sink, place, &slack_message, broadcast, now).await {
            Ok(posted) => return Ok(delivery_to(place, undeliverable, posted)),
            Err(error @ SlackError::Place { .. }) => {
                refusals.push(Undeliverable {
                    channel: place.address.display_name(),
                    problem: error.to_string(),
                });
            }
            Err(error) => return error_outcome(&error, now),
        }
    }
    refused_everywhere(is_personal, &refusals)
}

/// Changes a message that was posted; nothing is left to do where it is gone.
pub(in crate::outbox) async fn update(
    sink: &SlackSink,
    posted: &MessageRef,
    message: &message::SlackMessage,
    now: Timestamp,
) -> SlackOutcome {
    let posted = Posted { channel: posted.channel.clone(), ts: posted.ts.clone() };
    let mut change = MessageUpdate { posted: &posted, message, form: MessageForm::Blocks };
    let mut updated = sink.slack.update(change, now).await;
    if let Err(SlackError::Blocks(why)) = &updated {
        log_plain_form(message, why);
        change.form = MessageForm::Plain;
        updated = sink.slack.update(change, now).await;
    }
    match updated {
        Ok(()) | Err(SlackError::Thread(_)) => Ok(Delivered::Yes { reference: None }),
        Err(error) => error_outcome(&error, now),
    }
}

fn log_plain_form(message: &message::SlackMessage, reason: &str) {
    let mark = message.stamp.mark();
    tracing::warn!(mark, reason, "Slack refused the blocks, sent as plain text");
}

/// Posts the message; if Slack surely refused its form or its thread, once more without.
async fn post(
    sink: &SlackSink,
    place: &Destination,
    slack_message: &message::SlackMessage,
    broadcast: bool,
    now: Timestamp,
) -> Result<Option<Posted>, SlackError> {
    let mut post = Post {
        to: &place.address,
        message: slack_message,
        form: MessageForm::Blocks,
        thread: place.thread.as_deref(),
        broadcast,
    };
    let mut posted = sink.slack.post(post, now).await;
    if let Err(SlackError::Thread(why)) = &posted {
        tracing::info!(
            to = place.address.as_str(),
            reason = why,
            "Slack thread is gone, posted outside it"
        );
        post.thread = None;
        posted = sink.slack.post(post, now).await;
    }
    if let Err(SlackError::Blocks(why)) = &posted {
        log_plain_form(slack_message, why);
        post.form = MessageForm::Plain;
        posted = sink.slack.post(post, now).await;
    }
    posted
}

/// Returns the place where the message has arrived already, if it has.
async fn find_sent<'p>(
    sink: &SlackSink,
    MessageSearch { stamp, since }: MessageSearch<'_>,
    places: &'p [Destination],
    now: Timestamp,
) -> Result<Option<(&'p Destination, Posted)>, SlackError> {
    let search = async {
        for place in places {
            // Outside its thread, too: the thread may have been gone.
            let top_level = place.thread.is_some().then_some(None);
            for thread in std::iter::once(place.thread.as_deref()).chain(top_level) {
                let post = sink.slack.find(&place.address, thread, stamp, since, now).await?;
                if let Some(posted) = post {
                    return Ok(Some((place, posted)));
                }
            }
        }
        Ok(None)
    };
    let timeout_error =
        |_| Err(SlackError::Unreachable("looking for a message took too long".to_owned()));
    tokio::time::timeout(LONGEST_LOOK, search).await.unwrap_or_else(timeout_error)
}

fn delivery_to(
    place: &Destination,
    undeliverable: Option<&Undeliverable>,
    posted: Option<Posted>,
) -> Delivered {
    let message_ref = posted.map(|Posted { channel, ts }| MessageRef {
        addressed: place.address.as_str().to_owned(),
        channel,
        ts,
        root: place.thread.clone(),
        undeliverable: undeliverable.cloned(),
    });
    Delivered::Yes { reference: message_ref.map(|message_ref| message_ref.reference()) }
}

fn stamp(message: &OutboxMessage) -> Stamp {
    let OutboxMessage { deployment, sink, seq, .. } = message;
    Stamp::Deployment { deployment: deployment.clone(), sink: sink.to_string(), seq: *seq }
}

fn nothing_to_send(why: &str) -> Delivered {
    Delivered::Nothing(why.to_owned())
}

/// Defers a message that has to wait for an earlier one. It is tried less often the longer that
/// takes: two seconds after the message was created, a minute when Slack is down for long.
fn defer(message: &OutboxMessage, now: Timestamp) -> Delivered {
    let age = now.duration_since(message.at).as_secs().unsigned_abs();
    Delivered::Later { at: saturating_add(now, Duration::from_secs((age / 10).clamp(2, 60))) }
}

/// Returns the outcome of an error. A channel that is full delays no other; a Slack that is down
/// delays all.
pub(super) fn error_outcome(error: &SlackError, now: Timestamp) -> SlackOutcome {
    let (remedy, unsure) = match error {
        SlackError::Wait { after, .. } => {
            return Ok(Delivered::Later { at: saturating_add(now, *after) });
        }
        SlackError::Unreachable(_) => (Remedy::Retry { after: None }, false),
        SlackError::NoAnswer(_) => (Remedy::Retry { after: Some(SEARCH_DELAY) }, true),
        SlackError::Credentials { .. } | SlackError::Scope { .. } => (Remedy::GiveUp, false),
        SlackError::Place { .. }
        | SlackError::Thread(_)
        | SlackError::Blocks(_)
        | SlackError::Nobody
        | SlackError::Refused { .. }
        | SlackError::Blind(_) => (Remedy::Reject, false),
    };
    Err(DeliveryFailure { problem: DeployError { remedy, message: error.to_string() }, unsure })
}

/// Returns the outcome of an error during a search; the message may have arrived. A cause that
/// passes, or that a person can mend in time, is retried; where no search is possible, the message
/// is not sent again.
fn search_error_outcome(error: &SlackError, now: Timestamp) -> SlackOutcome {
    match error {
        SlackError::Wait { .. }
        | SlackError::Unreachable(_)
        | SlackError::NoAnswer(_)
        | SlackError::Credentials { .. } => error_outcome(error, now),
        SlackError::Scope { .. }
        | SlackError::Place { .. }
        | SlackError::Thread(_)
        | SlackError::Blocks(_)
        | SlackError::Nobody
        | SlackError::Refused { .. }
        | SlackError::Blind(_) => Err(DeployError::reject(format!(
            "it may have arrived on Slack, and is not sent again because the service cannot search for it: {error}"
        ))
        .into()),
    }
}

/// Returns the outcome of a message that every place refused. A person who cannot be reached is
/// named in the channel; a channel that cannot be reached parks the message.
fn refused_everywhere(is_personal: bool, refusals: &[Undeliverable]) -> SlackOutcome {
    let format_refusal = |undeliverable: &Undeliverable| {
        format!("{}: {}", undeliverable.channel, undeliverable.problem)
    };
    let reasons = refusals.iter().map(format_refusal).collect::<Vec<_>>().join("; ");
    if is_personal {
        return Ok(Delivered::Nothing(reasons));
    }
    Err(DeployError::reject(format!("no channel accepts it: {reasons}")).into())
}
