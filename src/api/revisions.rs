//! Revisions: what an app was on a target, and the files of one.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::change::Change;

/// An app's history on a target.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "History")]
pub struct RevisionList {
    /// Newest first.
    pub revisions: Vec<RevisionSummary>,
    /// Whether somebody edited what the cluster syncs by hand; then no revision is live.
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
    /// Whether it is live.
    pub live: bool,
    /// The image tag.
    pub tag: Option<String>,
    /// The commit that its WAML was read at.
    pub commit: Option<String>,
    /// The service's repository.
    pub repository: Option<String>,
    /// Who asked for it.
    pub actor: Option<String>,
    /// Why, if they said.
    pub reason: Option<String>,
    /// When it was made.
    pub at: Option<Timestamp>,
    /// The template and its version.
    pub template: Option<String>,
    /// The digest of its files, as each workload carries it.
    pub digest: Option<String>,
    /// That it was rolled back from; null where it was not, or is live again since.
    pub rolled_back: Option<RevisionRollback>,
}

/// That a revision was rolled back from.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RolledBack")]
pub struct RevisionRollback {
    /// The rollback.
    pub rollback: String,
    /// Who did it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// A revision with its files.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevisionDetail {
    /// As in a list.
    #[serde(flatten)]
    pub summary: RevisionSummary,
    /// By name; those of more than a mebibyte are left out.
    pub files: Vec<RevisionFile>,
    /// What would change if it were live, object by object; null where a file is not one that we
    /// wrote.
    pub changes: Option<Vec<Change>>,
}

/// A file of a revision.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "File")]
pub struct RevisionFile {
    /// Its name.
    pub name: String,
    /// Its text; null where it holds a Secret, or is not one that we wrote.
    pub text: Option<String>,
}
