//! The decision about a team's next message and its thread, from the messages before. Pure.
//!
//! - Each failure has one message. The first of a row begins a thread; the others go into it and are shown in the
//!   channel too, so that nobody misses them and nobody loses the thread.
//! - The first success after failures with a message goes into their thread, wanted or not: it ends the thread. Other
//!   successes go to teams that want them.
//! - A canary has one message, which is changed at each step and each failed check; its end is a reply to it.
//! - Nothing overtakes: while an earlier message still waits, a message waits.

use crate::model::deployment::ForgeState;
use crate::model::status::one_line;
use crate::notify::message::{NewsKind, Undeliverable};

/// A former end of the same lane, and what became of its message to the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierEnd {
    /// The state that the deployment ended in.
    pub state: ForgeState,
    /// The delivery of its message.
    pub message: DeliveryState,
}

/// The delivery of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// The message is still to be sent.
    Waits,
    /// The message was sent; with its place, if that is known.
    Sent(Option<MessageRef>),
    /// No message was needed, or it had no receiver.
    Unsent,
}

/// The place of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRef {
    /// The channel as it was addressed.
    pub addressed: String,
    /// The channel's id.
    pub channel: String,
    /// Slack's name of the message.
    pub ts: String,
    /// The message that it is a reply to, if it is one.
    pub root: Option<String>,
    /// The channel that should have had it, where it went elsewhere: a changed message says so again.
    pub undeliverable: Option<Undeliverable>,
}

/// The decision about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send nothing, for this reason.
    Skip(&'static str),
    /// Send the message after those before it.
    Defer,
    /// Change that message.
    Update(MessageRef),
    /// This.
    Post {
        /// The kind of news.
        kind: NewsKind,
        /// The message that it belongs to.
        thread: Option<MessageRef>,
        /// True if the channel shows the message, too, and not only the thread.
        broadcast: bool,
    },
}

/// The settings that decide about messages of success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChannelPrefs {
    /// The team wants to hear of all of them.
    pub successes: bool,
    /// True for a rollback: the whole team must know, whatever it wants.
    pub rollback: bool,
}

/// Decides about the message to a channel for a deployment in this final state; `earlier` are the ends before it in its
/// lane, newest first.
pub fn for_channel(state: ForgeState, wish: ChannelPrefs, earlier: &[EarlierEnd]) -> Action {
    let ChannelPrefs { successes, rollback } = wish;
    let kind = match state {
        ForgeState::Failure => NewsKind::Rejected,
        ForgeState::Error => NewsKind::GivenUp,
        ForgeState::Success => NewsKind::Deployed,
        ForgeState::Queued | ForgeState::InProgress | ForgeState::Inactive => {
            return Action::Skip("channels hear of ends only");
        }
    };
    let row: Vec<_> =
        earlier.iter().take_while(|entry| entry.state != ForgeState::Success).collect();
    if row.iter().any(|entry| entry.message == DeliveryState::Waits) {
        return Action::Defer;
    }
    let failures: Vec<_> = row.iter().filter_map(|entry| find_told_failure(entry)).collect();
    let thread = failures.iter().find_map(|reference| reference.cloned());
    match (kind, failures.len()) {
        (NewsKind::Deployed, _) if rollback => {
            Action::Post { kind: NewsKind::RolledBack, thread, broadcast: true }
        }
        (NewsKind::Deployed, 0) if !successes => {
            Action::Skip("this app does not ask for successes")
        }
        (NewsKind::Deployed, 1..) => {
            let kind = NewsKind::Recovered { failures: failures.len() };
            Action::Post { kind, thread, broadcast: successes }
        }
        _ => Action::Post { kind, thread, broadcast: true },
    }
}

/// What a channel has of a deployment's canary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToldCanary {
    /// The number of messages.
    pub count: usize,
    /// The message that is changed; none where messages have no place that is known.
    pub message: Option<MessageRef>,
}

/// The most messages about one canary where none can be changed.
const MAX_CANARY_MESSAGES: usize = 5;

/// Decides about the message that tells how far a canary is. It begins with the first step for a team that wants to hear
/// of successes, else with the first failed check. Where it cannot be changed, each failed check has a message of its own,
/// up to a limit, and what goes on after it has none.
pub fn for_canary(failed_checks: u32, successes: bool, told: &ToldCanary) -> Action {
    // The first message of a team that wants to hear of successes was about a step.
    let about_checks = told.count.saturating_sub(usize::from(successes));
    match told {
        ToldCanary { message: Some(message), .. } => Action::Update(message.clone()),
        ToldCanary { count, .. } if *count >= MAX_CANARY_MESSAGES => {
            Action::Skip("the channel has messages enough about this canary")
        }
        ToldCanary { count: 0, .. } if successes => CANARY,
        _ if failed_checks as usize > about_checks => CANARY,
        _ => Action::Skip("no further check has failed"),
    }
}

/// The longest channel, and the longest problem, of a refusal, in characters.
const LONGEST_REFUSAL: usize = 500;
const CANARY: Action = Action::Post { kind: NewsKind::Canary, thread: None, broadcast: true };

/// Puts the end of a deployment under the message about its canary, so that the last word there is not a halt.
pub fn after_canary(action: Action, state: ForgeState, told: &ToldCanary) -> Action {
    match action {
        action if told.count == 0 => action,
        Action::Post { kind, thread, broadcast } if !matches!(kind, NewsKind::Recovered { .. }) => {
            Action::Post { kind, thread: told.message.clone().or(thread), broadcast }
        }
        Action::Skip(_) if state == ForgeState::Success => {
            let broadcast = told.message.is_none();
            Action::Post { kind: NewsKind::Deployed, thread: told.message.clone(), broadcast }
        }
        // A newer release took the place of the canary: channels do not hear of that, but they have its message.
        Action::Skip(_) if state == ForgeState::Inactive => {
            told.message.clone().map_or(CANARY, Action::Update)
        }
        other => other,
    }
}

/// Returns the message about the canary where the end of its deployment is no reply to it: then that message says the end
/// itself, because its last word would be a step or a halt.
pub fn unanswered_canary<'a>(action: &Action, told: &'a ToldCanary) -> Option<&'a MessageRef> {
    let message = told.message.as_ref()?;
    let is_answered = match action {
        Action::Skip(_) => false,
        Action::Post { thread, .. } => thread.as_ref().is_some_and(|thread| {
            (&thread.channel, thread.thread()) == (&message.channel, message.thread())
        }),
        Action::Defer | Action::Update(_) => true,
    };
    (!is_answered).then_some(message)
}

/// The thread of the rollout that a deployment belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutThread {
    /// Its first message is still to be sent.
    Waits,
    /// Its first message is there, or has no place that is known.
    Begun(Option<MessageRef>),
}

/// Decides about the message to a channel for a deployment of a rollout. The rollout's thread tells of successes; a
/// failure goes into it with its whole reason, and a recovery still ends the thread of the failures before.
pub fn within_rollout(action: Action, thread: RolloutThread) -> Action {
    match action {
        Action::Post { kind: NewsKind::Deployed | NewsKind::RolledBack, .. } => {
            Action::Skip("the messages of its rollout say so")
        }
        Action::Post {
            kind: kind @ (NewsKind::Rejected | NewsKind::GivenUp | NewsKind::Canary),
            ..
        } => match thread {
            RolloutThread::Waits => Action::Defer,
            RolloutThread::Begun(thread) => {
                let broadcast = thread.is_none();
                Action::Post { kind, thread, broadcast }
            }
        },
        Action::Post { kind: kind @ NewsKind::Recovered { .. }, thread, .. } => {
            Action::Post { kind, thread, broadcast: false }
        }
        other @ (Action::Skip(_) | Action::Defer | Action::Update(_)) => other,
    }
}

/// Decides about the message to the person who started it: failures only.
pub fn for_person(state: ForgeState) -> Action {
    let post = |kind| Action::Post { kind, thread: None, broadcast: true };
    match state {
        ForgeState::Failure => post(NewsKind::Rejected),
        ForgeState::Error => post(NewsKind::GivenUp),
        ForgeState::Success
        | ForgeState::Queued
        | ForgeState::InProgress
        | ForgeState::Inactive => Action::Skip("people hear of failures only"),
    }
}

/// Returns the place of a failure's message; `None` for an end that is no failure, or without a message.
#[expect(clippy::option_option, reason = "whether it was told, and whether anybody knows where")]
fn find_told_failure(earlier: &EarlierEnd) -> Option<Option<&MessageRef>> {
    match (&earlier.message, earlier.state) {
        (DeliveryState::Sent(reference), ForgeState::Failure | ForgeState::Error) => {
            Some(reference.as_ref())
        }
        _ => None,
    }
}

impl MessageRef {
    /// Returns the message that replies belong to.
    pub fn thread(&self) -> &str {
        self.root.as_deref().unwrap_or(&self.ts)
    }

    /// Writes it as one text for the database; a refusal is on two further lines.
    pub fn reference(&self) -> String {
        let Self { addressed, channel, ts, root, undeliverable } = self;
        let root = root.as_deref().unwrap_or(ts);
        let refusal = undeliverable.as_ref().map_or_else(String::new, |refusal| {
            let [channel, problem] =
                [&refusal.channel, &refusal.problem].map(|text| one_line(text, LONGEST_REFUSAL));
            format!("\n{channel}\n{problem}")
        });
        format!("{channel} {ts} {root} {addressed}{refusal}")
    }

    /// Parses the text of the database.
    pub fn parse(reference: &str) -> Option<Self> {
        let mut lines = reference.split('\n');
        let mut parts = lines.next()?.splitn(4, ' ').map(str::to_owned);
        let (channel, ts, root) = (parts.next()?, parts.next()?, parts.next()?);
        let root = Some(root).filter(|root| *root != ts);
        let refusal = lines.next().map(str::to_owned).zip(lines.next().map(str::to_owned));
        let undeliverable = refusal.map(|(channel, problem)| Undeliverable { channel, problem });
        Some(Self { channel, ts, root, addressed: parts.next()?, undeliverable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: ChannelPrefs = ChannelPrefs { successes: true, rollback: false };

    fn at(ts: &str, root: Option<&str>) -> MessageRef {
        MessageRef {
            addressed: "squad".to_owned(),
            channel: "C1".to_owned(),
            ts: ts.to_owned(),
            root: root.map(str::to_owned),
            undeliverable: None,
        }
    }

    fn earlier(state: ForgeState, message: DeliveryState) -> EarlierEnd {
        EarlierEnd { state, message }
    }

    const FAILURE: ForgeState = ForgeState::Failure;
    const SUCCESS: ForgeState = ForgeState::Success;

    #[test]
    fn a_failure_begins_a_thread_and_the_next_is_told_in_it_and_aloud() {
        let first = Action::Post { kind: NewsKind::Rejected, thread: None, broadcast: true };
        assert_eq!(for_channel(FAILURE, ChannelPrefs::default(), &[]), first);
        assert_eq!(
            for_channel(
                FAILURE,
                ChannelPrefs::default(),
                &[earlier(SUCCESS, DeliveryState::Unsent)]
            ),
            first
        );
        let first_failure = earlier(FAILURE, DeliveryState::Sent(Some(at("1.0", None))));
        let next = Action::Post {
            kind: NewsKind::GivenUp,
            thread: Some(at("1.0", None)),
            broadcast: true,
        };
        assert_eq!(for_channel(ForgeState::Error, ChannelPrefs::default(), &[first_failure]), next);
    }

    #[test]
    fn a_recovery_ends_the_story_in_its_thread() {
        let row = [
            earlier(ForgeState::Error, DeliveryState::Sent(Some(at("2.0", Some("1.0"))))),
            earlier(FAILURE, DeliveryState::Unsent),
            earlier(FAILURE, DeliveryState::Sent(Some(at("1.0", None)))),
            earlier(SUCCESS, DeliveryState::Unsent),
            earlier(FAILURE, DeliveryState::Sent(Some(at("0.5", None)))),
        ];
        let thread = Some(at("2.0", Some("1.0")));
        let kind = NewsKind::Recovered { failures: 2 };
        let quietly = Action::Post { kind, thread: thread.clone(), broadcast: false };
        assert_eq!(for_channel(SUCCESS, ChannelPrefs::default(), &row), quietly);
        assert_eq!(for_channel(SUCCESS, ALL, &row), Action::Post { kind, thread, broadcast: true });
        assert!(matches!(
            for_channel(SUCCESS, ChannelPrefs::default(), &row[3..]),
            Action::Skip(_)
        ));
    }

    #[test]
    fn failures_that_nobody_heard_of_need_no_recovery() {
        let row = [earlier(FAILURE, DeliveryState::Unsent)];
        assert!(matches!(for_channel(SUCCESS, ChannelPrefs::default(), &row), Action::Skip(_)));
        let expected = Action::Post { kind: NewsKind::Deployed, thread: None, broadcast: true };
        assert_eq!(for_channel(SUCCESS, ALL, &row), expected);
    }

    #[test]
    fn one_that_was_told_without_a_thread_is_recovered_from_without_one() {
        let row = [earlier(FAILURE, DeliveryState::Sent(None))];
        let kind = NewsKind::Recovered { failures: 1 };
        let recovery = Action::Post { kind, thread: None, broadcast: false };
        assert_eq!(for_channel(SUCCESS, ChannelPrefs::default(), &row), recovery);
    }

    #[test]
    fn nothing_overtakes_what_still_waits() {
        let row = [earlier(FAILURE, DeliveryState::Unsent), earlier(FAILURE, DeliveryState::Waits)];
        for state in [SUCCESS, FAILURE, ForgeState::Error] {
            assert_eq!(for_channel(state, ChannelPrefs::default(), &row), Action::Defer);
        }
        let before =
            [earlier(SUCCESS, DeliveryState::Unsent), earlier(FAILURE, DeliveryState::Waits)];
        assert!(matches!(
            for_channel(FAILURE, ChannelPrefs::default(), &before),
            Action::Post { .. }
        ));
    }

    #[test]
    fn a_deployment_of_a_rollout_speaks_in_its_thread_and_of_failures_alone() {
        let post = |kind| Action::Post { kind, thread: None, broadcast: true };
        let begun = || RolloutThread::Begun(Some(at("5.0", None)));
        let deployed = within_rollout(post(NewsKind::Deployed), begun());
        assert!(matches!(deployed, Action::Skip(_)));
        assert!(matches!(within_rollout(post(NewsKind::RolledBack), begun()), Action::Skip(_)));
        let kind = NewsKind::Rejected;
        let reply = Action::Post { kind, thread: Some(at("5.0", None)), broadcast: false };
        assert_eq!(within_rollout(post(kind), begun()), reply);
        assert_eq!(within_rollout(post(kind), RolloutThread::Waits), Action::Defer);
        assert_eq!(within_rollout(post(kind), RolloutThread::Begun(None)), post(kind));
        let recovered = NewsKind::Recovered { failures: 1 };
        let quietly = Action::Post { kind: recovered, thread: None, broadcast: false };
        assert_eq!(within_rollout(post(recovered), begun()), quietly);
    }

    #[test]
    fn a_place_is_read_as_it_was_kept() {
        for place in [at("1.0", None), at("2.0", Some("1.0"))] {
            assert_eq!(MessageRef::parse(&place.reference()), Some(place));
        }
        assert_eq!(MessageRef::parse("C1 1.0"), None);
    }

    #[test]
    fn a_refusal_is_kept_with_the_place_that_the_message_has() {
        let refusal = |channel: &str, problem: &str| Undeliverable {
            channel: channel.to_owned(),
            problem: problem.to_owned(),
        };
        let message = |undeliverable| MessageRef { undeliverable, ..at("2.0", Some("1.0")) };
        let told = message(Some(refusal("#squad", "the bot is not in it")));
        assert_eq!(MessageRef::parse(&told.reference()), Some(told));
        let hostile = message(Some(refusal("#a\nC2 9.9", &"x\n".repeat(9000))));
        let read = MessageRef::parse(&hostile.reference()).unwrap();
        assert_eq!(
            (read.channel.as_str(), read.ts.as_str(), read.addressed.as_str()),
            ("C1", "2.0", "squad")
        );
        assert_eq!(read.undeliverable.as_ref().unwrap().channel, "#a C2 9.9");
        assert!(hostile.reference().len() < 2500);
    }

    #[test]
    fn a_canary_has_one_message_from_the_first_failed_check_on() {
        let told = |count, message| ToldCanary { count, message };
        let nothing = told(0, None);
        assert!(matches!(for_canary(0, false, &nothing), Action::Skip(_)));
        assert_eq!(for_canary(1, false, &nothing), CANARY);
        assert_eq!(for_canary(0, true, &nothing), CANARY);
        for failed_checks in [0, 1] {
            let update = Action::Update(at("1.0", None));
            let message = told(9, Some(at("1.0", None)));
            assert_eq!(for_canary(failed_checks, false, &message), update);
        }
    }

    #[test]
    fn a_webhook_tells_each_failed_check_of_a_canary_once() {
        let told = |count| ToldCanary { count, message: None };
        let is_told =
            |failed, successes, count| for_canary(failed, successes, &told(count)) == CANARY;
        assert!(is_told(0, true, 0) && !is_told(0, true, 1), "the first step");
        assert!(is_told(1, true, 1) && is_told(1, false, 0), "the first failed check");
        // Its reason comes later, and the canary goes on to more steps.
        assert!(!is_told(1, true, 2) && !is_told(1, false, 1));
        assert!(is_told(2, true, 2) && is_told(2, false, 1), "the second one");
        assert!(is_told(9, true, 4) && !is_told(9, true, 5), "there is a limit");
    }

    #[test]
    fn the_end_of_a_canary_is_a_reply_to_its_message() {
        let told = ToldCanary { count: 1, message: Some(at("1.0", None)) };
        let skip = || Action::Skip("this app does not ask for successes");
        let post = |kind, thread, broadcast| Action::Post { kind, thread, broadcast };
        let thread = || Some(at("1.0", None));
        assert_eq!(after_canary(skip(), SUCCESS, &told), post(NewsKind::Deployed, thread(), false));
        let update = Action::Update(at("1.0", None));
        assert_eq!(after_canary(skip(), ForgeState::Inactive, &told), update);
        assert_eq!(unanswered_canary(&update, &told), None);
        assert_eq!(after_canary(skip(), SUCCESS, &ToldCanary::default()), skip());
        let failure = post(NewsKind::Rejected, None, true);
        assert_eq!(after_canary(failure, FAILURE, &told), post(NewsKind::Rejected, thread(), true));
        let recovery = post(NewsKind::Recovered { failures: 1 }, Some(at("0.5", None)), false);
        assert_eq!(after_canary(recovery.clone(), SUCCESS, &told), recovery);
        // What is told elsewhere, or not at all, changes the message.
        let message = told.message.as_ref();
        assert_eq!(unanswered_canary(&recovery, &told), message);
        let rollout =
            within_rollout(post(NewsKind::Deployed, thread(), false), RolloutThread::Begun(None));
        assert_eq!(unanswered_canary(&rollout, &told), message);
        assert_eq!(unanswered_canary(&post(NewsKind::Rejected, thread(), true), &told), None);
        let reply = ToldCanary { count: 1, message: Some(at("1.5", Some("1.0"))) };
        assert_eq!(unanswered_canary(&post(NewsKind::Rejected, thread(), true), &reply), None);
        assert_eq!(unanswered_canary(&rollout, &ToldCanary::default()), None);
        let by_webhook = ToldCanary { count: 2, message: None };
        assert_eq!(
            after_canary(skip(), SUCCESS, &by_webhook),
            post(NewsKind::Deployed, None, true)
        );
        assert_eq!(after_canary(skip(), ForgeState::Inactive, &by_webhook), CANARY);
        assert_eq!(after_canary(skip(), ForgeState::Inactive, &ToldCanary::default()), skip());
    }

    #[test]
    fn a_rollback_is_told_whatever_the_team_wants() {
        let wish = ChannelPrefs { successes: false, rollback: true };
        let say = for_channel(SUCCESS, wish, &[]);
        assert_eq!(say, Action::Post { kind: NewsKind::RolledBack, thread: None, broadcast: true });
    }
}
