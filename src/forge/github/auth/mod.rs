//! The credentials of the service at GitHub: a token, or a GitHub App.
//!
//! ```text
//! private key ─▶ key: JWT of the App ─▶ app: installation of a repository
//!                                        └▶ token: an hour, one repository, one purpose
//! ```
//!
//! `app` finds installations, creates tokens and holds the caches of both (of the kind in `single_flight`); what GitHub
//! refuses is forgotten. `installation` has them as data, and says how long a cached one is good. [`key`] signs JWTs.
//! No token is in a type that prints.

mod app; // installations and tokens of an App, with their caches
mod installation; // an installation and its tokens, as data
pub mod key; // an App's private key
mod single_flight; // a cache of values that one caller at a time creates

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

pub(super) use crate::forge::github::auth::installation::Installation;

use crate::forge::error::ForgeError;
use crate::forge::github::answer::Requester;
use crate::forge::github::auth::app::GitHubApp;
use crate::forge::github::auth::key::AppCredentials;
use crate::forge::github::permission::{AccessLevel, Permission, TokenPurpose};
use crate::forge::github::request::{Account, RequestCredential, RequestSubject};
use crate::forge::github::wire::GitHubConnection;
use crate::model::id::RepoName;
use crate::support::clock::Clock;

/// A person's or a machine's token, which its owner may replace while the service runs: it is read for each request, so
/// that a new one counts at once.
#[derive(Clone)]
pub struct TokenSource(Arc<dyn Fn() -> SecretString + Send + Sync>);

/// The credentials of the service.
#[derive(Debug, Clone)]
pub(super) enum GitHubAuth {
    /// The owner of a token, which is good for everything.
    Token(TokenSource),
    /// An App.
    App(Arc<GitHubApp>),
}

impl GitHubAuth {
    pub(super) fn app(key: AppCredentials, clock: Clock) -> Self {
        Self::App(Arc::new(GitHubApp::new(key, clock)))
    }

    /// Returns the pass for a request about that subject. An error happened before anything was sent.
    pub(super) async fn pass(
        &self,
        wire: &GitHubConnection,
        subject: RequestSubject<'_>,
        permission: Permission,
    ) -> Result<RequestCredential, ForgeError> {
        if let RequestSubject::Repository(repository) = subject
            && repository.is_retired()
        {
            return Err(ForgeError::Renamed { repository: repository.clone() });
        }
        match self {
            Self::Token(token) => {
                Ok(RequestCredential { token: token.now(), account: Some(Account::Token) })
            }
            Self::App(app) => Box::pin(app.pass(wire, subject, permission))
                .await
                .map_err(ForgeError::before_sending),
        }
    }

    /// Returns a token for git over https.
    pub(super) async fn git_token(
        &self,
        wire: &GitHubConnection,
        repository: &RepoName,
        access: AccessLevel,
    ) -> Result<SecretString, ForgeError> {
        match self {
            Self::Token(token) => Ok(token.now()),
            Self::App(app) => {
                let (purpose, permission) = of_git(access);
                let pass = Box::pin(app.of_repository(wire, repository, purpose, permission)).await;
                pass.map(|pass| pass.token).map_err(ForgeError::before_sending)
            }
        }
    }

    /// Forgets a credential that GitHub refused. Returns true if there may be a better one now.
    pub(super) async fn refused(
        &self,
        subject: RequestSubject<'_>,
        pass: &RequestCredential,
    ) -> bool {
        match self {
            Self::Token(token) => token.now().expose_secret() != pass.token.expose_secret(),
            Self::App(app) => app.refused(subject, pass).await,
        }
    }

    /// Forgets a token for git that was refused.
    pub(super) async fn git_refused(
        &self,
        repository: &RepoName,
        access: AccessLevel,
        token: &SecretString,
    ) {
        if let Self::App(app) = self {
            app.forget(repository, of_git(access).0, token).await;
        }
    }

    /// Names the credentials of a request, for the way out of an error.
    pub(super) fn requester(&self, subject: RequestSubject<'_>) -> Requester {
        match (self, subject) {
            (Self::Token(_), _) => Requester::Token,
            (Self::App(app), RequestSubject::Repository(repository)) => {
                Requester::Installation(app.page_of(repository))
            }
            (Self::App(_), RequestSubject::Installation(..) | RequestSubject::Anything(_)) => {
                Requester::Installation(None)
            }
            (Self::App(_), RequestSubject::App(_)) => Requester::App,
        }
    }

    /// Returns the time, where there is a clock.
    pub(super) fn now(&self) -> Option<Timestamp> {
        match self {
            Self::Token(_) => None,
            Self::App(app) => Some(app.now()),
        }
    }

    pub(super) fn is_app(&self) -> bool {
        matches!(self, Self::App(_))
    }

    /// Returns the number or client id of the App; `None` for a token.
    pub(super) fn app_id(&self) -> Option<&str> {
        match self {
            Self::Token(_) => None,
            Self::App(app) => Some(app.id()),
        }
    }
}

impl TokenSource {
    /// Takes the token from that function, which must be quick.
    pub fn new(now: impl Fn() -> SecretString + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(super) fn now(&self) -> SecretString {
        (self.0)()
    }
}

/// Shows no token.
impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSource")
    }
}

/// Returns the purpose of a token for git, and the permission it needs.
fn of_git(access: AccessLevel) -> (TokenPurpose, Permission) {
    match access {
        AccessLevel::Read => (TokenPurpose::Fetch, Permission::READ_CONTENTS),
        AccessLevel::Write => (TokenPurpose::Push, Permission::WRITE_CONTENTS),
    }
}
