//! Decides what the thread of a rollout gets next: its first message, a message about a change, or a new text of the
//! first one. Pure.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::model::rollout_news::RolloutNews;
use crate::notify::message::SlackMessage;
use crate::notify::message::rollout::{NoticeAudience, notice_audience};
use crate::store::RolloutTold;
use crate::support::time::saturating_add;

/// The shortest time between two texts of the first message within one step: targets of a step may end together.
const UPDATE_INTERVAL: Duration = Duration::from_secs(30);

/// The next message of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadStep {
    /// None, for this reason.
    Nothing(&'static str),
    /// None before that time.
    Wait(Timestamp),
    /// The first message.
    Begin,
    /// A message about the present phase.
    Notify(NoticeAudience),
    /// The first message gets a new text.
    Update,
}

/// Decides what comes next; `content` is the [digest](content_of) of the first message as it would be now.
pub(super) fn next_step(
    news: &RolloutNews,
    told: &RolloutTold,
    (content, is_doubted): (&str, bool),
    now: Timestamp,
) -> ThreadStep {
    let Some(present) = &told.content else { return ThreadStep::Begin };
    let has_thread = told.reference.is_some();
    if let Some(audience) = notice_audience(&news.phase)
        && (has_thread || audience == NoticeAudience::Channel)
        && told.notice.as_ref() != Some(&news.notice_name())
    {
        return ThreadStep::Notify(audience);
    }
    if !has_thread {
        return ThreadStep::Nothing("its first message cannot be changed");
    }
    if present == content && !is_doubted {
        return ThreadStep::Nothing("it says so already");
    }
    let next_at = told.at.map(|at| saturating_add(at, UPDATE_INTERVAL));
    match next_at.filter(|next_at| now < *next_at) {
        // A clock that was set back delays no text for longer than that.
        Some(next_at)
            if step_of(present) == step_of(content)
                && present != content
                && told.at.is_some_and(|at| at <= now) =>
        {
            ThreadStep::Wait(next_at)
        }
        _ => ThreadStep::Update,
    }
}

/// Returns what the receiver has once the step is done; `reference` is the place of a first message.
pub(super) fn told_after(
    step: ThreadStep,
    news: &RolloutNews,
    told: &RolloutTold,
    (content, reference): (String, Option<String>),
    now: Timestamp,
) -> RolloutTold {
    let before = told.clone();
    match step {
        ThreadStep::Nothing(_) | ThreadStep::Wait(_) => before,
        ThreadStep::Begin => RolloutTold {
            content: Some(content),
            at: Some(now),
            // A rollout that had ended by then needs no second message that says so.
            notice: Some(news.notice_name())
                .filter(|_| news.phase.is_end() && !news.phase.needs_person()),
            reference,
        },
        ThreadStep::Notify(_) => RolloutTold { notice: Some(news.notice_name()), ..before },
        ThreadStep::Update => RolloutTold { content: Some(content), at: Some(now), ..before },
    }
}

/// Returns the phase and step of a rollout, and the digest of the message about it.
pub(super) fn content_of(news: &RolloutNews, message: &SlackMessage) -> String {
    let digest = hex::encode(Sha256::digest(&message.plain));
    format!("{}-{} {digest}", news.phase.word(), news.index)
}

/// Returns the phase and step of a content.
fn step_of(content: &str) -> &str {
    content.split_once(' ').map_or(content, |(step, _)| step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rollout_news::RolloutPhase;
    use crate::outbox::fixture::rollout_news;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn told(content: &str) -> RolloutTold {
        RolloutTold {
            content: Some(content.to_owned()),
            at: Some(at(100)),
            notice: None,
            reference: Some("C1 1.0 1.0 squad".to_owned()),
        }
    }

    fn next(news: &RolloutNews, told: &RolloutTold, content: &str, now: i64) -> ThreadStep {
        next_step(news, told, (content, false), at(now))
    }

    #[test]
    fn a_thread_begins_once_and_is_updated_where_its_text_changes() {
        let news = rollout_news(RolloutPhase::UnderWay, "c>..");
        assert_eq!(next(&news, &RolloutTold::default(), "under_way-1 a", 0), ThreadStep::Begin);
        let same = ThreadStep::Nothing("it says so already");
        assert_eq!(next(&news, &told("under_way-1 a"), "under_way-1 a", 900), same);
        assert_eq!(next(&news, &told("under_way-1 a"), "under_way-1 b", 900), ThreadStep::Update);
    }

    #[test]
    fn texts_of_one_step_come_seldom_and_another_step_at_once() {
        let news = rollout_news(RolloutPhase::UnderWay, "c>..");
        let wait = ThreadStep::Wait(at(130));
        assert_eq!(next(&news, &told("under_way-1 a"), "under_way-1 b", 101), wait);
        assert_eq!(next(&news, &told("under_way-1 a"), "under_way-1 b", 130), ThreadStep::Update);
        assert_eq!(next(&news, &told("under_way-1 a"), "under_way-2 b", 101), ThreadStep::Update);
        assert_eq!(next(&news, &told("under_way-1 a"), "undoing-1 b", 101), ThreadStep::Update);
        assert_eq!(next(&news, &told("under_way-1 a"), "under_way-1 b", 9), ThreadStep::Update);
    }

    #[test]
    fn each_phase_is_told_once_and_the_same_one_later_again() {
        let mut news = rollout_news(RolloutPhase::Stopped("no image".to_owned()), "cf..");
        let before = told("stopped-1 a");
        let notify = ThreadStep::Notify(NoticeAudience::Channel);
        assert_eq!(next(&news, &before, "stopped-1 a", 900), notify);
        let after = told_after(notify, &news, &before, ("stopped-1 a".to_owned(), None), at(900));
        assert!(matches!(next(&news, &after, "stopped-1 a", 900), ThreadStep::Nothing(_)));
        news.since = at(2_000_000_000);
        assert_eq!(next(&news, &after, "stopped-1 a", 900), notify);
    }

    #[test]
    fn without_a_thread_only_the_channel_is_told() {
        let no_thread = RolloutTold { reference: None, ..told("under_way-1 a") };
        let undoing = rollout_news(RolloutPhase::Undoing("no image".to_owned()), "cu..");
        assert!(matches!(next(&undoing, &no_thread, "undoing-1 b", 900), ThreadStep::Nothing(_)));
        let undone = rollout_news(RolloutPhase::Undone, "uu..");
        let notify = ThreadStep::Notify(NoticeAudience::Channel);
        assert_eq!(next(&undone, &no_thread, "undone-1 b", 900), notify);
    }

    #[test]
    fn a_thread_that_begins_at_the_end_says_it_once() {
        let begin = |phase| {
            let news = rollout_news(phase, "cccc");
            let told = RolloutTold::default();
            let reference = Some("C1 1.0 1.0 squad".to_owned());
            let after =
                told_after(ThreadStep::Begin, &news, &told, ("x".to_owned(), reference), at(0));
            next(&news, &after, "x", 900)
        };
        assert!(matches!(begin(RolloutPhase::Done), ThreadStep::Nothing(_)));
        assert!(matches!(begin(RolloutPhase::UndoFailed), ThreadStep::Notify(_)));
    }

    #[test]
    fn a_text_that_an_older_one_may_replace_is_sent_again() {
        let news = rollout_news(RolloutPhase::UnderWay, "c>..");
        let step = next_step(&news, &told("under_way-1 a"), ("under_way-1 a", true), at(101));
        assert_eq!(step, ThreadStep::Update);
    }
}
