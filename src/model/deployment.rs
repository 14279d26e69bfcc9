//! A deployment: one release to one target, the act and its record.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::deploy_clock::DeployMarks;
use crate::model::event::DeploymentRequest;
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha, DeployId, RolloutId};
use crate::model::revision::Digest;
use crate::model::rollback::Rollback;
use crate::model::violation::Violations;
use crate::model::waiting::WaitingOn;
use crate::model::words::words;

/// The record of one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// The deploy id; it names the revision.
    pub id: DeployId,
    /// The request that created the deployment.
    pub request: DeploymentRequest,
    /// The app; known once the WAML has been read.
    pub app: Option<AppKey>,
    /// The state of the deployment.
    pub state: State,
    /// The time at which the event was stored.
    pub received_at: Timestamp,
    /// The time at which its revision was in the manifest repository.
    pub pushed_at: Option<Timestamp>,
    /// The time at which it reached a final state.
    pub finished_at: Option<Timestamp>,
    /// The condition that it waits for in its cluster, after the push.
    pub waiting: Option<WaitingOn>,
    /// The last lines of the log of the container that made it fail, without secrets.
    #[serde(default)]
    pub log_tail: Vec<String>,
    /// The duration of each stage, in order.
    pub stages: Vec<StageTime>,
    /// The time of each step, by the clock that showed it.
    #[serde(default)]
    pub marks: DeployMarks,
    /// The outcome, or the reason why it waits; one sentence for people.
    pub summary: String,
    /// Broken rules, and warnings of a success.
    pub violations: Violations,
    /// The pushed commit, if anything was pushed.
    pub pushed: Option<Pushed>,
    /// The rollback's data, if the deployment is a rollback.
    pub rollback: Option<Rollback>,
    /// The rollout that made it, or the undo of one.
    #[serde(default)]
    pub rollout: Option<RolloutId>,
    /// The deployment to a fleet that this one is a part of, on one of the fleet's clusters.
    #[serde(default)]
    pub fleet: Option<DeployId>,
    /// True if it deploys all apps of its repository: it has a deployment for each, and says how those go.
    #[serde(default)]
    pub all_apps: bool,
    /// The deployment of all apps that this one belongs to.
    #[serde(default)]
    pub parent: Option<DeployId>,
    /// The manual edit where this deployment wrote, or would have written.
    pub hand_edit: Option<HandEdit>,
    /// The template and its version, `backend-default@latest`, once known.
    pub template: Option<String>,
    /// The commit of the templates of its plan, where they come from a repository.
    pub templates_commit: Option<CommitSha>,
    /// The contacts of the app's team, once the WAML has been read.
    pub contact: Option<Contact>,
    /// The app's address, once known: `https://my-app.prod.example.com/`.
    pub address: Option<String>,
    /// The number of attempts that workers began.
    pub attempts: u32,
}

/// The contacts of an app's team, from its WAML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The app's name, for people.
    pub name: String,
    /// The owning team's e-mail address.
    pub owner: String,
    /// The team's Slack channel.
    pub slack: Option<String>,
    /// True if the channel also gets successes.
    #[serde(default)]
    pub successes: bool,
    /// The links for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<ContactLink>,
}

/// A link for people, from a WAML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContactLink {
    /// Its label: `Runbook`.
    pub name: String,
    /// Its address.
    pub url: String,
}

words! {
    /// The state of a deployment.
    pub enum State {
        /// Stored and answered; waits for a worker.
        Queued = "queued",
        /// A worker has it; nothing is pushed yet.
        Running = "running",
        /// The push has begun: it can no longer be superseded.
        Pushing = "pushing",
        /// The revision is in the manifest repository; Argo CD has not brought it to the cluster yet.
        Syncing = "syncing",
        /// The cluster replaces pods.
        Progressing = "progressing",
        /// All pods run the revision; where nothing watches the cluster: it is in the manifest repository.
        Succeeded = "succeeded",
        /// Rejected, or given up, or its pods do not run; `summary` and `violations` say why.
        Failed = "failed",
        /// A newer deployment of the same app and target took its place.
        Superseded = "superseded",
        /// A person stopped it.
        Cancelled = "cancelled",
    }
}

impl State {
    /// Checks that its push has not begun, so that it can be cancelled.
    pub fn is_before_push(self) -> bool {
        match self {
            Self::Queued | Self::Running => true,
            Self::Pushing
            | Self::Syncing
            | Self::Progressing
            | Self::Succeeded
            | Self::Failed
            | Self::Superseded
            | Self::Cancelled => false,
        }
    }

    /// Checks that nothing more will happen.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::Pushing | Self::Syncing | Self::Progressing => {
                false
            }
            Self::Succeeded | Self::Failed | Self::Superseded | Self::Cancelled => true,
        }
    }
}

words! {
    /// The part of a deployment that follows its push, in a cluster that is watched. The words are those of its states.
    pub enum ClusterPhase {
        /// Argo CD brings the revision to the cluster.
        Syncing = "syncing",
        /// The cluster replaces pods.
        Progressing = "progressing",
    }
}

words! {
    /// A stage of the pipeline that takes time.
    pub enum Stage {
        /// The wait from the event's arrival until a worker takes it.
        Queue = "queue",
        /// The WAML is read from the forge.
        Fetch = "fetch",
        /// The WAML is parsed, and what rules must know of the world is found out.
        Facts = "facts",
        /// Layers become one section.
        Merge = "merge",
        /// Holes are filled from the template.
        Default = "default",
        /// The run of all rules.
        Validate = "validate",
        /// Templates become manifests.
        Render = "render",
        /// Manifests go into the manifest repository.
        Push = "push",
    }
}

/// The duration of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// The duration in microseconds.
    pub micros: u64,
}

/// The result of a finished push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pushed {
    /// The commit in the manifest repository that holds the revision.
    pub commit: CommitSha,
    /// True if this deployment made that commit; false when nothing changed.
    pub changed: bool,
    /// The digest of the rendered files.
    pub digest: Digest,
    /// Names of the files under `latest`.
    pub files: Vec<String>,
}

words! {
    /// A deployment's state as the code host shows it, in GitHub's words.
    pub enum ForgeState {
        /// Accepted; waits.
        Queued = "queued",
        /// A worker has it.
        InProgress = "in_progress",
        /// Done.
        Success = "success",
        /// Rejected by a rule.
        Failure = "failure",
        /// The deployment failed because of a fault that is not the WAML's.
        Error = "error",
        /// A newer one took its place.
        Inactive = "inactive",
    }
}
