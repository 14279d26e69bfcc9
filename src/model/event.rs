//! All events that can come in from a code host.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::model::id::{CommitSha, RepoName, RolloutName, TargetName};
use crate::model::release::Release;
use crate::model::rollout_words::RolloutFailurePolicy;
use crate::model::words::words;

/// The event of a webhook delivery, as the service uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEvent {
    /// The code host checks that the service answers.
    Ping,
    /// A GitHub Deployment was created: one release to one target.
    Deployment(DeploymentRequest),
    /// A GitHub Deployment was created that starts a rollout.
    Rollout(RolloutTrigger),
    /// A push to a branch.
    Push(BranchPush),
    /// A pull request has a new head, or has ended.
    PullRequest(PullRequest),
    /// A request to run a check run again.
    Rerun(CheckRerun),
    /// A deployment for this service that cannot be used.
    Refused(EventRefusal),
    /// An event that the service does not use; the reason goes into the log.
    Ignored {
        /// The kind of mismatch.
        why: UnusedPart,
        /// The reason, for the log: `event "push" is not used`.
        reason: String,
    },
}

words! {
    /// The part of an event that the service does not use.
    pub enum UnusedPart {
        /// The kind of event, or what has happened to its subject.
        Kind = "kind",
        /// The repository is not among the allowed ones.
        Repository = "repository",
        /// The environment is not among the allowed ones, or another tool's.
        Environment = "environment",
        /// The deployment's task is another tool's.
        Task = "task",
    }
}

/// The reason why a deployment cannot be used; its author should see it on the code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRefusal {
    /// The repository of the deployment.
    pub repository: RepoName,
    /// The forge's own number of it.
    pub forge_id: i64,
    /// The field that is wrong, as the event calls it: `deployment.environment`.
    pub field: &'static str,
    /// The fault and the right form; one line, with no more of the value than a short, escaped piece.
    pub problem: String,
}

/// A request to run check runs of the service again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRerun {
    /// The repository.
    pub repository: RepoName,
    /// The check runs to run again.
    pub rerun: Rerun,
}

/// The check runs that should run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rerun {
    /// The one of that number.
    Run(i64),
    /// All check runs of a commit.
    Commit(CommitSha),
}

/// A branch that moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchPush {
    /// The repository.
    pub repository: RepoName,
    /// The branch, without `refs/heads/`: `main`.
    pub branch: String,
    /// The commit that the branch points to now; `None` when it was deleted.
    pub after: Option<CommitSha>,
}

/// A pull request as it was at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// The repository that it is to be merged into.
    pub repository: RepoName,
    /// The number of the pull request.
    pub number: i64,
    /// The commit at its head.
    pub head: CommitSha,
    /// The repository that has the head commit; `None` when it is gone.
    pub head_repository: Option<RepoName>,
    /// The branch that it is to be merged into: `main`.
    pub base: String,
    /// The commit of that branch.
    pub base_commit: CommitSha,
    /// True if its author marks it as a draft.
    pub draft: bool,
    /// The login of its author; at most 100 characters.
    pub author: String,
    /// True if it is open.
    pub open: bool,
    /// The time of its last change: events may come in another order than they happened in.
    pub updated_at: Timestamp,
}

impl PullRequest {
    /// Checks that its head is in another repository: anybody may have opened it, and may read its preview.
    pub fn is_from_fork(&self) -> bool {
        let own_name = self.repository.as_str();
        self.head_repository
            .as_ref()
            .is_none_or(|head| !head.as_str().eq_ignore_ascii_case(own_name))
    }
}

/// The login of an actor whose account the code host does not know any more. GitHub shows an account of that name
/// there, which has asked for nothing.
pub const GHOST: &str = "ghost";

/// A request to deploy, as the code host sent it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentRequest {
    /// The forge's own number of the deployment; a second event with it is the same deployment.
    /// Below zero while the forge does not have it: then it began here.
    pub forge_id: i64,
    /// The release to deploy.
    pub release: Release,
    /// The target to deploy to.
    pub target: TargetName,
    /// The requested branch or tag, for people: `main`.
    pub git_ref: String,
    /// The login of the person or program that asked, or [`GHOST`]; at most 100 characters.
    pub actor: String,
    /// The reason, if they gave one; at most 500 characters.
    pub description: String,
    /// True if the code host calls the environment a production one.
    #[serde(default)]
    pub production: bool,
    /// True if a program asked, and no person: a workflow, or a rollout that one started.
    #[serde(default)]
    pub automatic: bool,
    /// The receiver of messages for people. It gets no rights by that.
    #[serde(default)]
    pub recipient: Recipient,
    /// The code host's numbers of the repository and its owner, where it sent them.
    #[serde(default)]
    pub identity: Option<RepositoryIdentity>,
    /// The time of the request by the code host's clock; `None` where it came to the service itself.
    #[serde(default)]
    pub requested_at: Option<Timestamp>,
}

/// A request to start a rollout, as the code host sent it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutTrigger {
    /// The forge's own number of the deployment; a second event with it is the same request.
    pub forge_id: i64,
    /// The release.
    pub release: Release,
    /// The requested branch or tag.
    pub git_ref: String,
    /// The rollout.
    #[serde(flatten)]
    pub rollout: RequestedRollout,
    /// The login of the person or program that asked, or [`GHOST`]; at most 100 characters.
    pub actor: String,
    /// The reason, if they gave one; at most 500 characters.
    pub description: String,
    /// True if a program asked, and no person.
    pub automatic: bool,
    /// The receiver of messages for people.
    pub recipient: Recipient,
    /// The code host's numbers of the repository and its owner, where it sent them.
    pub identity: Option<RepositoryIdentity>,
}

/// The rollout that a request is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestedRollout {
    /// A rollout of the WAML.
    Name(RolloutName),
    /// One that the request describes.
    Targets(RequestedTargets),
}

/// The targets and options of a rollout that the WAML does not name; at least one of the first three is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestedTargets {
    /// Names and globs, in the order of the rollout.
    pub patterns: Vec<String>,
    /// A regular expression that the whole name matches.
    pub regex: Option<String>,
    /// Labels that the target's cluster has.
    pub labels: BTreeMap<String, String>,
    /// The number of targets that are under way at the same time.
    pub parallel: Option<usize>,
    /// The number of failed targets that are accepted.
    pub max_failures: Option<usize>,
    /// The policy for failures.
    pub on_failure: Option<RolloutFailurePolicy>,
    /// The time that a target may take.
    pub timeout: Option<SignedDuration>,
    /// The time between two steps.
    pub bake: Option<SignedDuration>,
}

impl fmt::Display for RequestedRollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Targets(_) => f.write_str("of targets"),
        }
    }
}

/// A repository by the forge's own numbers: they stay when it is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryIdentity {
    /// The number of the repository.
    pub repository: i64,
    /// The number of its owner: another one after a transfer.
    pub owner: Option<i64>,
    /// The time of the event with these numbers, by the code host's clock: a name of an earlier event is an earlier
    /// name.
    #[serde(default)]
    pub at: Option<Timestamp>,
}

/// A repository by its name, and by the forge's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRepository {
    /// The name of the repository when the event happened.
    pub name: RepoName,
    /// The numbers of the repository and its owner.
    pub identity: RepositoryIdentity,
}

/// The receiver of messages about a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// The actor, by the login at the code host.
    #[default]
    Actor,
    /// The person of that login, who started the program that asked.
    Login(String),
    /// No account of the code host: the actor is the name of an API token of the service, which may be a stranger's
    /// login.
    Nobody,
}

impl Recipient {
    /// Parses the text that is stored.
    pub fn parse(stored: Option<String>) -> Self {
        match stored {
            None => Self::Actor,
            Some(login) if login.is_empty() => Self::Nobody,
            Some(login) => Self::Login(login),
        }
    }

    /// Returns the text that is stored.
    pub fn stored_text(&self) -> Option<&str> {
        match self {
            Self::Actor => None,
            Self::Login(login) => Some(login),
            Self::Nobody => Some(""),
        }
    }
}

impl DeploymentRequest {
    /// Returns the same request under another name of its repository.
    #[must_use]
    pub fn of_repository(self, repository: RepoName) -> Self {
        Self { release: Release { repository, ..self.release }, ..self }
    }

    /// Returns the forge's number; `None` while the forge does not have the deployment.
    pub fn number(&self) -> Option<i64> {
        Some(self.forge_id).filter(|number| *number > 0)
    }
}
