//! Logins: a GitHub token for each service that somebody has logged in to, and for nobody else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;

use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::super::error::CliError;
use super::super::output;
use super::{folder, private};
use crate::config;

/// A login at one service.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Login {
    /// Who, as GitHub names them.
    pub(in crate::cli) name: String,
    /// The GitHub API that the token is for.
    pub(in crate::cli) api_url: String,
    /// The token.
    pub(in crate::cli) token: SecretString,
    /// When it ends, if it does by itself.
    pub(in crate::cli) until: Option<Timestamp>,
}

/// As it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    name: String,
    api_url: String,
    token: String,
    until: Option<Timestamp>,
}

/// Logins are read for each request.
static WARNED: Once = Once::new();

type All = BTreeMap<String, Kept>;

/// Where logins are kept on this machine.
///
/// # Errors
/// Where nothing says where this person's files are.
pub(in crate::cli) fn path() -> Result<PathBuf, CliError> {
    let folder = folder::of(&config::environment());
    let folder = folder.ok_or_else(|| {
        CliError::usage("there is no folder for settings").hint("set HOME, or XDG_CONFIG_HOME")
    })?;
    Ok(folder.join("logins.json"))
}

/// The login at that service, if there is one.
///
/// # Errors
/// When the logins cannot be read.
pub(in crate::cli) fn at(server: &str) -> Result<Option<Login>, CliError> {
    let Ok(path) = path() else { return Ok(None) };
    let mut all = read(&path)?;
    let Some(Kept { name, api_url, token, until }) = all.remove(&key(server)) else {
        return Ok(None);
    };
    WARNED.call_once(|| {
        if private::is_open_to_others(&path) {
            let path = path.display();
            output::warning(&format!("others can read {path}: run `chmod 600 '{path}'`"));
        }
    });
    Ok(Some(Login { name, api_url, token: token.into(), until }))
}

/// Keeps a login; an earlier one at that service is forgotten.
///
/// # Errors
/// When the logins cannot be written.
pub(in crate::cli) fn keep(server: &str, login: &Login) -> Result<PathBuf, CliError> {
    let path = path()?;
    let mut all = read(&path)?;
    let Login { name, api_url, token, until } = login.clone();
    let token = token.expose_secret().to_owned();
    all.insert(key(server), Kept { name, api_url, token, until });
    write(&path, &all)?;
    Ok(path)
}

/// Forgets the login at that service; whether there was one.
///
/// # Errors
/// When the logins cannot be written.
pub(in crate::cli) fn forget(server: &str) -> Result<bool, CliError> {
    let path = path()?;
    let mut all = read(&path)?;
    let was_there = all.remove(&key(server)).is_some();
    if was_there {
        write(&path, &all)?;
    }
    Ok(was_there)
}

fn key(server: &str) -> String {
    server.trim_end_matches('/').to_ascii_lowercase()
}

fn read(path: &Path) -> Result<All, CliError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(All::new()),
        Err(error) => {
            return Err(CliError::io(format!("cannot read {}: {error}", path.display())));
        }
    };
    // The reader's own words may repeat a token.
    serde_json::from_slice(&text).map_err(|_| {
        CliError::io(format!("{} has no logins that can be read", path.display()))
            .hint("remove it, then log in again with `bart login`")
    })
}

fn write(path: &Path, all: &All) -> Result<(), CliError> {
    let text = serde_json::to_vec_pretty(all).map_err(|error| CliError::io(error.to_string()))?;
    private::write(path, &text)
}
