//! A file of logins, each with a token, that only its owner can read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;

use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use super::{folder, if_there, is_open_to_others, write_private};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output;
use crate::config;

/// A file of logins of one kind, each by the place that it is for.
pub(super) struct LoginFile {
    /// The name of the file.
    name: &'static str,
    /// The command that logs in again.
    command: &'static str,
    /// The guard that prints the warning only once, because logins are read for each request.
    warned: Once,
}

/// Writes a token; files of logins are the only place it is written to.
pub(super) fn expose<S: Serializer>(token: &SecretString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(token.expose_secret())
}

impl LoginFile {
    /// Names the file, and the command that logs in again where it cannot be read.
    pub(super) const fn new(name: &'static str, command: &'static str) -> Self {
        Self { name, command, warned: Once::new() }
    }

    /// Returns the login at that place, if there is one.
    pub(super) fn find<T: DeserializeOwned>(&self, place: &str) -> Result<Option<T>, CliError> {
        let Ok(path) = self.path() else { return Ok(None) };
        let login = self.read(&path)?.remove(place);
        if login.is_some() {
            self.warned.call_once(|| {
                if is_open_to_others(&path) {
                    let path = path.display();
                    output::warning(&format!("others can read {path}: run `chmod 600 '{path}'`"));
                }
            });
        }
        Ok(login)
    }

    /// Stores a login; it replaces an earlier one at that place.
    pub(super) fn store<T: Serialize + DeserializeOwned + Clone>(
        &self,
        place: &str,
        login: &T,
    ) -> Result<PathBuf, CliError> {
        let path = self.path()?;
        let mut logins = self.read(&path)?;
        logins.insert(place.to_owned(), login.clone());
        write(&path, &logins)?;
        Ok(path)
    }

    /// Removes the login at that place; returns whether there was one.
    pub(super) fn forget<T: Serialize + DeserializeOwned>(
        &self,
        place: &str,
    ) -> Result<bool, CliError> {
        let path = self.path()?;
        let mut logins: BTreeMap<String, T> = self.read(&path)?;
        let existed = logins.remove(place).is_some();
        if existed {
            write(&path, &logins)?;
        }
        Ok(existed)
    }

    fn path(&self) -> Result<PathBuf, CliError> {
        let folder = folder(&config::environment());
        let folder = folder.ok_or_else(|| {
            CliError::usage("there is no folder for settings").hint("set HOME, or XDG_CONFIG_HOME")
        })?;
        Ok(folder.join(self.name))
    }

    fn read<T: DeserializeOwned>(&self, path: &Path) -> Result<BTreeMap<String, T>, CliError> {
        let Some(text) = if_there(std::fs::read(path), path)? else { return Ok(BTreeMap::new()) };
        // The parser's own words may repeat a token.
        serde_json::from_slice(&text).map_err(|_| {
            CliError::io(format!("{} has no logins that can be read", path.display()))
                .hint(format!("remove it, then log in again with `{}`", self.command))
        })
    }
}

fn write<T: Serialize>(path: &Path, logins: &BTreeMap<String, T>) -> CommandOutcome {
    write_private(path, &serde_json::to_vec_pretty(logins).map_err(CliError::failed)?)
}
