//! Rollbacks, and holds, which keep automation off an app.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::deployments::DeploymentSummary;
use crate::api::forms;
use crate::api::revisions::RevisionRollback;
use crate::model::change::Change;

/// What a caller says who rolls back.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct RollbackRequest {
    /// A revision; without one, the one before the live one.
    #[serde(default)]
    #[schemars(with = "Option<forms::OfDeployId>")]
    pub to: Option<String>,
    /// Why; one line.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
    /// Whether objects that keep data may go.
    #[serde(default)]
    pub with_data: bool,
    /// Whether Kubernetes may go down to one pod until the revision's autoscaler counts.
    // Left out where it is not asked for: an older service does not know it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    pub with_fewer_pods: bool,
    /// Only say what would become another.
    #[serde(default)]
    pub dry_run: bool,
}

/// A rollback as callers see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RollbackAnswer {
    /// The deployment that it is. Null where it was only asked what would be done.
    pub deployment: Option<DeploymentSummary>,
    /// What is live now; null where somebody edited it by hand.
    pub from: Option<RollbackVersion>,
    /// What becomes live again.
    pub to: RollbackVersion,
    /// That the revision was itself rolled back from; null where it was not, or is live again since.
    pub warning: Option<RevisionRollback>,
    /// What a person should know, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether automation is held afterwards.
    pub hold: bool,
    /// What becomes another; null where what is live cannot be read.
    pub changes: Option<Vec<Change>>,
}

/// A revision in a few words.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Version")]
pub struct RollbackVersion {
    /// Its deploy id.
    pub id: String,
    /// The image tag.
    pub tag: Option<String>,
    /// The commit that its WAML was read at.
    pub commit: Option<String>,
    /// The service's repository.
    pub repository: Option<String>,
    /// Who asked for it.
    pub actor: Option<String>,
    /// When it was made.
    pub at: Option<Timestamp>,
}

/// What a caller says who holds or releases.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct HoldRequest {
    /// Why; one line.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
}

/// A hold as callers see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Hold")]
pub struct HoldSummary {
    /// The cluster.
    #[serde(default)]
    pub target: String,
    /// `NAMESPACE/SLUG`
    #[serde(default)]
    pub app: String,
    /// Who took it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// The rollback that took it; null where a person did.
    pub rollback: Option<String>,
    /// The tag that was rolled back from.
    pub from: Option<String>,
    /// The tag that was rolled back to.
    pub to: Option<String>,
}

/// One hold.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OneHold")]
pub struct HoldAnswer {
    /// The hold, as it is or was.
    #[schemars(with = "Option<HoldSummary>")]
    pub hold: HoldSummary,
}

/// All holds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Holds")]
pub struct HoldList {
    /// The oldest first.
    pub holds: Vec<HoldSummary>,
}
