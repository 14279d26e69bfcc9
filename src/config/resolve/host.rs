//! The code host, and what its webhooks must satisfy.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::config::file;
use crate::config::mask::has_credentials;
use crate::config::offline::Purpose;
use crate::config::resolve::Resolver;
use crate::config::settings::{Credentials, Forge, Webhook, WebhookSecret};
use crate::forge::github::auth::key::{AppKey, KeyError};
use crate::forge::github::client::GITHUB_API;
use crate::forge::github::webhook::rules::{Rules, TagRule};
use crate::support::globs::{GlobError, check_glob};

const ONE_OF: &str = "give exactly one of `file` and `env`";

impl Resolver<'_> {
    /// The host and its webhooks; `None` after a violation that leaves nothing to go on with.
    pub(super) fn forge(&mut self, forge: file::Forge, folder: &Path) -> Option<(Forge, Webhook)> {
        let file::Forge { github, local } = forge;
        match (github, local) {
            (Some(_), Some(_)) => {
                let message = "`github` and `local` are both given";
                self.report.wrong("forge", message, "remove one of them");
                None
            }
            (Some(github), None) => self.github(github),
            (None, local) => self.local(local.unwrap_or_default(), folder),
        }
    }

    fn github(&mut self, github: file::GitHub) -> Option<(Forge, Webhook)> {
        let file::GitHub {
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
            // No event comes in.
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
        let webhook = Webhook { secret: WebhookSecret::Given(secret?), previous, rules, sweep };
        let login = self.device_login(login);
        Some((Forge::GitHub { api_url, credentials: credentials?, login }, webhook))
    }

    fn credentials(
        &mut self,
        token: Option<file::Secret>,
        app: Option<file::github::App>,
    ) -> Option<Credentials> {
        match (token, app) {
            (Some(_), Some(_)) => {
                let help = "remove one of them; an App can do more";
                self.report.wrong("forge.github.app", "`token` and `app` are both given", help);
                None
            }
            (None, None) if self.report.lacks_something("forge.github") => None,
            (None, None) => {
                let help =
                    "add `app: {id: …, private_key: {file: PATH}}`, or `token: {file: PATH}`";
                let message = "there is nothing to come to GitHub with";
                self.report.wrong("forge.github", message, help);
                None
            }
            (Some(token), None) => {
                self.credential("forge.github.token", token).map(Credentials::Token)
            }
            (None, Some(app)) => self.app(app).map(Credentials::App),
        }
    }

    fn device_login(&mut self, login: Option<file::github::Login>) -> Option<String> {
        let file::github::Login { client_id } = login?;
        let client_id = client_id.trim().to_owned();
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if client_id.is_empty() || client_id.len() > 100 || !client_id.bytes().all(legal) {
            let path = "forge.github.login.client_id";
            let help = "copy `Client ID` from the App's settings: `Iv23li…`";
            self.report.wrong(path, "this is no client id", help);
            return None;
        }
        Some(client_id)
    }

    fn app(&mut self, app: file::github::App) -> Option<AppKey> {
        let file::github::App { id, private_key } = app;
        let path = "forge.github.app.private_key";
        let at = if private_key.file.is_some() { "file" } else { "env" };
        let pem = self.secret(path, private_key, ONE_OF)?;
        let parsed = AppKey::parse(id.trim(), &pem);
        if let Err(error) = &parsed {
            let (path, help) = match error {
                KeyError::Id => (
                    "forge.github.app.id".to_owned(),
                    "copy `App ID` or `Client ID` from the App's settings",
                ),
                KeyError::NoPem
                | KeyError::Public
                | KeyError::Locked
                | KeyError::OtherKind
                | KeyError::Damaged => {
                    (format!("{path}.{at}"), "generate a private key in the App's settings")
                }
            };
            self.report.wrong(&path, error.to_string(), help);
        }
        parsed.ok()
    }

    fn local(&mut self, local: file::Local, folder: &Path) -> Option<(Forge, Webhook)> {
        let file::Local { root, webhook_secret } = local;
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
        Some((Forge::Local { root }, Webhook { secret, previous: None, rules, sweep: None }))
    }

    fn tasks(&mut self, tasks: Option<Vec<String>>) -> Vec<String> {
        let tasks = tasks.unwrap_or_else(|| Rules::default().tasks);
        if tasks.is_empty() {
            let message = "with no task, no deployment is for us";
            self.report.wrong("forge.github.tasks", message, "write [deploy], or leave it out");
        }
        tasks
    }

    fn tag(&mut self, tag: Option<String>) -> TagRule {
        let Some(tag) = tag else { return TagRule::default() };
        TagRule::parse(&tag).unwrap_or_else(|error| {
            let help = "write it like `{sha}` or `v-{short_sha}`";
            self.report.wrong("forge.github.tag", error.to_string(), help);
            TagRule::default()
        })
    }

    /// A token in an address ends in logs.
    pub(super) fn without_credentials(&mut self, path: &str, url: &str) {
        if has_credentials(url) {
            let message = "an address with a name or a password in it ends in logs";
            self.report.wrong(path, message, "take it out, and give the secret under `token`");
        }
    }

    pub(super) fn check_globs(&mut self, path: &str, globs: &[String]) {
        for (n, glob) in globs.iter().enumerate() {
            if let Err(error) = check_glob(glob) {
                self.bad_glob(&format!("{path}[{n}]"), &error);
            }
        }
    }

    /// Globs that can be compiled one by one may be too many together.
    pub(super) fn bad_globs(&mut self, path: &str, globs: &[String], error: &GlobError) {
        if globs.iter().all(|glob| check_glob(glob).is_ok()) {
            self.bad_glob(path, error);
        }
    }

    pub(super) fn bad_glob(&mut self, path: &str, error: &GlobError) {
        let message = format!("this glob cannot be read: {}", error.kind());
        self.report.wrong(path, message, "use `*`, `?`, `[a-z]` and `{one,two}`");
    }
}
