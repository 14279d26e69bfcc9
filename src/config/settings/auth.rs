//! Who may call.

use std::net::IpAddr;

use crate::config::file::auth::Scope;
use crate::model::id::TeamName;

/// A token that may call the API, by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiToken {
    /// Whose it is.
    pub name: String,
    /// The SHA-256 of its text.
    pub sha256: [u8; 32],
    /// What it is good for.
    pub scope: Scope,
    /// On which targets, as globs that can be read; all where it is absent.
    pub targets: Option<Vec<String>>,
    /// For which apps, as globs over `namespace/slug`; all where it is absent.
    pub apps: Option<Vec<String>>,
}

/// People with a GitHub token of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    /// Their members may do everything.
    pub admins: Vec<TeamName>,
    /// Their members may read everything.
    pub readers: Vec<TeamName>,
}

/// A network of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An address in it.
    pub address: IpAddr,
    /// How many leading bits all its addresses share.
    pub bits: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, or one address.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = |bits: &str| bits.bytes().all(|b| b.is_ascii_digit());
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|_| digits(bits))?,
            None => most,
        };
        (bits <= most).then_some(Self { address, bits })
    }
}
