//! The API tokens, their permissions, and the access to pages, as the configuration sets them. Pure.

use std::sync::Arc;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::id::{TargetName, TeamName};
use crate::support::credential::Credential;
use crate::support::globs::Globs;

/// A token that may call the API, known by its hash only.
#[derive(Debug, Clone)]
pub struct ApiToken {
    /// The name of the token's owner, for the log and for their acts.
    pub name: String,
    /// The SHA-256 of its text.
    pub sha256: [u8; 32],
    /// The permissions of the token.
    pub rights: Arc<Rights>,
}

/// The token of a cluster's agent: it may report what happens there, and nothing else.
#[derive(Debug, Clone)]
pub struct AgentToken {
    /// The cluster.
    pub cluster: TargetName,
    /// Its text, which may change in its file while the service runs.
    pub credential: Credential,
}

impl AgentToken {
    /// The fewest characters: a shorter one could be guessed.
    pub const MIN_CHARACTERS: usize = 20;
}

/// The permissions of a token: acts, targets and apps.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// The acts that it allows.
    pub scope: Scope,
    /// The targets that it may act on, by name.
    pub targets: Globs,
    /// The apps that it may act on, by `namespace/slug`.
    pub apps: Globs,
}

/// The acts that a token allows; each scope includes those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// See what there is, and what would be.
    Read,
    /// Deploy, roll back, hold, lock and remove apps.
    Deploy,
    /// Acts that concern many apps: locks on targets, the audit log.
    #[default]
    Admin,
}

/// The teams at GitHub whose members may do more than their GitHub permissions on a repository allow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitHubTeams {
    /// The teams whose members may do everything.
    pub admins: Vec<TeamName>,
    /// The teams whose members may read everything.
    pub readers: Vec<TeamName>,
}

/// The time for which people stay signed in on the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTimes {
    /// The longest time without a request.
    pub idle: SignedDuration,
    /// The longest time at all.
    pub longest: SignedDuration,
}

/// The access rule for the pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Readers give one of the tokens as the password; everybody reads, where there are none.
    #[default]
    Token,
    /// Everybody who can reach the listener reads them.
    Open,
}
