//! Every sentence that a person reads in a chat. Pure: a deployment and how it ended in, a
//! [`Letter`] out.
//!
//! ```text
//! News ─▶ letter: failure | success ─▶ Vec<Block> ─▶ Letter, within every limit of Slack's
//! ```
//!
//! Texts from outside (a WAML, a tag, a login) go through [`text`], so that none of them can
//! mention anybody, link anywhere or break out of its place.

pub mod block; // Block Kit, as far as it is used, with its limits
mod letter; // it arrived, perhaps again, or it did not: blocks and text, within the limits
mod parts; // what several messages have
pub mod text; // texts of others, made harmless and cut

use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, ImageTag};
use crate::model::rollback::Holds;

pub use crate::notify::message::block::Block;

/// What is told, with all that it takes to tell it.
#[derive(Debug, Clone)]
pub struct News<'a> {
    /// The deployment, at its end.
    pub deployment: &'a Deployment,
    /// What kind of news it is.
    pub kind: NewsKind,
    /// Who reads it.
    pub reader: MessageAudience<'a>,
    /// Who started the deployment.
    pub person: SlackPerson,
    /// Where it leads.
    pub links: Links<'a>,
    /// The newest release that arrived before it and was not rolled back from.
    pub last_good: Option<LastGood>,
    /// Whom a hold keeps from deploying to the target.
    pub holds: Holds,
    /// The channel that should have had it, where it went elsewhere.
    pub undeliverable: Option<Undeliverable>,
    /// Its place in the outbox, which Slack keeps with the message so that it can be found again.
    pub stamp: Stamp,
}

/// What kind of news it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewsKind {
    /// It was rejected: the WAML, or the request, is at fault.
    Rejected,
    /// It was given up: something that is not the WAML's fault.
    GivenUp,
    /// It is deployed.
    Deployed,
    /// It was rolled back to a former revision.
    RolledBack,
    /// It is deployed, after so many failures in a row that the team was told of.
    Recovered {
        /// How many.
        failures: usize,
    },
}

/// Who reads a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageAudience<'a> {
    /// A channel; the one that the app's team asked for, if it did.
    Team(Option<&'a str>),
    /// The person who started the deployment.
    Person,
}

/// Who started a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackPerson {
    /// As the forge names them.
    pub name: String,
    /// As Slack does, if they are known there.
    pub slack: Option<UserId>,
}

/// Somebody on Slack: `U` or `W`, then capital letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserId(String);

/// Where a message leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links<'a> {
    /// Begins every link to our pages; without a slash at the end.
    pub pages: &'a str,
    /// Begins every link to a repository; none where repositories have no pages.
    pub forge: Option<&'a str>,
    /// The path of the WAML in its repository.
    pub waml: &'a str,
}

/// The newest release that arrived before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastGood {
    /// Its deployment.
    pub id: DeployId,
    /// Its tag.
    pub tag: ImageTag,
}

/// A channel that did not take its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undeliverable {
    /// As the WAML names it.
    pub channel: String,
    /// Why, and what to do; a sentence without a full stop.
    pub problem: String,
}

/// A message's place in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The deployment it tells of.
    pub deployment: DeployId,
    /// The word of its sink.
    pub sink: String,
    /// Its place among the deployment's messages for that sink.
    pub seq: i64,
}

/// A message, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// One line: what a notification shows, and who cannot show blocks.
    pub text: String,
    /// The message.
    pub blocks: Vec<Block>,
    /// The whole message as text, for when the blocks are refused.
    pub plain: String,
    /// Its place in the outbox.
    pub stamp: Stamp,
}

/// The message for that news.
pub fn letter(news: &News<'_>) -> Letter {
    let told = match news.kind {
        NewsKind::Rejected | NewsKind::GivenUp => letter::failure(news),
        NewsKind::Deployed | NewsKind::RolledBack | NewsKind::Recovered { .. } => {
            letter::success(news)
        }
    };
    letter::assemble_message(&told, &news.stamp)
}

impl UserId {
    /// The id, if the text has its form.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        let form = text.starts_with(['U', 'W']) && text.chars().all(legal);
        (form && (3..=30).contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Stamp {
    /// One word, by which a message is recognised.
    pub fn mark(&self) -> String {
        format!("{}/{}/{}", self.deployment, self.sink, self.seq)
    }
}

#[cfg(test)]
mod tests;
