//! A request to GitHub: about what, needing which permission; and how it is made good if it was
//! refused for an old token.

use http::Method;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::answer::Answer;
use crate::forge::github::client::closed::Requests;
use crate::forge::github::client::wire::Outcome;
use crate::model::id::RepoName;

/// An error's body, or that of a write, is a short text; what is beyond that is of no use.
pub(in crate::forge::github) const SMALL: usize = 64 * 1024;
/// Any page of a list; the longest is a hundred deployments with their payloads.
pub(super) const LARGE: usize = 8 * 1024 * 1024;
/// What GitHub recommends; without it an old Enterprise Server may send something else.
const JSON: HeaderValue = HeaderValue::from_static("application/vnd.github+json");

/// What a request is about; with that, on whose behalf an App makes it.
#[derive(Debug, Clone, Copy)]
pub(in crate::forge::github) enum About<'a> {
    /// A repository: on behalf of the installation that has it.
    Repository(&'a RepoName),
    /// An installation of our App, and what of it.
    Installation(u64, &'static str),
    /// Our App itself, and what of it.
    App(&'static str),
    /// What anybody may ask.
    Anything(&'static str),
}

/// A request.
#[derive(Debug)]
pub(in crate::forge::github) struct Call<'a> {
    pub(super) about: About<'a>,
    pub(super) needs: Permission,
    pub(super) method: Method,
    pub(super) route: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<String>,
    /// How much of a success is read.
    pub(super) limit: usize,
    /// Whether it leaves the last of the hour's requests to others.
    pub(super) yields: bool,
}

impl<'a> Call<'a> {
    pub(in crate::forge::github) fn get(
        about: About<'a>,
        needs: Permission,
        route: String,
    ) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
        Self {
            about,
            needs,
            method: Method::GET,
            route,
            headers,
            body: None,
            limit: LARGE,
            yields: false,
        }
    }

    /// A write; a body that cannot be JSON is a fault of ours, and is sent as none.
    pub(in crate::forge::github) fn write(
        about: About<'a>,
        needs: Permission,
        method: Method,
        route: String,
        body: &impl Serialize,
    ) -> Self {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(ACCEPT, JSON), (CONTENT_TYPE, json)]);
        let body = serde_json::to_string(body).ok();
        Self { about, needs, method, route, headers, body, limit: SMALL, yields: false }
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// A status: what people are told of a deployment waits for deployments.
    pub(super) fn yielding(mut self) -> Self {
        self.yields = true;
        self
    }

    /// Which of the account's requests it is one of.
    pub(super) fn requests(&self) -> Requests {
        if self.method == Method::GET { Requests::All } else { Requests::Writes }
    }

    pub(super) fn at_most(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

impl GitHub {
    /// Sends a request and reads the answer.
    ///
    /// A token that is refused is forgotten, and the request is made once more with a new one: a
    /// request that was refused so has done nothing.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Outcome, ForgeError> {
        let pass = self.auth.pass(&self.wire, call.about, call.needs).await?;
        let outcome = self.wire.send(&call, &pass).await?;
        match &outcome {
            Outcome::Failure(answer) if answer.is_of_credentials() => {
                let again = self.auth.refused(call.about, &pass).await;
                if !again || answer.status != StatusCode::UNAUTHORIZED {
                    return Ok(outcome);
                }
                let pass = self.auth.pass(&self.wire, call.about, call.needs).await?;
                self.wire.send(&call, &pass).await
            }
            _ => Ok(outcome),
        }
    }

    /// The answer of a success, read; every other answer as the error that any caller makes of it.
    pub(super) async fn read<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ForgeError> {
        let about = call.about;
        match self.call(call).await? {
            Outcome::Success(success) => self.wire.parsed(&success.body),
            Outcome::TooLong => Err(self.wire.unreachable("its answer is too long".to_owned())),
            Outcome::Failure(answer) => Err(self.error(answer, about)),
        }
    }

    /// Sends a write of whose answer nothing is needed.
    pub(super) async fn done(&self, call: Call<'_>) -> Result<(), ForgeError> {
        let about = call.about;
        match self.call(call).await? {
            Outcome::Success(_) | Outcome::TooLong => Ok(()),
            Outcome::Failure(answer) => Err(self.error(answer, about)),
        }
    }

    pub(super) fn error(&self, answer: Answer, about: About<'_>) -> ForgeError {
        answer.error(&self.wire.host, about, &self.auth.who(about))
    }
}

impl std::fmt::Display for About<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repository(repository) => repository.fmt(f),
            Self::Installation(_, what) | Self::App(what) | Self::Anything(what) => {
                f.write_str(what)
            }
        }
    }
}
