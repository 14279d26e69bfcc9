//! Errors as callers see them: `application/problem+json` (RFC 9457).
//!
//! `type` is stable and for programs, `detail` is for people.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// The kinds of errors; each has its `type`, title and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A parameter or header is not what it should be.
    BadRequest,
    /// The event cannot be used.
    MalformedEvent,
    /// The webhook is not GitHub's.
    BadSignature,
    /// The API token is missing or wrong.
    Unauthorized,
    /// No such route or thing.
    NotFound,
    /// The route has other methods.
    MethodNotAllowed,
    /// Something else is under way with it, or it has changed.
    Conflict,
    /// Data would be lost, and the request does not say that it may.
    WouldLoseData,
    /// The request is understood, and cannot be meant.
    Unprocessable,
    /// The body did not arrive in time.
    SlowBody,
    /// The body is too large.
    TooLarge,
    /// The body's type is not used here.
    UnsupportedMediaType,
    /// A mistake of ours.
    Internal,
    /// Something behind us does not work now.
    Unavailable,
    /// Too many requests at once.
    Overloaded,
    /// The answer did not come in time.
    TookTooLong,
}

impl Kind {
    /// Name, title and status.
    fn parts(self) -> (&'static str, &'static str, StatusCode) {
        match self {
            Self::BadRequest => ("bad-request", "Bad request", StatusCode::BAD_REQUEST),
            Self::MalformedEvent => ("malformed-event", "Malformed event", StatusCode::BAD_REQUEST),
            Self::BadSignature => ("bad-signature", "Bad signature", StatusCode::UNAUTHORIZED),
            Self::Unauthorized => ("unauthorized", "Unauthorized", StatusCode::UNAUTHORIZED),
            Self::NotFound => ("not-found", "Not found", StatusCode::NOT_FOUND),
            Self::MethodNotAllowed => {
                ("method-not-allowed", "Method not allowed", StatusCode::METHOD_NOT_ALLOWED)
            }
            Self::Conflict => ("conflict", "Conflict", StatusCode::CONFLICT),
            Self::WouldLoseData => ("would-lose-data", "Data would be lost", StatusCode::CONFLICT),
            Self::Unprocessable => {
                ("unprocessable", "Unprocessable", StatusCode::UNPROCESSABLE_ENTITY)
            }
            Self::SlowBody => ("slow-body", "Body came too slowly", StatusCode::REQUEST_TIMEOUT),
            Self::TooLarge => ("too-large", "Body too large", StatusCode::PAYLOAD_TOO_LARGE),
            Self::UnsupportedMediaType => (
                "unsupported-media-type",
                "Unsupported media type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ),
            Self::Internal => ("internal", "Internal error", StatusCode::INTERNAL_SERVER_ERROR),
            Self::Unavailable => {
                ("unavailable", "Temporarily unavailable", StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Overloaded => {
                ("overloaded", "Too many requests at once", StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::TookTooLong => ("took-too-long", "Took too long", StatusCode::GATEWAY_TIMEOUT),
        }
    }

    /// The status that it is answered with.
    pub(super) fn status(self) -> u16 {
        self.parts().2.as_u16()
    }

    /// Its name for people.
    pub(super) fn title(self) -> &'static str {
        self.parts().1
    }

    /// Its `type`.
    pub(super) fn urn(self) -> String {
        format!("urn:the-deployer:problem:{}", self.parts().0)
    }

    /// Whether the same request may succeed in a moment.
    fn is_passing(self) -> bool {
        matches!(self.parts().2, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
    }
}

/// What went wrong (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct Body<'a> {
    /// Stable, for programs: `urn:the-deployer:problem:not-found`.
    #[serde(rename = "type")]
    kind: String,
    /// The kind in words.
    title: &'a str,
    /// The status of the answer.
    status: u16,
    /// What is wrong, where, and what to do; for people.
    detail: &'a str,
}

/// What an answer tells of an error, for whoever makes a page of it.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) title: &'static str,
    pub(super) detail: String,
}

/// An error on its way to a caller.
#[derive(Debug)]
pub struct Problem {
    kind: Kind,
    detail: String,
}

impl Problem {
    /// A problem of that kind, explained.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { kind, detail } = self;
        let (_, title, status) = kind.parts();
        let body = Body { kind: kind.urn(), title, status: kind.status(), detail: &detail };
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(Shown { title, detail });
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if kind == Kind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if kind.is_passing() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// The answer to a path that there is not.
pub(super) async fn unknown_route() -> Problem {
    Problem::new(Kind::NotFound, "there is no such route; the API begins at /api/v1")
}

/// The answer to a method that a path has not.
pub(super) async fn unknown_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(100).collect();
    Problem::new(Kind::MethodNotAllowed, format!("{path} does not take {method}"))
}
