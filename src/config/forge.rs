//! The code host and its credentials: the keys under `forge`. `webhook` reads those about events: filters, sweep,
//! previews.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::config::credential::{ONE_OF, Secret};
use crate::config::resolver::{Purpose, Resolver};
use crate::config::webhook::{Previews, WebhookSecret, WebhookSettings};
use crate::forge::github::auth::key::{AppCredentials, AppKeyError};
use crate::forge::github::client::GITHUB_API;
use crate::forge::github::webhook::rules::Rules;
use crate::support::credential::Credential;

/// A code host: exactly one of the two.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Forge {
    /// GitHub, or a GitHub Enterprise Server.
    pub(super) github: Option<GitHub>,
    /// Bare git repositories in a folder.
    local: Option<Local>,
}

/// GitHub, or a GitHub Enterprise Server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GitHub {
    /// The API's address; for an Enterprise Server `https://HOST/api/v3`.
    #[serde(default)]
    #[schemars(extend("format" = "url"))]
    api_url: Option<String>,
    /// A token that may read contents and write deployments; a file is read for each request, so that the token may be
    /// renewed. Exactly one of `token` and `app`.
    #[serde(default)]
    token: Option<Secret>,
    /// A GitHub App. Only an App can write check runs and find missed events.
    #[serde(default)]
    app: Option<App>,
    /// The OAuth client for logins: from a terminal (`bart login`), and with `client_secret` on the pages.
    #[serde(default)]
    login: Option<Login>,
    /// The secret of the webhook.
    webhook_secret: Secret,
    /// The former secret: accepted too, while the secret is being changed.
    #[serde(default)]
    pub(super) previous_webhook_secret: Option<Secret>,
    /// Repositories that may deploy, as globs over `owner/name`. Default: all.
    #[serde(default)]
    pub(super) repositories: Option<Vec<String>>,
    /// Organizations all of whose repositories may deploy, beside `repositories`.
    #[serde(default)]
    pub(super) organizations: Option<Vec<String>>,
    /// Environments whose deployments the service takes, as globs over their names; letter case does not count.
    /// Default: all that can be targets.
    #[serde(default)]
    environments: Option<Vec<String>>,
    /// The time between searches for missed events, `1s` to a day, or `off`. Default: `5m`.
    #[serde(default)]
    sweep: Option<String>,
    /// The `task` of deployments that the service takes. Default: `deploy`.
    #[serde(default)]
    tasks: Option<Vec<String>>,
    /// The image tag of a deployment whose payload names none: a text with `{ref}`, `{sha}` or
    /// `{short_sha}` in it. Default: `{sha}`.
    #[serde(default)]
    tag: Option<String>,
    /// Previews of pull requests.
    #[serde(default)]
    previews: Option<Previews>,
}

/// A GitHub App.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct App {
    /// Its App ID or its client ID, from the App's settings.
    id: String,
    /// A private key of the App: the PEM file as downloaded.
    private_key: Secret,
}

/// The OAuth client for logins: from a terminal by GitHub's device flow, on the pages by its web flow.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    /// The client id of an App, which is no secret. Logins from a terminal need `Enable Device Flow` in its settings.
    #[schemars(extend("format" = "line"))]
    client_id: String,
    /// A client secret of the same App, with which people sign in on the pages, if `auth.github` is set. The App's
    /// callback URL is `server.external_url` and `/sign-in/callback`. Default: people sign in with a token.
    #[serde(default)]
    client_secret: Option<Secret>,
}

/// Bare git repositories `OWNER/NAME.git` in a folder.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Local {
    /// The folder. Default: `repos` in the storage folder.
    root: Option<String>,
    /// The secret that signs events. Default: made at first start.
    webhook_secret: Option<Secret>,
}

/// The code host.
#[derive(Debug, Clone)]
pub enum ForgeSettings {
    /// Bare repositories in a folder.
    Local {
        /// The folder.
        root: PathBuf,
    },
    /// GitHub, or a GitHub Enterprise Server.
    GitHub {
        /// The API's address.
        api_url: String,
        /// The credentials.
        credentials: GitHubCredentials,
        /// The OAuth client for logins.
        login: Option<LoginSettings>,
    },
}

/// The OAuth client for logins.
#[derive(Debug, Clone)]
pub struct LoginSettings {
    /// The client id, which is no secret.
    pub client_id: String,
    /// The client secret; without one people do not sign in with GitHub on the pages.
    pub client_secret: Option<SecretString>,
}

/// The service's credentials at GitHub.
#[derive(Debug, Clone)]
pub enum GitHubCredentials {
    /// A token that may read contents and write deployments.
    Token(Credential),
    /// A GitHub App.
    App(AppCredentials),
}

impl Resolver<'_> {
    /// Reads the code host and its webhooks; `None` after a violation that leaves nothing to use.
    pub(super) fn forge(
        &mut self,
        forge: Forge,
        folder: &Path,
    ) -> Option<(ForgeSettings, WebhookSettings)> {
        let Forge { github, local } = forge;
        match (github, local) {
            (Some(_), Some(_)) => {
                let message = "`github` and `local` are both given";
                self.report.error("forge", message, "remove one of them");
                None
            }
            (Some(github), None) => self.github(github),
            (None, local) => self.local(local.unwrap_or_default(), folder),
        }
    }

    fn github(&mut self, github: GitHub) -> Option<(ForgeSettings, WebhookSettings)> {
        let GitHub {
            api_url,
            token,
            app,
            login,
            webhook_secret,
            previous_webhook_secret,
            repositories,
            organizations,
            environments,
            sweep,
            tasks,
            tag,
            previews,
        } = github;
        let api_url = api_url.unwrap_or_else(|| GITHUB_API.to_owned());
        self.without_credentials("forge.github.api_url", &api_url);
        let is_app = app.is_some();
        let credentials = self.credentials(token, app);
        let secret = match self.purpose {
            Purpose::Serve => self.secret("forge.github.webhook_secret", webhook_secret, ONE_OF),
            // These read no events.
            Purpose::Record | Purpose::Rebuild => Some(SecretString::default()),
        };
        let rules = Rules {
            repositories: self.repositories(repositories, organizations),
            environments: self.environments(environments),
            tasks: self.tasks(tasks),
            tag: self.tag(tag),
            previews: self.previews(previews, is_app),
        };
        let previous = previous_webhook_secret
            .and_then(|secret| self.secret("forge.github.previous_webhook_secret", secret, ONE_OF));
        let sweep = self.sweep(sweep);
        let webhook =
            WebhookSettings { secret: WebhookSecret::Given(secret?), previous, rules, sweep };
        let login = self.sign_in(login);
        Some((ForgeSettings::GitHub { api_url, credentials: credentials?, login }, webhook))
    }

    fn credentials(
        &mut self,
        token: Option<Secret>,
        app: Option<App>,
    ) -> Option<GitHubCredentials> {
        match (token, app) {
            (Some(_), Some(_)) => {
                let help = "remove one of them; an App can do more";
                self.report.error("forge.github.app", "`token` and `app` are both given", help);
                None
            }
            (None, None) if self.report.has_removed_value("forge.github") => None,
            (None, None) => {
                let help =
                    "add `app: {id: …, private_key: {file: PATH}}`, or `token: {file: PATH}`";
                let message =
                    "there are no credentials for GitHub: neither `app` nor `token` is set";
                self.report.error("forge.github", message, help);
                None
            }
            (Some(token), None) => {
                self.credential("forge.github.token", token).map(GitHubCredentials::Token)
            }
            (None, Some(app)) => self.app(app).map(GitHubCredentials::App),
        }
    }

    fn sign_in(&mut self, login: Option<Login>) -> Option<LoginSettings> {
        let Login { client_id, client_secret } = login?;
        let client_secret = match self.purpose {
            Purpose::Serve => client_secret
                .and_then(|secret| self.secret("forge.github.login.client_secret", secret, ONE_OF)),
            // These have no pages.
            Purpose::Record | Purpose::Rebuild => None,
        };
        let client_id = client_id.trim().to_owned();
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if client_id.is_empty() || client_id.len() > 100 || !client_id.bytes().all(legal) {
            let path = "forge.github.login.client_id";
            let help = "copy `Client ID` from the App's settings: `Iv23li…`";
            self.report.error(path, "this is no client id", help);
            return None;
        }
        Some(LoginSettings { client_id, client_secret })
    }

    fn app(&mut self, app: App) -> Option<AppCredentials> {
        let App { id, private_key } = app;
        let path = "forge.github.app.private_key";
        let key = if private_key.file.is_some() { "file" } else { "env" };
        let pem = self.secret(path, private_key, ONE_OF)?;
        let parsed = AppCredentials::parse(id.trim(), &pem);
        if let Err(error) = &parsed {
            let (path, help) = match error {
                AppKeyError::Id => (
                    "forge.github.app.id".to_owned(),
                    "copy `App ID` or `Client ID` from the App's settings",
                ),
                AppKeyError::NoPem
                | AppKeyError::Public
                | AppKeyError::Locked
                | AppKeyError::OtherKind
                | AppKeyError::Damaged => {
                    (format!("{path}.{key}"), "generate a private key in the App's settings")
                }
            };
            self.report.error(&path, error.to_string(), help);
        }
        parsed.ok()
    }

    fn local(&mut self, local: Local, folder: &Path) -> Option<(ForgeSettings, WebhookSettings)> {
        let Local { root, webhook_secret } = local;
        let root = root.map_or_else(|| folder.join("repos"), PathBuf::from);
        let secret = match webhook_secret {
            None => WebhookSecret::Kept(folder.join("webhook-secret")),
            Some(_) if self.purpose != Purpose::Serve => {
                WebhookSecret::Given(SecretString::default())
            }
            Some(secret) => {
                WebhookSecret::Given(self.secret("forge.local.webhook_secret", secret, ONE_OF)?)
            }
        };
        let rules = Rules::default();
        Some((
            ForgeSettings::Local { root },
            WebhookSettings { secret, previous: None, rules, sweep: None },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{APP, SECRETS, github, lines, refused, sources, with_key};

    #[test]
    fn an_app_is_a_number_or_a_client_id_and_a_key() {
        for (written, id) in [("123456", "123456"), ("Iv23liAbCd", "Iv23liAbCd"), ("'7'", "7")] {
            let text = github(&format!("{{id: {written}, private_key: {{env: KEY}}}}"));
            let ForgeSettings::GitHub { credentials, .. } =
                with_key(&text, APP).unwrap().settings.forge
            else {
                panic!("GitHub")
            };
            let GitHubCredentials::App(key) = credentials else { panic!("App") };
            assert_eq!(key.id(), id);
            assert!(!format!("{key:?}").contains("MII"));
        }
    }

    #[test]
    fn a_key_that_is_none_of_an_apps_is_told_at_its_place_and_not_shown() {
        let app = "{id: 1, private_key: {env: KEY}}";
        let public = include_str!("../forge/github/auth/tests/app.pub.pem");
        let half: String = APP.lines().take(9).map(|line| format!("{line}\n")).collect();
        for (key, expected) in [
            ("t0p-s3cret", "config.yaml:4:37: this is no private key"),
            (public, "config.yaml:4:37: this is the public half of a key"),
            (half.as_str(), "config.yaml:4:37: this key is damaged, or a part of it is missing"),
        ] {
            let lines = lines(with_key(&github(app), key).map(|loaded| loaded.settings));
            assert!(lines.contains(expected), "{expected} in\n{lines}");
            assert!(!lines.contains("t0p-s3cret") && !lines.contains("MII"), "{lines}");
            assert_eq!(lines.lines().count(), 1, "{lines}");
        }
        let text = github("{id: 'https://github.com/apps/x', private_key: {env: KEY}}");
        let lines = lines(with_key(&text, APP).map(|loaded| loaded.settings));
        assert!(lines.contains("config.yaml:4:15: this is not an App's id"), "{lines}");
    }

    #[test]
    fn there_is_a_token_or_an_app_and_not_both() {
        let message = refused("forge: {github: {webhook_secret: {env: HOOK}}}");
        assert!(
            message.contains(
                "config.yaml:1:9: there are no credentials for GitHub: neither `app` nor `token` \
                 is set"
            ),
            "{message}"
        );
        let text = github("{id: 1, private_key: {env: KEY}}\n    token: {env: TOKEN}");
        let message = lines(with_key(&text, APP).map(|loaded| loaded.settings));
        assert!(message.contains("config.yaml:4:5: `token` and `app` are both given"), "{message}");
        let message = refused(&github("{private_key: {env: KEY}}"));
        assert!(message.contains("`id` is missing from `forge.github.app`"), "{message}");
    }

    #[test]
    fn a_key_in_the_file_itself_is_refused_and_starred() {
        let text = github("{id: 1, private_key: MIIabc}");
        let message = refused(&text);
        assert!(
            message.contains("`forge.github.app.private_key` holds a secret itself"),
            "{message}"
        );
        let output = format!("{message}{:?}", sources(Some(&text), &SECRETS).texts());
        assert!(!output.contains("MIIabc"), "{output}");
    }

    #[test]
    fn people_log_in_with_the_client_id_of_an_app() {
        let text = |id: &str| {
            github("{id: 1, private_key: {env: KEY}}")
                + &format!("    login: {{client_id: '{id}'}}\n")
        };
        let ForgeSettings::GitHub { login, .. } =
            with_key(&text(" Iv23liAbCd "), APP).unwrap().settings.forge
        else {
            panic!("GitHub")
        };
        let login = login.unwrap();
        assert_eq!((&*login.client_id, login.client_secret.is_none()), ("Iv23liAbCd", true));
        for wrong in ["https://github.com/apps/x", "a b"] {
            let message = lines(with_key(&text(wrong), APP).map(|loaded| loaded.settings));
            assert!(message.contains("this is no client id"), "{wrong}: {message}");
        }
    }

    #[test]
    fn githubs_part_is_checked_too() {
        let lines = refused(
            "forge:\n  github:\n    api_url: https://me:pw@api.example.com\n    token: {file: /none, env: TOKEN}\n    \
             webhook_secret: {}\n    repositories: [acme, '{']\n    tasks: []\n    tag: latest\n",
        );
        for expected in [
            "config.yaml:3:14: the address has a user name or a password",
            "config.yaml:4:5: this secret is given twice",
            "config.yaml:5:5: this secret is not given",
            "config.yaml:6:20: this matches no repository",
            "config.yaml:6:26: this glob cannot be read",
            "config.yaml:7:5: with no task, the service would ignore every deployment",
            "config.yaml:8:10: every deployment would get the same tag",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
    }
}
