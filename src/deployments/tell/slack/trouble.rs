//! Slack's errors in the outbox's words: what holds for this message, what for all of them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::{Delivered, NotDelivered, Problem, Remedy};
use crate::model::notice::Sink;
use crate::notify::message::Astray;
use crate::notify::slack::error::SlackError;
use crate::store::{Message, StoreError};

/// How telling ended.
pub(super) type Told = Result<Delivered, NotDelivered>;

/// Slack may take a message that it did not answer for, but not much later than this: only then is
/// it looked for.
const BEFORE_LOOKING: Duration = Duration::from_secs(30);

pub(super) fn nothing(why: &str) -> Delivered {
    Delivered::Nothing(why.to_owned())
}

pub(super) fn later(now: Timestamp, after: Duration) -> Delivered {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    Delivered::Later { at: now.checked_add(after).unwrap_or(Timestamp::MAX) }
}

/// Something before it has to be told first. It is asked for the seldomer the longer that takes: two
/// seconds after the message came to be, a minute when Slack is down for long.
pub(super) fn soon(message: &Message, now: Timestamp) -> Delivered {
    let waited = now.duration_since(message.at).as_secs().unsigned_abs();
    later(now, Duration::from_secs((waited / 10).clamp(2, 60)))
}

/// A channel that is full holds up no other; a Slack that is down holds up all.
pub(super) fn of_slack(error: &SlackError, now: Timestamp) -> Told {
    let (remedy, unsure) = match error {
        SlackError::Wait { after, .. } => return Ok(later(now, *after)),
        SlackError::Unreachable(_) => (Remedy::Retry { after: None }, false),
        SlackError::NoAnswer(_) => (Remedy::Retry { after: Some(BEFORE_LOOKING) }, true),
        SlackError::Credentials { .. } | SlackError::Scope { .. } => (Remedy::GiveUp, false),
        SlackError::Place { .. }
        | SlackError::Thread(_)
        | SlackError::Blocks(_)
        | SlackError::Nobody
        | SlackError::Refused { .. }
        | SlackError::Blind(_) => (Remedy::Reject, false),
    };
    not_delivered(remedy, error.to_string(), unsure)
}

/// It may be there. What keeps us from looking passes, or a person can mend it in time; or nobody
/// can look, and then it is not sent again.
pub(super) fn while_looking(error: &SlackError, now: Timestamp) -> Told {
    match error {
        SlackError::Wait { .. }
        | SlackError::Unreachable(_)
        | SlackError::NoAnswer(_)
        | SlackError::Credentials { .. } => of_slack(error, now),
        SlackError::Scope { .. }
        | SlackError::Place { .. }
        | SlackError::Thread(_)
        | SlackError::Blocks(_)
        | SlackError::Nobody
        | SlackError::Refused { .. }
        | SlackError::Blind(_) => doubtful(error),
    }
}

fn doubtful(error: &SlackError) -> Told {
    let message = format!(
        "it may have arrived on Slack, and is not sent again because nobody can look whether it has: {error}"
    );
    not_delivered(Remedy::Reject, message, false)
}

/// Every place has refused it. A person who cannot be written to is named in the channel; a channel
/// that cannot be written to is somebody's business.
pub(super) fn nobody_took_it(message: &Message, refused: &[Astray]) -> Told {
    let one = |astray: &Astray| format!("{}: {}", astray.channel, astray.problem);
    let reasons = refused.iter().map(one).collect::<Vec<_>>().join("; ");
    match message.sink {
        Sink::Person => Ok(Delivered::Nothing(reasons)),
        _ => not_delivered(Remedy::Reject, format!("no channel takes it: {reasons}"), false),
    }
}

pub(super) fn of_store(error: &StoreError) -> NotDelivered {
    let problem = Problem { remedy: Remedy::Retry { after: None }, message: error.to_string() };
    NotDelivered { problem, unsure: false }
}

fn not_delivered(remedy: Remedy, message: String, unsure: bool) -> Told {
    Err(NotDelivered { problem: Problem { remedy, message }, unsure })
}
