//! WHO WE ARE to GitHub: the owner of a token, or a GitHub App.
//!
//! ```text
//! private key ─▶ key: pass of the App (JWT) ─▶ app: installation of a repository
//!                                               └▶ token: an hour, one repository, one purpose
//! ```
//!
//! Tokens and installations are kept while they are good (`slots`), and forgotten when GitHub
//! refuses them. No token is in a type that prints.

mod app; // installations and tokens of an App
mod installation; // an installation, as data
pub mod key; // an App's private key
pub mod owned; // a token whose owner may replace it
pub mod permission; // what is needed, and what was granted
mod slots; // values that are made by one at a time
mod token; // a token of an installation, as data

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};

pub(in crate::forge::github) use crate::forge::github::auth::installation::Sent as Installation;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::app::App;
use crate::forge::github::auth::key::AppKey;
use crate::forge::github::auth::owned::TokenSource;
use crate::forge::github::auth::permission::{Access, Permission, Purpose};
use crate::forge::github::client::answer::Who;
use crate::forge::github::client::call::About;
use crate::forge::github::client::wire::{Account, Pass, Wire};
use crate::model::id::RepoName;

/// What time it is.
#[derive(Clone)]
pub struct Now(Arc<dyn Fn() -> Timestamp + Send + Sync>);

/// Who we are.
#[derive(Debug, Clone)]
pub(in crate::forge::github) enum Auth {
    /// The owner of a token, which is good for everything.
    Token(TokenSource),
    /// An App.
    App(Arc<App>),
}

impl Auth {
    pub(in crate::forge::github) fn app(key: AppKey, now: Now) -> Self {
        Self::App(Arc::new(App::new(key, now)))
    }

    /// By what right a request about that may be made. What goes wrong here went wrong before
    /// anything was sent.
    pub(in crate::forge::github) async fn pass(
        &self,
        wire: &Wire,
        about: About<'_>,
        needs: Permission,
    ) -> Result<Pass, ForgeError> {
        if let About::Repository(repository) = about
            && repository.is_retired()
        {
            return Err(ForgeError::Renamed { repository: repository.clone() });
        }
        match self {
            Self::Token(token) => Ok(Pass { token: token.now(), account: Some(Account::Token) }),
            Self::App(app) => {
                Box::pin(app.pass(wire, about, needs)).await.map_err(ForgeError::before_sending)
            }
        }
    }

    /// A token for git over https.
    pub(in crate::forge::github) async fn git_token(
        &self,
        wire: &Wire,
        repository: &RepoName,
        access: Access,
    ) -> Result<SecretString, ForgeError> {
        match self {
            Self::Token(token) => Ok(token.now()),
            Self::App(app) => {
                let (purpose, needs) = match access {
                    Access::Read => (Purpose::Fetch, Permission::READ_CONTENTS),
                    Access::Write => (Purpose::Push, Permission::WRITE_CONTENTS),
                };
                let pass = Box::pin(app.of_repository(wire, repository, purpose, needs)).await;
                pass.map(|pass| pass.token).map_err(ForgeError::before_sending)
            }
        }
    }

    /// Forgets what GitHub refused. Whether there may be a better pass now.
    pub(in crate::forge::github) async fn refused(&self, about: About<'_>, pass: &Pass) -> bool {
        match self {
            Self::Token(token) => token.is_other_than(&pass.token),
            Self::App(app) => app.refused(about, pass).await,
        }
    }

    /// Forgets a token for git that was refused.
    pub(in crate::forge::github) async fn git_refused(
        &self,
        repository: &RepoName,
        access: Access,
        token: &SecretString,
    ) {
        let purpose = match access {
            Access::Read => Purpose::Fetch,
            Access::Write => Purpose::Push,
        };
        if let Self::App(app) = self {
            app.forget(repository, purpose, token).await;
        }
    }

    /// Who it is that asks about that, for saying what to do.
    pub(in crate::forge::github) fn who(&self, about: About<'_>) -> Who {
        match (self, about) {
            (Self::Token(_), _) => Who::Token,
            (Self::App(app), About::Repository(repository)) => {
                Who::Installation(app.page_of(repository))
            }
            (Self::App(_), About::Installation(..) | About::Anything(_)) => Who::Installation(None),
            (Self::App(_), About::App(_)) => Who::App,
        }
    }

    /// The time, where we know one.
    pub(in crate::forge::github) fn now(&self) -> Option<Timestamp> {
        match self {
            Self::Token(_) => None,
            Self::App(app) => Some(app.now()),
        }
    }

    pub(in crate::forge::github) fn is_app(&self) -> bool {
        matches!(self, Self::App(_))
    }
}

impl Now {
    /// That clock.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(in crate::forge::github) fn get(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Now")
    }
}

fn same(one: &SecretString, other: &SecretString) -> bool {
    one.expose_secret() == other.expose_secret()
}
