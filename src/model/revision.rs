//! A revision: one immutable entry of an app's history on a target.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, DeployId, TargetName};

/// One rendered file: a name without folders, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestFile {
    /// `deployment.yaml`
    pub name: String,
    /// UTF-8 YAML; ends with a newline.
    pub bytes: Vec<u8>,
}

impl ManifestFile {
    /// The longest name in bytes.
    pub const LONGEST_NAME: usize = 200;
}

/// The digest over all rendered files of a revision, without its own annotation.
///
/// Printed as `sha256:` and 64 hexadecimal digits. The same result has the same digest, by any deployment at any time;
/// a rollback brings the old one back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Digest(pub String);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rendered files of one deployment, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The deployment that made it; names its folder.
    pub id: DeployId,
    /// The app whose history the revision joins.
    pub app: AppKey,
    /// The target of the revision.
    pub target: TargetName,
    /// The files, at least one, sorted by name, no name twice.
    pub files: Vec<ManifestFile>,
    /// The digest over `files`.
    pub digest: Digest,
}
