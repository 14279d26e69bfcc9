//! The key that signs commits, as the operator configured it. Pure.
//!
//! An ssh key is read whole here, its passphrase tried. Of an OpenPGP key only the armor is read, and that it is a
//! secret key; its capabilities only `gpg` knows.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret, SecretString};
use ssh_key::PrivateKey;

use crate::git::signing::ssh::SshKey;

/// A key of one of the two kinds that git signs with.
#[derive(Debug, Clone)]
pub enum SigningPrivateKey {
    /// `gpg.format = ssh`
    Ssh(Box<SshKey>),
    /// `gpg.format = openpgp`
    OpenPgp(OpenPgpKey),
}

/// An armored secret key, and what unlocks it.
#[derive(Clone)]
pub struct OpenPgpKey {
    pub(super) armored: SecretString,
    pub(super) passphrase: Option<SecretString>,
}

/// The fault of a key or its passphrase. Nothing of them is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    /// The text is no key.
    #[error("this is no {0}")]
    NoKey(&'static str),
    /// The text is a public key.
    #[error("this is the public half of a key, not the private one")]
    Public,
    /// A key of the other format.
    #[error("this is {0}, which another `format` is for")]
    OtherFormat(&'static str),
    /// An ssh key of another kind.
    #[error("this is an ssh key of another kind ({0}): commits are signed with ssh-ed25519")]
    OtherKind(String),
    /// The key is locked with a passphrase that is not given.
    #[error("this key is locked with a passphrase, and `passphrase` is not given")]
    Locked,
    /// The passphrase is another one.
    #[error("the passphrase does not unlock this key")]
    WrongPassphrase,
    /// The passphrase has several lines and would be cut.
    #[error("a passphrase of several lines cannot be given to gpg")]
    Lines,
    /// The text is damaged.
    #[error("this key is damaged, or a part of it is missing")]
    Damaged,
}

impl SigningKeyError {
    /// Returns whether it is the passphrase that is wrong, and not the key.
    pub fn is_of_passphrase(&self) -> bool {
        matches!(self, Self::WrongPassphrase | Self::Lines)
    }
}

const SSH: &str = "OPENSSH PRIVATE KEY";
const OPENPGP: &str = "PGP PRIVATE KEY BLOCK";

impl SigningPrivateKey {
    /// Reads the private key in a file that `ssh-keygen` made.
    ///
    /// # Errors
    /// [`SigningKeyError`]
    pub fn ssh(
        text: &SecretString,
        passphrase: Option<&SecretString>,
    ) -> Result<Self, SigningKeyError> {
        let text = lines_of(text);
        match begins_with(text.expose_secret()) {
            Some(SSH) => {}
            Some(OPENPGP) => return Err(SigningKeyError::OtherFormat("an OpenPGP key")),
            Some(kind) if kind.ends_with("PRIVATE KEY") => {
                return Err(SigningKeyError::OtherKind(kind.to_owned()));
            }
            _ if is_public(text.expose_secret()) => return Err(SigningKeyError::Public),
            _ => {
                return Err(SigningKeyError::NoKey(
                    "private ssh key: one begins with -----BEGIN OPENSSH PRIVATE KEY-----",
                ));
            }
        }
        let key =
            PrivateKey::from_openssh(text.expose_secret()).map_err(|error| unreadable(&error))?;
        let key = unlock(key, passphrase)?;
        let kind = key.algorithm();
        if !matches!(kind, ssh_key::Algorithm::Ed25519) {
            return Err(SigningKeyError::OtherKind(kind.to_string()));
        }
        SshKey::new(&key).map(|key| Self::Ssh(Box::new(key))).ok_or(SigningKeyError::Damaged)
    }

    /// Reads the secret key that `gpg --armor --export-secret-keys KEY` prints.
    ///
    /// # Errors
    /// [`SigningKeyError`]
    pub fn openpgp(
        text: &SecretString,
        passphrase: Option<&SecretString>,
    ) -> Result<Self, SigningKeyError> {
        let armored = lines_of(text);
        match begins_with(armored.expose_secret()) {
            Some(OPENPGP) => {}
            Some("PGP PUBLIC KEY BLOCK") => return Err(SigningKeyError::Public),
            Some(kind) if kind.ends_with("PRIVATE KEY") => {
                return Err(SigningKeyError::OtherFormat("a key of ssh or TLS"));
            }
            _ => {
                return Err(SigningKeyError::NoKey(
                    "secret OpenPGP key: one begins with -----BEGIN PGP PRIVATE KEY BLOCK-----",
                ));
            }
        }
        if !holds_secret_key(armored.expose_secret()).unwrap_or(false) {
            return Err(SigningKeyError::Damaged);
        }
        if passphrase.is_some_and(|text| text.expose_secret().contains(['\n', '\r', '\0'])) {
            return Err(SigningKeyError::Lines);
        }
        Ok(Self::OpenPgp(OpenPgpKey { armored, passphrase: passphrase.cloned() }))
    }
}

/// Restores the lines of a key: a variable often has the two characters in place of a line's end.
fn lines_of(text: &SecretString) -> SecretString {
    let text = text.expose_secret().replace("\\n", "\n").replace("\r\n", "\n");
    format!("{}\n", text.trim()).into()
}

/// Returns the label in the first line of an armor: `OPENSSH PRIVATE KEY`.
fn begins_with(text: &str) -> Option<&str> {
    text.strip_prefix("-----BEGIN ")?.split("-----").next()
}

fn is_public(text: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-", "-----BEGIN PUBLIC KEY", "---- BEGIN SSH2 PUBLIC"]
        .iter()
        .any(|beginning| text.starts_with(beginning))
}

fn unreadable(error: &ssh_key::Error) -> SigningKeyError {
    match error {
        ssh_key::Error::AlgorithmUnknown => {
            SigningKeyError::OtherKind("ECDSA or a newer one".to_owned())
        }
        _ => SigningKeyError::Damaged,
    }
}

fn unlock(
    key: PrivateKey,
    passphrase: Option<&SecretString>,
) -> Result<PrivateKey, SigningKeyError> {
    match (key.is_encrypted(), passphrase) {
        (false, _) => Ok(key),
        (true, None) => Err(SigningKeyError::Locked),
        (true, Some(passphrase)) => {
            key.decrypt(passphrase.expose_secret()).map_err(|_| SigningKeyError::WrongPassphrase)
        }
    }
}

/// Returns whether an armor is whole and its first packet is a secret key (RFC 9580, 6.2 and
/// 5.5.1.3).
fn holds_secret_key(armored: &str) -> Option<bool> {
    let (_, rest) = armored.split_once("-----\n")?;
    let (inner, _) = rest.split_once("-----END PGP PRIVATE KEY BLOCK-----")?;
    // Headers such as `Comment: …` end with an empty line.
    let body = inner.split_once("\n\n").map_or(inner, |(_, body)| body);
    let (sum, data): (Vec<&str>, Vec<&str>) =
        body.lines().map(str::trim).partition(|line| line.starts_with('='));
    let bytes = BASE64_STANDARD.decode(data.concat()).ok()?;
    let sum = sum.first().map(|sum| BASE64_STANDARD.decode(sum.trim_start_matches('=')));
    let is_intact = match sum {
        // RFC 9580 lets it be left out.
        None => true,
        Some(sum) => sum.ok()? == crc24(&bytes),
    };
    Some(is_intact && bytes.first().is_some_and(|head| tag(*head) == SECRET_KEY))
}

const SECRET_KEY: u8 = 5;

/// Returns the kind of a packet, from its first byte in the new or the old form.
fn tag(head: u8) -> u8 {
    if head & 0xc0 == 0xc0 { head & 0x3f } else { (head >> 2) & 0x0f }
}

/// Computes the checksum of RFC 9580, 6.1.1.
fn crc24(bytes: &[u8]) -> [u8; 3] {
    let mut crc: u32 = 0x00b7_04ce;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    let [_, a, b, c] = crc.to_be_bytes();
    [a, b, c]
}

impl fmt::Debug for OpenPgpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { armored: _, passphrase } = self;
        let locked = passphrase.is_some();
        f.debug_struct("OpenPgpKey").field("locked", &locked).finish_non_exhaustive()
    }
}
