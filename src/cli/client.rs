//! The HTTP client of the service's API, for all commands.

use std::time::Duration;

use clap::Args;
use reqwest::header::{HeaderName, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{CliError, CliErrorKind};
use super::settings::logins;
use crate::api::problem::ProblemBody;
use crate::api::service::Readiness;
use crate::support::clock;
use crate::support::host::is_local;

/// The address of the service, and the caller's token.
#[derive(Debug, Clone, Args)]
pub(super) struct ServiceEndpoint {
    /// The service's address; `bart config set server URL` stores it. Default: `http://127.0.0.1:8080`
    #[arg(long, value_name = "URL", env = "BART_SERVER")]
    server: Option<String>,
    /// An API token of the service; give it in the variable, so that it is in no process list
    #[arg(long, env = "BART_TOKEN", hide_env_values = true, hide = true)]
    pub(super) token: Option<SecretString>,
}

/// The default address of the service: on this machine.
const UNNAMED: &str = "http://127.0.0.1:8080";
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest silence of a stream, which has a sign of life every few seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// The pause before an act whose answer was lost is repeated with its key.
const PAUSE: Duration = Duration::from_millis(500);
/// The replicas of the service that are asked at most, until a load balancer has led to the one that knows the answer.
const MAX_REPLICAS_ASKED: usize = 10;
/// The pause before another replica is asked.
const REPLICA_PAUSE: Duration = Duration::from_millis(100);
/// The longest body of an answer, in bytes: the longest list has a few MiB.
const LONGEST_BODY: usize = 16 * 1024 * 1024;
const AGENT: &str = concat!("bart/", env!("CARGO_PKG_VERSION"));
/// The problem type of a request that would lose data without allowing it.
const LOSES_DATA: &str = ":would-lose-data";

/// The problem type of a repeat whose first request is still in progress.
const AT_WORK: &str = ":idempotency-key-in-use";
static KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Makes a client for one request to a code host; it follows redirects of moved repositories.
pub(super) fn client() -> Result<reqwest::Client, CliError> {
    build_client(reqwest::Client::builder().timeout(TIMEOUT))
}

/// Makes a client for one request to the service: it follows no redirect, so that no other host gets the token.
pub(super) fn service_client() -> Result<reqwest::Client, CliError> {
    build_client(reqwest::Client::builder().timeout(TIMEOUT).redirect(Policy::none()))
}

/// Makes a client for an endless answer of the service, which is never silent for long.
pub(super) fn patient_client() -> Result<reqwest::Client, CliError> {
    let patient = reqwest::Client::builder().connect_timeout(TIMEOUT).read_timeout(SILENCE);
    build_client(patient.redirect(Policy::none()))
}

fn build_client(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, CliError> {
    crate::support::http::install_tls_provider();
    let client = builder.user_agent(AGENT).referer(false).build();
    client.map_err(|error| CliError::io(format!("cannot create an HTTP client: {error}")))
}

/// Checks that a token goes by https, or does not leave this machine: otherwise everybody on the way could read it.
pub(super) fn only_safely(address: &str) -> Result<(), CliError> {
    let url =
        Url::parse(address).map_err(|_| CliError::usage(format!("{address} is not an address")))?;
    if url.scheme() == "https" || (url.scheme() == "http" && is_local(&url)) {
        return Ok(());
    }
    Err(CliError::usage(format!("a token would go to {address} in the clear"))
        .hint("use its https address"))
}

/// Reads the whole body of an answer up to [`LONGEST_BODY`]; a body that breaks off is an error that may pass.
pub(super) async fn read_body(
    address: &str,
    mut response: reqwest::Response,
) -> Result<Vec<u8>, CliError> {
    let too_long = || {
        let most = LONGEST_BODY / (1024 * 1024);
        CliError::io(format!("the answer of {address} is larger than {most} MiB"))
            .hint("ask for less (--limit), or make sure that this is the address of the service")
    };
    if response.content_length().is_some_and(|length| length > LONGEST_BODY as u64) {
        return Err(too_long());
    }
    let broken = |error: reqwest::Error| unreachable(address, &error).passing();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > LONGEST_BODY {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads the body as JSON; `None` if it is something else.
pub(super) async fn read_json<T: DeserializeOwned>(
    address: &str,
    response: reqwest::Response,
) -> Result<Option<T>, CliError> {
    Ok(serde_json::from_slice(&read_body(address, response).await?).ok())
}

/// Makes the error for an answer that is not GitHub's.
pub(super) fn not_github(address: &str) -> CliError {
    CliError::io(format!("{address} does not answer like GitHub"))
}

/// Makes the error for an address that does not answer.
pub(super) fn unreachable(address: &str, error: &reqwest::Error) -> CliError {
    let cause = if error.is_timeout() { "no answer in time" } else { "no connection" };
    CliError::io(format!("cannot reach {address}: {cause}"))
}

impl ServiceEndpoint {
    /// Makes the endpoint of the service at that address.
    pub(super) fn at(url: impl Into<String>, token: Option<SecretString>) -> Self {
        Self { server: Some(url.into()), token }
    }

    /// Makes the endpoint of the service on this machine.
    pub(super) fn local(token: Option<SecretString>) -> Self {
        Self { server: None, token }
    }

    /// Returns the service's address.
    pub(super) fn url(&self) -> &str {
        self.server.as_deref().unwrap_or(UNNAMED)
    }

    /// Returns whether an argument, the environment or the settings name the service, even one on this machine.
    pub(super) fn is_named(&self) -> bool {
        self.server.is_some()
    }

    /// Reads a path below the service's address; a refusal is a [`CliError::refused`].
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, CliError> {
        let (status, body) = self.ask(self.address(path, query)?).await?;
        self.read(status, &body)
    }

    async fn ask(&self, address: Url) -> Result<(StatusCode, Vec<u8>), CliError> {
        let response = self.ask_replicas(|| Ok(service_client()?.get(address.clone()))).await?;
        Ok((response.status(), read_body(self.url(), response).await?))
    }

    /// Sends a request, at another replica of the service where that is the one that knows the answer. It is made by a new
    /// client each time, whose connection a load balancer may lead elsewhere.
    pub(super) async fn ask_replicas(
        &self,
        make_request: impl Fn() -> Result<reqwest::RequestBuilder, CliError>,
    ) -> Result<reqwest::Response, CliError> {
        let mut replicas = 1;
        loop {
            let response = self.send_request(self.authorize(make_request()?)?).await?;
            let is_misdirected = response.status() == StatusCode::MISDIRECTED_REQUEST;
            if !is_misdirected || replicas == MAX_REPLICAS_ASKED {
                return Ok(response);
            }
            replicas += 1;
            tokio::time::sleep(REPLICA_PAUSE).await;
        }
    }

    /// Returns whether the service is ready; it answers with an error's status while it is not.
    pub(super) async fn ready(&self) -> Result<Readiness, CliError> {
        let request = service_client()?.get(self.address("/readyz", &[])?);
        let (_, body) = self.answer(request).await?;
        self.read(StatusCode::OK, &body)
    }

    /// Does the same for a resource that may not exist.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, CliError> {
        let (status, body) = self.ask(self.address(path, &[])?).await?;
        if status == StatusCode::NOT_FOUND { Ok(None) } else { self.read(status, &body).map(Some) }
    }

    /// Asks the service to do something; a refusal is a [`CliError::refused`].
    ///
    /// If no answer arrives, the request is repeated once with the same key: nothing is done twice.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CliError> {
        let key = clock::random_digits();
        match self.send(path, body, Some(&key)).await {
            Err(error) if error.kind == CliErrorKind::Passing => {
                tokio::time::sleep(PAUSE).await;
                self.send(path, body, Some(&key)).await
            }
            result => result,
        }
    }

    /// Posts a question to the service; nothing is changed.
    pub(super) async fn consult<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CliError> {
        self.send(path, body, None).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        key: Option<&str>,
    ) -> Result<T, CliError> {
        let mut request = service_client()?.post(self.address(path, &[])?).json(body);
        if let Some(key) = key {
            request = request.header(&KEY, key);
        }
        let (status, body) = self.answer(self.authorize(request)?).await?;
        self.read(status, &body)
    }

    /// Returns the request with the caller's token.
    pub(super) fn authorize(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::RequestBuilder, CliError> {
        Ok(match self.bearer()? {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        })
    }

    /// Reads the whole answer.
    pub(super) async fn answer(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<(StatusCode, Vec<u8>), CliError> {
        let response = self.send_request(request).await?;
        Ok((response.status(), read_body(self.url(), response).await?))
    }

    async fn send_request(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, CliError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().is_redirection() {
            return Err(self.redirect_error(&response));
        }
        Ok(response)
    }

    fn read<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, CliError> {
        if !status.is_success() {
            return Err(self.problem_error(status, body));
        }
        serde_json::from_slice(body).map_err(|error| {
            CliError::io(format!("{} does not answer like the-deployer: {error}", self.url()))
        })
    }

    /// Returns the token to send: the one that was given, else that of the login at this service.
    pub(super) fn bearer(&self) -> Result<Option<SecretString>, CliError> {
        let token = match &self.token {
            Some(token) => Some(token.clone()),
            None => logins::at(self.url())?.map(|login| login.token),
        };
        if token.is_some() {
            only_safely(self.url())?;
        }
        Ok(token)
    }

    /// Returns an address below the service's.
    pub(super) fn address(&self, path: &str, query: &[(&str, String)]) -> Result<Url, CliError> {
        let text = format!("{}{path}", self.url().trim_end_matches('/'));
        Url::parse_with_params(&text, query).map_err(|_| {
            CliError::usage(format!("{} is not an address", self.url()))
                .hint("write it like https://deployer.example.com")
        })
    }

    /// Makes the error for a service that cannot be reached, which may pass.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> CliError {
        unreachable(self.url(), error)
            .hint("start `the-deployer serve`, or name the service with --server or BART_SERVER")
            .passing()
    }

    /// Makes the error for a redirect: no redirect is followed with a token.
    pub(super) fn redirect_error(&self, response: &reqwest::Response) -> CliError {
        let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let to = to.and_then(|to| response.url().join(to).ok());
        let error = CliError::usage(format!("{} redirects to another address", self.url()));
        match to {
            Some(to) => error.hint(format!(
                "if that is the service, set the server to {}",
                base(&to, response.url(), self.url())
            )),
            None => error.hint("name the service's own address with --server or BART_SERVER"),
        }
    }

    /// Makes the error of a problem that the service answered. Mistakes of the request are refusals; faults of the
    /// service may pass.
    pub(super) fn problem_error(&self, status: StatusCode, body: &[u8]) -> CliError {
        let problem: Option<ProblemBody> = serde_json::from_slice(body).ok();
        let at_work = problem.as_ref().is_some_and(|problem| problem.kind.ends_with(AT_WORK));
        let loses_data = problem.as_ref().is_some_and(|problem| problem.kind.ends_with(LOSES_DATA));
        let message = problem.map_or_else(|| status.to_string(), |p| p.detail.unwrap_or(p.title));
        let kind = match status.as_u16() {
            408 | 500.. => CliErrorKind::Passing,
            409 if at_work => CliErrorKind::Passing,
            403 => CliErrorKind::Forbidden,
            400 | 404 | 422 => CliErrorKind::Refused,
            // Not signed in, or in conflict with another act: no name is at fault.
            401..=428 | 430..500 => CliErrorKind::InTheWay,
            _ => CliErrorKind::Io,
        };
        let error = CliError::new(kind, format!("{} refuses: {message}", self.url()));
        match status.as_u16() {
            401 => error.hint("`bart login`, or set BART_TOKEN to an API token of the service"),
            403 => error.hint("ask who owns the app's repository, or who runs the service"),
            429 => error.hint("wait for a minute"),
            409 if loses_data => error.hint("add --with-data to allow the loss"),
            _ => error,
        }
    }
}

/// Returns the service's address, derived from the redirect of one request.
fn base(to: &Url, requested: &Url, server: &str) -> String {
    let (mut to, server) = (to.clone(), Url::parse(server).ok());
    to.set_query(None);
    to.set_fragment(None);
    let prefix = server.as_ref().map_or("", |server| server.path().trim_end_matches('/'));
    let below = requested.path().strip_prefix(prefix).unwrap_or_default();
    to.as_str().trim_end_matches(below).trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
