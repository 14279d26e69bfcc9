//! Everything that can come in from a forge, on one page.

use serde::{Deserialize, Serialize};

use crate::model::id::{CommitSha, RepoName, TargetName};
use crate::model::release::Release;

/// What a webhook delivery asks of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The forge checks that we are there.
    Ping,
    /// A GitHub Deployment was created: one release to one target.
    Deployment(DeploymentRequest),
    /// Somebody pushed to a branch.
    Push(Push),
    /// Nothing for us; the reason goes into the log.
    Ignored {
        /// Why, for the log: `event "push" is not used`.
        reason: String,
    },
}

/// A branch that somebody moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The repository.
    pub repository: RepoName,
    /// The branch, without `refs/heads/`: `main`.
    pub branch: String,
    /// Where it is now; `None` when it was deleted.
    pub after: Option<CommitSha>,
}

/// A request to deploy, as the forge told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentRequest {
    /// The forge's own number of the deployment; a second event with it is the same deployment.
    pub forge_id: i64,
    /// What to deploy.
    pub release: Release,
    /// Where to.
    pub target: TargetName,
    /// The branch or tag that was asked for, for people: `main`.
    pub git_ref: String,
    /// Who asked, as the forge names them; at most 100 characters.
    pub actor: String,
    /// Why, if they said; at most 500 characters.
    pub description: String,
    /// Whether the forge calls the environment a production one.
    #[serde(default)]
    pub production: bool,
}
