//! The statuses of a deployment and of a commit, as a code host gets them.

pub use octocrab::models::StatusState as CommitState;

use crate::model::deployment::ForgeState;
use crate::model::id::{DeployId, RolloutId, TargetName};
use crate::model::release::Release;

/// The status of a deployment for a code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentStatus {
    /// The state of the deployment.
    pub state: ForgeState,
    /// The description, one sentence for people; cut to the host's limit.
    pub description: String,
    /// The service's page about it.
    pub log_url: Option<String>,
    /// The address of the app.
    pub environment_url: Option<String>,
}

/// A deployment that began here, as the code host is to have it: a rollback, a target of a rollout, or one of several apps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeployment {
    /// The deploy id; it is in the payload, by which the deployment is found again.
    pub id: DeployId,
    /// The release that becomes live.
    pub release: Release,
    /// The target.
    pub target: TargetName,
    /// The reason, for people; cut to the host's limit.
    pub description: String,
    /// True if the environment is a production one.
    pub production: bool,
    /// The rollout, or its undo, that made it.
    pub rollout: Option<RolloutId>,
    /// Its task: [`ROLLBACK_TASK`], [`ROLLOUT_TASK`] or [`APP_TASK`].
    pub task: &'static str,
}

/// The task of a rollback, which the service itself created. Its webhook event is ignored.
pub const ROLLBACK_TASK: &str = "rollback";
/// The task of a deployment to a target of a rollout, which the service itself created. Its webhook event is ignored, too.
pub const ROLLOUT_TASK: &str = "rollout-target";

/// The task of an app's deployment that belongs to one of all apps, which the service itself created. Its webhook event is
/// ignored, too.
pub const APP_TASK: &str = "deploy-app";

/// Checks that the service itself creates deployments with that task.
pub fn is_own_task(task: &str) -> bool {
    [ROLLBACK_TASK, ROLLOUT_TASK, APP_TASK].contains(&task)
}

/// A status that a deployment has at the host, from any author.
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

/// The status of a commit for a code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// The context: `deploy/prod-cluster-1`. Capitals make no difference to GitHub.
    pub context: String,
    /// The state of the commit.
    pub state: CommitState,
    /// The description, one sentence for people; cut to the host's limit.
    pub description: String,
    /// The service's page about it.
    pub target_url: Option<String>,
}
