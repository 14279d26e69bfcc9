//! A GitHub App: the installation that has a repository, and tokens of it.

use std::fmt;

use http::Method;
use jiff::Timestamp;
use reqwest::StatusCode;
use secrecy::SecretString;
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::Now;
use crate::forge::github::auth::installation::{self, Installation};
use crate::forge::github::auth::key::AppKey;
use crate::forge::github::auth::permission::{Permission, Purpose};
use crate::forge::github::auth::slots::{From, Slots};
use crate::forge::github::auth::token::{self, Key, Only, Token, Wanted, Whose};
use crate::forge::github::client::answer::{Answer, Who};
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::wire::{Outcome, Pass, Success, Wire};
use crate::model::id::RepoName;

/// More repositories than deploy within an hour.
const REPOSITORIES: usize = 4096;
/// Some need two or three.
const TOKENS: usize = 2 * REPOSITORIES;

/// A GitHub App.
pub(in crate::forge::github) struct App {
    key: AppKey,
    now: Now,
    /// By the repository's name in small letters.
    installations: Slots<String, Installation>,
    tokens: Slots<Key, Token>,
    /// An installation for what anybody may ask.
    any: Slots<(), u64>,
}

/// Why there is no token.
enum NotMade {
    /// The installation, or the repository in it, is not as we thought.
    Changed(Answer),
    Failed(ForgeError),
}

impl App {
    pub(super) fn new(key: AppKey, now: Now) -> Self {
        let (installations, tokens) = (Slots::new(REPOSITORIES), Slots::new(TOKENS));
        Self { key, now, installations, tokens, any: Slots::new(1) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now.get()
    }

    pub(super) async fn pass(
        &self,
        wire: &Wire,
        about: About<'_>,
        needs: Permission,
    ) -> Result<Pass, ForgeError> {
        match about {
            About::App(_) => self.own_pass(wire),
            About::Repository(repository) => {
                self.of_repository(wire, repository, Purpose::Deploy, needs).await
            }
            About::Installation(id, _) => self.of_installation(wire, id, about).await,
            About::Anything(_) => {
                let make = self.first_installation(wire, about);
                let (id, _) = self.any.get(&(), |_| true, make).await?;
                let pass = self.of_installation(wire, id, about).await;
                if pass.is_err() {
                    // It may be gone; the next one looks for another.
                    self.any.spoil(&(), |known| *known == id).await;
                }
                pass
            }
        }
    }

    /// A token for one repository and one purpose.
    pub(super) async fn of_repository(
        &self,
        wire: &Wire,
        repository: &RepoName,
        purpose: Purpose,
        needs: Permission,
    ) -> Result<Pass, ForgeError> {
        let key = Key { whose: Whose::Repository(small(repository)), purpose };
        let is_good = |token: &Token| token.is_good(purpose, needs, self.now());
        let make = self.make(wire, repository, purpose, needs);
        match self.tokens.get(&key, is_good, make).await {
            Ok((token, _)) => Ok(token.pass()),
            Err(error @ (ForgeError::Unreachable { .. } | ForgeError::NotSent { .. })) => {
                let old = self.tokens.peek(&key);
                let old = old.filter(|token| token.is_better_than_none(needs, self.now()));
                old.map(Token::pass).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets the token that was refused, and where it came from. Whether it was one that we keep:
    /// then another may be better.
    pub(super) async fn refused(&self, about: About<'_>, pass: &Pass) -> bool {
        let (whose, purpose) = match about {
            About::Repository(repository) => {
                self.installations.spoil(&small(repository), |_| true).await;
                (Whose::Repository(small(repository)), Purpose::Deploy)
            }
            About::Installation(id, _) => (Whose::Installation(id), Purpose::Look),
            About::Anything(_) => {
                let Some(id) = self.any.peek(&()) else { return false };
                self.any.spoil(&(), |_| true).await;
                (Whose::Installation(id), Purpose::Look)
            }
            About::App(_) => return false,
        };
        self.tokens.spoil(&Key { whose, purpose }, |token| token.is(&pass.token)).await;
        true
    }

    pub(super) async fn forget(
        &self,
        repository: &RepoName,
        purpose: Purpose,
        secret: &SecretString,
    ) {
        let key = Key { whose: Whose::Repository(small(repository)), purpose };
        self.installations.spoil(&small(repository), |_| true).await;
        self.tokens.spoil(&key, |token| token.is(secret)).await;
    }

    /// Where people change the installation that has a repository.
    pub(super) fn page_of(&self, repository: &RepoName) -> Option<String> {
        self.installations.last(&small(repository))?.page
    }

    fn own_pass(&self, wire: &Wire) -> Result<Pass, ForgeError> {
        let token = self.key.jwt(self.now()).map_err(|error| ForgeError::Unauthorized {
            host: wire.host.to_string(),
            about: "the App itself".to_owned(),
            help: error.to_string(),
        })?;
        Ok(Pass { token, account: None })
    }

    /// A new token. What GitHub does not make for an installation that we remember is asked for
    /// once more after another look: it was removed and made again, or the repository was renamed.
    async fn make(
        &self,
        wire: &Wire,
        repository: &RepoName,
        purpose: Purpose,
        needs: Permission,
    ) -> Result<Token, ForgeError> {
        let (installed, from) = self.installation(wire, repository, needs).await?;
        match self.minted(wire, repository, &installed, purpose).await {
            Ok(token) => return Ok(token),
            Err(NotMade::Failed(error)) => return Err(error),
            Err(NotMade::Changed(answer)) if from == From::Maker => {
                return self.by_number(wire, repository, &installed, purpose, answer).await;
            }
            Err(NotMade::Changed(_)) => {}
        }
        self.installations.spoil(&small(repository), |_| true).await;
        let (installed, _) = self.installation(wire, repository, needs).await?;
        match self.minted(wire, repository, &installed, purpose).await {
            Ok(token) => Ok(token),
            Err(NotMade::Failed(error)) => Err(error),
            Err(NotMade::Changed(answer)) => {
                self.by_number(wire, repository, &installed, purpose, answer).await
            }
        }
    }

    /// The installation that has the repository, if anything can be done with it.
    async fn installation(
        &self,
        wire: &Wire,
        repository: &RepoName,
        needs: Permission,
    ) -> Result<(Installation, From), ForgeError> {
        let is_good = |known: &Installation| known.is_good(needs, self.now());
        let look = self.look(wire, repository);
        let (installed, from) = self.installations.get(&small(repository), is_good, look).await?;
        installed.check(repository.as_str(), needs)?;
        Ok((installed, from))
    }

    async fn look(&self, wire: &Wire, repository: &RepoName) -> Result<Installation, ForgeError> {
        let about = About::Repository(repository);
        let route = format!("/repos/{repository}/installation");
        let call = Call::get(about, Permission::METADATA, route);
        match wire.send(&call, &self.own_pass(wire)?).await? {
            Outcome::Success(Success { body, route, .. }) => {
                let sent: installation::Sent = wire.parsed(&body)?;
                Ok(Installation::of(sent, &route, self.now()))
            }
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => {
                Err(self.not_installed(wire, about).await)
            }
            Outcome::Failure(answer) => Err(answer.error(&wire.host, about, &Who::App)),
            Outcome::TooLong => Err(wire.unreachable("its answer is too long".to_owned())),
        }
    }

    async fn minted(
        &self,
        wire: &Wire,
        repository: &RepoName,
        installed: &Installation,
        purpose: Purpose,
    ) -> Result<Token, NotMade> {
        let only = installed.repository.map_or(Only::Name(repository.name()), Only::Number);
        let wanted = Wanted::new(only, purpose.narrowed(&installed.granted));
        self.mint(wire, installed.id, About::Repository(repository), wanted).await
    }

    /// A repository of an old name, where GitHub did not tell its number: its number is asked for
    /// with a token that can do nothing but look.
    async fn by_number(
        &self,
        wire: &Wire,
        repository: &RepoName,
        installed: &Installation,
        purpose: Purpose,
        refusal: Answer,
    ) -> Result<Token, ForgeError> {
        #[derive(Deserialize)]
        struct Repository {
            id: u64,
        }
        let about = About::Repository(repository);
        let refused = |answer: Answer| answer.error(&wire.host, about, &Who::App);
        if installed.repository.is_some() || refusal.status != StatusCode::UNPROCESSABLE_ENTITY {
            return Err(refused(refusal));
        }
        let pass = self.of_installation(wire, installed.id, about).await?;
        let call = Call::get(about, Permission::METADATA, format!("/repos/{repository}"));
        let number = match wire.send(&call, &pass).await? {
            Outcome::Success(success) => wire.parsed::<Repository>(&success.body)?.id,
            Outcome::Failure(_) | Outcome::TooLong => return Err(refused(refusal)),
        };
        let wanted = Wanted::new(Only::Number(number), purpose.narrowed(&installed.granted));
        self.mint(wire, installed.id, about, wanted).await.map_err(|not_made| match not_made {
            NotMade::Changed(answer) => refused(answer),
            NotMade::Failed(error) => error,
        })
    }

    /// A token for all repositories of an installation that can do nothing but look.
    async fn of_installation(
        &self,
        wire: &Wire,
        id: u64,
        about: About<'_>,
    ) -> Result<Pass, ForgeError> {
        let key = Key { whose: Whose::Installation(id), purpose: Purpose::Look };
        let is_good =
            |token: &Token| token.is_good(Purpose::Look, Permission::METADATA, self.now());
        let make = async {
            let granted = [("metadata".to_owned(), "read".to_owned())].into();
            let made = self.mint(wire, id, about, Wanted::new(Only::All, granted)).await;
            made.map_err(|not_made| match not_made {
                NotMade::Changed(answer) => answer.error(&wire.host, about, &Who::App),
                NotMade::Failed(error) => error,
            })
        };
        self.tokens.get(&key, is_good, make).await.map(|(token, _)| token.pass())
    }

    async fn mint(
        &self,
        wire: &Wire,
        id: u64,
        about: About<'_>,
        wanted: Wanted,
    ) -> Result<Token, NotMade> {
        let route = format!("/app/installations/{id}/access_tokens");
        let call = Call::write(about, Permission::METADATA, Method::POST, route, &wanted);
        let pass = self.own_pass(wire).map_err(NotMade::Failed)?;
        match wire.send(&call, &pass).await.map_err(NotMade::Failed)? {
            Outcome::Success(Success { body, .. }) => {
                let sent: token::Sent = wire.parsed(&body).map_err(NotMade::Failed)?;
                Ok(Token::of(sent, wanted, id))
            }
            Outcome::TooLong => {
                Err(NotMade::Failed(wire.unreachable("its answer is too long".to_owned())))
            }
            Outcome::Failure(answer) => match answer.status {
                StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => {
                    Err(NotMade::Changed(answer))
                }
                _ if answer.says_suspended() => Err(NotMade::Changed(answer)),
                _ => Err(NotMade::Failed(answer.error(&wire.host, about, &Who::App))),
            },
        }
    }

    /// Any installation that is not suspended.
    async fn first_installation(&self, wire: &Wire, about: About<'_>) -> Result<u64, ForgeError> {
        let route = "/app/installations?per_page=100".to_owned();
        let call = Call::get(about, Permission::METADATA, route);
        let installations: Vec<installation::Sent> =
            match wire.send(&call, &self.own_pass(wire)?).await? {
                Outcome::Success(success) => wire.parsed(&success.body)?,
                Outcome::Failure(answer) => {
                    return Err(answer.error(&wire.host, about, &Who::App));
                }
                Outcome::TooLong => {
                    return Err(wire.unreachable("its answer is too long".to_owned()));
                }
            };
        match installations.iter().find(|one| !one.is_suspended()) {
            Some(one) => Ok(one.id),
            None => Err(self.not_installed(wire, about).await),
        }
    }

    /// With the page where it can be installed, if GitHub says which one that is.
    async fn not_installed(&self, wire: &Wire, about: About<'_>) -> ForgeError {
        #[derive(Deserialize)]
        struct Own {
            html_url: String,
        }
        let asked = About::App("the App itself");
        let call = Call::get(asked, Permission::METADATA, "/app".to_owned());
        let answer = match self.own_pass(wire) {
            Ok(pass) => wire.send(&call, &pass).await.ok(),
            Err(_) => None,
        };
        let page = match answer {
            Some(Outcome::Success(success)) => wire.parsed::<Own>(&success.body).ok(),
            Some(Outcome::Failure(_) | Outcome::TooLong) | None => None,
        };
        let page = page.map(|own| format!(" at {}/installations/new", own.html_url));
        let help = format!(
            "check the name; let an owner of the account install the App{}, and choose the \
             repository there",
            page.unwrap_or_default()
        );
        ForgeError::NotInstalled { about: about.to_string(), help }
    }
}

/// Names of repositories differ by more than capitals.
fn small(repository: &RepoName) -> String {
    repository.as_str().to_ascii_lowercase()
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("key", &self.key).finish_non_exhaustive()
    }
}
