//! Stores logins at Vaults: a token for each, sent to no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::{folder, if_there, write_private};
use crate::cli::error::{CliError, CommandOutcome};
use crate::config;

/// A login at one Vault.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cli) struct VaultLogin {
    /// The name by which Vault knows the person.
    pub(in crate::cli) name: String,
    /// The token.
    #[serde(serialize_with = "expose")]
    pub(in crate::cli) token: SecretString,
    /// The time when the token expires, if it does.
    pub(in crate::cli) until: Option<Timestamp>,
}

/// Writes a token; this file is the only place it is written to.
fn expose<S: Serializer>(token: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(token.expose_secret())
}

fn path() -> Result<PathBuf, CliError> {
    let folder = folder(&config::environment());
    let folder = folder.ok_or_else(|| {
        CliError::usage("there is no folder for settings").hint("set HOME, or XDG_CONFIG_HOME")
    })?;
    Ok(folder.join("vault-logins.json"))
}

/// Returns the login at that Vault, if there is one.
pub(in crate::cli) fn find(vault: &str) -> Result<Option<VaultLogin>, CliError> {
    let Ok(path) = path() else { return Ok(None) };
    Ok(read(&path)?.remove(vault))
}

/// Stores a login; it replaces an earlier one at that Vault.
pub(in crate::cli) fn store(vault: &str, login: &VaultLogin) -> Result<PathBuf, CliError> {
    let path = path()?;
    let mut logins = read(&path)?;
    logins.insert(vault.to_owned(), login.clone());
    write(&path, &logins)?;
    Ok(path)
}

fn read(path: &Path) -> Result<BTreeMap<String, VaultLogin>, CliError> {
    let Some(text) = if_there(std::fs::read(path), path)? else { return Ok(BTreeMap::new()) };
    // The parser's own words may repeat a token.
    serde_json::from_slice(&text).map_err(|_| {
        CliError::io(format!("{} has no logins that can be read", path.display()))
            .hint("remove it, then log in again with `bart secrets login TARGET`")
    })
}

fn write(path: &Path, logins: &BTreeMap<String, VaultLogin>) -> CommandOutcome {
    write_private(path, &serde_json::to_vec_pretty(logins).map_err(CliError::failed)?)
}
