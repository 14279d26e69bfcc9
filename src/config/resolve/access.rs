//! As whom we come to a git repository.

use std::path::PathBuf;

use crate::config::file;
use crate::config::file::access::{RepositoryAuth, Ssh};
use crate::config::resolve::Resolver;
use crate::config::settings::{Credentials, Forge, GitAccess};
use crate::forge::github::address::repository_at;
use crate::model::ssh::SshAddress;

/// The GitHub App that repositories may be reached as.
#[derive(Debug, Clone)]
pub(super) enum App {
    /// There is one, at that API.
    At(String),
    /// There is none.
    None,
    /// Whether there is one cannot be said: the forge's part has mistakes, which are told.
    Unknown,
}

impl App {
    pub(super) fn of(forge: Option<&Forge>) -> Self {
        match forge {
            None => Self::Unknown,
            Some(Forge::GitHub { api_url, credentials: Credentials::App(_), .. }) => {
                Self::At(api_url.clone())
            }
            Some(
                Forge::GitHub { credentials: Credentials::Token(_), .. } | Forge::Local { .. },
            ) => Self::None,
        }
    }
}

/// What a repository says of how to come in.
pub(super) type Given = (Option<file::Secret>, Option<RepositoryAuth>, Option<Ssh>);

impl Resolver<'_> {
    /// A repository's own token, else the App where it may be: an App that is there is there to be
    /// used, and without any token nothing could be pushed. Over ssh its own key, which is kept in
    /// the folder `keys`.
    pub(super) fn access(
        &mut self,
        path: &str,
        url: &str,
        (token, auth, ssh): Given,
        app: &App,
        keys: PathBuf,
    ) -> GitAccess {
        if SshAddress::is_meant(url) {
            return self.over_ssh(path, url, (token, auth, ssh), keys);
        }
        if ssh.is_some() {
            let message = "`ssh` is given, and the repository is not reached over ssh";
            let help = "remove it, or write `url` like git@HOST:PATH.git";
            self.report.wrong(&format!("{path}.ssh"), message, help);
        }
        match (token, auth) {
            (Some(_), Some(_)) => {
                let message = "`auth` and `token` are both given";
                self.report.wrong(&format!("{path}.auth"), message, "remove one of them");
                GitAccess::Anybody
            }
            (Some(token), None) => {
                let token = self.credential(&format!("{path}.token"), token);
                token.map_or(GitAccess::Anybody, GitAccess::Token)
            }
            (None, Some(RepositoryAuth::None)) => GitAccess::Anybody,
            (None, Some(RepositoryAuth::App)) => self.as_app(&format!("{path}.auth"), url, app),
            (None, None) => match app {
                App::At(api) => repository_at(api, url).map_or(GitAccess::Anybody, GitAccess::App),
                App::None | App::Unknown => GitAccess::Anybody,
            },
        }
    }

    fn as_app(&mut self, path: &str, url: &str, app: &App) -> GitAccess {
        match app {
            App::Unknown => {}
            App::None => {
                let message = "there is no App to come as: `forge.github.app` is not set";
                let help = "set it, or give a token under `token`";
                self.report.wrong(path, message, help);
            }
            App::At(api) => match repository_at(api, url) {
                Ok(repository) => return GitAccess::App(repository),
                Err(why) => {
                    let message = format!("the App cannot be used for this repository: {why}");
                    let help = "correct `url`, or give a token under `token`";
                    self.report.wrong(path, message, help);
                }
            },
        }
        GitAccess::Anybody
    }
}
