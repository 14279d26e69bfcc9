//! Apps: the list of apps, one app, and its removal.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::deployments::DeploymentSummary;
use crate::api::forms;
use crate::api::locks::LockSummary;
use crate::api::rollbacks::HoldSummary;
use crate::model::facts::LiveObject;

/// Apps, by target, namespace and name.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AppPage")]
pub struct AppPage<A = AppSummary, M = MissingRepository> {
    /// The apps of this page.
    pub apps: Vec<A>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
    /// The repositories that could not be read, whose apps may be missing.
    #[serde(default = "Vec::new")]
    #[schemars(!default)]
    pub missing: Vec<M>,
}

/// A manifest repository that cannot be read now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MissingRepository {
    /// The name of the repository in the configuration.
    #[serde(default)]
    pub repository: String,
    /// The reason.
    #[serde(default)]
    pub why: String,
}

/// An app on a target.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AppOverview")]
pub struct AppSummary {
    /// The target.
    pub target: String,
    /// Its namespace.
    pub namespace: String,
    /// Its slug.
    pub app: String,
    /// The deploy id of the revision in `latest`; null if `latest` was edited by hand.
    pub live_revision: Option<String>,
    /// The image tag of that revision; null if the service does not know it.
    pub tag: Option<String>,
    /// The time when that revision was made.
    pub at: Option<Timestamp>,
    /// The app's hosts.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The owner's e-mail address, from the app's Application.
    pub owner: Option<String>,
    /// The service repository, from the app's Application.
    pub repository: Option<String>,
    /// True if a lock stops deployments of the app.
    #[serde(default)]
    pub locked: bool,
    /// True if automation is held off the app.
    #[serde(default)]
    pub held: bool,
    /// The newest deployment, if it has failed, also before its app was known; then the live revision is older.
    pub failed: Option<FailedDeployment>,
}

/// A deployment that has failed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FailedDeployment {
    /// Its deploy id.
    pub id: String,
    /// The image tag.
    pub tag: String,
}

/// The current state of an app on a target.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "App")]
pub struct AppDetail {
    /// The target.
    #[serde(default)]
    pub target: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its slug.
    #[serde(default)]
    pub app: String,
    /// The service repository.
    pub repository: Option<String>,
    /// The owner's e-mail address.
    pub owner: Option<String>,
    /// The app's hosts.
    pub hosts: Vec<String>,
    /// The live revision; null if there is none, or `latest` was edited by hand.
    pub live: Option<LiveRevision>,
    /// True if the files that the cluster syncs were edited by hand.
    pub hand_edited: bool,
    /// Deployments that have not ended, newest first.
    pub under_way: Vec<DeploymentSummary>,
    /// The newest deployment, in any state; also one of the app's repository that has failed before its app was known.
    pub last: Option<DeploymentSummary>,
    /// The locks that stop deployments of the app, oldest first.
    pub locks: Vec<LockSummary>,
    /// The hold that keeps automation off the app; null if there is none.
    pub hold: Option<HoldSummary>,
    /// The notification of Argo CD about the newest push.
    pub sync: SyncSummary,
}

/// The live revision.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Live")]
pub struct LiveRevision {
    /// The deploy id that names the revision.
    pub revision: String,
    /// The app by the name of its file, where its repository has several; null for the only one.
    #[serde(default)]
    pub app_name: Option<String>,
    /// The image tag.
    pub tag: Option<String>,
    /// The commit of its WAML.
    pub commit: Option<String>,
    /// The time when the revision was made.
    pub at: Option<Timestamp>,
    /// The actor of its deployment.
    pub actor: Option<String>,
    /// The rollback that made it live again; null if there was none.
    pub rollback: Option<LiveRollback>,
}

/// A rollback that made a revision live again.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LiveRollback {
    /// The id of its deployment.
    pub id: String,
    /// The revision that was live before; null if `latest` was edited by hand.
    pub from: Option<String>,
    /// The actor.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The time of the rollback.
    pub at: Option<Timestamp>,
}

/// The notification of Argo CD about the newest push.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sync")]
pub struct SyncSummary {
    /// `told`, `waiting` (to be sent), `given-up` or `by-itself`: Argo CD is not notified and polls every few minutes.
    pub state: String,
    /// The reason why it was not notified.
    pub why: Option<String>,
    /// The time when it was notified.
    pub told_at: Option<Timestamp>,
}

/// The request to remove an app.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct RemovalRequest {
    /// The reason; one line.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
    /// Allow the loss of objects that keep data.
    #[serde(default)]
    pub with_data: bool,
    /// Only return what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A removal as callers see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Removal")]
pub struct RemovalAnswer {
    /// `removed`, `already-removed` or `would-remove`.
    pub outcome: String,
    /// The removal's id; null for a dry run.
    pub id: Option<String>,
    /// The target.
    pub target: String,
    /// `NAMESPACE/SLUG`.
    pub app: String,
    /// The actor.
    pub actor: String,
    /// The reason.
    pub reason: String,
    /// The time of the request.
    pub asked_at: Timestamp,
    /// The commit that removed the app.
    pub commit: Option<String>,
    /// The result; one sentence.
    pub summary: Option<String>,
    /// The digest of the live revision.
    pub digest: Option<String>,
    /// The paths in the manifest repository.
    pub files: Vec<String>,
    /// The objects that were live.
    pub objects: Vec<LiveObject>,
    /// The objects that keep data, or of which this is unknown.
    pub keeps_data: Vec<LiveObject>,
    /// Further notes, one sentence each.
    pub notes: Vec<String>,
}
