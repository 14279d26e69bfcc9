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

/// Where a deployment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Stored and answered; waits for a worker.
    Queued,
    /// A worker has it; nothing is pushed yet.
    Running,
    /// The push has begun: it can no longer be superseded.
    Pushing,
    /// In the manifest repository (or there already).
    Succeeded,
    /// Rejected, or given up; `summary` and `violations` say why.
    Failed,
    /// A newer deployment of the same app and target took its place.
    Superseded,
    /// A person stopped it.
    Cancelled,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Pushing,
        Self::Succeeded,
        Self::Failed,
        Self::Superseded,
        Self::Cancelled,
    ];

    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::Pushing => false,
            Self::Succeeded | Self::Failed | Self::Superseded | Self::Cancelled => true,
        }
    }

    /// The word that is stored, logged and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Pushing => "pushing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A stage of the pipeline that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// From the event's arrival until a worker took it.
    Queue,
    /// The WAML is read from the forge.
    Fetch,
    /// The WAML is parsed, and what rules must know of the world is found out.
    Facts,
    /// Layers become one section.
    Merge,
    /// Holes are filled from the template.
    Default,
    /// All rules run.
    Validate,
    /// Templates become manifests.
    Render,
    /// Manifests go into the manifest repository.
    Push,
}

impl Stage {
    /// The word that is stored, logged and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Fetch => "fetch",
            Self::Facts => "facts",
            Self::Merge => "merge",
            Self::Default => "default",
            Self::Validate => "validate",
            Self::Render => "render",
            Self::Push => "push",
        }
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

/// What the forge is told of a deployment. GitHub's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgeState {
    /// Accepted; waits.
    Queued,
    /// A worker has it.
    InProgress,
    /// Done.
    Success,
    /// Rejected by a rule.
    Failure,
    /// Given up because of a fault that is not the WAML's.
    Error,
    /// A newer one took its place.
    Inactive,
}

impl ForgeState {
    /// GitHub's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Error => "error",
            Self::Inactive => "inactive",
        }
    }

    /// The state of GitHub's word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Queued, Self::InProgress, Self::Success, Self::Failure, Self::Error, Self::Inactive]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}
