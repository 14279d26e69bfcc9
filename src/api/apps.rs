//! Apps: lists of what is where, one by itself, and its removal.

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
    /// This page of them.
    pub apps: Vec<A>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
    /// Where there may be more.
    #[serde(default = "Vec::new")]
    #[schemars(!default)]
    pub missing: Vec<M>,
}

/// A manifest repository that cannot be read now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MissingRepository {
    /// What the configuration calls it.
    #[serde(default)]
    pub repository: String,
    /// Why not.
    #[serde(default)]
    pub why: String,
}

/// An app on a target.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AppOverview")]
pub struct AppSummary {
    /// The cluster.
    pub target: String,
    /// Its namespace.
    pub namespace: String,
    /// Its slug.
    pub app: String,
    /// The deploy id of the revision that `latest` has; null where somebody edited it by hand.
    pub live_revision: Option<String>,
    /// The image tag of that revision; null where the service does not know it.
    pub tag: Option<String>,
    /// When that revision was made.
    pub at: Option<Timestamp>,
    /// The hosts that it is reached at.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// The owning team's e-mail address, as the app's Application says.
    pub owner: Option<String>,
    /// The service's repository, as the app's Application says.
    pub repository: Option<String>,
    /// Whether a lock stops deployments of it.
    #[serde(default)]
    pub locked: bool,
    /// Whether automation is held off it.
    #[serde(default)]
    pub held: bool,
    /// The newest deployment, if it has failed: what is live is of an older one.
    pub failed: Option<FailedDeployment>,
}

/// A deployment that has failed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FailedDeployment {
    /// Its deploy id.
    pub id: String,
    /// The image tag that it was to bring.
    pub tag: String,
}

/// An app on a target, now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "App")]
pub struct AppDetail {
    /// The cluster.
    #[serde(default)]
    pub target: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its slug.
    #[serde(default)]
    pub app: String,
    /// The service's repository.
    pub repository: Option<String>,
    /// The owning team's e-mail address.
    pub owner: Option<String>,
    /// The hosts that it is reached at.
    pub hosts: Vec<String>,
    /// The revision that is live; null where there is none, or somebody edited it by hand.
    pub live: Option<LiveRevision>,
    /// Whether somebody edited what the cluster syncs by hand.
    pub hand_edited: bool,
    /// Deployments that have not ended, newest first.
    pub under_way: Vec<DeploymentSummary>,
    /// The newest deployment, whatever became of it.
    pub last: Option<DeploymentSummary>,
    /// The locks that stop it, oldest first.
    pub locks: Vec<LockSummary>,
    /// What keeps automation off it; null where nothing does.
    pub hold: Option<HoldSummary>,
    /// Whether Argo CD knows of the newest push.
    pub sync: SyncSummary,
}

/// What is live.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Live")]
pub struct LiveRevision {
    /// The deploy id that names the revision.
    pub revision: String,
    /// The image tag.
    pub tag: Option<String>,
    /// The commit that its WAML was read at.
    pub commit: Option<String>,
    /// When the revision was made.
    pub at: Option<Timestamp>,
    /// Who asked for it.
    pub actor: Option<String>,
    /// The rollback that made it live again; null where none did.
    pub rollback: Option<LiveRollback>,
}

/// A rollback that made a revision live again.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LiveRollback {
    /// The deployment that it is.
    pub id: String,
    /// The revision that was live before; null where somebody had edited it by hand.
    pub from: Option<String>,
    /// Who rolled back.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When it was done.
    pub at: Option<Timestamp>,
}

/// Whether Argo CD knows of the newest push.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sync")]
pub struct SyncSummary {
    /// `told`, `waiting` (to be told), `given-up` or `by-itself`: nobody tells it, it looks every few
    /// minutes.
    pub state: String,
    /// Why it was not told.
    pub why: Option<String>,
    /// When it was told.
    pub told_at: Option<Timestamp>,
}

/// What a caller says who removes an app.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct RemovalRequest {
    /// Why; one line.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
    /// Whether objects that keep data may go, too.
    #[serde(default)]
    pub with_data: bool,
    /// Only say what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A removal as callers see it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Removal")]
pub struct RemovalAnswer {
    /// `removed`, `already-removed` or `would-remove`.
    pub outcome: String,
    /// The removal's id; none where it was only asked.
    pub id: Option<String>,
    /// The cluster.
    pub target: String,
    /// `NAMESPACE/SLUG`
    pub app: String,
    /// Who asked.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When.
    pub asked_at: Timestamp,
    /// The commit that took it away.
    pub commit: Option<String>,
    /// How it ended; one sentence.
    pub summary: Option<String>,
    /// Of what was live.
    pub digest: Option<String>,
    /// The paths in the manifest repository.
    pub files: Vec<String>,
    /// The objects that were live.
    pub objects: Vec<LiveObject>,
    /// Those of them that keep data, or of which nobody can tell.
    pub keeps_data: Vec<LiveObject>,
    /// What else to know, one sentence each.
    pub notes: Vec<String>,
}
