//! A manual edit: a change to an app's `latest` that the service did not write, found when the next deployment was
//! about to replace it.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{CommitSha, DeployId};
use crate::model::words::words;

/// The policy for a manual edit when the app is deployed the next time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HandEdits {
    /// The deployment replaces the edit; its log shows the edit.
    #[default]
    Replace,
    /// The deployment fails, and its log shows the edit.
    Stop,
}

/// A manual edit, with its files, their diff and its commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandEdit {
    /// True if the deployment replaced it; otherwise the edit stopped the deployment, or its push failed.
    pub replaced: bool,
    /// True if the edit would have been replaced, had the push not failed. A later try says what became of it.
    #[serde(default)]
    pub push_failed: bool,
    /// The revision that differs least; none where there is no other.
    pub base: Option<DeployId>,
    /// The files that differ from it, by name.
    pub files: Vec<EditedFile>,
    /// The differences from it as a unified diff. Bounded: it names the parts that are left out.
    pub diff: String,
    /// The commit that left `latest` in this state, where it can be found.
    pub commit: Option<EditCommit>,
}

/// A file with a manual edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EditedFile {
    /// The path below `latest`.
    pub name: String,
    /// The kind of edit.
    pub how: HandEditKind,
}

words! {
    /// The kind of change to a file.
    #[schemars(rename = "Edited")]
    pub enum HandEditKind {
        /// The revision has it not.
        Added = "added",
        /// The revision has other bytes.
        Changed = "changed",
        /// The revision has it.
        Removed = "removed",
    }
}

/// The commit of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EditCommit {
    /// The commit.
    pub id: CommitSha,
    /// The name of its author, in one line.
    pub author: String,
    /// The author's time of the commit.
    pub at: Timestamp,
}

/// The number of files that a sentence names.
const MAX_NAMES: usize = 5;

/// `deployment.yaml (changed), extra.yaml (added), in 0123456789ab by Jo`
impl fmt::Display for HandEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.iter().take(MAX_NAMES);
        let descriptions: Vec<_> =
            files.map(|file| format!("{} ({})", file.name, file.how.as_str())).collect();
        f.write_str(&descriptions.join(", "))?;
        let hidden = self.files.len().saturating_sub(MAX_NAMES);
        if hidden > 0 {
            write!(f, " and {hidden} more")?;
        }
        match &self.commit {
            Some(EditCommit { id, author, at: _ }) => {
                let short: String = id.as_str().chars().take(12).collect();
                write!(f, ", in {short} by {author}")
            }
            None => Ok(()),
        }
    }
}
