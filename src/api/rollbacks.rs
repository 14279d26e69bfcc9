//! Rollbacks, and holds, which keep automation off an app.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::deployments::DeploymentSummary;
use crate::api::forms;
use crate::api::revisions::RevisionRollback;
use crate::model::change::Change;

/// The request to roll back.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct RollbackRequest {
    /// The revision; absent: the one before the live one.
    #[serde(default)]
    #[schemars(with = "Option<forms::OfDeployId>")]
    pub to: Option<String>,
    /// The revision that must be live, else nothing is done; absent: any.
    // Omitted by default, because an older service does not know the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::OfDeployId>", !skip_serializing_if)]
    pub live: Option<String>,
    /// The reason; one line.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
    /// Allow the loss of objects that keep data.
    #[serde(default)]
    pub with_data: bool,
    /// Accept that Kubernetes may go down to one pod until the revision's autoscaler works.
    // Omitted by default, because an older service does not know the key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    pub with_fewer_pods: bool,
    /// Only return what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// A rollback as callers see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RollbackAnswer {
    /// The deployment of the rollback; null for a dry run.
    pub deployment: Option<DeploymentSummary>,
    /// The live revision; null if `latest` was edited by hand.
    pub from: Option<RollbackVersion>,
    /// The revision that becomes live.
    pub to: RollbackVersion,
    /// An earlier rollback that replaced the revision; null if there was none, or it is live again since.
    pub warning: Option<RevisionRollback>,
    /// Notes for people, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// True if the rollback takes a hold.
    pub hold: bool,
    /// The changes; null if the live files cannot be read.
    pub changes: Option<Vec<Change>>,
}

/// The main data of a revision.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Version")]
pub struct RollbackVersion {
    /// Its deploy id.
    pub id: String,
    /// The image tag.
    pub tag: Option<String>,
    /// The commit of its WAML.
    pub commit: Option<String>,
    /// The service repository.
    pub repository: Option<String>,
    /// The actor of its deployment.
    pub actor: Option<String>,
    /// The time when it was made.
    pub at: Option<Timestamp>,
}

/// The request to hold an app.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct HoldRequest {
    /// The reason; one line.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
}

/// The request to release an app.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The reason; one line.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
    /// The rollback whose hold is released, else nothing is done; absent: whichever hold there is.
    // Omitted by default, because an older service does not know the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::OfDeployId>", !skip_serializing_if)]
    pub rollback: Option<String>,
}

/// A hold as callers see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Hold")]
pub struct HoldSummary {
    /// The target.
    #[serde(default)]
    pub target: String,
    /// `NAMESPACE/SLUG`.
    #[serde(default)]
    pub app: String,
    /// The person or token that took it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The time when it was taken.
    pub since: Timestamp,
    /// The rollback that took it; null if a person took it.
    pub rollback: Option<String>,
    /// The tag that was rolled back.
    pub from: Option<String>,
    /// The tag that was restored.
    pub to: Option<String>,
}

/// One hold.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OneHold")]
pub struct HoldAnswer {
    /// The hold that was taken or released.
    #[schemars(with = "Option<HoldSummary>")]
    pub hold: HoldSummary,
}

/// All holds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Holds")]
pub struct HoldList {
    /// The holds, oldest first.
    pub holds: Vec<HoldSummary>,
}
