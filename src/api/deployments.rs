//! Deployments: lists, one by itself, its log, and what is asked of them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::forms;
use crate::model::change::Change;
use crate::model::deployment::{Pushed, StageTime, State};
use crate::model::hand_edit::HandEdit;
use crate::model::violation::Violation;

/// Deployments, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentPage")]
pub struct DeploymentPage<D = DeploymentSummary> {
    /// This page of them.
    pub deployments: Vec<D>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
}

/// A deployment in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deployment")]
pub struct DeploymentSummary {
    /// Its deploy id; names its revision, too.
    pub id: String,
    /// Where it is in its life.
    pub state: State,
    /// `namespace/slug`, once the WAML has been read.
    pub app: Option<String>,
    /// The cluster.
    pub target: String,
    /// The service's repository, `OWNER/NAME`.
    pub repository: String,
    /// The commit that its WAML is read at.
    #[serde(default)]
    pub commit: String,
    /// The branch or tag that was asked for, for people.
    #[serde(rename = "ref", default)]
    pub git_ref: String,
    /// The image tag.
    pub tag: String,
    /// Who asked for it, as the forge names them.
    pub actor: String,
    /// Why, if they said; else empty.
    #[serde(default)]
    pub description: String,
    /// The forge's own number of it; null while the forge does not have it.
    pub forge_id: Option<i64>,
    /// Whether a program asked, and no person.
    #[serde(default)]
    pub automatic: bool,
    /// What makes it a rollback; null where it is none.
    #[serde(default, deserialize_with = "super::or_default")]
    pub rollback: Option<RollbackSummary>,
    /// When its event was stored.
    pub received_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How it ended, or what it waits for; one sentence for people.
    pub summary: String,
    /// The template and its version, `backend-default@latest`.
    pub template: Option<String>,
    /// Of the repository that the template comes from, if it comes from one.
    pub templates_commit: Option<String>,
    /// Where the app is reached.
    pub address: Option<String>,
    /// Whether the forge calls the target a production one.
    #[serde(default)]
    pub production: bool,
    /// How often a worker began on it.
    #[serde(default)]
    pub attempts: u32,
    /// How many violations stop it.
    pub errors: usize,
    /// How many do not.
    pub warnings: usize,
    /// What was pushed, if anything was.
    #[serde(default, deserialize_with = "super::or_default")]
    pub pushed: Option<Pushed>,
}

/// What makes a deployment a rollback.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rollback")]
pub struct RollbackSummary {
    /// The revision that becomes live again.
    pub to: String,
    /// The one that was live; null where somebody had edited it by hand.
    pub from: Option<String>,
    /// Why.
    pub reason: String,
    /// Whether automation is held afterwards; one that failed takes no hold.
    pub hold: bool,
}

/// A deployment by itself.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentDetail")]
pub struct DeploymentDetail {
    /// As in a list.
    #[serde(flatten)]
    pub summary: DeploymentSummary,
    /// How long each stage took, in order.
    pub stages: Vec<StageTime>,
    /// Broken rules, and warnings: as many as are kept.
    pub violations: Vec<Violation>,
    /// How many more there were; `errors` and `warnings` count all.
    #[serde(default)]
    pub violations_left_out: usize,
    /// What somebody had changed by hand in the manifest repository.
    pub hand_edit: Option<HandEdit>,
    /// What the forge was or will be told, oldest first.
    pub statuses: Vec<StatusSummary>,
    /// The page of it.
    #[schemars(with = "String")]
    pub log_url: Option<String>,
    /// What it changed in what the cluster syncs, object by object; null where nothing was pushed, or it
    /// cannot be told any more.
    pub changes: Option<Vec<Change>>,
}

/// A deployment as it is now, in a stream of events.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentPicture")]
pub struct DeploymentPicture<D = DeploymentSummary> {
    /// As in a list.
    #[serde(flatten)]
    pub summary: D,
    /// How long each stage took, in order.
    #[serde(default)]
    pub stages: Vec<StageTime>,
}

/// What the forge is told.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct StatusSummary {
    /// GitHub's word.
    pub state: String,
    /// One sentence.
    pub description: String,
    /// When it came to be so.
    pub at: Timestamp,
    /// When the forge took it.
    pub sent_at: Option<Timestamp>,
    /// Why nobody tries to send it any more.
    pub parked: Option<String>,
    /// Why there was nothing to say after all: a newer status took its place.
    pub skipped: Option<String>,
}

/// What happened to a deployment, in order.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentLog")]
pub struct DeploymentLog<L = LogLine> {
    /// Oldest first.
    pub lines: Vec<L>,
}

/// One thing that happened.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// What, for people; one sentence. Names and code stand between backticks.
    pub text: String,
}

/// What a caller says who deploys, where the service keeps the repositories itself.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct DeployRequest {
    /// The service's repository, `OWNER/NAME`.
    #[schemars(with = "forms::OfRepository")]
    pub repository: String,
    /// The whole name of a branch or tag, or a commit's id.
    #[serde(rename = "ref")]
    #[schemars(with = "forms::OfRef")]
    pub git_ref: String,
    /// The image tag.
    #[schemars(with = "forms::OfTag")]
    pub tag: String,
    /// The cluster.
    #[schemars(with = "forms::OfTarget")]
    pub target: String,
    /// Why, for people.
    #[serde(default)]
    #[schemars(with = "Option<forms::OfReason>")]
    pub description: Option<String>,
}

/// A deployment that is stored.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deploying")]
pub struct DeployAnswer {
    /// Its deploy id.
    pub id: String,
    /// The number that it has instead of a forge's.
    pub forge_id: i64,
}

/// What a caller says who cancels.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct CancelRequest {
    /// Why, for whoever looks at it later.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
}
