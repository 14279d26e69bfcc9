//! A deployment: one release to one target, the act and its record.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::event::DeploymentRequest;
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha, DeployId};
use crate::model::revision::Digest;
use crate::model::rollback::Rollback;
use crate::model::violation::Violations;
use crate::model::words::words;

/// The record of one deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// Ours; names the revision.
    pub id: DeployId,
    /// What was asked for.
    pub request: DeploymentRequest,
    /// Known once the WAML has been read.
    pub app: Option<AppKey>,
    /// Where it is in its life.
    pub state: State,
    /// When the event was stored.
    pub received_at: Timestamp,
    /// When it reached a final state.
    pub finished_at: Option<Timestamp>,
    /// How long each stage took, in order.
    pub stages: Vec<StageTime>,
    /// How it ended, or what it is waiting for; one sentence for people.
    pub summary: String,
    /// Broken rules, and warnings of a success.
    pub violations: Violations,
    /// What was pushed, if anything was.
    pub pushed: Option<Pushed>,
    /// What makes it a rollback, if it is one.
    pub rollback: Option<Rollback>,
    /// What somebody had changed by hand where this deployment wrote, or would have.
    pub hand_edit: Option<HandEdit>,
    /// The template and its version, `backend-default@latest`, once known.
    pub template: Option<String>,
    /// The commit of the templates that it was planned with, where they come from a repository.
    pub templates_commit: Option<CommitSha>,
    /// Where the people of its app are reached, once the WAML has been read.
    pub contact: Option<Contact>,
    /// Where the app is reached, once known: `https://my-app.prod.example.com/`.
    pub address: Option<String>,
    /// How often a worker began on it.
    pub attempts: u32,
}

/// Where the people of an app are reached, as its WAML says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The app's name, for people.
    pub name: String,
    /// The owning team's e-mail address.
    pub owner: String,
    /// The team's Slack channel.
    pub slack: Option<String>,
    /// Whether the channel also hears of successes.
    #[serde(default)]
    pub successes: bool,
}

words! {
    /// Where a deployment is in its life.
    pub enum State {
        /// Stored and answered; waits for a worker.
        Queued = "queued",
        /// A worker has it; nothing is pushed yet.
        Running = "running",
        /// The push has begun: it can no longer be superseded.
        Pushing = "pushing",
        /// In the manifest repository (or there already).
        Succeeded = "succeeded",
        /// Rejected, or given up; `summary` and `violations` say why.
        Failed = "failed",
        /// A newer deployment of the same app and target took its place.
        Superseded = "superseded",
        /// A person stopped it.
        Cancelled = "cancelled",
    }
}

impl State {
    /// Checks that nothing more will happen.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::Pushing => false,
            Self::Succeeded | Self::Failed | Self::Superseded | Self::Cancelled => true,
        }
    }
}

words! {
    /// A stage of the pipeline that takes time.
    pub enum Stage {
        /// From the event's arrival until a worker took it.
        Queue = "queue",
        /// The WAML is read from the forge.
        Fetch = "fetch",
        /// The WAML is parsed, and what rules must know of the world is found out.
        Facts = "facts",
        /// Layers become one section.
        Merge = "merge",
        /// Holes are filled from the template.
        Default = "default",
        /// All rules run.
        Validate = "validate",
        /// Templates become manifests.
        Render = "render",
        /// Manifests go into the manifest repository.
        Push = "push",
    }
}

/// How long a stage took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTime {
    /// Which stage.
    pub stage: Stage,
    /// Its duration in microseconds.
    pub micros: u64,
}

/// What a finished push left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pushed {
    /// The commit in the manifest repository that holds the revision.
    pub commit: CommitSha,
    /// Whether this deployment made that commit; `false` when nothing changed.
    pub changed: bool,
    /// The digest of the rendered files.
    pub digest: Digest,
    /// Names of the files under `latest`.
    pub files: Vec<String>,
}

words! {
    /// What the forge is told of a deployment. GitHub's words.
    pub enum ForgeState {
        /// Accepted; waits.
        Queued = "queued",
        /// A worker has it.
        InProgress = "in_progress",
        /// Done.
        Success = "success",
        /// Rejected by a rule.
        Failure = "failure",
        /// Given up because of a fault that is not the WAML's.
        Error = "error",
        /// A newer one took its place.
        Inactive = "inactive",
    }
}
