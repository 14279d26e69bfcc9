//! The client of GitHub's API: reads, statuses, check runs, people.
//!
//! [`Forge`](crate::forge::Forge) is any code host; its methods are in one file for each subject. Nothing is retried
//! here: a blind second POST would be a second status. The caller retries, by the error's disposition. Raw routes are
//! used because octocrab's typed ones drop an answer's headers, and with them the time for which GitHub asks to wait.
//! Only the needed parts of an answer are read, so that a new word in it breaks nothing.
//!
//! Lists are read by the page's number, never by the link to the next page: on an Enterprise Server octocrab would send
//! that request without the token. A list may grow while it is read, so that an entry of one page is on the next again.

mod checks; // check runs
pub mod comments; // comments on pull requests
mod deliveries; // failed webhook deliveries
mod etag_cache; // files that were read
pub mod own_app; // the service's App itself
mod people; // identity and permissions of people
pub mod personal_deployments; // deployments that people create with their own tokens
mod reads; // repositories: files, commits, branches, installations
pub mod sign_in; // tokens of people who sign in with a browser
mod statuses; // deployments, and the statuses of deployments and commits

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderName, HeaderValue, Uri};
use octocrab::service::middleware::base_uri::BaseUriLayer;
use octocrab::service::middleware::extra_headers::ExtraHeadersLayer;
use octocrab::service::middleware::reqwest_connector::ReqwestConnector;
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::sync::Semaphore;

use crate::forge::error::ForgeError;
use crate::forge::github::address::web_url;
use crate::forge::github::answer::ErrorAnswer;
use crate::forge::github::auth::key::AppCredentials;
use crate::forge::github::auth::{GitHubAuth, TokenSource};
use crate::forge::github::client::etag_cache::EtagCache;
use crate::forge::github::limits::RateLimits;
use crate::forge::github::permission::AccessLevel;
use crate::forge::github::request::{ApiCall, RequestSubject};
use crate::forge::github::wire::{AT_ONCE, GitHubConnection, RequestOutcome};
use crate::model::id::RepoName;
use crate::support::clock::Clock;

/// The address of github.com's API.
pub const GITHUB_API: &str = "https://api.github.com";
/// The version without breaking changes, supported until 2028 at least.
const API_VERSION: &str = "2022-11-28";
/// The user agent of the service.
const AGENT: &str = concat!("the-deployer/", env!("CARGO_PKG_VERSION"));
/// The longest page that GitHub gives.
const PER_PAGE: usize = 100;
/// The limit of requests at once that are sent with callers' own tokens.
const VISITORS_AT_ONCE: usize = 16;
/// The longest time for a request with a caller's own token: the caller waits for the answer.
const VISITORS_TIMEOUT: Duration = Duration::from_secs(4);

/// The settings of the client.
#[derive(Debug, Clone)]
pub struct GitHubSettings {
    /// [`GITHUB_API`], or `https://HOST/api/v3` for an Enterprise Server.
    pub api_url: String,
    /// The credentials of the service.
    pub credentials: Credentials,
    /// The longest time of a whole call, body included.
    pub timeout: Duration,
}

/// The credentials of the service at GitHub.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// A personal or machine token.
    Token(SecretString),
    /// The same, from where it may be replaced.
    Tokens(TokenSource),
    /// A GitHub App, with a clock: its passes and tokens are good for some time only.
    App(AppCredentials, Clock),
}

/// The reason why the client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum GitHubSettingsError {
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
pub struct GitHubClient {
    wire: GitHubConnection,
    /// The connection for requests with callers' own tokens. It has its own limit, so that a caller with many requests
    /// keeps no deployment waiting.
    visitors: GitHubConnection,
    auth: GitHubAuth,
    files: EtagCache,
    /// The client for addresses beside the API, where people sign in; it follows no redirects.
    http: reqwest::Client,
    /// The address that people know this GitHub by.
    web_url: Arc<str>,
}

/// A page of a list as GitHub sends it: a list, or an object with a list in it. It is read as a stream: the unused part
/// of 8 MiB is never in memory.
struct Page<T>(Vec<T>);

/// The names of the list where it is in an object.
const LISTS: [&str; 4] = ["items", "statuses", "check_runs", "repositories"];

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Page<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PageVisitor(PhantomData))
    }
}

struct PageVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PageVisitor<T> {
    type Value = Page<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, or an object with a list in it")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Page)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut items = None;
        while let Some(key) = object.next_key::<String>()? {
            if LISTS.contains(&key.as_str()) {
                items = Some(object.next_value()?);
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        items.map(Page).ok_or_else(|| A::Error::missing_field("items"))
    }
}

/// The used part of the answer to a request that created an object.
#[derive(Deserialize)]
struct CreatedObject {
    id: i64,
}

impl GitHubClient {
    /// Builds a client on the shared HTTP client; to be called within the runtime.
    ///
    /// The HTTP client should follow no redirects by itself: it would make a GET of a POST.
    ///
    /// # Errors
    /// [`GitHubSettingsError`]
    pub fn new(
        settings: GitHubSettings,
        http: reqwest::Client,
    ) -> Result<Self, GitHubSettingsError> {
        let GitHubSettings { api_url, credentials, timeout } = settings;
        let unusable = || GitHubSettingsError::Url { url: api_url.clone() };
        let host = host(&api_url).ok_or_else(unusable)?;
        let auth = match credentials {
            Credentials::App(key, clock) => GitHubAuth::app(key, clock),
            Credentials::Tokens(source) => build_auth(source)?,
            Credentials::Token(token) => build_auth(TokenSource::new(move || token.clone()))?,
        };
        let wire = GitHubConnection {
            octocrab: library(api_url.parse().map_err(|_| unusable())?, http.clone()),
            base: api_url.trim_end_matches('/').into(),
            host: host.into(),
            timeout,
            limits: RateLimits::default(),
            clock: None,
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
        };
        let visitors = GitHubConnection {
            timeout: VISITORS_TIMEOUT.min(timeout),
            at_once: Arc::new(Semaphore::new(VISITORS_AT_ONCE)),
            ..wire.clone()
        };
        let web_url = web_url(&api_url).into();
        Ok(Self { wire, visitors, auth, files: EtagCache::default(), http, web_url })
    }

    /// Returns the client with that clock: it sends nothing while GitHub wants it to wait, because GitHub punishes
    /// clients that go on. Such a request is refused with [`ForgeError::RateLimited`].
    #[must_use]
    pub fn waiting_by(mut self, clock: Clock) -> Self {
        self.wire.clock = Some(clock);
        self
    }

    /// Returns a token for git over https, where the user's name is `x-access-token`. An App's is good for a quarter of
    /// an hour at least, for that repository, and for nothing else.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn git_token(
        &self,
        repository: &RepoName,
        access: AccessLevel,
    ) -> Result<SecretString, ForgeError> {
        self.auth.git_token(&self.wire, repository, access).await
    }

    /// Records that a token for git was refused: the next one is a new one, if there can be one.
    pub async fn git_token_refused(
        &self,
        repository: &RepoName,
        access: AccessLevel,
        token: &SecretString,
    ) {
        self.auth.git_refused(repository, access, token).await;
    }

    /// Sends a request and reads the answer.
    ///
    /// A token that is refused is forgotten, and the request is made once more with a new one: a
    /// request that was refused so has done nothing.
    async fn call(&self, call: ApiCall<'_>) -> Result<RequestOutcome, ForgeError> {
        let pass = self.auth.pass(&self.wire, call.subject, call.permission).await?;
        let outcome = self.wire.send(&call, &pass).await?;
        match &outcome {
            Err(answer) if answer.is_of_credentials() => {
                let may_retry = self.auth.refused(call.subject, &pass).await;
                if !may_retry || answer.status != StatusCode::UNAUTHORIZED {
                    return Ok(outcome);
                }
                let pass = self.auth.pass(&self.wire, call.subject, call.permission).await?;
                self.wire.send(&call, &pass).await
            }
            _ => Ok(outcome),
        }
    }

    /// Returns the answer of a success, parsed; every other answer as the error for any caller.
    async fn read<T: DeserializeOwned>(&self, call: ApiCall<'_>) -> Result<T, ForgeError> {
        let subject = call.subject;
        let success = self.call(call).await?.map_err(|answer| self.error(answer, subject))?;
        self.wire.parsed(&success)
    }

    /// Returns the parsed answer; `None` where GitHub has nothing of that name.
    async fn find<T: DeserializeOwned>(&self, call: ApiCall<'_>) -> Result<Option<T>, ForgeError> {
        let subject = call.subject;
        match self.call(call).await? {
            Ok(success) => self.wire.parsed(&success).map(Some),
            Err(answer) if answer.status == StatusCode::NOT_FOUND => Ok(None),
            Err(answer) => Err(self.error(answer, subject)),
        }
    }

    /// Sends a write of whose answer nothing is needed.
    async fn done(&self, call: ApiCall<'_>) -> Result<(), ForgeError> {
        let subject = call.subject;
        self.call(call).await?.map(|_| ()).map_err(|answer| self.error(answer, subject))
    }

    /// Reads pages of a list until there is no more, or `look` has enough; at most `most` pages.
    /// `None` if it never had.
    async fn pages<T: DeserializeOwned, R>(
        &self,
        list: ApiCall<'_>,
        most: usize,
        mut look: impl FnMut(Vec<T>) -> ControlFlow<R>,
    ) -> Result<Option<R>, ForgeError> {
        let sign = if list.route.contains('?') { '&' } else { '?' };
        for page in 1..=most {
            let route = format!("{}{sign}per_page={PER_PAGE}&page={page}", list.route);
            let Page(items) = self.read(ApiCall { route, ..list.clone() }).await?;
            let is_last = items.len() < PER_PAGE;
            if let ControlFlow::Break(result) = look(items) {
                return Ok(Some(result));
            }
            if is_last {
                break;
            }
        }
        Ok(None)
    }

    /// Reads all elements of a list of at most so many pages; later ones are left out.
    async fn read_all<T: DeserializeOwned>(
        &self,
        list: ApiCall<'_>,
        most: usize,
    ) -> Result<Vec<T>, ForgeError> {
        let mut items_read = Vec::new();
        let look = |items: Vec<T>| {
            items_read.extend(items);
            ControlFlow::<()>::Continue(())
        };
        self.pages(list, most, look).await?;
        Ok(items_read)
    }

    fn error(&self, answer: ErrorAnswer, subject: RequestSubject<'_>) -> ForgeError {
        answer.error(&self.wire.host, subject, &self.auth.requester(subject))
    }
}

/// Builds the library's client by hand: its own builder sends another `User-Agent`, and GitHub's log must name this
/// program.
fn library(api: Uri, http: reqwest::Client) -> Octocrab {
    let headers = vec![
        (HeaderName::from_static("x-github-api-version"), HeaderValue::from_static(API_VERSION)),
        (USER_AGENT, HeaderValue::from_static(AGENT)),
    ];
    let client = OctocrabBuilder::new_empty()
        .with_service(ReqwestConnector::new(http))
        .with_layer(&ExtraHeadersLayer::new(Arc::new(headers)))
        .with_layer(&BaseUriLayer::new(api))
        .with_auth(AuthState::None)
        .build();
    match client {
        Ok(octocrab) => octocrab,
        Err(never) => match never {},
    }
}

fn build_auth(source: TokenSource) -> Result<GitHubAuth, GitHubSettingsError> {
    let token = source.now();
    let text = token.expose_secret();
    let legal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if legal { Ok(GitHubAuth::Token(source)) } else { Err(GitHubSettingsError::Token) }
}

/// Returns the host of an http or https address without user, query and fragment.
fn host(api_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(api_url).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    let bare = url.query().is_none() && url.fragment().is_none();
    let web = matches!(url.scheme(), "http" | "https");
    (plain && bare && web).then(|| url.host_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests;
