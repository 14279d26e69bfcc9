//! Credentials of git repositories.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::credential::Secret;
use crate::config::forge::{ForgeSettings, GitHubCredentials};
use crate::config::resolver::Resolver;
use crate::config::ssh::Ssh;
use crate::forge::github::address::repository_at;
use crate::git::transport::ssh;
use crate::model::id::RepoName;
use crate::model::ssh::SshAddress;
use crate::support::credential::Credential;

/// The authentication at a git repository without a token of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RepositoryAuth {
    /// The tokens are those of the GitHub App of `forge.github.app`, which must be installed there.
    App,
    /// No credentials are used.
    None,
}

/// The credentials of a git repository.
#[derive(Debug, Clone)]
pub enum GitAccess {
    /// No credentials.
    Anybody,
    /// A token of its own.
    Token(Credential),
    /// The code host's GitHub App, which is installed on that repository.
    App(RepoName),
    /// A key, over ssh.
    Ssh {
        /// The private key.
        key: Credential,
        /// The accepted host keys, and the folder that ssh runs in, of this repository alone.
        access: ssh::SshAccess,
    },
}

/// The GitHub App that may be used at repositories.
#[derive(Debug, Clone)]
pub(super) enum RepositoryApp {
    /// An App, at that API.
    At(String),
    /// No App.
    None,
    /// Unknown: `forge` has mistakes, which are reported.
    Unknown,
}

impl RepositoryApp {
    pub(super) fn of(forge: Option<&ForgeSettings>) -> Self {
        match forge {
            None => Self::Unknown,
            Some(ForgeSettings::GitHub {
                api_url, credentials: GitHubCredentials::App(_), ..
            }) => Self::At(api_url.clone()),
            Some(
                ForgeSettings::GitHub { credentials: GitHubCredentials::Token(_), .. }
                | ForgeSettings::Local { .. },
            ) => Self::None,
        }
    }
}

/// The keys by which a repository sets its credentials.
type CredentialKeys = (Option<Secret>, Option<RepositoryAuth>, Option<Ssh>);

impl Resolver<'_> {
    /// Chooses a repository's own token, else the App where it may be used: an installed App is meant to be used, and
    /// without any token nothing could be pushed. Over ssh it uses the repository's own key, which is kept in the
    /// folder `keys`.
    pub(super) fn access(
        &mut self,
        path: &str,
        url: &str,
        (token, auth, ssh): CredentialKeys,
        app: &RepositoryApp,
        keys: PathBuf,
    ) -> GitAccess {
        if SshAddress::is_meant(url) {
            for (key, is_given) in [("token", token.is_some()), ("auth", auth.is_some())] {
                if is_given {
                    let message =
                        format!("`{key}` is given, and the repository is reached over ssh");
                    let help = "give a key under `ssh`, or write an https:// address";
                    self.report.error(&format!("{path}.{key}"), message, help);
                }
            }
            let access = self.over_ssh(path, url, ssh, keys);
            return access
                .map_or(GitAccess::Anybody, |(key, access)| GitAccess::Ssh { key, access });
        }
        if ssh.is_some() {
            let message = "`ssh` is given, and the repository is not reached over ssh";
            let help = "remove it, or write `url` like git@HOST:PATH.git";
            self.report.error(&format!("{path}.ssh"), message, help);
        }
        match (token, auth) {
            (Some(_), Some(_)) => {
                let message = "`auth` and `token` are both given";
                self.report.error(&format!("{path}.auth"), message, "remove one of them");
                GitAccess::Anybody
            }
            (Some(token), None) => {
                let token = self.credential(&format!("{path}.token"), token);
                token.map_or(GitAccess::Anybody, GitAccess::Token)
            }
            (None, Some(RepositoryAuth::None)) => GitAccess::Anybody,
            (None, Some(RepositoryAuth::App)) => self.as_app(&format!("{path}.auth"), url, app),
            (None, None) => match app {
                RepositoryApp::At(api) => {
                    repository_at(api, url).map_or(GitAccess::Anybody, GitAccess::App)
                }
                RepositoryApp::None | RepositoryApp::Unknown => GitAccess::Anybody,
            },
        }
    }

    fn as_app(&mut self, path: &str, url: &str, app: &RepositoryApp) -> GitAccess {
        match app {
            RepositoryApp::Unknown => {}
            RepositoryApp::None => {
                let message =
                    "there is no GitHub App to authenticate with: `forge.github.app` is not set";
                let help = "set it, or give a token under `token`";
                self.report.error(path, message, help);
            }
            RepositoryApp::At(api) => match repository_at(api, url) {
                Ok(repository) => return GitAccess::App(repository),
                Err(why) => {
                    let message = format!("the App cannot be used for this repository: {why}");
                    let help = "correct `url`, or give a token under `token`";
                    self.report.error(path, message, help);
                }
            },
        }
        GitAccess::Anybody
    }

    pub(super) fn branch(&mut self, path: &str, branch: &str) {
        if !git2::Reference::is_valid_name(&format!("refs/heads/{branch}")) {
            self.report.error(path, "this is not a branch's name", "write it like main");
        }
    }

    /// Checks that the service supports an address; `unusable` says what cannot be done with another one.
    pub(super) fn remote(&mut self, path: &str, url: &str, unusable: &str) {
        self.without_credentials(path, url);
        if SshAddress::is_meant(url) {
            if let Err(detail) = SshAddress::parse(url) {
                self.report.error(path, unusable, &detail);
            }
            return;
        }
        let schemes = ["https://", "http://", "file://"];
        let is_unknown =
            url.contains("://") && !schemes.iter().any(|scheme| url.starts_with(scheme));
        if url.is_empty() || is_unknown {
            let help = "write https://HOST/PATH.git with a token under `token`, git@HOST:PATH.git \
                        with a key under `ssh`, or a path";
            self.report.error(path, unusable, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Settings;
    use crate::config::templates::TemplatesSettings;
    use crate::config::tests::{SECRETS, lines, sources};
    use crate::model::violation::Rejection;

    const KEY: &str = include_str!("../forge/github/auth/tests/app.pem");

    fn with(forge: &str, repository: &str) -> Result<Settings, Rejection> {
        let text = format!(
            "forge: {{github: {{{forge}, webhook_secret: {{env: HOOK}}}}}}\n\
             manifests: {{repositories: [{{name: m, {repository}}}]}}\n"
        );
        let secrets = [SECRETS[0], SECRETS[1], ("KEY", KEY)];
        sources(Some(&text), &secrets).load().map(|loaded| loaded.settings)
    }

    const APP: &str = "app: {id: '12', private_key: {env: KEY}}";

    fn access(forge: &str, repository: &str) -> GitAccess {
        let settings = with(forge, repository).unwrap_or_else(|rejection| panic!("{rejection:#?}"));
        settings.manifests[0].access.clone()
    }

    fn is_app(access: &GitAccess, name: &str) -> bool {
        matches!(access, GitAccess::App(repository) if repository.as_str() == name)
    }

    #[test]
    fn an_app_is_used_on_its_own_host_unless_something_else_is_said() {
        let url = "url: 'https://github.com/acme/manifests.git'";
        assert!(is_app(&access(APP, url), "acme/manifests"));
        assert!(is_app(&access(APP, &format!("{url}, auth: app")), "acme/manifests"));
        assert!(matches!(access(APP, &format!("{url}, auth: none")), GitAccess::Anybody));
        let with_token = access(APP, &format!("{url}, token: {{env: TOKEN}}"));
        assert!(matches!(with_token, GitAccess::Token(Credential { file: None, .. })));
        // Elsewhere, and in the clear, it has no business.
        for url in ["https://gitlab.com/acme/m.git", "http://github.com/acme/m.git", "/srv/m.git"] {
            let git_access = access(APP, &format!("url: '{url}'"));
            assert!(matches!(git_access, GitAccess::Anybody), "{url}: {git_access:?}");
        }
        // A token for the API is not meant for repositories.
        assert!(matches!(access("token: {env: TOKEN}", url), GitAccess::Anybody));
        let server = format!("api_url: https://git.acme.com/api/v3, {APP}");
        assert!(is_app(&access(&server, "url: 'https://git.acme.com/a/m'"), "a/m"));
    }

    #[test]
    fn templates_are_reached_in_the_same_way() {
        let text = format!(
            "forge: {{github: {{{APP}, webhook_secret: {{env: HOOK}}}}}}\n\
             templates: {{repository: {{url: 'https://github.com/acme/templates'}}}}\n"
        );
        let secrets = [SECRETS[1], ("KEY", KEY)];
        let settings = sources(Some(&text), &secrets).load().unwrap().settings;
        let TemplatesSettings::Repository(repository) = settings.templates else {
            panic!("repository")
        };
        assert!(is_app(&repository.access, "acme/templates"));
    }

    #[test]
    fn what_keeps_the_app_from_a_repository_is_told_where_it_was_asked_for() {
        let token = "token: {env: TOKEN}";
        for (forge, repository, words) in [
            (APP, "url: /srv/m.git, auth: app", "it is not on github.com"),
            (APP, "url: 'https://gitlab.com/a/m', auth: app", "it is not on github.com"),
            (APP, "url: 'http://github.com/a/m', auth: app", "it is not reached by https"),
            (APP, "url: 'https://github.com/m.git', auth: app", "does not end in OWNER/NAME"),
            (token, "url: 'https://github.com/a/m', auth: app", "`forge.github.app` is not set"),
            (
                APP,
                "url: 'https://github.com/a/m', auth: app, token: {env: TOKEN}",
                "`auth` and `token` are both given",
            ),
            (APP, "url: /srv/m.git, auth: ssh", "must be one of"),
        ] {
            let lines = lines(with(forge, repository));
            assert!(lines.contains(words), "{words} in\n{lines}");
            let before = "manifests: {repositories: [{name: m, ".len();
            let place = before + repository.find("auth: ").unwrap() + "auth: ".len() + 1;
            assert!(lines.starts_with(&format!("config.yaml:2:{place}: ")), "{lines}");
            assert_eq!(lines.lines().count(), 1, "{lines}");
        }
    }

    #[test]
    fn a_forge_with_mistakes_of_its_own_brings_no_second_one() {
        let forge = "app: {id: '12', private_key: {env: NOWHERE}}";
        let lines = lines(with(forge, "url: 'https://github.com/a/m', auth: app"));
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains("NOWHERE"), "{lines}");
    }
}
