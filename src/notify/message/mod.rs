//! Every sentence that a person reads in a chat. Pure: a deployment and its outcome go in, a [`SlackMessage`] comes
//! out.
//!
//! ```text
//! News ─▶ compose: failure | success | canary ─▶ Vec<Block> ─▶ SlackMessage, within every limit of Slack's
//! RolloutNews ─▶ rollout: overview | notice ─▶ the same
//! ```
//!
//! Texts from outside (a WAML, a tag, a login) go through [`escape`], so that none of them can mention anybody, link
//! anywhere or break out of its place.

pub mod block; // Block Kit, as far as it is used, with its limits
pub mod act; // the acts of buttons, as their values carry them
pub mod pressed; // a message without the button that was pressed
mod compose; // the messages of a failure and of a success, within the limits
mod parts; // parts that several messages share
pub mod rollout; // the messages of a rollout's thread
pub mod escape; // texts of others, made harmless and cut

use crate::model::canary::CanaryStatus;
use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, ImageTag, RolloutId};
use crate::model::rollback::Holds;

pub use crate::notify::message::block::Block;

/// A deployment's outcome, with all data for its message.
#[derive(Debug, Clone)]
pub struct News<'a> {
    /// The deployment, at its end.
    pub deployment: &'a Deployment,
    /// The kind of news.
    pub kind: NewsKind,
    /// The reader.
    pub reader: MessageAudience<'a>,
    /// The person who started the deployment.
    pub person: SlackPerson,
    /// The links of the message.
    pub links: Links<'a>,
    /// The newest release that arrived before it and was not rolled back from.
    pub last_good: Option<LastGoodRelease>,
    /// The rollback by which the service takes it back, after it failed in its cluster.
    pub undo: Option<DeployId>,
    /// How far its canaries are, in a message about them.
    pub canaries: Vec<CanaryStatus>,
    /// True if people can act from the message.
    pub acts: bool,
    /// True if the target is a fleet.
    pub is_fleet: bool,
    /// The deployments that a hold stops on the target.
    pub holds: Holds,
    /// The channel that should have had it, where it went elsewhere.
    pub undeliverable: Option<Undeliverable>,
    /// The id of the message in the outbox, which Slack keeps with it so that it can be found again.
    pub stamp: Stamp,
}

/// The kind of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewsKind {
    /// The deployment was rejected: the WAML, or the request, is at fault.
    Rejected,
    /// The deployment failed for a reason that is not the WAML's fault.
    GivenUp,
    /// The deployment succeeded.
    Deployed,
    /// The app was rolled back to a former revision.
    RolledBack,
    /// The deployment succeeded, after so many failures in a row that the team got messages about.
    Recovered {
        /// The number of failures.
        failures: usize,
    },
    /// The deployment goes on, as a canary.
    Canary,
}

/// The reader of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageAudience<'a> {
    /// A channel, with the name that the app's team set, if it did.
    Team(Option<&'a str>),
    /// The person who started the deployment.
    Person,
}

/// The person who started a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackPerson {
    /// The login at the code host.
    pub name: String,
    /// The Slack user, if there is one.
    pub slack: Option<UserId>,
}

/// A user of Slack: `U` or `W`, then capital letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserId(String);

/// The links of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links<'a> {
    /// The beginning of every link to the service's pages; without a slash at the end.
    pub pages: &'a str,
    /// Begins every link to a repository; none where repositories have no pages.
    pub forge: Option<&'a str>,
    /// The path of the WAML in its repository.
    pub waml: &'a str,
}

/// The newest release that arrived before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastGoodRelease {
    /// The deploy id.
    pub id: DeployId,
    /// The image tag.
    pub tag: ImageTag,
}

/// A channel that did not take its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undeliverable {
    /// The channel as the WAML names it.
    pub channel: String,
    /// The fault and the way out; a sentence without a full stop.
    pub problem: String,
}

/// The name of a message, which Slack keeps with it so that it can be found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stamp {
    /// A message of the outbox about a deployment.
    Deployment {
        /// The deployment of the message.
        deployment: DeployId,
        /// The word of its sink.
        sink: String,
        /// The number of the message among those of the deployment for that sink.
        seq: i64,
    },
    /// A message about a rollout.
    Rollout {
        /// The rollout.
        rollout: RolloutId,
        /// The name of the message among those of the rollout.
        message: String,
    },
}

/// A message, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SlackMessage {
    /// The text, one line: notifications show it, and clients without blocks.
    pub text: String,
    /// The message.
    pub blocks: Vec<Block>,
    /// The whole message as text, for when the blocks are refused.
    pub plain: String,
    /// The name of the message.
    pub stamp: Stamp,
}

/// Writes the message for that news.
pub fn compose_message(news: &News<'_>) -> SlackMessage {
    let parts = match news.kind {
        NewsKind::Rejected | NewsKind::GivenUp => compose::failure(news),
        NewsKind::Deployed | NewsKind::RolledBack | NewsKind::Recovered { .. } => {
            compose::success(news)
        }
        NewsKind::Canary => compose::canary(news),
    };
    compose::assemble_message(&parts, &news.stamp)
}

impl UserId {
    /// Parses the id, if the text has its form.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        let form = text.starts_with(['U', 'W']) && text.chars().all(legal);
        (form && (3..=30).contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Stamp {
    /// Writes one word, by which a message is recognised.
    pub fn mark(&self) -> String {
        match self {
            Self::Deployment { deployment, sink, seq } => format!("{deployment}/{sink}/{seq}"),
            Self::Rollout { rollout, message } => format!("{rollout}/{message}"),
        }
    }
}

#[cfg(test)]
mod rollout_tests;
#[cfg(test)]
mod tests;
