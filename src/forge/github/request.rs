//! A request to GitHub: its subject, the permission it needs, and the pass it is sent with. Pure.

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
/// The media type that GitHub recommends; without it an old Enterprise Server may send something else.
const JSON: HeaderValue = HeaderValue::from_static("application/vnd.github+json");

/// The subject of a request; it decides on whose behalf an App sends it.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestSubject<'a> {
    /// A repository: on behalf of the installation that has it.
    Repository(&'a RepoName),
    /// An installation of the service's App, and the part of it.
    Installation(u64, &'static str),
    /// The service's App itself, and the part of it.
    App(&'static str),
    /// Something that every caller may read.
    Anything(&'static str),
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct ApiCall<'a> {
    pub(super) subject: RequestSubject<'a>,
    pub(super) permission: Permission,
    pub(super) method: Method,
    pub(super) route: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<String>,
    /// The largest number of bytes that are read of a success.
    pub(super) limit: usize,
    /// True if the request leaves the last of the hour's requests to others.
    pub(super) yields: bool,
}

/// The kind of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requests {
    /// All requests of an account.
    All,
    /// Requests that create or change something.
    Writes,
}

/// The credentials of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestCredential {
    pub(super) token: SecretString,
    /// The account whose requests are counted; none for an App's own, which have no limit here.
    pub(super) account: Option<Account>,
}

/// The account for which GitHub counts requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Account {
    /// The owner of the service's only token.
    Token,
    /// An installation of the service's App.
    Installation(u64),
}

impl<'a> ApiCall<'a> {
    pub(super) fn get(subject: RequestSubject<'a>, permission: Permission, route: String) -> Self {
        let (headers, method) = (HeaderMap::from_iter([(ACCEPT, JSON)]), Method::GET);
        Self {
            subject,
            permission,
            method,
            route,
            headers,
            body: None,
            limit: LARGE,
            yields: false,
        }
    }

    /// Builds a write; a body that cannot be JSON is a fault of the service, and is sent as none.
    pub(super) fn write(
        subject: RequestSubject<'a>,
        permission: Permission,
        method: Method,
        route: String,
        body: &impl Serialize,
    ) -> Self {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(ACCEPT, JSON), (CONTENT_TYPE, json)]);
        let body = serde_json::to_string(body).ok();
        Self { subject, permission, method, route, headers, body, limit: SMALL, yields: false }
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Marks a status, which gives way to deployments.
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
            Self::Installation(_, name) | Self::App(name) | Self::Anything(name) => {
                f.write_str(name)
            }
        }
    }
}
