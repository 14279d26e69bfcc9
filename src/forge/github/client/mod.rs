//! The one place that talks to GitHub: a file at a commit, and deployment statuses.
//!
//! Nothing is retried here: a blind second POST would be a second status. The caller does, by the
//! error's disposition. Raw routes are used because octocrab's typed ones drop an answer's headers,
//! and with them for how long GitHub asks us to wait.

use std::time::Duration;

use octocrab::Octocrab;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use crate::forge::Status;
use crate::forge::error::ForgeError;
use crate::forge::github::client::answer::Answer;
use crate::model::id::{CommitSha, RepoName};

mod answer; // what an answer that is no success means
mod branches; // which branches a commit is on

/// Where github.com's API is.
pub const GITHUB_API: &str = "https://api.github.com";
/// The version without breaking changes, supported until 2028 at least.
const API_VERSION: &str = "2022-11-28";
/// The file itself; without this it comes as base64, and not at all over 1 MB.
const RAW: HeaderValue = HeaderValue::from_static("application/vnd.github.raw+json");
/// An error's body is a short text; what is beyond that is of no use.
const ERROR_BYTES: usize = 64 * 1024;
/// As GitHub counts it; a longer description is refused with 422.
const DESCRIPTION_CHARACTERS: usize = 140;

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

/// Who we are to GitHub. An App's key will be the second kind.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// A personal or machine token.
    Token(SecretString),
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
    /// The client library refuses.
    #[error("the GitHub client cannot be made")]
    Client(#[source] Box<octocrab::Error>),
}

/// GitHub, or a GitHub Enterprise Server.
#[derive(Debug, Clone)]
pub struct GitHub {
    octocrab: Octocrab,
    host: String,
    timeout: Duration,
}

impl GitHub {
    /// A client on the shared HTTP client; to be called within the runtime.
    ///
    /// # Errors
    /// [`SettingsError`]
    pub fn new(settings: Settings, http: reqwest::Client) -> Result<Self, SettingsError> {
        let Settings { api_url, credentials, timeout } = settings;
        let host = host(&api_url).ok_or_else(|| SettingsError::Url { url: api_url.clone() })?;
        let Credentials::Token(token) = credentials;
        let legal = |b: u8| b.is_ascii_graphic();
        if token.expose_secret().is_empty() || !token.expose_secret().bytes().all(legal) {
            return Err(SettingsError::Token);
        }
        let version = HeaderName::from_static("x-github-api-version");
        let octocrab = Octocrab::builder()
            .base_uri(api_url.as_str())
            .map_err(|_| SettingsError::Url { url: api_url.clone() })?
            .personal_token(token)
            .add_header(version, API_VERSION.to_owned())
            .build_with_reqwest(http)
            .map_err(|error| SettingsError::Client(Box::new(error)))?;
        Ok(Self { octocrab, host, timeout })
    }

    /// The bytes of a file at a commit, at most `limit` of them.
    ///
    /// # Errors
    /// [`ForgeError`] says what is missing.
    pub async fn file(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        path: &str,
        limit: usize,
    ) -> Result<Vec<u8>, ForgeError> {
        let route = format!("/repos/{repository}/contents/{}?ref={commit}", escaped(path));
        let headers = HeaderMap::from_iter([(ACCEPT, RAW)]);
        let missing = match self.get(route, headers, limit).await? {
            Outcome::Success(bytes) => return Ok(bytes),
            Outcome::TooLong => {
                let (repository, path) = (repository.clone(), path.to_owned());
                return Err(ForgeError::TooLarge { repository, path, limit });
            }
            Outcome::Failure(answer) => answer,
        };
        let (repository, commit) = (repository.clone(), commit.clone());
        if missing.says_no_commit() {
            Err(ForgeError::NoCommit { repository, commit })
        } else if missing.status == StatusCode::NOT_FOUND && self.sees(&repository).await? {
            Err(ForgeError::NoFile { repository, commit, path: path.to_owned() })
        } else {
            Err(missing.error(&self.host, &repository))
        }
    }

    /// Tells GitHub what became of a deployment.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] the status may be there nevertheless.
    pub async fn report(
        &self,
        repository: &RepoName,
        forge_id: i64,
        status: &Status,
    ) -> Result<(), ForgeError> {
        let route = format!("/repos/{repository}/deployments/{forge_id}/statuses");
        let body = StatusBody::of(status);
        let call = async {
            let response = self.octocrab._post(route, Some(&body)).await;
            self.outcome(response.map(|r| r.map(reqwest::Body::wrap).into()), ERROR_BYTES).await
        };
        match self.bounded(call).await? {
            Outcome::Success(_) | Outcome::TooLong => Ok(()),
            Outcome::Failure(answer) => Err(answer.error(&self.host, repository)),
        }
    }

    /// Whether the repository is there for us: a 404 for a file does not say.
    async fn sees(&self, repository: &RepoName) -> Result<bool, ForgeError> {
        match self.get(format!("/repos/{repository}"), HeaderMap::new(), ERROR_BYTES).await? {
            Outcome::Success(_) | Outcome::TooLong => Ok(true),
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => Ok(false),
            Outcome::Failure(answer) => Err(answer.error(&self.host, repository)),
        }
    }

    async fn get(
        &self,
        route: String,
        headers: HeaderMap,
        limit: usize,
    ) -> Result<Outcome, ForgeError> {
        self.bounded(async {
            let response = self.octocrab._get_with_headers(route, Some(headers)).await;
            self.outcome(response.map(|r| r.map(reqwest::Body::wrap).into()), limit).await
        })
        .await
    }

    async fn bounded(
        &self,
        call: impl Future<Output = Result<Outcome, ForgeError>>,
    ) -> Result<Outcome, ForgeError> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }

    async fn outcome(
        &self,
        response: octocrab::Result<reqwest::Response>,
        limit: usize,
    ) -> Result<Outcome, ForgeError> {
        let response = response.map_err(|error| self.unreachable(cause(&error)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let limit = if status.is_success() { limit } else { ERROR_BYTES };
        let body = body(response, limit).await;
        let body = body.map_err(|error| self.unreachable(cause(&error)))?;
        Ok(match body {
            body if !status.is_success() => {
                Outcome::Failure(Answer::new(status, headers, &body.unwrap_or_default()))
            }
            Some(bytes) => Outcome::Success(bytes),
            None => Outcome::TooLong,
        })
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn unreachable(&self, problem: String) -> ForgeError {
        ForgeError::Unreachable { host: self.host.clone(), problem }
    }
}

/// An answer, read to its end or to its limit.
enum Outcome {
    Success(Vec<u8>),
    TooLong,
    Failure(Answer),
}

/// A deployment status as GitHub takes it.
#[derive(Serialize)]
struct StatusBody<'a> {
    state: &'static str,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment_url: Option<&'a str>,
}

impl<'a> StatusBody<'a> {
    fn of(status: &'a Status) -> Self {
        let Status { state, description, log_url, environment_url } = status;
        Self {
            state: state.as_str(),
            description: cut(description),
            log_url: log_url.as_deref(),
            environment_url: environment_url.as_deref(),
        }
    }
}

/// By characters, as GitHub counts, with an ellipsis where something is missing.
fn cut(text: &str) -> String {
    if text.chars().count() <= DESCRIPTION_CHARACTERS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(DESCRIPTION_CHARACTERS - 1).collect();
    format!("{}…", kept.trim_end())
}

/// The body, unless it is longer than the limit.
async fn body(
    mut response: reqwest::Response,
    limit: usize,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// The innermost cause: `Connection refused`. The outer ones repeat the address.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The host of an http or https address without user, query and fragment.
fn host(api_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(api_url).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    let bare = url.query().is_none() && url.fragment().is_none();
    let web = matches!(url.scheme(), "http" | "https");
    (plain && bare && web).then(|| url.host_str().map(str::to_owned))?
}

/// A path for a URL: everything but unreserved characters and `/` is escaped.
fn escaped(path: &str) -> String {
    use std::fmt::Write as _;
    path.bytes().fold(String::with_capacity(path.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests;
