//! The messages of a failed and of a successful deployment, and of a canary that goes on: their titles, sentences and blocks, within every limit. If
//! a list is too long, its last entries are left out, and the message has their number.

use crate::model::canary::CanaryStatus;
use crate::model::deployment::{Deployment, State};
use crate::model::violation::Violation;
use crate::notify::message::block::{Block, MAX_BLOCKS, MAX_TOGETHER, size};
use crate::notify::message::escape::{cut, escape_line, length};
use crate::notify::message::parts::{self, MAX_VIOLATIONS};
use crate::notify::message::{MessageAudience, News, NewsKind, SlackMessage, Stamp};

/// A message in its parts.
pub(super) struct MessageParts {
    /// The text, one line.
    pub(super) text: String,
    /// The first blocks.
    pub(super) head: Vec<Block>,
    /// A list that can be cut.
    pub(super) items: Vec<Block>,
    /// The number of entries that are not in the list.
    pub(super) hidden: usize,
    /// The last blocks.
    pub(super) tail: Vec<Block>,
}

/// A notification shows less; longer ones are cut by who shows it.
const LONGEST_TEXT: usize = 1000;
/// Slack cuts at 40,000.
const LONGEST_PLAIN: usize = 12_000;
const LONGEST_SUMMARY: usize = 1500;
const LONGEST_LINE: usize = 400;

pub(super) fn assemble_message(parts: &MessageParts, stamp: &Stamp) -> SlackMessage {
    let mut count = parts.items.len();
    let blocks = loop {
        let blocks = build_blocks(parts, count);
        if count == 0 || (blocks.len() <= MAX_BLOCKS && size(&blocks) <= MAX_TOGETHER) {
            break blocks;
        }
        count -= 1;
    };
    SlackMessage {
        text: cut(&parts.text, LONGEST_TEXT),
        plain: plain(parts, count),
        blocks,
        stamp: stamp.clone(),
    }
}

fn build_blocks(parts: &MessageParts, count: usize) -> Vec<Block> {
    let items = parts.items.iter().take(count).cloned();
    let left_out = parts.hidden + parts.items.len() - count;
    let remainder = (left_out > 0).then(|| Block::context(&[format!("and {left_out} more")]));
    parts
        .head
        .iter()
        .cloned()
        .chain(items)
        .chain(remainder)
        .chain(parts.tail.iter().cloned())
        .collect()
}

/// Returns the text of the blocks, with the links before the list. Whole lines, as many as fit:
/// half a link would be none.
fn plain(parts: &MessageParts, count: usize) -> String {
    let mut room = LONGEST_PLAIN;
    let blocks = parts.head.iter().chain(&parts.tail).chain(parts.items.iter().take(count));
    let text = blocks.map(Block::plain).collect::<Vec<_>>().join("\n");
    let fits = |line: &&str| {
        let long = length(line) + 1;
        let fits = long <= room;
        room = room.saturating_sub(long);
        fits
    };
    text.lines().take_while(fits).collect::<Vec<_>>().join("\n")
}

/// Writes the message of a success: for teams that want it, and for those that got the message of the failure before.
pub(super) fn success(news: &News<'_>) -> MessageParts {
    let deployment = news.deployment;
    let title = success_title(news);
    let summary = escape_line(&deployment.summary, LONGEST_SUMMARY);
    let mut head = vec![Block::header(&title, &news.stamp.mark())];
    head.extend(news.undeliverable.as_ref().map(parts::undeliverable));
    head.push(Block::section(&match news.kind {
        NewsKind::Recovered { failures: 1 } => {
            format!("The deployment before it had failed. {summary}")
        }
        NewsKind::Recovered { failures } => {
            format!("The {failures} deployments before it had failed. {summary}")
        }
        NewsKind::Deployed
        | NewsKind::RolledBack
        | NewsKind::Rejected
        | NewsKind::GivenUp
        | NewsKind::Canary => summary.clone(),
    }));
    head.extend(parts::hold(deployment, news.holds));
    head.push(parts::facts(news));
    let warnings = &deployment.violations;
    let item = |violation| parts::violation(violation, deployment, news.links);
    MessageParts {
        text: format!("{title}: {summary}"),
        head,
        items: warnings.iter().take(MAX_VIOLATIONS).map(item).collect(),
        hidden: warnings.len().saturating_sub(MAX_VIOLATIONS) + warnings.left_out(),
        tail: vec![parts::buttons(news), parts::small_print(news)],
    }
}

/// Writes the title of a success. It claims only that the app is deployed: its pods were not checked.
fn success_title(news: &News<'_>) -> String {
    match news.kind {
        NewsKind::RolledBack => parts::rollback_title(news.deployment),
        NewsKind::Deployed
        | NewsKind::Recovered { .. }
        | NewsKind::Rejected
        | NewsKind::GivenUp
        | NewsKind::Canary => parts::title(parts::SUCCESS, news.deployment, "is deployed to"),
    }
}

/// Writes the message of a failure, with the reason and the way out.
pub(super) fn failure(news: &News<'_>) -> MessageParts {
    let deployment = news.deployment;
    let title = match &deployment.rollback {
        _ if is_live(deployment) => parts::title(parts::FAILURE, deployment, "does not run on"),
        Some(_) => parts::title(parts::FAILURE, deployment, "was not made live again on"),
        None => parts::title(parts::FAILURE, deployment, "was not deployed to"),
    };
    let errors: Vec<_> =
        deployment.violations.iter().filter(|violation| violation.is_error()).collect();
    let mut head = vec![Block::header(&title, &news.stamp.mark())];
    head.extend(news.undeliverable.as_ref().map(parts::undeliverable));
    let violations = &deployment.violations;
    head.push(Block::section(&subtitle(news, violations.errors())));
    head.extend(parts::log_tail(deployment));
    head.push(parts::facts(news));
    let item = |violation: &&Violation| parts::violation(violation, deployment, news.links);
    MessageParts {
        text: format!("{title}: {}", escape_line(&deployment.summary, LONGEST_LINE)),
        head,
        items: errors.iter().take(MAX_VIOLATIONS).map(item).collect(),
        hidden: violations.errors() - errors.len().min(MAX_VIOLATIONS),
        tail: vec![parts::buttons(news), parts::small_print(news)],
    }
}

/// Writes the message about a canary: its share of the traffic, and the failed checks with their reason; once it has ended,
/// how.
pub(super) fn canary(news: &News<'_>) -> MessageParts {
    let deployment = news.deployment;
    let is_halted = news.canaries.iter().any(|canary| canary.failed_checks > 0);
    let (icon, verb) = match deployment.state {
        State::Succeeded => (parts::SUCCESS, "is deployed to"),
        State::Failed => (parts::FAILURE, "does not run on"),
        State::Superseded => (parts::ENDED, "was superseded on"),
        State::Cancelled => (parts::ENDED, "was cancelled on"),
        _ if is_halted => (parts::HALTED, "is halted on"),
        _ => (parts::CANARY, "is a canary on"),
    };
    let title = parts::title(icon, deployment, verb);
    let line = |canary: &CanaryStatus| {
        let described = canary.describe();
        let text = if news.canaries.len() > 1 || news.is_fleet {
            format!("{}: {described}", canary.workload)
        } else {
            described
        };
        escape_line(&text, LONGEST_LINE)
    };
    let canaries = news.canaries.iter().filter(|_| !deployment.state.is_final());
    let mut lines: Vec<String> = canaries.take(MAX_VIOLATIONS).map(line).collect();
    let hidden = if lines.is_empty() { 0 } else { news.canaries.len() - lines.len() };
    if lines.is_empty() {
        lines.push(escape_line(&deployment.summary, LONGEST_SUMMARY));
    }
    let mut head = vec![Block::header(&title, &news.stamp.mark())];
    head.extend(news.undeliverable.as_ref().map(parts::undeliverable));
    head.push(Block::section(&lines.join("\n")));
    head.push(parts::facts(news));
    MessageParts {
        text: format!("{title}: {}", lines.join("; ")),
        head,
        items: Vec::new(),
        hidden,
        tail: vec![parts::buttons(news), parts::small_print(news)],
    }
}

/// Checks that a failed deployment was pushed all the same: its cluster could not run it.
fn is_live(deployment: &Deployment) -> bool {
    deployment.pushed.is_some()
}

/// Says how to leave a release that does not run.
fn way_back(news: &News<'_>) -> String {
    let (deployment, target) = (news.deployment, &news.deployment.request.target);
    if let Some(rollback) = &news.undo {
        return format!(
            "`bart logs {rollback} --follow` shows the rollback. Deploy a fix after it."
        );
    }
    match (&deployment.app, &news.last_good) {
        (Some(app), Some(last_good)) => format!(
            "It is live in the manifest repository. Deploy a fix, or go back to {} with \
             `bart rollback {target} --app {app} --to {} --reason TEXT`.",
            escape_line(last_good.tag.as_str(), LONGEST_LINE),
            last_good.id
        ),
        _ => "It is live in the manifest repository. Deploy a fix.".to_owned(),
    }
}

/// Writes the sentence under the title.
fn subtitle(news: &News<'_>, errors: usize) -> String {
    let you = if news.reader == MessageAudience::Person { "You started it. " } else { "" };
    let summary = escape_line(&news.deployment.summary, LONGEST_SUMMARY);
    let why = match (news.kind, errors) {
        _ if is_live(news.deployment) => return format!("{you}{summary}\n{}", way_back(news)),
        (NewsKind::GivenUp, _) => {
            format!(
                "Failed, and not because of the WAML: {summary}\nDeploy again once that is fixed."
            )
        }
        (_, 0) => format!("Rejected: {summary}"),
        (_, 1) => "Rejected, because of this; nothing was changed:".to_owned(),
        (_, n) => format!("Rejected, because of these {n} things; nothing was changed:"),
    };
    format!("{you}{why}")
}
