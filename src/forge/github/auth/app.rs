//! A GitHub App: the installation that has a repository, and tokens of it; both are cached here.

use http::Method;
use jiff::Timestamp;
use reqwest::StatusCode;
use secrecy::SecretString;
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::answer::{ErrorAnswer, Requester};
use crate::forge::github::auth::installation::{
    Installation, InstallationToken, Installed, TokenKey, TokenRequest, TokenScope,
};
use crate::forge::github::auth::key::AppCredentials;
use crate::forge::github::auth::single_flight::{From, SlotMap};
use crate::forge::github::permission::{Permission, TokenPurpose};
use crate::forge::github::request::{ApiCall, RequestCredential, RequestSubject};
use crate::forge::github::wire::GitHubConnection;
use crate::model::id::RepoName;
use crate::support::clock::Clock;

/// More repositories than deploy within an hour.
const REPOSITORIES: usize = 4096;
/// Some need two or three.
const TOKENS: usize = 2 * REPOSITORIES;

/// A GitHub App.
#[derive(Debug)]
pub(in crate::forge::github) struct GitHubApp {
    key: AppCredentials,
    clock: Clock,
    /// The installations by the repository's name in small letters.
    installations: SlotMap<String, Installed>,
    tokens: SlotMap<TokenKey, InstallationToken>,
    /// An installation for requests that any installation may send.
    any: SlotMap<(), u64>,
}

impl GitHubApp {
    pub(super) fn new(key: AppCredentials, clock: Clock) -> Self {
        let (installations, tokens) = (SlotMap::new(REPOSITORIES), SlotMap::new(TOKENS));
        Self { key, clock, installations, tokens, any: SlotMap::new(1) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the App's number or client id.
    pub(super) fn id(&self) -> &str {
        self.key.id()
    }

    pub(super) async fn pass(
        &self,
        wire: &GitHubConnection,
        subject: RequestSubject<'_>,
        permission: Permission,
    ) -> Result<RequestCredential, ForgeError> {
        match subject {
            RequestSubject::App(_) => self.own_pass(wire),
            RequestSubject::Repository(repository) => {
                self.of_repository(wire, repository, TokenPurpose::Deploy, permission).await
            }
            RequestSubject::Installation(id, _) => self.of_installation(wire, id, subject).await,
            RequestSubject::Anything(_) => {
                let make = self.first_installation(wire, subject);
                let (id, _) = self.any.get(&(), |_| true, make).await?;
                let pass = self.of_installation(wire, id, subject).await;
                if pass.is_err() {
                    // It may be gone; the next one looks for another.
                    self.any.spoil(&(), |cached| *cached == id).await;
                }
                pass
            }
        }
    }

    /// Returns a token for one repository and one purpose.
    pub(super) async fn of_repository(
        &self,
        wire: &GitHubConnection,
        repository: &RepoName,
        purpose: TokenPurpose,
        permission: Permission,
    ) -> Result<RequestCredential, ForgeError> {
        let key = TokenKey { whose: TokenScope::Repository(small(repository)), purpose };
        let is_good = |token: &InstallationToken| token.is_good(purpose, permission, self.now());
        let make = self.make(wire, repository, purpose, permission);
        match self.tokens.get(&key, is_good, make).await {
            Ok((token, _)) => Ok(token.pass()),
            Err(error @ (ForgeError::Unreachable { .. } | ForgeError::NotSent { .. })) => {
                let old = self.tokens.peek(&key);
                let old = old.filter(|token| token.is_better_than_none(permission, self.now()));
                old.map(InstallationToken::pass).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Forgets the refused token, and its installation. Returns true if it was a cached one: then another may be
    /// better.
    pub(super) async fn refused(
        &self,
        subject: RequestSubject<'_>,
        pass: &RequestCredential,
    ) -> bool {
        let (whose, purpose) = match subject {
            RequestSubject::Repository(repository) => {
                self.installations.spoil(&small(repository), |_| true).await;
                (TokenScope::Repository(small(repository)), TokenPurpose::Deploy)
            }
            RequestSubject::Installation(id, _) => {
                (TokenScope::Installation(id), TokenPurpose::Look)
            }
            RequestSubject::Anything(_) => {
                let Some(id) = self.any.peek(&()) else { return false };
                self.any.spoil(&(), |_| true).await;
                (TokenScope::Installation(id), TokenPurpose::Look)
            }
            RequestSubject::App(_) => return false,
        };
        self.tokens.spoil(&TokenKey { whose, purpose }, |token| token.is(&pass.token)).await;
        true
    }

    pub(super) async fn forget(
        &self,
        repository: &RepoName,
        purpose: TokenPurpose,
        secret: &SecretString,
    ) {
        let key = TokenKey { whose: TokenScope::Repository(small(repository)), purpose };
        self.installations.spoil(&small(repository), |_| true).await;
        self.tokens.spoil(&key, |token| token.is(secret)).await;
    }

    /// Returns the page where people change the installation that has a repository.
    pub(super) fn page_of(&self, repository: &RepoName) -> Option<String> {
        self.installations.last(&small(repository))?.installation.html_url
    }

    fn own_pass(&self, wire: &GitHubConnection) -> Result<RequestCredential, ForgeError> {
        let token = self.key.jwt(self.now()).map_err(|error| ForgeError::Unauthorized {
            host: wire.host.to_string(),
            about: "the App itself".to_owned(),
            help: error.to_string(),
        })?;
        Ok(RequestCredential { token, account: None })
    }

    /// Returns a new token. If GitHub does not create one for a cached installation, it is looked up once more: it was
    /// removed and installed again, or the repository was renamed.
    async fn make(
        &self,
        wire: &GitHubConnection,
        repository: &RepoName,
        purpose: TokenPurpose,
        permission: Permission,
    ) -> Result<InstallationToken, ForgeError> {
        let (mut installed, from) = self.installation(wire, repository, permission).await?;
        let mut minted = self.mint_for_repository(wire, repository, &installed, purpose).await?;
        if minted.is_err() && from == From::Cache {
            self.installations.spoil(&small(repository), |_| true).await;
            (installed, _) = self.installation(wire, repository, permission).await?;
            minted = self.mint_for_repository(wire, repository, &installed, purpose).await?;
        }
        match minted {
            Ok(token) => Ok(token),
            Err(answer) => self.by_number(wire, repository, &installed, purpose, answer).await,
        }
    }

    /// Returns the installation that has the repository, if it can be used.
    async fn installation(
        &self,
        wire: &GitHubConnection,
        repository: &RepoName,
        permission: Permission,
    ) -> Result<(Installed, From), ForgeError> {
        let is_good = |installation: &Installed| installation.is_good(permission, self.now());
        let fetch = self.fetch_installation(wire, repository);
        let (installed, from) = self.installations.get(&small(repository), is_good, fetch).await?;
        installed.check(repository.as_str(), permission)?;
        Ok((installed, from))
    }

    async fn fetch_installation(
        &self,
        wire: &GitHubConnection,
        repository: &RepoName,
    ) -> Result<Installed, ForgeError> {
        let subject = RequestSubject::Repository(repository);
        let route = format!("/repos/{repository}/installation");
        let call = ApiCall::get(subject, Permission::METADATA, route);
        match wire.send(&call, &self.own_pass(wire)?).await? {
            Ok(success) => Ok(Installed::new(wire.parsed(&success)?, &success.route, self.now())),
            Err(answer) if answer.status == StatusCode::NOT_FOUND => {
                Err(self.not_installed(wire, subject).await)
            }
            Err(answer) => Err(answer.error(&wire.host, subject, &Requester::App)),
        }
    }

    async fn mint_for_repository(
        &self,
        wire: &GitHubConnection,
        repository: &RepoName,
        installed: &Installed,
        purpose: TokenPurpose,
    ) -> Result<Result<InstallationToken, ErrorAnswer>, ForgeError> {
        let Installation { id, permissions, .. } = &installed.installation;
        let permissions = purpose.narrow(permissions);
        let mut token_request = TokenRequest { permissions, ..TokenRequest::default() };
        match installed.repository {
            Some(number) => token_request.repository_ids = Some([number]),
            None => token_request.repositories = Some([repository.name()]),
        }
        self.mint(wire, *id, RequestSubject::Repository(repository), token_request).await
    }

    /// Finds a repository by an old name, where GitHub did not send its number: a token without further rights reads
    /// the number.
    async fn by_number(
        &self,
        wire: &GitHubConnection,
        repository: &RepoName,
        installed: &Installed,
        purpose: TokenPurpose,
        refusal: ErrorAnswer,
    ) -> Result<InstallationToken, ForgeError> {
        #[derive(Deserialize)]
        struct Repository {
            id: u64,
        }
        let subject = RequestSubject::Repository(repository);
        let into_error = |answer: ErrorAnswer| answer.error(&wire.host, subject, &Requester::App);
        if installed.repository.is_some() || refusal.status != StatusCode::UNPROCESSABLE_ENTITY {
            return Err(into_error(refusal));
        }
        let Installation { id, permissions, .. } = &installed.installation;
        let pass = self.of_installation(wire, *id, subject).await?;
        let call = ApiCall::get(subject, Permission::METADATA, format!("/repos/{repository}"));
        let Ok(success) = wire.send(&call, &pass).await? else { return Err(into_error(refusal)) };
        let Repository { id: number } = wire.parsed(&success)?;
        let permissions = purpose.narrow(permissions);
        let token_request =
            TokenRequest { repository_ids: Some([number]), permissions, ..TokenRequest::default() };
        self.mint(wire, *id, subject, token_request).await?.map_err(into_error)
    }

    /// Returns a token for all repositories of an installation that can do nothing but look.
    async fn of_installation(
        &self,
        wire: &GitHubConnection,
        id: u64,
        subject: RequestSubject<'_>,
    ) -> Result<RequestCredential, ForgeError> {
        let key = TokenKey { whose: TokenScope::Installation(id), purpose: TokenPurpose::Look };
        let is_good = |token: &InstallationToken| {
            token.is_good(TokenPurpose::Look, Permission::METADATA, self.now())
        };
        let make = async {
            let permissions = [("metadata".to_owned(), "read".to_owned())].into();
            let token_request = TokenRequest { permissions, ..TokenRequest::default() };
            let token = self.mint(wire, id, subject, token_request).await?;
            token.map_err(|answer| answer.error(&wire.host, subject, &Requester::App))
        };
        self.tokens.get(&key, is_good, make).await.map(|(token, _)| token.pass())
    }

    /// Creates a new token; the error is GitHub's answer, where the installation or its repository is another than
    /// expected.
    async fn mint(
        &self,
        wire: &GitHubConnection,
        id: u64,
        subject: RequestSubject<'_>,
        token_request: TokenRequest<'_>,
    ) -> Result<Result<InstallationToken, ErrorAnswer>, ForgeError> {
        let route = format!("/app/installations/{id}/access_tokens");
        let call =
            ApiCall::write(subject, Permission::METADATA, Method::POST, route, &token_request);
        match wire.send(&call, &self.own_pass(wire)?).await? {
            Ok(success) => {
                let mut token: InstallationToken = wire.parsed(&success)?;
                token.permissions.get_or_insert(token_request.permissions);
                token.installation = id;
                Ok(Ok(token))
            }
            Err(answer)
                if answer.status == StatusCode::NOT_FOUND
                    || answer.status == StatusCode::UNPROCESSABLE_ENTITY
                    || answer.says_suspended() =>
            {
                Ok(Err(answer))
            }
            Err(answer) => Err(answer.error(&wire.host, subject, &Requester::App)),
        }
    }

    /// Returns any installation that is not suspended.
    async fn first_installation(
        &self,
        wire: &GitHubConnection,
        subject: RequestSubject<'_>,
    ) -> Result<u64, ForgeError> {
        let route = "/app/installations?per_page=100".to_owned();
        let call = ApiCall::get(subject, Permission::METADATA, route);
        let installations: Vec<Installation> = match wire.send(&call, &self.own_pass(wire)?).await?
        {
            Ok(success) => wire.parsed(&success)?,
            Err(answer) => return Err(answer.error(&wire.host, subject, &Requester::App)),
        };
        match installations.iter().find(|installation| !installation.is_suspended()) {
            Some(installation) => Ok(installation.id),
            None => Err(self.not_installed(wire, subject).await),
        }
    }

    /// Builds the error of a missing installation, with the page where the App can be installed, if GitHub names it.
    async fn not_installed(
        &self,
        wire: &GitHubConnection,
        subject: RequestSubject<'_>,
    ) -> ForgeError {
        #[derive(Deserialize)]
        struct Own {
            html_url: String,
        }
        let app_itself = RequestSubject::App("the App itself");
        let call = ApiCall::get(app_itself, Permission::METADATA, "/app".to_owned());
        let answer = match self.own_pass(wire) {
            Ok(pass) => wire.send(&call, &pass).await.ok().and_then(Result::ok),
            Err(_) => None,
        };
        let page = answer.and_then(|success| wire.parsed::<Own>(&success).ok());
        let page = page.map(|app| format!(" at {}/installations/new", app.html_url));
        let help = format!(
            "check the name; let an owner of the account install the App{}, and choose the \
             repository there",
            page.unwrap_or_default()
        );
        ForgeError::NotInstalled { about: subject.to_string(), help }
    }
}

/// Returns the name in small letters: names of repositories differ by more than capitals.
fn small(repository: &RepoName) -> String {
    repository.as_str().to_ascii_lowercase()
}
