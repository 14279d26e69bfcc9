//! Signatures of commits, as git itself makes and checks them.
//!
//! ```text
//! key        pure: the operator's key, read and checked
//! ssh        a signature with an ssh key, made in this process
//! openpgp    a signature by the system's `gpg`, in a home of its own that nobody else uses
//! program    runs that program: bounded in time and in its output
//! ```
//!
//! The module knows no repository and no commit: bytes in, armored text out. The caller decides what is signed.

pub mod key;
mod openpgp;
mod program;
mod ssh;

use std::path::PathBuf;

pub use crate::git::error::SigningError;
use crate::git::signing::key::SigningPrivateKey;
use crate::git::signing::openpgp::GnupgHome;
pub use crate::git::signing::ssh::SshKey;

/// A key, and the folder for its use.
#[derive(Debug, Clone)]
pub struct SigningKey {
    /// The key.
    pub key: SigningPrivateKey,
    /// The folder for homes of `gpg`, which an ssh key does not need. Its content is removed; no other program may use
    /// it.
    pub home: PathBuf,
}

/// Signs commits with one key. Dropped, nothing of it is left on the disk.
#[derive(Debug)]
pub struct CommitSigner(Means);

#[derive(Debug)]
enum Means {
    Ssh(Box<SshKey>),
    OpenPgp(GnupgHome),
}

impl CommitSigner {
    /// Makes ready to sign. One signature is made for trial, so that a wrong passphrase or an
    /// expired key is found now. Blocks.
    ///
    /// # Errors
    /// [`SigningError`]
    pub fn open(SigningKey { key, home }: &SigningKey) -> Result<Self, SigningError> {
        let signing = match key {
            SigningPrivateKey::Ssh(key) => Self(Means::Ssh(key.clone())),
            SigningPrivateKey::OpenPgp(key) => Self(Means::OpenPgp(GnupgHome::open(key, home)?)),
        };
        signing.sign(b"a signature for trial\n").map(|_| signing)
    }

    /// Signs those bytes: the signature is armored, without a line's end after it, as the value of a commit's header
    /// `gpgsig`. Blocks; some milliseconds for OpenPGP.
    ///
    /// # Errors
    /// [`SigningError`]
    pub fn sign(&self, payload: &[u8]) -> Result<String, SigningError> {
        match &self.0 {
            Means::Ssh(key) => key.sign(payload),
            Means::OpenPgp(home) => home.sign(payload),
        }
    }

    /// Removes the files on the disk; another signature brings them back. Blocks.
    pub fn close(&self) {
        match &self.0 {
            Means::Ssh(_) => {}
            Means::OpenPgp(home) => home.close(),
        }
    }

    /// Returns the fingerprint that others know the key by: `SHA256:…` or an OpenPGP fingerprint.
    pub fn fingerprint(&self) -> String {
        match &self.0 {
            Means::Ssh(key) => key.fingerprint(),
            Means::OpenPgp(home) => home.fingerprint().to_owned(),
        }
    }
}

#[cfg(test)]
pub(in crate::git) mod tests;
