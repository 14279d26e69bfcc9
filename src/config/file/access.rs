//! As whom a git repository is reached.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::Secret;

/// As whom a git repository is reached that has no token of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RepositoryAuth {
    /// As the GitHub App of `forge.github.app`, which must be installed there.
    App,
    /// As anybody.
    None,
}

/// How to come in over ssh.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ssh {
    /// The private key, without a passphrase, as `ssh-keygen` writes it. A file is read anew for
    /// each exchange, so that it may be renewed.
    pub key: Secret,
    /// The file with the host keys that are believed, as `ssh-keyscan` writes it. No other host is.
    pub known_hosts: String,
}
