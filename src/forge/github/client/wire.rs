//! The wire to GitHub: a request with somebody's pass goes out, its answer comes back.
//!
//! A repository that was renamed answers with a redirect. It is followed with the same method and
//! the same body, and to our own API only: nobody else gets to see our token.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use octocrab::{OctoBody, Octocrab};
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::forge::error::ForgeError;
use crate::forge::github::client::answer::Answer;
use crate::forge::github::client::budget::Budgets;
use crate::forge::github::client::call::{Call, SMALL};
use crate::forge::github::client::closed::{Closed, Requests};
use crate::support::cause::innermost_cause;
use crate::support::http::body::read_bounded;

/// A renamed repository takes one; more than a few are a circle.
const MOST_HOPS: usize = 4;

/// A connection to one GitHub. Clones share everything.
#[derive(Debug, Clone)]
pub(in crate::forge::github) struct Wire {
    pub(in crate::forge::github) octocrab: Octocrab,
    /// The API's address, without a slash at the end.
    pub(in crate::forge::github) base: Arc<str>,
    pub(in crate::forge::github) host: Arc<str>,
    pub(in crate::forge::github) timeout: Duration,
    pub(in crate::forge::github) budgets: Budgets,
    pub(in crate::forge::github) closed: Closed,
    /// So many requests may be under way at once.
    pub(in crate::forge::github) at_once: Arc<Semaphore>,
}

/// GitHub allows a hundred requests at once ("Rate limits for the REST API", GitHub Docs); some are
/// left for who else comes with our token.
pub(in crate::forge::github) const AT_ONCE: usize = 80;

/// By what right a request is made.
#[derive(Debug, Clone)]
pub(in crate::forge::github) struct Pass {
    pub(in crate::forge::github) token: SecretString,
    /// Whose requests are counted; an App's own are not told of.
    pub(in crate::forge::github) account: Option<Account>,
}

/// Whose requests GitHub counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::forge::github) enum Account {
    /// The owner of our only token.
    Token,
    /// An installation of our App.
    Installation(u64),
}

/// An answer, read to its end or to its limit.
#[derive(Debug)]
pub(in crate::forge::github) enum Outcome {
    Success(Success),
    TooLong,
    Failure(Answer),
}

/// An answer that is a success.
#[derive(Debug)]
pub(in crate::forge::github) struct Success {
    pub(in crate::forge::github) body: Vec<u8>,
    pub(in crate::forge::github) headers: HeaderMap,
    /// The route that it came from in the end.
    pub(in crate::forge::github) route: String,
}

impl Wire {
    /// Sends a request and reads the answer, both within the time for a call.
    pub(in crate::forge::github) async fn send(
        &self,
        call: &Call<'_>,
        pass: &Pass,
    ) -> Result<Outcome, ForgeError> {
        // The turn first: who waits for it uses up no time of the call.
        let _turn = self.at_once.acquire().await.expect("nobody closes it");
        // On the heap: it is awaited in many places, some of them within each other.
        match tokio::time::timeout(self.timeout, Box::pin(self.followed(call, pass))).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.unreachable(format!("no answer within {:?}", self.timeout))),
        }
    }

    pub(in crate::forge::github) fn parsed<T: DeserializeOwned>(
        &self,
        body: &[u8],
    ) -> Result<T, ForgeError> {
        serde_json::from_slice(body)
            .map_err(|_| self.unreachable("its answer cannot be read".to_owned()))
    }

    pub(in crate::forge::github) fn unreachable(&self, problem: String) -> ForgeError {
        ForgeError::Unreachable { host: self.host.to_string(), problem }
    }

    async fn followed(&self, call: &Call<'_>, pass: &Pass) -> Result<Outcome, ForgeError> {
        let mut route = call.route.clone();
        for _ in 0..MOST_HOPS {
            let (outcome, location) = self.sent(call, &route, pass).await?;
            let Some(location) = location else { return Ok(outcome) };
            route = self.own_route(&location).ok_or_else(|| self.led_away(call, &location))?;
        }
        Err(self.unreachable("it sends us in circles".to_owned()))
    }

    /// The answer, and where it sends us instead.
    async fn sent(
        &self,
        call: &Call<'_>,
        route: &str,
        pass: &Pass,
    ) -> Result<(Outcome, Option<String>), ForgeError> {
        self.may_go(call, pass)?;
        let request = request(call, route, pass).ok_or_else(|| self.no_request(call))?;
        let response = self.octocrab.execute(request).await;
        let response = response.map_err(|error| self.no_answer(&error))?;
        let response: reqwest::Response = response.map(reqwest::Body::wrap).into();
        let (status, headers) = (response.status(), response.headers().clone());
        let (method, answer) = (call.method.as_str(), status.as_u16());
        tracing::debug!(host = &*self.host, method, route, answer, "asked GitHub");
        if let Some(account) = pass.account {
            self.budgets.note(account, &headers);
        }
        if status.is_success() && is_web_page(&headers) {
            return Err(self.unreachable(
                "a web page came in place of an answer: a proxy or a login is in the way"
                    .to_owned(),
            ));
        }
        let limit = if status.is_success() { call.limit } else { SMALL };
        let body = body(response, limit).await;
        let body = body.map_err(|error| self.unreachable(innermost_cause(&error).to_string()))?;
        let location = headers.get(LOCATION).filter(|_| is_redirect(status));
        let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
        let outcome = match body {
            body if !status.is_success() => {
                let body = body.unwrap_or_default();
                let answer = Answer::new(status, headers, &body).of(call);
                self.hear(call, pass, &answer);
                Outcome::Failure(answer)
            }
            Some(body) => Outcome::Success(Success { body, headers, route: route.to_owned() }),
            None => Outcome::TooLong,
        };
        Ok((outcome, location))
    }

    /// Nothing goes out for who was told to wait; and no status where what is left of the hour is
    /// needed to deploy.
    fn may_go(&self, call: &Call<'_>, pass: &Pass) -> Result<(), ForgeError> {
        let Some(account) = pass.account else { return Ok(()) };
        let reserved = || self.budgets.reserved(account, self.closed.now()?);
        let reserved = if call.yields { reserved() } else { None };
        let left = self.closed.left(account, call.requests()).max(reserved);
        let host = || self.host.to_string();
        left.map_or(Ok(()), |retry_after| {
            Err(ForgeError::RateLimited { host: host(), retry_after })
        })
    }

    fn hear(&self, call: &Call<'_>, pass: &Pass, answer: &Answer) {
        if let (Some(account), Some(wait)) = (pass.account, answer.limited()) {
            let requests = if answer.has_used_up() { Requests::All } else { call.requests() };
            self.closed.hear(account, requests, wait);
        }
    }

    /// The route within our API that an address names.
    pub(in crate::forge::github) fn own_route(&self, location: &str) -> Option<String> {
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
            host: self.host.to_string(),
            about: call.about.to_string(),
            status: StatusCode::MOVED_PERMANENTLY.as_u16(),
            message: format!("it sends us to {to}; set forge.github.api_url to where the API is"),
        }
    }

    fn no_request(&self, call: &Call<'_>) -> ForgeError {
        ForgeError::Refused {
            host: self.host.to_string(),
            about: call.about.to_string(),
            status: StatusCode::BAD_REQUEST.as_u16(),
            message: "no request can be made of this name".to_owned(),
        }
    }

    /// Without a connection nothing can have arrived.
    fn no_answer(&self, error: &octocrab::Error) -> ForgeError {
        let (host, problem) = (self.host.to_string(), innermost_cause(error).to_string());
        if is_before_sending(error) {
            ForgeError::NotSent { host, problem }
        } else {
            ForgeError::Unreachable { host, problem }
        }
    }
}

/// The request; `None` if a name or a token cannot stand in one.
fn request(call: &Call<'_>, route: &str, pass: &Pass) -> Option<Request<OctoBody>> {
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

/// The API sends JSON and raw files; a page for people is of somebody who stands in between, and must not be
/// taken for a file.
fn is_web_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"].iter().any(|page| kind.eq_ignore_ascii_case(page))
}

/// Those that GitHub uses; 303 would make a GET of a POST, and 304 is no redirect.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 307 | 308)
}

/// The body, unless it is longer than the limit.
async fn body(
    response: reqwest::Response,
    limit: usize,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let body = read_bounded(response, limit).await?;
    Ok((!body.is_cut).then_some(body.bytes))
}

/// Whether there was no connection: a name, a port, a proxy or a certificate was in the way.
fn is_before_sending(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .any(|cause| cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect))
}
