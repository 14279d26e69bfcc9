//! Revisions: the history of an app on a target, and one revision with its files.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::change::Change;

/// An app's history on a target.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "History")]
pub struct RevisionList {
    /// The revisions, newest first.
    pub revisions: Vec<RevisionSummary>,
    /// True if the files that the cluster syncs were edited by hand; then no revision is live.
    pub hand_edited: bool,
}

/// An entry of an app's history.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Revision")]
pub struct RevisionSummary {
    /// Its deploy id.
    pub id: String,
    /// The id of its tree in git: equal for equal files.
    pub tree: String,
    /// True if it is live.
    pub live: bool,
    /// The image tag.
    pub tag: Option<String>,
    /// The commit of its WAML.
    pub commit: Option<String>,
    /// The service repository.
    pub repository: Option<String>,
    /// The actor of its deployment.
    pub actor: Option<String>,
    /// The actor's description, if there was one.
    pub reason: Option<String>,
    /// The time when it was made.
    pub at: Option<Timestamp>,
    /// The template and its version.
    pub template: Option<String>,
    /// The digest of its files, as each workload carries it.
    pub digest: Option<String>,
    /// The rollback that replaced it; null if there was none, or it is live again.
    pub rolled_back: Option<RevisionRollback>,
    /// Its failure in the cluster; null if its last end there was none.
    #[serde(default)]
    pub failed: Option<RevisionFailure>,
}

/// The failure of a revision in its cluster.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevisionFailure {
    /// The deploy id of the deployment that failed.
    pub deployment: String,
    /// The cause.
    pub summary: String,
    /// The time.
    pub at: Timestamp,
}

/// A rollback that replaced a revision.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolledBack")]
pub struct RevisionRollback {
    /// The deploy id of the rollback.
    pub rollback: String,
    /// The actor.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The time.
    pub at: Timestamp,
}

/// A revision with its files.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevisionDetail {
    /// The same keys as in a list.
    #[serde(flatten)]
    pub summary: RevisionSummary,
    /// The files by name, without those of more than a mebibyte.
    pub files: Vec<RevisionFile>,
    /// The changes if it were made live, object by object; null if the service did not write one of the files.
    pub changes: Option<Vec<Change>>,
}

/// A file of a revision.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "File")]
pub struct RevisionFile {
    /// Its name.
    pub name: String,
    /// Its text; null if it has a Secret, or the service did not write it.
    pub text: Option<String>,
}
