//! People are told on Slack: the team's channel, and who started the deployment.
//!
//! ```text
//! story: what is there to say? ─▶ route: where? ─▶ look, if it may be there already ─▶ post, once
//! ```
//!
//! A message that may have arrived is posted again only after it was looked for and is not there. Where
//! nobody can look, it is put aside: a message that is missing can be looked up on the
//! deployment's page, and one that comes twice cannot be taken back.

mod gather; // what a message is made of
pub(crate) mod line; // Slack as this installation uses it
mod trouble; // Slack's errors in the outbox's words

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::outcome::Delivered;
use crate::deployments::tell::slack::line::Line;
use crate::deployments::tell::slack::trouble::{Told, nothing, of_slack, of_store, soon};
use crate::model::notice::Sink;
use crate::notify::message::{self, Astray, News, Reader, Stamp};
use crate::notify::route;
use crate::notify::route::Place;
use crate::notify::slack::address::Address;
use crate::notify::slack::error::SlackError;
use crate::notify::slack::{Form, Post, Posted};
use crate::notify::story::{self, Say, Whereabouts, Wish};
use crate::store::Message;

/// Deployments of a lane that failed one after the other; of longer rows the newest are counted.
const LONGEST_ROW: u32 = 50;
/// All pages of all places together, so that the lease of the message outlasts it.
const LONGEST_LOOK: Duration = Duration::from_secs(6);

/// Tells the team's channel.
pub(super) async fn channel(deployments: &Deployments, message: &Message, now: Timestamp) -> Told {
    let Some(line) = &deployments.slack else { return Ok(not_configured(message)) };
    let deployment = gather::deployment(deployments, message).await?;
    let contact = gather::contact(deployments, &deployment).await?;
    let successes = contact.as_ref().is_some_and(|contact| contact.successes);
    let wish = Wish { successes, rollback: deployment.rollback.is_some() };
    let earlier =
        deployments.store.told_before(message, LONGEST_ROW).await.map_err(|e| of_store(&e))?;
    let earlier: Vec<_> = earlier.iter().map(gather::earlier).collect();
    let (kind, thread, aloud) = match story::for_channel(message.status.state, wish, &earlier) {
        Say::Nothing(why) => return Ok(nothing(why)),
        Say::Later => return Ok(soon(message, now)),
        Say::This { kind, thread, aloud } => (kind, thread, aloud),
    };
    let wanted = contact.as_ref().and_then(|contact| contact.slack.as_deref());
    let places = if line.slack.is_bot() {
        route::places(wanted, line.default_channel.as_ref(), kind, thread.as_ref())
    } else {
        vec![Place { address: Address::Hook, thread: None, astray: None }]
    };
    if places.is_empty() {
        return Ok(nothing(
            "the WAML names no channel, and notify.slack.default_channel is not set",
        ));
    }
    let person = match gather::person(deployments, line, &deployment, now).await {
        Ok(person) => person,
        Err(error) => return of_slack(&error, now),
    };
    let news = News {
        deployment: &deployment,
        kind,
        reader: Reader::Team(wanted.filter(|_| !line.slack.is_bot())),
        person,
        links: gather::links(deployments),
        last_good: gather::last_good(deployments, &deployment).await?,
        holds: gather::holds(deployments, &deployment),
        astray: None,
        stamp: stamp(message),
    };
    send(line, message, &places, aloud, news, now).await
}

/// Tells the person who started it.
pub(super) async fn person(deployments: &Deployments, message: &Message, now: Timestamp) -> Told {
    let Some(line) = &deployments.slack else { return Ok(not_configured(message)) };
    let kind = match story::for_person(message.status.state) {
        Say::This { kind, .. } => kind,
        Say::Nothing(why) => return Ok(nothing(why)),
        Say::Later => return Ok(soon(message, now)),
    };
    if !line.slack.is_bot() {
        return Ok(nothing("an incoming webhook cannot write to people"));
    }
    if !line.direct_messages {
        return Ok(nothing("notify.slack.direct_messages is off"));
    }
    let deployment = gather::deployment(deployments, message).await?;
    let person = match gather::person(deployments, line, &deployment, now).await {
        Ok(person) => person,
        Err(error) => return of_slack(&error, now),
    };
    let Some(user) = person.slack.clone() else {
        return Ok(Delivered::Nothing(format!("{} is not known on Slack", person.name)));
    };
    let news = News {
        deployment: &deployment,
        kind,
        reader: Reader::Person,
        person,
        links: gather::links(deployments),
        last_good: gather::last_good(deployments, &deployment).await?,
        holds: gather::holds(deployments, &deployment),
        astray: None,
        stamp: stamp(message),
    };
    let place = Place { address: Address::Person(user), thread: None, astray: None };
    send(line, message, &[place], true, news, now).await
}

/// Looks where it may be, then posts it to the first place that takes it.
async fn send(
    line: &Line,
    message: &Message,
    places: &[Place],
    aloud: bool,
    news: News<'_>,
    now: Timestamp,
) -> Told {
    if message.unsure {
        match look(line, message, places, now).await {
            Ok(Some((place, posted))) => return Ok(arrived(place, Some(posted))),
            Ok(None) => {}
            Err(error) => return trouble::while_looking(&error, now),
        }
    }
    let mut refused: Vec<Astray> = Vec::new();
    for place in places {
        let astray = refused.first().or(place.astray.as_ref()).cloned();
        let letter = message::letter(&News { astray, ..news.clone() });
        match post(line, place, &letter, aloud, now).await {
            Ok(posted) => return Ok(arrived(place, posted)),
            Err(error @ SlackError::Place { .. }) => {
                refused.push(Astray { channel: place.address.shown(), problem: error.to_string() });
            }
            Err(error) => return of_slack(&error, now),
        }
    }
    trouble::nobody_took_it(message, &refused)
}

/// Posts it; and what was surely refused for its form or its thread, once more without.
async fn post(
    line: &Line,
    place: &Place,
    letter: &message::Letter,
    aloud: bool,
    now: Timestamp,
) -> Result<Option<Posted>, SlackError> {
    let mut post = Post {
        to: &place.address,
        letter,
        form: Form::Blocks,
        thread: place.thread.as_deref(),
        aloud,
    };
    let mut posted = line.slack.post(post, now).await;
    if let Err(SlackError::Thread(why)) = &posted {
        tracing::info!(to = place.address.as_str(), why, "the thread is gone, told beside it");
        post.thread = None;
        posted = line.slack.post(post, now).await;
    }
    if let Err(SlackError::Blocks(why)) = &posted {
        let mark = letter.stamp.mark();
        tracing::warn!(message = mark, why, "Slack does not take the blocks, told as text alone");
        post.form = Form::Plain;
        posted = line.slack.post(post, now).await;
    }
    posted
}

/// Where it has arrived already, if it has.
async fn look<'p>(
    line: &Line,
    message: &Message,
    places: &'p [Place],
    now: Timestamp,
) -> Result<Option<(&'p Place, Posted)>, SlackError> {
    let (stamp, since) = (stamp(message), message.at);
    let looking = async {
        for place in places {
            // Beside its thread, too: it may have been gone.
            let beside = place.thread.is_some().then_some(None);
            for thread in std::iter::once(place.thread.as_deref()).chain(beside) {
                let found = line.slack.find(&place.address, thread, &stamp, since, now).await?;
                if let Some(posted) = found {
                    return Ok(Some((place, posted)));
                }
            }
        }
        Ok(None)
    };
    let tired = |_| Err(SlackError::Unreachable("looking for a message took too long".to_owned()));
    tokio::time::timeout(LONGEST_LOOK, looking).await.unwrap_or_else(tired)
}

fn arrived(place: &Place, posted: Option<Posted>) -> Delivered {
    let whereabouts = posted.map(|Posted { channel, ts }| Whereabouts {
        addressed: place.address.as_str().to_owned(),
        channel,
        ts,
        root: place.thread.clone(),
    });
    Delivered::Yes { reference: whereabouts.map(|at| at.reference()) }
}

fn stamp(message: &Message) -> Stamp {
    let Message { deployment, sink, seq, .. } = message;
    Stamp { deployment: deployment.clone(), sink: sink.to_string(), seq: *seq }
}

fn not_configured(message: &Message) -> Delivered {
    let sink: &Sink = &message.sink;
    Delivered::Nothing(format!("{sink} is not configured any more"))
}
