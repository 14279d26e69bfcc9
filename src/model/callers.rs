//! Who may call the API and see the pages, as the configuration says and the server asks. Pure.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::id::TeamName;
use crate::support::globs::Globs;

/// A token that may call the API, known by its hash only.
#[derive(Debug, Clone)]
pub struct ApiToken {
    /// Whose it is, for the log and for what they do.
    pub name: String,
    /// The SHA-256 of its text.
    pub sha256: [u8; 32],
    /// What it is good for.
    pub rights: Arc<Rights>,
}

/// What may be done, on which targets, to which apps.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// How much.
    pub scope: Scope,
    /// Over target names.
    pub targets: Globs,
    /// Over `namespace/slug`.
    pub apps: Globs,
}

/// What may be done; each holds those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// See what there is, and what would be.
    Read,
    /// Deploy, roll back, hold, lock and remove apps.
    Deploy,
    /// What concerns many apps: locks on targets, the audit log.
    #[default]
    Admin,
}

/// The teams at GitHub whose members may more than GitHub lets them do with a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitHubTeams {
    /// Their members may do everything.
    pub admins: Vec<TeamName>,
    /// Their members may read everything.
    pub readers: Vec<TeamName>,
}

/// Who may see the pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Who gives one of the tokens as the password; everybody, where there are none.
    #[default]
    Token,
    /// Everybody who can reach the listener.
    Open,
}
