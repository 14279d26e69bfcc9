//! The service's App as GitHub has it: its permissions and events, and where it is installed.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::client::GitHubClient;
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, RequestSubject};

/// An App has one installation for each account.
const PAGES: usize = 5;

/// The App.
#[derive(Debug, Clone, Deserialize)]
pub struct OwnApp {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its page.
    pub html_url: String,
    /// The permissions that it asks for, and the level of each.
    #[serde(default)]
    pub permissions: BTreeMap<String, String>,
    /// The events that it gets.
    #[serde(default)]
    pub events: Vec<String>,
}

/// An account at which the App is installed.
#[derive(Debug, Clone, Deserialize)]
struct AppInstallation {
    #[serde(default)]
    account: Option<InstallationAccount>,
}

#[derive(Debug, Clone, Deserialize)]
struct InstallationAccount {
    #[serde(default)]
    login: String,
}

impl GitHubClient {
    /// Fetches the App that the key is of.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn own_app(&self) -> Result<OwnApp, ForgeError> {
        let subject = RequestSubject::App("the App itself");
        self.read(ApiCall::get(subject, Permission::METADATA, "/app".to_owned())).await
    }

    /// Lists the accounts at which the App is installed.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn installation_accounts(&self) -> Result<Vec<String>, ForgeError> {
        let subject = RequestSubject::App("the App's installations");
        let list = ApiCall::get(subject, Permission::METADATA, "/app/installations".to_owned());
        let installations: Vec<AppInstallation> = self.read_all(list, PAGES).await?;
        let accounts = installations.into_iter().filter_map(|one| one.account);
        Ok(accounts.map(|account| account.login).filter(|login| !login.is_empty()).collect())
    }
}
