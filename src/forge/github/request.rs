//! A request to GitHub: about what, needing which permission, and by what right. Pure.

use std::fmt;

use http::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use serde::Serialize;

use crate::forge::github::permission::Permission;
use crate::model::id::RepoName;

/// An error's body, or that of a write, is a short text; what is beyond that is of no use.
pub(super) const SMALL: usize = 64 * 1024;
/// Any page of a list; the longest is a hundred deployments with their payloads.
pub(super) const LARGE: usize = 8 * 1024 * 1024;
/// What GitHub recommends; without it an old Enterprise Server may send something else.
const JSON: HeaderValue = HeaderValue::from_static("application/vnd.github+json");

/// What a request is about; with that, on whose behalf an App makes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestSubject<'a> {
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
#[derive(Debug, Clone)]
pub(super) struct ApiCall<'a> {
    pub(super) about: RequestSubject<'a>,
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

/// Which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requests {
    /// All of an account.
    All,
    /// Those that make or change something.
    Writes,
}

/// By what right a request is made.
#[derive(Debug, Clone)]
pub(super) struct RequestCredential {
    pub(super) token: SecretString,
    /// Whose requests are counted; an App's own are not told of.
    pub(super) account: Option<Account>,
}

/// Whose requests GitHub counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Account {
    /// The owner of our only token.
    Token,
    /// An installation of our App.
    Installation(u64),
}

impl<'a> ApiCall<'a> {
    pub(super) fn get(about: RequestSubject<'a>, needs: Permission, route: String) -> Self {
        let (headers, method) = (HeaderMap::from_iter([(ACCEPT, JSON)]), Method::GET);
        Self { about, needs, method, route, headers, body: None, limit: LARGE, yields: false }
    }

    /// A write; a body that cannot be JSON is a fault of ours, and is sent as none.
    pub(super) fn write(
        about: RequestSubject<'a>,
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
    pub(super) fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }

    pub(super) fn at_most(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Returns the kind of the account's requests that it counts as.
    pub(super) fn requests(&self) -> Requests {
        if self.method == Method::GET { Requests::All } else { Requests::Writes }
    }
}

impl fmt::Display for RequestSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository(repository) => repository.fmt(f),
            Self::Installation(_, what) | Self::App(what) | Self::Anything(what) => {
                f.write_str(what)
            }
        }
    }
}
