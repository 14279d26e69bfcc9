//! A signature with an ssh key, as `ssh-keygen -Y sign -n git` makes it.
//!
//! Only Ed25519: the kind that `ssh-keygen` creates by default, that every git host accepts, and that needs nothing
//! beside the libraries of TLS.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey, PublicKey, Signature, SshSig};

use crate::git::error::SigningError;

/// The namespace of git's signatures: such a signature is valid for git and for nothing else.
const NAMESPACE: &str = "git";

/// An unlocked Ed25519 key.
#[derive(Clone)]
pub struct SshKey {
    pair: Arc<Ed25519KeyPair>,
    public: PublicKey,
}

impl SshKey {
    /// Builds a signer from a key that is not locked; `None` if it is of another kind or contradicts itself.
    pub(super) fn new(key: &PrivateKey) -> Option<Self> {
        let (seed, public) = key.key_data().ed25519().map(|key| (&key.private, key.public))?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed.as_ref(), &public.0).ok()?;
        Some(Self { pair: Arc::new(pair), public: key.public_key().clone() })
    }

    pub(super) fn sign(&self, payload: &[u8]) -> Result<String, SigningError> {
        self.to_armor(payload).map_err(|_| SigningError::Ssh)
    }

    fn to_armor(&self, payload: &[u8]) -> ssh_key::Result<String> {
        let payload_with_namespace = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, payload)?;
        let raw = self.pair.sign(&payload_with_namespace);
        let signature = Signature::new(Algorithm::Ed25519, raw.as_ref().to_vec())?;
        let public = self.public.key_data().clone();
        let sealed = SshSig::new(public, NAMESPACE, HashAlg::Sha512, signature)?;
        Ok(sealed.to_pem(LineEnding::LF)?.trim_end().to_owned())
    }

    /// Returns `SHA256:…`, as `ssh-keygen -l` shows it.
    pub(super) fn fingerprint(&self) -> String {
        self.public.fingerprint(HashAlg::Sha256).to_string()
    }

    /// Returns the public half: a line for `allowed_signers` or a git host.
    pub fn public(&self) -> String {
        self.public.to_openssh().unwrap_or_default()
    }
}

impl fmt::Debug for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SshKey").field(&self.fingerprint()).finish()
    }
}
