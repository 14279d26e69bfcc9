//! The folder of the setup: where its files are, and which of them are there.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::cli::error::CliError;
use crate::cli::settings::write_private;
use crate::config::secret::{self, SecretSource};
use crate::forge::github::app_manifest::RegisteredApp;

/// The record of the App, without secrets.
pub(super) const APP_FILE: &str = "github-app.json";
/// The App's private key.
pub(super) const KEY_FILE: &str = "github-app.pem";
/// The secret that signs events.
pub(super) const HOOK_SECRET_FILE: &str = "webhook-secret";
/// The App's client secret, for people who sign in.
pub(super) const CLIENT_SECRET_FILE: &str = "github-client-secret";
/// The token of operators and programs for the API.
pub(super) const API_TOKEN_FILE: &str = "api-token";
/// The configuration.
pub(super) const CONFIG_FILE: &str = "config.yaml";
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// The secrets of a registration, in the order in which they are written.
const APP_SECRETS: [&str; 3] = [KEY_FILE, HOOK_SECRET_FILE, CLIENT_SECRET_FILE];

/// The folder of the setup.
#[derive(Debug, Clone)]
pub(super) struct SetupFolder {
    root: PathBuf,
}

/// The App, as far as it is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AppRecord {
    pub(super) id: u64,
    /// The client id, for people who sign in; an App that was made by hand may have none here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) html_url: Option<String>,
}

impl SetupFolder {
    /// Names the folder, by its absolute path: the configuration names its files so.
    pub(super) fn new(root: &Path) -> Result<Self, CliError> {
        let root = std::path::absolute(root).map_err(CliError::file("use", root))?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Reads the record of the App; `None` if there is none.
    pub(super) fn app(&self) -> Result<Option<AppRecord>, CliError> {
        let path = self.path(APP_FILE);
        let Some(text) = read_file(&path)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            CliError::usage(format!("{} cannot be read: {error}", path.display()))
                .hint("it is like {\"id\": 1234567}, with the App's id")
        })
    }

    /// Reads a secret of this folder.
    pub(super) fn secret(&self, name: &str) -> Result<SecretString, CliError> {
        let source = SecretSource::File(self.path(name));
        let content = secret::read(&source, &std::collections::BTreeMap::new());
        content.map(|content| content.secret).map_err(CliError::failed)
    }

    /// Returns which secrets of the App are here.
    pub(super) fn app_secrets(&self) -> Vec<&'static str> {
        APP_SECRETS.into_iter().filter(|name| self.contains(name)).collect()
    }

    /// Makes sure that files can be written here, before a code is used up for them.
    pub(super) fn probe(&self) -> Result<(), CliError> {
        let path = self.path(".setup-probe");
        write_private(&path, b"")?;
        std::fs::remove_file(&path).map_err(CliError::file("remove", &path))
    }

    /// Stores an App with its secrets, each in a file that only its owner reads. The record comes last: without it the
    /// App is not registered for a later run.
    pub(super) fn store(&self, app: &RegisteredApp) -> Result<(), CliError> {
        let secrets = [&app.private_key, &app.webhook_secret, &app.client_secret];
        for (name, secret) in APP_SECRETS.into_iter().zip(secrets) {
            write_private(&self.path(name), secret.expose_secret().as_bytes())?;
        }
        let record = AppRecord {
            id: app.id,
            client_id: Some(app.client_id.clone()),
            name: Some(app.name.clone()),
            owner: Some(app.owner.clone()),
            html_url: app.html_url.clone(),
        };
        let text = serde_json::to_string_pretty(&record).map_err(CliError::failed)?;
        write_private(&self.path(APP_FILE), format!("{text}\n").as_bytes())
    }
}

/// Returns the text of a file; `None` if it does not exist.
pub(super) fn read_file(path: &Path) -> Result<Option<String>, CliError> {
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::file("read", path)(error)),
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
    }
}
