//! As whom a git repository is reached.

use schemars::JsonSchema;
use serde::Deserialize;

/// As whom a git repository is reached that has no token of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RepositoryAuth {
    /// As the GitHub App of `forge.github.app`, which must be installed there.
    App,
    /// As anybody.
    None,
}
