//! How commits are signed.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::Secret;

/// The key that commits are signed with.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signing {
    /// `ssh`, or `openpgp` by the program `gpg`, which Argo CD can check.
    pub format: SigningFormat,
    /// The private key: an Ed25519 one that `ssh-keygen` made, or what `gpg --armor
    /// --export-secret-keys` prints. It is read at start.
    pub key: Secret,
    /// What unlocks it, if it is locked.
    #[serde(default)]
    pub passphrase: Option<Secret>,
}

/// The kind of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SigningFormat {
    /// By an ssh key.
    Ssh,
    /// By an OpenPGP key.
    OpenPgp,
}
