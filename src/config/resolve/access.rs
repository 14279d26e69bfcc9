//! As whom we come to a git repository.

use crate::config::file;
use crate::config::file::access::RepositoryAuth;
use crate::config::resolve::Resolver;
use crate::config::settings::{Credentials, Forge, GitAccess};
use crate::forge::github::address::repository_at;

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
            Some(Forge::GitHub { api_url, credentials: Credentials::App(_) }) => {
                Self::At(api_url.clone())
            }
            Some(
                Forge::GitHub { credentials: Credentials::Token(_), .. } | Forge::Local { .. },
            ) => Self::None,
        }
    }
}

impl Resolver<'_> {
    /// A repository's own token, else the App where it may be: an App that is there is there to be
    /// used, and without any token nothing could be pushed.
    pub(super) fn access(
        &mut self,
        path: &str,
        url: &str,
        (token, auth): (Option<file::Secret>, Option<RepositoryAuth>),
        app: &App,
    ) -> GitAccess {
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
