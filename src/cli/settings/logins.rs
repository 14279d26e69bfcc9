//! Stores logins: a GitHub token for each service, sent to no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;

use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::{folder, if_there, is_open_to_others, write_private};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output;
use crate::config;

/// A login at one service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedLogin {
    /// The user's name at GitHub.
    pub(crate) name: String,
    /// The GitHub API that the token is for.
    pub(crate) api_url: String,
    /// The token.
    #[serde(serialize_with = "expose")]
    pub(crate) token: SecretString,
    /// The time when the token expires, if it does.
    pub(crate) until: Option<Timestamp>,
}

/// Writes a token; the file of logins is the only place it is written to.
fn expose<S: Serializer>(token: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(token.expose_secret())
}

/// The guard that prints the warning only once, because logins are read for each request.
static WARNED: Once = Once::new();

type SavedLogins = BTreeMap<String, SavedLogin>;

/// Returns the path of the file of logins.
fn path() -> Result<PathBuf, CliError> {
    let folder = folder(&config::environment());
    let folder = folder.ok_or_else(|| {
        CliError::usage("there is no folder for settings").hint("set HOME, or XDG_CONFIG_HOME")
    })?;
    Ok(folder.join("logins.json"))
}

/// Returns the login at that service, if there is one.
pub(crate) fn at(server: &str) -> Result<Option<SavedLogin>, CliError> {
    let Ok(path) = path() else { return Ok(None) };
    let login = read(&path)?.remove(&key(server));
    if login.is_some() {
        WARNED.call_once(|| {
            if is_open_to_others(&path) {
                let path = path.display();
                output::warning(&format!("others can read {path}: run `chmod 600 '{path}'`"));
            }
        });
    }
    Ok(login)
}

/// Stores a login; it replaces an earlier one at that service.
pub(crate) fn store(server: &str, login: &SavedLogin) -> Result<PathBuf, CliError> {
    let path = path()?;
    let mut logins = read(&path)?;
    logins.insert(key(server), login.clone());
    write(&path, &logins)?;
    Ok(path)
}

/// Removes the login at that service; returns whether there was one.
pub(crate) fn forget(server: &str) -> Result<bool, CliError> {
    let path = path()?;
    let mut logins = read(&path)?;
    let existed = logins.remove(&key(server)).is_some();
    if existed {
        write(&path, &logins)?;
    }
    Ok(existed)
}

fn key(server: &str) -> String {
    server.trim_end_matches('/').to_ascii_lowercase()
}

fn read(path: &Path) -> Result<SavedLogins, CliError> {
    let Some(text) = if_there(std::fs::read(path), path)? else { return Ok(SavedLogins::new()) };
    // The parser's own words may repeat a token.
    serde_json::from_slice(&text).map_err(|_| {
        CliError::io(format!("{} has no logins that can be read", path.display()))
            .hint("remove it, then log in again with `bart login`")
    })
}

fn write(path: &Path, logins: &SavedLogins) -> CommandOutcome {
    write_private(path, &serde_json::to_vec_pretty(logins).map_err(CliError::failed)?)
}
