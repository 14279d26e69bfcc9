//! Builds the code host of the settings.

use std::time::Duration;

use crate::app::access;
use crate::app::start_error::{Boxed, StartError, cannot_use};
use crate::config::forge::{ForgeSettings, GitHubCredentials};
use crate::config::settings::Settings;
use crate::deployments::CodeHost;
use crate::forge::Forge;
use crate::forge::github::address::web_url;
use crate::forge::github::client::{self, Credentials, GitHubClient};
use crate::forge::local::LocalForge;
use crate::support::clock::Clock;

/// The time for a connection: GitHub's own clients give up after ten seconds, too.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// The longest call to the code host.
const FORGE_CALL: Duration = Duration::from_secs(30);

/// Returns the code host for a caller that does not read its repositories: the folder of a local
/// one is not created.
pub(super) fn offline_forge(settings: &Settings, clock: &Clock) -> Result<Forge, StartError> {
    match &settings.forge {
        ForgeSettings::Local { root } => Ok(Forge::Local(LocalForge::new(root))),
        ForgeSettings::GitHub { .. } => forge(settings, clock).map_err(cannot_use("the forge")),
    }
}

/// Returns the code host, with credentials that are kept fresh.
pub(super) fn forge(settings: &Settings, clock: &Clock) -> Result<Forge, Boxed> {
    match &settings.forge {
        ForgeSettings::Local { root } => {
            std::fs::create_dir_all(root)?;
            Ok(Forge::Local(LocalForge::new(root)))
        }
        ForgeSettings::GitHub { api_url, credentials, login: _ } => {
            let credentials = match credentials {
                GitHubCredentials::Token(token) => access::of_forge(token),
                GitHubCredentials::App(key) => Credentials::App(key.clone(), clock.clone()),
            };
            let api_url = api_url.clone();
            let github = client::GitHubSettings { api_url, credentials, timeout: FORGE_CALL };
            let http = settings.outbound.client_without_redirects(CONNECT)?;
            let github = GitHubClient::new(github, http)?.waiting_by(clock.clone());
            Ok(Forge::GitHub(Box::new(github)))
        }
    }
}

/// Returns the address where people see repositories.
pub(super) fn forge_url(forge: &ForgeSettings) -> Option<String> {
    match forge {
        ForgeSettings::Local { .. } => None,
        ForgeSettings::GitHub { api_url, .. } => Some(web_url(api_url)),
    }
}

/// Describes the place of service repositories to callers.
pub(super) fn describe_code_host(forge: &ForgeSettings) -> CodeHost {
    match forge {
        ForgeSettings::Local { .. } => CodeHost::Local,
        ForgeSettings::GitHub { api_url, credentials: _, login } => CodeHost::GitHub {
            api_url: api_url.trim_end_matches('/').to_owned(),
            web_url: web_url(api_url),
            client_id: login.as_ref().map(|login| login.client_id.clone()),
        },
    }
}

/// Returns the domain of the addresses that a code host gives its people, which accept no mail.
pub(super) fn people(forge: &ForgeSettings) -> String {
    let url = forge_url(forge).and_then(|url| reqwest::Url::parse(&url).ok());
    match url.as_ref().and_then(reqwest::Url::host_str) {
        Some(host) => format!("users.noreply.{host}"),
        None => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::credential::Credential;

    #[test]
    fn people_have_the_addresses_of_their_code_host() {
        let github = |api_url: &str| ForgeSettings::GitHub {
            api_url: api_url.to_owned(),
            credentials: GitHubCredentials::Token(Credential { secret: "t".into(), file: None }),
            login: None,
        };
        for (forge, domain) in [
            (github("https://api.github.com"), "users.noreply.github.com"),
            (github("https://git.acme.com:8443/api/v3"), "users.noreply.git.acme.com"),
            (ForgeSettings::Local { root: "repos".into() }, "localhost"),
        ] {
            assert_eq!(people(&forge), domain);
        }
    }
}
