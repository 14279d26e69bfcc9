//! The messages about a rollout: the one that begins its thread and shows how it stands, and those that say what changed
//! and what a person can do.

use crate::model::rollout_news::{RolloutNews, RolloutPhase, RolloutTargetNews, TargetProgress};
use crate::notify::message::block::{Block, Button};
use crate::notify::message::compose::{MessageParts, assemble_message};
use crate::notify::message::escape::escape_line;
use crate::notify::message::{SlackMessage, Stamp, Undeliverable, act, parts};
use crate::support::markdown::count;

/// The most failures that are listed.
const MAX_FAILURES: usize = 5;
/// The length of the names of one group: all groups are one section.
const MAX_GROUP: usize = 350;
const LONGEST_NAME: usize = 120;
const LONGEST_REASON: usize = 1000;

/// A rollout with all data for its messages.
#[derive(Debug, Clone, Copy)]
pub struct RolloutMessage<'a> {
    /// The rollout.
    pub news: &'a RolloutNews,
    /// The address of its page.
    pub page: &'a str,
    /// The name of the channel that the app's team set, where the message could not be sent there by its name.
    pub team: Option<&'a str>,
    /// True if people can act from the message.
    pub acts: bool,
    /// The channel that should have had it, where it went elsewhere.
    pub undeliverable: Option<&'a Undeliverable>,
}

/// The readers of a message about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeAudience {
    /// The thread alone.
    Thread,
    /// The thread and the channel.
    Channel,
}

/// Decides who reads of a phase when it begins; `None` where the first message of the thread says enough.
pub fn notice_audience(phase: &RolloutPhase) -> Option<NoticeAudience> {
    match phase {
        RolloutPhase::UnderWay => None,
        RolloutPhase::Blocked(_) | RolloutPhase::Paused(_) | RolloutPhase::Undoing(_) => {
            Some(NoticeAudience::Thread)
        }
        RolloutPhase::Approval(_)
        | RolloutPhase::Stopped(_)
        | RolloutPhase::Done
        | RolloutPhase::Undone
        | RolloutPhase::UndoFailed
        | RolloutPhase::Cancelled(_) => Some(NoticeAudience::Channel),
    }
}

impl RolloutNews {
    /// Returns the name of the message about its present phase; the same phase at another time has another one.
    pub fn notice_name(&self) -> String {
        format!("{}-{}", self.phase.word(), self.since.as_millisecond())
    }
}

/// Writes the first message of the thread, as the rollout stands now.
pub fn compose_overview(message: RolloutMessage<'_>) -> SlackMessage {
    let news = message.news;
    let stamp = stamp(news, "overview");
    let title = title(news);
    let mut fields = vec![
        format!("*App*\n{}", news.app),
        format!("*Tag*\n{}", news.tag),
        format!("*Started by*\n{}", escape_line(&news.starter, LONGEST_NAME)),
        format!("*Step*\n{} of {}", news.steps.min(news.index + 1), news.steps),
    ];
    if let Some(name) = &news.name {
        fields.push(format!("*Rollout*\n{name}"));
    }
    let mut head = vec![Block::header(&title, &stamp.mark())];
    head.extend(message.undeliverable.map(parts::undeliverable));
    head.push(Block::section(&sentence(news)));
    head.push(Block::fields(&fields));
    head.push(Block::section(&groups(news)));
    assemble(&message, &title, head, (&stamp, None))
}

/// Writes the message about the present phase, with its cause and the commands by which a person can act.
pub fn compose_notice(message: RolloutMessage<'_>) -> SlackMessage {
    let news = message.news;
    let stamp = stamp(news, &news.notice_name());
    let title = title(news);
    let mut head = vec![Block::header(&title, &stamp.mark())];
    head.extend(message.undeliverable.map(parts::undeliverable));
    let commands = commands(news)
        .into_iter()
        .map(|(verb, effect)| format!("`bart rollout {verb} {} --reason TEXT` {effect}", news.id));
    let lines: Vec<String> = std::iter::once(sentence(news)).chain(commands).collect();
    head.push(Block::section(&lines.join("\n")));
    let approve = act::approve_button(news).filter(|_| message.acts);
    assemble(&message, &title, head, (&stamp, approve))
}

/// Returns the mark of a message, by which it is found again.
pub fn stamp(news: &RolloutNews, message: &str) -> Stamp {
    Stamp::Rollout { rollout: news.id.clone(), message: message.to_owned() }
}

fn assemble(
    message: &RolloutMessage<'_>,
    title: &str,
    head: Vec<Block>,
    (stamp, act): (&Stamp, Option<Button>),
) -> SlackMessage {
    let news = message.news;
    let failures: Vec<Block> = news.targets.iter().filter_map(failure).collect();
    let button = Button::new("rollout", "Rollout", message.page.to_owned());
    let mut small_print = vec![format!("rollout {}", news.id)];
    if let (Some(team), None) = (message.team, message.undeliverable) {
        small_print.push(format!("for {}", escape_line(team, LONGEST_NAME)));
    }
    let buttons: Vec<Button> = button.into_iter().chain(act).collect();
    let buttons = (!buttons.is_empty()).then(|| Block::actions(buttons));
    let tail = buttons.into_iter().chain([Block::context(&small_print)]).collect();
    let hidden = failures.len().saturating_sub(MAX_FAILURES);
    let items = failures.into_iter().take(MAX_FAILURES).collect();
    let text = format!("{title}. {}", sentence(news));
    assemble_message(&MessageParts { text, head, items, hidden, tail }, stamp)
}

/// Writes the title, of identifiers alone.
fn title(news: &RolloutNews) -> String {
    let subject = format!("{} {}", news.app.slug, news.tag);
    let all = count(news.targets.len(), "target");
    let complete = news.count(TargetProgress::Complete);
    match &news.phase {
        RolloutPhase::UnderWay => format!("🚀 {subject} rolls out: {complete} of {all}"),
        RolloutPhase::Approval(_) => format!("✋ The rollout of {subject} waits for an approval"),
        RolloutPhase::Blocked(_) => format!("⏸ The rollout of {subject} waits"),
        RolloutPhase::Paused(_) => format!("⏸ The rollout of {subject} is paused"),
        RolloutPhase::Stopped(_) => format!("❌ The rollout of {subject} has stopped"),
        RolloutPhase::Undoing(_) => format!("⏪ The rollout of {subject} is being undone"),
        RolloutPhase::Done => format!("✅ {subject} is rolled out: {complete} of {all}"),
        RolloutPhase::Undone => format!("⏪ The rollout of {subject} was undone"),
        RolloutPhase::UndoFailed => format!("❌ The rollout of {subject} could not be undone"),
        RolloutPhase::Cancelled(_) => format!("⏹ The rollout of {subject} was cancelled"),
    }
}

/// Says why it stands so.
fn sentence(news: &RolloutNews) -> String {
    let all = count(news.targets.len(), "target");
    let so_far = format!("The release is on {} of {all}.", news.count(TargetProgress::Complete));
    let reason = |text: &str| escape_line(text, LONGEST_REASON);
    match &news.phase {
        RolloutPhase::UnderWay => match &news.wait {
            Some(wait) => format!("It waits for {}.", reason(wait)),
            None => so_far,
        },
        RolloutPhase::Approval(team) => {
            let approver = team.as_ref().map_or_else(
                || "A person who may deploy to its targets".to_owned(),
                |team| format!("A member of {team}"),
            );
            format!("{so_far} {approver} has to approve the next step.")
        }
        RolloutPhase::Blocked(cause) => {
            format!("{so_far} It waits, and goes on by itself: {}", reason(cause))
        }
        RolloutPhase::Paused(cause) => format!("{so_far} A person paused it: {}", reason(cause)),
        RolloutPhase::Stopped(cause) => {
            format!("{so_far} It goes on when a person decides: {}", reason(cause))
        }
        RolloutPhase::Undoing(cause) => {
            format!("Changed targets get their former revision back: {}", reason(cause))
        }
        RolloutPhase::Done => match news.count(TargetProgress::Failed) {
            0 => so_far,
            failed => format!("{so_far} {failed} failed, as the plan allows."),
        },
        RolloutPhase::Undone => match news.first_reason() {
            Some((target, cause)) => format!(
                "Each target that it changed has its former revision again. {target}: {}",
                reason(cause)
            ),
            None => "Each target that it changed has its former revision again.".to_owned(),
        },
        RolloutPhase::UndoFailed => {
            let failed = news.count(TargetProgress::UndoFailed);
            format!("The undo failed on {failed} of {all}: a person must act.")
        }
        RolloutPhase::Cancelled(cause) => {
            format!("{so_far} They keep it. Cancelled: {}", reason(cause))
        }
    }
}

/// Lists the commands by which a person can act in that phase, each with its effect.
fn commands(news: &RolloutNews) -> Vec<(&'static str, &'static str)> {
    match &news.phase {
        RolloutPhase::UnderWay
        | RolloutPhase::Undoing(_)
        | RolloutPhase::Done
        | RolloutPhase::Undone => vec![],
        RolloutPhase::Approval(_) => vec![
            ("approve", "lets it go on"),
            ("undo", "gives changed targets their former revision back"),
        ],
        RolloutPhase::Blocked(_) => vec![("cancel", "ends it where it is")],
        RolloutPhase::Paused(_) => vec![("resume", "lets it go on")],
        RolloutPhase::Stopped(_) => vec![
            ("retry", "tries what failed again"),
            ("resume", "accepts the failure, and goes on"),
            ("undo", "gives changed targets their former revision back"),
        ],
        RolloutPhase::UndoFailed => vec![("retry", "tries the undos that failed again")],
        RolloutPhase::Cancelled(_) => {
            vec![("undo", "gives changed targets their former revision back")]
        }
    }
}

/// Lists the targets by how they stand, a line for each group.
fn groups(news: &RolloutNews) -> String {
    let groups = [
        (TargetProgress::Complete, "Complete"),
        (TargetProgress::UnderWay, "Under way"),
        (TargetProgress::Failed, "Failed"),
        (TargetProgress::UndoFailed, "Not undone"),
        (TargetProgress::Undone, "Undone"),
        (TargetProgress::Dropped, "Left out"),
        (TargetProgress::Pending, "To come"),
    ];
    let line = |(progress, word): (TargetProgress, &str)| {
        let targets: Vec<&RolloutTargetNews> = news.targets_at(progress).collect();
        let mut room = MAX_GROUP;
        let fits = |name: &&str| {
            let fits = name.len() + 2 <= room;
            room = room.saturating_sub(name.len() + 2);
            fits
        };
        let names: Vec<&str> =
            targets.iter().map(|one| one.target.as_str()).take_while(fits).collect();
        let more = match targets.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!targets.is_empty()).then(|| format!("*{word}:* {}{more}", names.join(", ")))
    };
    groups.into_iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// Writes the reason of one target; `None` where there is none, or it is over.
fn failure(target: &RolloutTargetNews) -> Option<Block> {
    let reason = escape_line(target.reason.as_deref()?, LONGEST_REASON);
    Some(Block::section(&format!("*{}*: {reason}", target.target)))
}
