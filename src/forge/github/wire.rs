//! The wire to GitHub: it sends a request with its pass, and returns the answer.
//!
//! A repository that was renamed answers with a redirect. The wire follows it with the same method and the same body,
//! and only within the configured API: no other host gets to see the token.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use octocrab::{OctoBody, Octocrab};
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::forge::error::ForgeError;
use crate::forge::github::answer::ErrorAnswer;
use crate::forge::github::limits::RateLimits;
use crate::forge::github::request::{ApiCall, RequestCredential, Requests, SMALL};
use crate::support::cause::innermost_cause;
use crate::support::clock::Clock;
use crate::support::http::body::read_bounded;

/// A renamed repository takes one; more than a few are a circle.
const MAX_HOPS: usize = 4;

/// A connection to one GitHub. Clones share everything.
#[derive(Debug, Clone)]
pub(super) struct GitHubConnection {
    pub(super) octocrab: Octocrab,
    /// The API's address, without a slash at the end.
    pub(super) base: Arc<str>,
    pub(super) host: Arc<str>,
    pub(super) timeout: Duration,
    pub(super) limits: RateLimits,
    /// The clock for the rate limits; without one, no request is held back.
    pub(super) clock: Option<Clock>,
    /// The limit of requests at once.
    pub(super) at_once: Arc<Semaphore>,
}

/// GitHub allows a hundred requests at once ("Rate limits for the REST API", GitHub Docs); some are left for other
/// users of the same token.
pub(super) const AT_ONCE: usize = 80;

/// An answer, read to its end or to its limit.
pub(super) type RequestOutcome = Result<Success, ErrorAnswer>;

/// An answer that is a success.
#[derive(Debug)]
pub(super) struct Success {
    /// `None` where it is longer than the call takes.
    pub(super) body: Option<Vec<u8>>,
    pub(super) headers: HeaderMap,
    /// The route that it came from in the end.
    pub(super) route: String,
}

impl GitHubConnection {
    /// Sends a request and reads the answer, both within the time for a call.
    pub(super) async fn send(
        &self,
        call: &ApiCall<'_>,
        pass: &RequestCredential,
    ) -> Result<RequestOutcome, ForgeError> {
        // The turn first: who waits for it uses up no time of the call.
        let _turn = self.at_once.acquire().await.expect("nobody closes it");
        // On the heap: it is awaited in many places, some of them within each other.
        match tokio::time::timeout(self.timeout, Box::pin(self.send_and_follow(call, pass))).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }

    pub(super) fn parsed<T: DeserializeOwned>(&self, answer: &Success) -> Result<T, ForgeError> {
        let Some(body) = &answer.body else {
            return Err(self.unreachable("its answer is too long".to_owned()));
        };
        serde_json::from_slice(body)
            .map_err(|_| self.unreachable("its answer cannot be read".to_owned()))
    }

    pub(super) fn unreachable(&self, problem: String) -> ForgeError {
        ForgeError::Unreachable { host: self.host.to_string(), problem }
    }

    async fn send_and_follow(
        &self,
        call: &ApiCall<'_>,
        pass: &RequestCredential,
    ) -> Result<RequestOutcome, ForgeError> {
        let mut route = call.route.clone();
        for _ in 0..MAX_HOPS {
            let (outcome, location) = self.send_bounded(call, &route, pass).await?;
            let Some(location) = location else { return Ok(outcome) };
            route =
                self.own_route(&location).ok_or_else(|| self.redirect_error(call, &location))?;
        }
        Err(self.unreachable("it redirects in circles".to_owned()))
    }

    /// Sends the request, and returns the answer with its redirect.
    async fn send_bounded(
        &self,
        call: &ApiCall<'_>,
        route: &str,
        pass: &RequestCredential,
    ) -> Result<(RequestOutcome, Option<String>), ForgeError> {
        self.may_go(call, pass)?;
        let request = request(call, route, pass).ok_or_else(|| {
            let message = "no request can be made of this name".to_owned();
            self.refused(call, StatusCode::BAD_REQUEST, message)
        })?;
        let response = self.octocrab.execute(request).await;
        let response = response.map_err(|error| self.no_answer(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let (method, answer) = (call.method.as_str(), status.as_u16());
        tracing::debug!(host = &*self.host, method, route, answer, "GitHub answered");
        if let Some(account) = pass.account {
            self.limits.note(account, &headers, self.clock.as_ref().map(Clock::now));
        }
        if status.is_success() && is_web_page(&headers) {
            return Err(self.unreachable(
                "a web page came in place of an answer: a proxy or a login is in the way"
                    .to_owned(),
            ));
        }
        let limit = if status.is_success() { call.limit } else { SMALL };
        let body = read_bounded(response.into_body(), limit).await;
        let body = body.map_err(|error| self.unreachable(innermost_cause(&error).to_string()))?;
        let location = headers.get(LOCATION).filter(|_| is_redirect(status));
        let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
        let body = (!body.is_cut).then_some(body.bytes);
        if status.is_success() {
            return Ok((Ok(Success { body, headers, route: route.to_owned() }), location));
        }
        let answer = ErrorAnswer::new(status, headers, &body.unwrap_or_default(), call.permission);
        if let (Some(account), Some(wait), Some(clock)) =
            (pass.account, answer.time_to_wait(), &self.clock)
        {
            let requests = if answer.has_used_up() { Requests::All } else { call.requests() };
            self.limits.close(account, requests, wait, clock.now());
        }
        Ok((Err(answer), location))
    }

    /// Refuses a request while a wait lasts, and a status while the rest of the hour's requests is reserved for
    /// deployments.
    fn may_go(&self, call: &ApiCall<'_>, pass: &RequestCredential) -> Result<(), ForgeError> {
        let (Some(account), Some(clock)) = (pass.account, &self.clock) else { return Ok(()) };
        let now = clock.now();
        let reserved = if call.yields { self.limits.reserved_for(account, now) } else { None };
        match self.limits.left(account, call.requests(), now).max(reserved) {
            None => Ok(()),
            Some(retry_after) => {
                Err(ForgeError::RateLimited { host: self.host.to_string(), retry_after })
            }
        }
    }

    /// Returns the route within the configured API that an address names.
    pub(super) fn own_route(&self, location: &str) -> Option<String> {
        let base = reqwest::Url::parse(&self.base).ok()?;
        let url = base.join(location).ok()?;
        let folder = base.path().trim_end_matches('/');
        let route = url.path().strip_prefix(folder)?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        (url.origin() == base.origin()).then(|| format!("{route}{query}"))
    }

    fn redirect_error(&self, call: &ApiCall<'_>, location: &str) -> ForgeError {
        let host = reqwest::Url::parse(location).ok();
        let host = host.and_then(|url| url.host_str().map(str::to_owned));
        let host = host.unwrap_or_else(|| "another address".to_owned());
        let message =
            format!("it redirects to {host}; set forge.github.api_url to where the API is");
        self.refused(call, StatusCode::MOVED_PERMANENTLY, message)
    }

    fn refused(&self, call: &ApiCall<'_>, status: StatusCode, message: String) -> ForgeError {
        let (host, subject) = (self.host.to_string(), call.subject.to_string());
        ForgeError::Refused { host, about: subject, status: status.as_u16(), message }
    }

    /// Builds the error of a missing answer: without a connection nothing can have arrived.
    fn no_answer(&self, error: &octocrab::Error) -> ForgeError {
        let (host, problem) = (self.host.to_string(), innermost_cause(error).to_string());
        if is_before_sending(error) {
            ForgeError::NotSent { host, problem }
        } else {
            ForgeError::Unreachable { host, problem }
        }
    }
}

/// Builds the request; `None` if a name or a token has characters that it cannot have.
fn request(call: &ApiCall<'_>, route: &str, pass: &RequestCredential) -> Option<Request<OctoBody>> {
    let body = call.body.clone().map_or_else(OctoBody::empty, OctoBody::from);
    let mut request = Request::new(body);
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = route.parse().ok()?;
    *request.headers_mut() = call.headers.clone();
    let authorization = format!("Bearer {}", pass.token.expose_secret());
    let mut authorization = HeaderValue::try_from(authorization).ok()?;
    authorization.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, authorization);
    Some(request)
}

/// Checks for a page for people. The API sends JSON and raw files; a page comes from a proxy in between, and must not
/// be taken for a file.
fn is_web_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"].iter().any(|page| kind.eq_ignore_ascii_case(page))
}

/// Checks for the redirects that GitHub uses; 303 would make a GET of a POST, and 304 is no redirect.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 307 | 308)
}

/// Returns whether there was no connection: a name, a port, a proxy or a certificate was in the
/// way.
fn is_before_sending(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .any(|cause| cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect))
}
