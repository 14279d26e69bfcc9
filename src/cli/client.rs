//! The service's API, as commands call it.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::error::CliError;
use super::settings::logins;
use crate::model::deployment::{StageTime, State};
use crate::model::hand_edit::HandEdit;
use crate::model::id::CommitSha;
use crate::model::violation::Violation;

/// Keys that we do not know: those of a newer service. Programs get them as they came.
pub(super) type More = serde_json::Map<String, Json>;

/// Where the service is, and who asks.
#[derive(Debug, Clone, Args)]
pub(super) struct Server {
    /// The service's address; `bart config set server URL` sets it for good
    #[arg(long, value_name = "URL", env = "BART_SERVER", default_value = "http://127.0.0.1:8080")]
    pub(super) server: String,
    /// An API token of the service's; give it by the variable, so that it is in no process list
    #[arg(long, env = "BART_TOKEN", hide_env_values = true, hide = true)]
    pub(super) token: Option<SecretString>,
}

/// A page of deployments.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct List {
    pub(super) deployments: Vec<Overview>,
    pub(super) next: Option<String>,
    #[serde(flatten)]
    pub(super) more: More,
}

/// A deployment in a list.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Overview {
    pub(super) id: String,
    pub(super) state: State,
    pub(super) app: Option<String>,
    pub(super) target: String,
    pub(super) repository: String,
    pub(super) tag: String,
    pub(super) actor: String,
    #[serde(default)]
    pub(super) forge_id: Option<i64>,
    pub(super) received_at: jiff::Timestamp,
    pub(super) finished_at: Option<jiff::Timestamp>,
    pub(super) summary: String,
    pub(super) template: Option<String>,
    #[serde(default)]
    pub(super) address: Option<String>,
    #[serde(default)]
    pub(super) templates_commit: Option<CommitSha>,
    pub(super) errors: usize,
    pub(super) warnings: usize,
    #[serde(flatten)]
    pub(super) more: More,
}

/// A deployment by itself. Keys that we do not know are in the overview's `more`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    pub(super) overview: Overview,
    pub(super) stages: Vec<StageTime>,
    pub(super) violations: Vec<Violation>,
    #[serde(default)]
    pub(super) hand_edit: Option<HandEdit>,
    pub(super) statuses: Vec<Status>,
    #[serde(default)]
    pub(super) log_url: Option<String>,
    #[serde(default)]
    pub(super) changes: Option<Vec<Change>>,
}

/// What a deployment changes in one object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) how: String,
    #[serde(default)]
    pub(super) fields: Vec<Field>,
    #[serde(default)]
    pub(super) more_fields: usize,
    pub(super) diff: String,
    #[serde(flatten)]
    pub(super) more: More,
}

/// A value that becomes another; null where there is none.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Field {
    pub(super) path: String,
    pub(super) before: Json,
    pub(super) after: Json,
    #[serde(flatten)]
    pub(super) more: More,
}

/// What the forge is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) state: String,
    pub(super) description: String,
    pub(super) at: jiff::Timestamp,
    #[serde(flatten)]
    pub(super) more: More,
}

/// An answer that is an error (RFC 9457).
#[derive(Debug, Deserialize)]
struct Problem {
    title: String,
    detail: Option<String>,
}

const TIMEOUT: Duration = Duration::from_secs(20);
/// Streams have a sign of life every few seconds.
const SILENCE: Duration = Duration::from_secs(60);
const AGENT: &str = concat!("bart/", env!("CARGO_PKG_VERSION"));

/// A client for one question.
pub(super) fn client() -> Result<reqwest::Client, CliError> {
    made(reqwest::Client::builder().timeout(TIMEOUT))
}

/// A client for an answer without an end, which is not silent for long.
pub(super) fn patient_client() -> Result<reqwest::Client, CliError> {
    made(reqwest::Client::builder().connect_timeout(TIMEOUT).read_timeout(SILENCE))
}

fn made(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, CliError> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = builder.user_agent(AGENT).referer(false).build();
    client.map_err(|error| CliError::io(format!("cannot make a client: {error}")))
}

/// Whether a token of GitHub's may go to that address: by https, or without leaving this machine.
///
/// # Errors
/// When everybody on the way could read it.
pub(super) fn only_safely(address: &str) -> Result<(), CliError> {
    let url = reqwest::Url::parse(address)
        .map_err(|error| CliError::usage(format!("{address} is not an address: {error}")))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if url.scheme() == "https" || (url.scheme() == "http" && here) {
        return Ok(());
    }
    Err(CliError::usage(format!("a token would go to {address} in the clear"))
        .hint("use its https address"))
}

/// Nobody answers there.
pub(super) fn unreachable(address: &str, error: &reqwest::Error) -> CliError {
    let cause = if error.is_timeout() { "no answer in time" } else { "no connection" };
    CliError::io(format!("cannot reach {address}: {cause}"))
}

impl Server {
    /// Asks for a path below the service's address.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, CliError> {
        let answer = self.send(client()?.get(self.address(path, query)?)).await?;
        answer.map_err(|refusal| CliError::io(refusal.to_string()))
    }

    /// The same for what may not be there.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, CliError> {
        Ok(self.send(client()?.get(self.address(path, &[])?)).await?.ok())
    }

    /// Asks the service to do something; that it will not is a [`CliError::refused`].
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CliError> {
        self.send(client()?.post(self.address(path, &[])?).json(body)).await?
    }

    /// The request with who asks.
    pub(super) fn authorized(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::RequestBuilder, CliError> {
        Ok(match self.bearer()? {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        })
    }

    /// The answer; within, where the service was reached and says no to the request itself.
    async fn send<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<Result<T, CliError>, CliError> {
        let sent = self.authorized(request)?.send().await;
        let response = sent.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        if !status.is_success() {
            let error = self.refused(status, &body);
            return if matches!(status.as_u16(), 404 | 409 | 422) {
                Ok(Err(error))
            } else {
                Err(error)
            };
        }
        serde_json::from_slice(&body).map(Ok).map_err(|error| {
            CliError::io(format!("{} does not answer like the-deployer: {error}", self.server))
        })
    }

    /// What says who we are: the token that was given, else the login at this service.
    pub(super) fn bearer(&self) -> Result<Option<SecretString>, CliError> {
        if self.token.is_some() {
            return Ok(self.token.clone());
        }
        let Some(login) = logins::at(&self.server)? else { return Ok(None) };
        only_safely(&self.server)?;
        Ok(Some(login.token))
    }

    /// An address below the service's.
    pub(super) fn address(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<reqwest::Url, CliError> {
        let text = format!("{}{path}", self.server.trim_end_matches('/'));
        reqwest::Url::parse_with_params(&text, query).map_err(|error| {
            CliError::usage(format!("{} is not an address: {error}", self.server))
                .hint("write it like https://deployer.example.com")
        })
    }

    /// That the service cannot be reached.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> CliError {
        unreachable(&self.server, error)
            .hint("start `the-deployer serve`, or name the service with --server or BART_SERVER")
    }

    /// What an answer that is an error says.
    pub(super) fn refused(&self, status: reqwest::StatusCode, body: &[u8]) -> CliError {
        let problem: Option<Problem> = serde_json::from_slice(body).ok();
        let said = problem.map_or_else(|| status.to_string(), |p| p.detail.unwrap_or(p.title));
        let message = format!("{} refuses: {said}", self.server);
        if matches!(status.as_u16(), 404 | 409 | 422) {
            return CliError::refused(message);
        }
        let error = CliError::io(message);
        match status.as_u16() {
            401 => error.hint("`bart login`, or set BART_TOKEN to an API token of the service"),
            403 => error.hint("ask who owns the app's repository, or who runs the service"),
            429 => error.hint("wait for a minute"),
            _ => error,
        }
    }
}
