//! Stores logins at Vaults: a token for each, sent to no other.

use std::path::PathBuf;

use jiff::Timestamp;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::login_file::{LoginFile, expose};
use crate::cli::error::CliError;

static FILE: LoginFile = LoginFile::new("vault-logins.json", "bart secrets login TARGET");

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

/// Returns the login at that Vault, if there is one.
pub(in crate::cli) fn find(vault: &str) -> Result<Option<VaultLogin>, CliError> {
    FILE.find(vault)
}

/// Stores a login; it replaces an earlier one at that Vault.
pub(in crate::cli) fn store(vault: &str, login: &VaultLogin) -> Result<PathBuf, CliError> {
    FILE.store(vault, login)
}
