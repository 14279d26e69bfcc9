//! The one place that talks to GitHub.
//!
//! Nothing is retried here: a blind second POST would be a second status. The caller does, by the
//! error's disposition. Raw routes are used because octocrab's typed ones drop an answer's headers,
//! and with them for how long GitHub asks us to wait. Of what GitHub sends only what is needed is
//! read, so that a new word in it breaks nothing.

use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderName, HeaderValue, Uri};
use octocrab::service::middleware::base_uri::BaseUriLayer;
use octocrab::service::middleware::extra_headers::ExtraHeadersLayer;
use octocrab::service::middleware::reqwest_connector::ReqwestConnector;
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::key::AppKey;
use crate::forge::github::auth::owned::TokenSource;
use crate::forge::github::auth::permission::Access;
use crate::forge::github::auth::{Auth, Now};
use crate::forge::github::client::budget::Budgets;
use crate::forge::github::client::closed::Closed;
use crate::forge::github::client::etag_cache::EtagCache;
use crate::forge::github::client::wire::{AT_ONCE, Wire};
use crate::model::id::RepoName;

pub(in crate::forge::github) mod answer; // what an answer that is no success means
mod branches; // which branches a commit is on
mod budget; // how many requests are left
pub(in crate::forge::github) mod call; // a request, and by what right it is made
mod closed; // who was told to wait
mod checks; // check runs
mod commits; // statuses of commits
mod deliveries; // events that did not arrive
mod deployments; // the newest deployments of a repository
mod files; // a file at a commit
mod installed; // where our App is installed
mod etag_cache; // files that were read
mod pages; // lists, page by page
mod people; // who somebody is
mod pulls; // what a pull request changes
mod refs; // which commit a branch stands for
mod statuses; // statuses of deployments
mod visitor; // who somebody is that comes with a token of their own
pub(in crate::forge::github) mod wire; // one request, its redirects and its answer

/// Where github.com's API is.
pub const GITHUB_API: &str = "https://api.github.com";
/// The version without breaking changes, supported until 2028 at least.
const API_VERSION: &str = "2022-11-28";
/// Who we are.
const AGENT: &str = concat!("the-deployer/", env!("CARGO_PKG_VERSION"));

/// How to reach GitHub.
#[derive(Debug, Clone)]
pub struct Settings {
    /// [`GITHUB_API`], or `https://HOST/api/v3` for an Enterprise Server.
    pub api_url: String,
    /// Who we are.
    pub credentials: Credentials,
    /// How long a whole call may take, body included.
    pub timeout: Duration,
}

/// Who we are to GitHub.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// A personal or machine token.
    Token(SecretString),
    /// The same, from where it may be replaced.
    Tokens(TokenSource),
    /// A GitHub App, with a clock: its passes and tokens are good for some time only.
    App(AppKey, Now),
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The address cannot be used.
    #[error("{url} is not an address of a GitHub API: use {GITHUB_API} or https://HOST/api/v3")]
    Url {
        /// The address as configured.
        url: String,
    },
    /// The token has characters that no token has.
    #[error("the GitHub token has spaces or other characters that no token has")]
    Token,
}

/// GitHub, or a GitHub Enterprise Server. Clones share everything.
#[derive(Debug, Clone)]
pub struct GitHub {
    wire: Wire,
    /// For what is asked with callers' own tokens.
    visitors: Wire,
    auth: Auth,
    files: EtagCache,
}

impl GitHub {
    /// A client on the shared HTTP client; to be called within the runtime.
    ///
    /// The HTTP client should follow no redirects by itself: it would make a GET of a POST.
    ///
    /// # Errors
    /// [`SettingsError`]
    pub fn new(settings: Settings, http: reqwest::Client) -> Result<Self, SettingsError> {
        let Settings { api_url, credentials, timeout } = settings;
        let host = host(&api_url).ok_or_else(|| SettingsError::Url { url: api_url.clone() })?;
        let auth = auth(credentials)?;
        let uri = api_url.parse().map_err(|_| SettingsError::Url { url: api_url.clone() })?;
        let octocrab = library(uri, http);
        let base = api_url.trim_end_matches('/').into();
        let budgets = Budgets::default();
        let closed = Closed::default();
        let host = host.into();
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        let wire = Wire { octocrab, base, host, timeout, budgets, closed, at_once };
        let visitors = visitor::wire(&wire);
        Ok(Self { wire, visitors, auth, files: EtagCache::default() })
    }

    /// The same, which by that clock sends nothing while GitHub wants it to wait: GitHub punishes
    /// who goes on. Such a request is refused with [`ForgeError::RateLimited`].
    #[must_use]
    pub fn waiting_by(mut self, now: Now) -> Self {
        self.wire.closed = Closed::by(now);
        self
    }

    /// A token for git over https, where the user's name is `x-access-token`. An App's is good for a
    /// quarter of an hour at least, for that repository, and for nothing else.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn git_token(
        &self,
        repository: &RepoName,
        access: Access,
    ) -> Result<SecretString, ForgeError> {
        self.auth.git_token(&self.wire, repository, access).await
    }

    /// To be told when a token for git was refused: the next one is a new one, if there can be one.
    pub async fn git_token_refused(
        &self,
        repository: &RepoName,
        access: Access,
        token: &SecretString,
    ) {
        self.auth.git_refused(repository, access, token).await;
    }
}

/// The library, put together by hand: what it makes by itself names itself as the `User-Agent`, and
/// GitHub's log is to name this program.
fn library(api: Uri, http: reqwest::Client) -> Octocrab {
    let headers = vec![
        (HeaderName::from_static("x-github-api-version"), HeaderValue::from_static(API_VERSION)),
        (USER_AGENT, HeaderValue::from_static(AGENT)),
    ];
    let made = OctocrabBuilder::new_empty()
        .with_service(ReqwestConnector::new(http))
        .with_layer(&ExtraHeadersLayer::new(Arc::new(headers)))
        .with_layer(&BaseUriLayer::new(api))
        .with_auth(AuthState::None)
        .build();
    match made {
        Ok(octocrab) => octocrab,
        Err(never) => match never {},
    }
}

fn auth(credentials: Credentials) -> Result<Auth, SettingsError> {
    match credentials {
        Credentials::App(key, now) => Ok(Auth::app(key, now)),
        Credentials::Tokens(source) => owned(source),
        Credentials::Token(token) => owned(TokenSource::fixed(token)),
    }
}

fn owned(source: TokenSource) -> Result<Auth, SettingsError> {
    let token = source.now();
    let text = token.expose_secret();
    let legal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if legal { Ok(Auth::Token(source)) } else { Err(SettingsError::Token) }
}

/// The host of an http or https address without user, query and fragment.
fn host(api_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(api_url).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    let bare = url.query().is_none() && url.fragment().is_none();
    let web = matches!(url.scheme(), "http" | "https");
    (plain && bare && web).then(|| url.host_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests;
