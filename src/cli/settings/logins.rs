//! Stores logins: a GitHub token for each service, sent to no other.

use std::path::PathBuf;

use jiff::Timestamp;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::login_file::{LoginFile, expose};
use crate::cli::error::CliError;

static FILE: LoginFile = LoginFile::new("logins.json", "bart login");

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

/// Returns the login at that service, if there is one.
pub(crate) fn at(server: &str) -> Result<Option<SavedLogin>, CliError> {
    FILE.find(&key(server))
}

/// Stores a login; it replaces an earlier one at that service.
pub(crate) fn store(server: &str, login: &SavedLogin) -> Result<PathBuf, CliError> {
    FILE.store(&key(server), login)
}

/// Removes the login at that service; returns whether there was one.
pub(crate) fn forget(server: &str) -> Result<bool, CliError> {
    FILE.forget::<SavedLogin>(&key(server))
}

fn key(server: &str) -> String {
    server.trim_end_matches('/').to_ascii_lowercase()
}
