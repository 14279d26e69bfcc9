//! The parts that several messages share: titles, people and places, violations, buttons, small print.

use crate::model::deployment::Deployment;
use crate::model::event::Recipient;
use crate::model::rollback::{Holds, Rollback};
use crate::model::violation::{Position, Violation};
use crate::notify::message::block::{Block, Button};
use crate::notify::message::escape::{escape_line, escape_lines};
use crate::notify::message::{Links, MessageAudience, News, SlackPerson, Undeliverable, act};

/// More are for the page; a message is read on a telephone.
pub(super) const MAX_VIOLATIONS: usize = 5;

const LONGEST_NAME: usize = 120;
const LONGEST_REASON: usize = 300;
const LONGEST_MESSAGE: usize = 700;
const LONGEST_HELP: usize = 500;
const LONGEST_FILE: usize = 200;
const LONGEST_RULE: usize = 80;
const LONGEST_LOG: usize = 2500;

/// Names what is deployed: the app, or its repository where the WAML did not say. Of identifiers
/// alone.
pub(super) fn subject(deployment: &Deployment) -> String {
    let repository = || deployment.request.release.repository.to_string();
    deployment.app.as_ref().map_or_else(repository, |app| app.slug.to_string())
}

/// The icon of the outcome, at the beginning of a message.
pub(super) const SUCCESS: &str = "✅";
pub(super) const FAILURE: &str = "❌";
const ROLLED_BACK: &str = "⏪";
/// The icon of a canary that goes on.
pub(super) const CANARY: &str = "🐤";
/// The icon of a canary that has ended without a result.
pub(super) const ENDED: &str = "⏹";
/// The icon of a canary of which a check has failed.
pub(super) const HALTED: &str = "✋";

/// Writes the title of a message. It has identifiers alone, so that plain text needs no escaping.
pub(super) fn title(icon: &str, deployment: &Deployment, verb: &str) -> String {
    let request = &deployment.request;
    let subject = subject(deployment);
    format!("{icon} {subject} {} {verb} {}", request.release.tag, request.target)
}

/// Writes the title of a rollback's message: an older release took the place of the live one.
pub(super) fn rollback_title(deployment: &Deployment) -> String {
    let request = &deployment.request;
    let (subject, tag) = (subject(deployment), &request.release.tag);
    format!("{ROLLED_BACK} {subject} was rolled back to {tag} on {}", request.target)
}

/// Lists the facts of a deployment: the app, the target, the person, the commit and the reason.
pub(super) fn facts(news: &News<'_>) -> Block {
    let deployment = news.deployment;
    let request = &deployment.request;
    let mut fields = Vec::new();
    let mut field = |name: &str, value: String| fields.push(format!("*{name}*\n{value}"));
    field("App", app(deployment));
    field("Target", request.target.to_string());
    field("Tag", request.release.tag.to_string());
    field("Commit", commit(deployment, news.links));
    if let MessageAudience::Team(_) = news.reader {
        let by = match &request.recipient {
            Recipient::Login(_) => format!(" by {}", escape_line(&request.actor, LONGEST_NAME)),
            Recipient::Actor | Recipient::Nobody => String::new(),
        };
        field("Started by", format!("{}{by}", mention(&news.person)));
    }
    if !request.description.trim().is_empty() {
        // The reason of the request, which is not the reason of the failure.
        let name =
            if deployment.rollback.is_some() { "Rolled back because" } else { "Asked for with" };
        field(name, escape_line(&request.description, LONGEST_REASON));
    }
    Block::fields(&fields)
}

fn app(deployment: &Deployment) -> String {
    let contact_name =
        deployment.contact.as_ref().map(|contact| escape_line(&contact.name, LONGEST_NAME));
    match (&deployment.app, contact_name.filter(|name| !name.is_empty())) {
        (Some(key), Some(name)) => format!("{name} ({key})"),
        (Some(key), None) => key.to_string(),
        (None, _) => deployment.request.release.repository.to_string(),
    }
}

fn commit(deployment: &Deployment, links: Links<'_>) -> String {
    let request = &deployment.request;
    let short = request.release.commit.short();
    let commit = match commit_url(deployment, links) {
        Some(url) => format!("<{url}|{short}>"),
        None => short.to_owned(),
    };
    match escape_line(&request.git_ref, LONGEST_NAME) {
        name if name.is_empty() || request.release.commit.as_str() == name => commit,
        name => format!("{commit} of {name}"),
    }
}

/// Writes a mention of a Slack user; else the person's name, which is only text.
pub(super) fn mention(person: &SlackPerson) -> String {
    match &person.slack {
        Some(user) => format!("<@{}>", user.as_str()),
        None => escape_line(&person.name, LONGEST_NAME),
    }
}

/// Writes the deployments that a rollback's hold stops, and its end; nothing without a hold, or where the target has
/// none.
pub(super) fn hold(deployment: &Deployment, holds: Holds) -> Option<Block> {
    let Rollback { away, .. } = deployment.rollback.as_ref().filter(|rollback| rollback.hold)?;
    let away = away.as_ref().map_or_else(String::new, |away| {
        format!(" {} is refused to people too.", escape_line(away.tag.as_str(), LONGEST_NAME))
    });
    let app = deployment.app.as_ref().map(|app| format!(" --app {app}")).unwrap_or_default();
    let unhold = format!("`bart unhold {}{app} --reason TEXT`", deployment.request.target);
    let text = match holds {
        Holds::Off => return None,
        Holds::Automation => format!(
            "Deployments by programs are held: they are refused.{away} That ends when a person deploys another \
             release, or with {unhold}."
        ),
        Holds::Everybody => {
            format!("All deployments are held: they are refused. That ends with {unhold} only.")
        }
    };
    Some(Block::section(&text))
}

/// Writes the end of the log of the container that made a deployment fail; nothing where there is none.
pub(super) fn log_tail(deployment: &Deployment) -> Option<Block> {
    let lines = escape_lines(&deployment.log_tail, LONGEST_LOG);
    (!lines.is_empty()).then(|| Block::section(&format!("```\n{lines}\n```")))
}

/// Says where the message was meant to go, and what to do.
pub(super) fn undeliverable(undeliverable: &Undeliverable) -> Block {
    let Undeliverable { channel, problem } = undeliverable;
    let (channel, problem) =
        (escape_line(channel, LONGEST_NAME), escape_line(problem, LONGEST_MESSAGE));
    Block::section(&format!(":warning: This was meant for {channel}: {problem}."))
}

/// Writes a violation with its place and the way out.
pub(super) fn violation(violation: &Violation, deployment: &Deployment, links: Links<'_>) -> Block {
    let Violation { rule, message, position, help, .. } = violation;
    let mut parts = Vec::new();
    parts.extend(position.as_ref().map(|position| place(position, deployment, links)));
    parts.push(format!(
        "{} [{}]",
        escape_line(message, LONGEST_MESSAGE),
        escape_line(rule, LONGEST_RULE)
    ));
    parts.extend(help.as_ref().map(|help| format!("→ {}", escape_line(help, LONGEST_HELP))));
    Block::section(&parts.join("\n"))
}

/// Writes `.weave.yaml:12:5`, and for the WAML a link to that line of that commit.
fn place(position: &Position, deployment: &Deployment, links: Links<'_>) -> String {
    let Position { file, line, column, .. } = position;
    let text = format!("{}:{line}:{column}", escape_line(file, LONGEST_FILE));
    let release = &deployment.request.release;
    match links.forge.filter(|_| **file == *links.waml && is_path(file)) {
        Some(forge) => format!(
            "<{forge}/{}/blob/{}/{file}#L{line}|{text}>",
            release.repository, release.commit
        ),
        None => format!("*{text}*"),
    }
}

/// Returns true if a path can be part of a link as it is.
fn is_path(file: &str) -> bool {
    file.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/'))
}

fn commit_url(deployment: &Deployment, links: Links<'_>) -> Option<String> {
    let release = &deployment.request.release;
    links.forge.map(|forge| format!("{forge}/{}/commit/{}", release.repository, release.commit))
}

fn page(links: Links<'_>, id: &impl std::fmt::Display) -> String {
    format!("{}/deployments/{id}", links.pages)
}

/// Builds the buttons: to the log, to the commit, and to the last good revision.
pub(super) fn buttons(news: &News<'_>) -> Block {
    let (deployment, links) = (news.deployment, news.links);
    let log = Button::new("log", "Log", page(links, &deployment.id));
    let short = deployment.request.release.commit.short();
    let commit = commit_url(deployment, links)
        .and_then(|url| Button::new("commit", &format!("Commit {short}"), url));
    let last_good = news.last_good.as_ref().and_then(|last_good| {
        Button::new(
            "last-good",
            &format!("Last good: {}", last_good.tag),
            page(links, &last_good.id),
        )
    });
    let acts = [act::roll_back_button(news), act::end_hold_button(news)];
    let links = [log, commit, last_good];
    Block::actions(links.into_iter().chain(acts).flatten().collect())
}

/// Writes the deploy id; and, where the channel could not be chosen, whose message it is.
pub(super) fn small_print(news: &News<'_>) -> Block {
    let mut texts = vec![format!("deployment {}", news.deployment.id)];
    if let (MessageAudience::Team(Some(team)), None) = (&news.reader, &news.undeliverable) {
        texts.push(format!("for {}", escape_line(team, LONGEST_NAME)));
    }
    Block::context(&texts)
}
