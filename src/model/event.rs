//! Everything that can come in from a forge, on one page.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::{CommitSha, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::words::words;

/// What a webhook delivery asks of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEvent {
    /// The forge checks that we are there.
    Ping,
    /// A GitHub Deployment was created: one release to one target.
    Deployment(DeploymentRequest),
    /// Somebody pushed to a branch.
    Push(BranchPush),
    /// A pull request has a new head, or has ended.
    PullRequest(PullRequest),
    /// Somebody wants a check run made again.
    Rerun(CheckRerun),
    /// A deployment that is meant for us and that nothing can be made of.
    Refused(EventRefusal),
    /// Nothing for us; the reason goes into the log.
    Ignored {
        /// What of it is not ours.
        why: Unused,
        /// Why, for the log: `event "push" is not used`.
        reason: String,
    },
}

words! {
    /// What of an event is not ours.
    pub enum Unused {
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

/// Why nothing can be made of a deployment; whoever asked for it should see that at the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRefusal {
    /// Whose deployment.
    pub repository: RepoName,
    /// The forge's own number of it.
    pub forge_id: i64,
    /// The field that is wrong, as the event calls it: `deployment.environment`.
    pub field: &'static str,
    /// What is wrong with it, and what is right; one line, with no more of the value than a short,
    /// escaped piece.
    pub problem: String,
}

/// A wish that what we have shown be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRerun {
    /// The repository.
    pub repository: RepoName,
    /// What of it.
    pub rerun: Rerun,
}

/// Which check runs are to be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rerun {
    /// The one of that number.
    Run(i64),
    /// All of a commit.
    Commit(CommitSha),
}

/// A branch that somebody moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchPush {
    /// The repository.
    pub repository: RepoName,
    /// The branch, without `refs/heads/`: `main`.
    pub branch: String,
    /// Where it is now; `None` when it was deleted.
    pub after: Option<CommitSha>,
}

/// A pull request as it was at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// The repository that it is to be merged into.
    pub repository: RepoName,
    /// Its number there.
    pub number: i64,
    /// The commit at its head.
    pub head: CommitSha,
    /// Where that commit was pushed to; `None` when that repository is gone.
    pub head_repository: Option<RepoName>,
    /// The branch that it is to be merged into: `main`.
    pub base: String,
    /// The commit of that branch.
    pub base_commit: CommitSha,
    /// Whether its author says that it is not ready.
    pub draft: bool,
    /// Who opened it, as the forge names them; at most 100 characters.
    pub author: String,
    /// Whether it is open.
    pub open: bool,
    /// When it last changed: events may come in another order than they happened in.
    pub updated_at: Timestamp,
}

impl PullRequest {
    /// Checks that its head is in another repository: anybody may have opened it, and may read what
    /// is said about it.
    pub fn is_from_fork(&self) -> bool {
        let ours = self.repository.as_str();
        self.head_repository.as_ref().is_none_or(|its| !its.as_str().eq_ignore_ascii_case(ours))
    }
}

/// What an actor is called whose account the forge does not know any more. GitHub shows an account of
/// that name there, which has asked for nothing.
pub const NOBODY: &str = "ghost";

/// A request to deploy, as the forge told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentRequest {
    /// The forge's own number of the deployment; a second event with it is the same deployment.
    /// Below zero while the forge does not have it: then it began here.
    pub forge_id: i64,
    /// What to deploy.
    pub release: Release,
    /// Where to.
    pub target: TargetName,
    /// The branch or tag that was asked for, for people: `main`.
    pub git_ref: String,
    /// Who asked, as the forge names them, or [`NOBODY`]; at most 100 characters.
    pub actor: String,
    /// Why, if they said; at most 500 characters.
    pub description: String,
    /// Whether the forge calls the environment a production one.
    #[serde(default)]
    pub production: bool,
    /// Whether a program asked, and no person: a workflow, a rollout.
    #[serde(default)]
    pub automatic: bool,
    /// Whom messages to people are for. It gives no rights.
    #[serde(default)]
    pub recipient: Recipient,
    /// What the forge calls the repository and its owner beside their names, where it said so.
    #[serde(default)]
    pub identity: Option<RepositoryIdentity>,
}

/// A repository by the forge's own numbers: they stay when it is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryIdentity {
    /// Of the repository.
    pub repository: i64,
    /// Of its owner: another one after a transfer.
    pub owner: Option<i64>,
    /// When the event happened that says so, by the forge's clock: a name of an earlier event is an earlier
    /// name.
    #[serde(default)]
    pub at: Option<Timestamp>,
}

/// A repository by its name, and by the forge's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRepository {
    /// Its name, when the event happened.
    pub name: RepoName,
    /// Its numbers.
    pub identity: RepositoryIdentity,
}

/// Whom messages about a deployment are for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// Who asked, by their login at the forge.
    #[default]
    Actor,
    /// The person of that login, who started the program that asked.
    Login(String),
    /// Nobody whom the forge knows: who asked is the name of one of our tokens, which may be a
    /// stranger's login.
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
    pub fn stored(&self) -> Option<&str> {
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
