//! What a code host is told of a deployment, and of a commit beside it.

pub use octocrab::models::StatusState as CommitState;

use crate::model::deployment::ForgeState;
use crate::model::id::{DeployId, TargetName};
use crate::model::release::Release;

/// What a code host is told of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentStatus {
    /// How it stands.
    pub state: ForgeState,
    /// One sentence for people; cut to what the host takes.
    pub description: String,
    /// Our page about it.
    pub log_url: Option<String>,
    /// Where the app can be reached.
    pub environment_url: Option<String>,
}

/// A deployment that began here, as the code host is to have it: a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeployment {
    /// Ours; it is in the payload, by which the deployment is found again.
    pub id: DeployId,
    /// What becomes live.
    pub release: Release,
    /// Where.
    pub target: TargetName,
    /// Why, for people; cut to what the host takes.
    pub description: String,
    /// Whether the environment is a production one.
    pub production: bool,
}

/// The task of a deployment that began here. Its event is not for us.
pub const ROLLBACK_TASK: &str = "rollback";

/// A status that a deployment has at the host, whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedStatus {
    /// The host's word; there are more than [`ForgeState`] knows.
    pub state: String,
    /// Empty where there is none.
    pub description: String,
    /// The page about it.
    pub log_url: Option<String>,
    /// The login of who wrote it; an App's ends with `[bot]`.
    pub creator: Option<String>,
}

/// What a code host is told of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// What it is about: `deploy/prod-cluster-1`. Capitals make no difference to GitHub.
    pub context: String,
    /// How it stands.
    pub state: CommitState,
    /// One sentence for people; cut to what the host takes.
    pub description: String,
    /// Our page about it.
    pub target_url: Option<String>,
}
