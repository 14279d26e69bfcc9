//! How commits are signed.

use std::path::PathBuf;

use crate::git::signing::key::Key;

/// The key that commits are signed with.
#[derive(Debug, Clone)]
pub struct Signing {
    /// Read and, as far as that can be seen without `gpg`, good.
    pub key: Key,
    /// The folder for `gpg`, which an ssh key has no use for. Nobody else may use it.
    pub home: PathBuf,
}
