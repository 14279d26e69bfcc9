//! The service's API, as commands call it.

use std::time::Duration;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::CliError;
use crate::model::deployment::{StageTime, State};
use crate::model::hand_edit::HandEdit;
use crate::model::id::CommitSha;
use crate::model::violation::Violation;

/// Where the service is, and who asks.
#[derive(Debug, Args)]
pub(super) struct Server {
    /// The service's address
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
}

/// A deployment in a list. Unknown fields are from a newer service, and left out.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Overview {
    pub(super) id: String,
    pub(super) state: State,
    pub(super) app: Option<String>,
    pub(super) target: String,
    pub(super) repository: String,
    pub(super) tag: String,
    pub(super) actor: String,
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
}

/// A deployment by itself.
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

/// What a deployment changed in one object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) how: String,
    pub(super) diff: String,
}

/// What the forge is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) state: String,
    pub(super) description: String,
    pub(super) at: jiff::Timestamp,
}

/// An answer that is an error (RFC 9457).
#[derive(Debug, Deserialize)]
struct Problem {
    title: String,
    detail: Option<String>,
}

const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn client() -> Result<reqwest::Client, CliError> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(TIMEOUT).build();
    client.map_err(|error| CliError::io(format!("cannot make a client: {error}")))
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
    pub(super) fn authorized(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    /// The answer; within, where the service was reached and says no to the request itself.
    async fn send<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<Result<T, CliError>, CliError> {
        let response =
            self.authorized(request).send().await.map_err(|error| self.unreachable(&error))?;
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
        let cause = if error.is_timeout() { "no answer in time" } else { "no connection" };
        CliError::io(format!("cannot reach {}: {cause}", self.server))
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
