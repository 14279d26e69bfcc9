//! One request to GitHub: who asks, where it is sent on to, what comes back.
//!
//! A repository that was renamed answers with a redirect. It is followed with the same method and
//! the same body, and to our own API only: nobody else gets to see our token.

use http::{Method, Request};
use octocrab::OctoBody;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use secrecy::ExposeSecret;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::forge::error::ForgeError;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::answer::Answer;
use crate::model::id::RepoName;

/// An error's body, or that of a write, is a short text; what is beyond that is of no use.
pub(super) const SMALL: usize = 64 * 1024;
/// Any page of a list; the longest is a hundred deployments with their payloads.
pub(super) const LARGE: usize = 8 * 1024 * 1024;
/// A renamed repository takes one; more than a few are a circle.
const MOST_HOPS: usize = 4;
/// What GitHub recommends; without it an old Enterprise Server may send something else.
const JSON: HeaderValue = HeaderValue::from_static("application/vnd.github+json");

/// On whose behalf a request is made, and about what.
#[derive(Debug, Clone, Copy)]
pub(super) enum About<'a> {
    /// A repository, by who may do things there.
    Repository(&'a RepoName),
    /// GitHub in general, by anybody.
    Anything(&'static str),
}

/// A request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    about: About<'a>,
    method: Method,
    route: String,
    headers: HeaderMap,
    body: Option<String>,
    /// How much of a success is read.
    limit: usize,
}

/// An answer, read to its end or to its limit.
#[derive(Debug)]
pub(super) enum Outcome {
    Success(Vec<u8>, HeaderMap),
    TooLong,
    Failure(Answer),
}

impl<'a> Call<'a> {
    pub(super) fn get(about: About<'a>, route: String) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
        Self { about, method: Method::GET, route, headers, body: None, limit: LARGE }
    }

    /// A write; a body that cannot be JSON is a fault of ours, and is sent as none.
    pub(super) fn write(
        about: About<'a>,
        method: Method,
        route: String,
        body: &impl Serialize,
    ) -> Self {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(ACCEPT, JSON), (CONTENT_TYPE, json)]);
        let body = serde_json::to_string(body).ok();
        Self { about, method, route, headers, body, limit: SMALL }
    }

    pub(super) fn accept(mut self, accept: HeaderValue) -> Self {
        self.headers.insert(ACCEPT, accept);
        self
    }

    pub(super) fn at_most(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

impl GitHub {
    /// Sends a request and reads the answer, both within the time for a call.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Outcome, ForgeError> {
        match tokio::time::timeout(self.timeout, self.followed(call)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }

    /// The answer of a success, read; every other answer as the error that any caller makes of it.
    pub(super) async fn read<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ForgeError> {
        let about = call.about;
        match self.call(call).await? {
            Outcome::Success(body, _) => self.parsed(&body),
            Outcome::TooLong => Err(self.unreachable("its answer is too long".to_owned())),
            Outcome::Failure(answer) => Err(self.refused(answer, about)),
        }
    }

    /// Sends a write of whose answer nothing is needed.
    pub(super) async fn done(&self, call: Call<'_>) -> Result<(), ForgeError> {
        let about = call.about;
        match self.call(call).await? {
            Outcome::Success(..) | Outcome::TooLong => Ok(()),
            Outcome::Failure(answer) => Err(self.refused(answer, about)),
        }
    }

    pub(super) fn parsed<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ForgeError> {
        serde_json::from_slice(body)
            .map_err(|_| self.unreachable("its answer cannot be read".to_owned()))
    }

    pub(super) fn refused(&self, answer: Answer, about: About<'_>) -> ForgeError {
        answer.error(&self.host, about)
    }

    async fn followed(&self, mut call: Call<'_>) -> Result<Outcome, ForgeError> {
        for _ in 0..MOST_HOPS {
            let (outcome, location) = self.sent(&call).await?;
            let Some(location) = location else { return Ok(outcome) };
            call.route =
                self.own_route(&location).ok_or_else(|| self.led_away(&call, &location))?;
        }
        Err(self.unreachable("it sends us in circles".to_owned()))
    }

    /// The answer, and where it sends us instead.
    async fn sent(&self, call: &Call<'_>) -> Result<(Outcome, Option<String>), ForgeError> {
        let response = self.octocrab.execute(self.request(call)?).await;
        let response = response.map_err(|error| self.no_answer(&error))?;
        let response: reqwest::Response = response.map(reqwest::Body::wrap).into();
        let (status, headers) = (response.status(), response.headers().clone());
        self.budgets.note(&headers);
        let limit = if status.is_success() { call.limit } else { SMALL };
        let body = body(response, limit).await;
        let body = body.map_err(|error| self.unreachable(cause(&error)))?;
        let location = headers.get(LOCATION).filter(|_| is_redirect(status));
        let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
        let outcome = match body {
            body if !status.is_success() => {
                Outcome::Failure(Answer::new(status, headers, &body.unwrap_or_default()))
            }
            Some(bytes) => Outcome::Success(bytes, headers),
            None => Outcome::TooLong,
        };
        Ok((outcome, location))
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<OctoBody>, ForgeError> {
        let body = call.body.clone().map_or_else(OctoBody::empty, OctoBody::from);
        let mut request = Request::new(body);
        *request.method_mut() = call.method.clone();
        let uri = call.route.parse();
        *request.uri_mut() = uri.map_err(|_| self.not_an_address(call))?;
        *request.headers_mut() = call.headers.clone();
        let authorization = format!("Bearer {}", self.token.expose_secret());
        let authorization = HeaderValue::try_from(authorization);
        let mut authorization = authorization.map_err(|_| self.not_an_address(call))?;
        authorization.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, authorization);
        Ok(request)
    }

    /// The route within our API that an address names.
    fn own_route(&self, location: &str) -> Option<String> {
        let base = reqwest::Url::parse(&self.base).ok()?;
        let url = base.join(location).ok()?;
        let folder = base.path().trim_end_matches('/');
        let route = url.path().strip_prefix(folder)?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        (url.origin() == base.origin()).then(|| format!("{route}{query}"))
    }

    fn led_away(&self, call: &Call<'_>, location: &str) -> ForgeError {
        let to = reqwest::Url::parse(location).ok();
        let to = to.and_then(|url| url.host_str().map(str::to_owned));
        let to = to.unwrap_or_else(|| "another address".to_owned());
        ForgeError::Refused {
            host: self.host.clone(),
            about: call.about.to_string(),
            status: StatusCode::MOVED_PERMANENTLY.as_u16(),
            message: format!("it sends us to {to}; set forge.github.api_url to where the API is"),
        }
    }

    fn not_an_address(&self, call: &Call<'_>) -> ForgeError {
        ForgeError::Refused {
            host: self.host.clone(),
            about: call.about.to_string(),
            status: StatusCode::BAD_REQUEST.as_u16(),
            message: "no request can be made of this name".to_owned(),
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn unreachable(&self, problem: String) -> ForgeError {
        ForgeError::Unreachable { host: self.host.clone(), problem }
    }

    /// Without a connection nothing can have arrived.
    fn no_answer(&self, error: &octocrab::Error) -> ForgeError {
        let (host, problem) = (self.host.clone(), cause(error));
        if is_before_sending(error) {
            ForgeError::NotSent { host, problem }
        } else {
            ForgeError::Unreachable { host, problem }
        }
    }
}

impl std::fmt::Display for About<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repository(repository) => repository.fmt(f),
            Self::Anything(what) => f.write_str(what),
        }
    }
}

/// Those that GitHub uses; 303 would make a GET of a POST, and 304 is no redirect.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 307 | 308)
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

/// Whether there was no connection: a name, a port, a proxy or a certificate was in the way.
fn is_before_sending(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .any(|cause| cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect))
}
