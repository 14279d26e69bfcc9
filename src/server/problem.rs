//! Errors as callers see them: `application/problem+json` (RFC 9457).
//!
//! `type` is stable and for programs, `detail` is for people.

use std::time::Duration;

use axum::Json;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::api::problem::ProblemBody;

/// The kinds of problems; each has its `type`, title and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// A parameter, a header or the JSON is invalid.
    BadRequest,
    /// The event cannot be used.
    MalformedEvent,
    /// The webhook's signature is missing or wrong.
    BadSignature,
    /// The token is missing or wrong.
    Unauthorized,
    /// The token is valid, but does not permit this.
    Forbidden,
    /// The caller sent too many requests.
    TooMany,
    /// Another request with that `Idempotency-Key` is in progress.
    KeyInUse,
    /// The `Idempotency-Key` was used for another request.
    KeyReused,
    /// There is no such route or resource.
    NotFound,
    /// The route does not take this method.
    MethodNotAllowed,
    /// Another change of the resource is in progress, or it has changed.
    Conflict,
    /// The request names as present what is no longer so.
    Outdated,
    /// Data would be lost, and the request does not allow that.
    WouldLoseData,
    /// Another replica of the service does this.
    Misdirected,
    /// The request has the right form, but contradicts itself or the service's rules.
    Unprocessable,
    /// The body did not arrive in time.
    SlowBody,
    /// The body is too large.
    TooLarge,
    /// The body's type is not used here.
    UnsupportedMediaType,
    /// An error in the service.
    Internal,
    /// The database or another service is unavailable.
    Unavailable,
    /// The service has too many requests at once.
    Overloaded,
    /// The answer was not ready in time.
    TookTooLong,
}

impl ProblemKind {
    /// Every kind, in the order of their statuses; the table in the documentation has the same.
    pub const ALL: [Self; 22] = [
        Self::BadRequest,
        Self::MalformedEvent,
        Self::Unauthorized,
        Self::BadSignature,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::SlowBody,
        Self::Conflict,
        Self::Outdated,
        Self::WouldLoseData,
        Self::KeyInUse,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Misdirected,
        Self::Unprocessable,
        Self::KeyReused,
        Self::TooMany,
        Self::Internal,
        Self::Unavailable,
        Self::Overloaded,
        Self::TookTooLong,
    ];

    /// Returns the end of the `type`, the status, and the meaning.
    pub fn documentation(self) -> (&'static str, u16, &'static str) {
        let (name, _, status) = self.parts();
        (name, status.as_u16(), self.meaning())
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::BadRequest => "a parameter, a header or the JSON is invalid",
            Self::MalformedEvent => "the webhook's event cannot be used",
            Self::BadSignature => "the webhook's signature is missing or wrong",
            Self::Unauthorized => "there is no token, or it is wrong, expired or revoked",
            Self::Forbidden => "the token is valid, but does not permit this",
            Self::TooMany => {
                "the caller sent too many requests; `Retry-After` says when to try again"
            }
            Self::KeyInUse => "another request with this `Idempotency-Key` is in progress",
            Self::KeyReused => "this `Idempotency-Key` was used for another request",
            Self::NotFound => "there is no such route or resource",
            Self::MethodNotAllowed => "the route does not take this method",
            Self::Conflict => "another change of the resource is in progress, or it has changed",
            Self::Outdated => {
                "the request names as present what is no longer so; the same request will not succeed"
            }
            Self::WouldLoseData => "data would be lost, and the request does not allow that",
            Self::Misdirected => {
                "another replica of the service does this; send the request on a new connection"
            }
            Self::Unprocessable => {
                "the request has the right form, but contradicts itself or the service's rules"
            }
            Self::SlowBody => "the body did not arrive in time",
            Self::TooLarge => "the body is too large",
            Self::UnsupportedMediaType => "the body is not `application/json`",
            Self::Internal => "an error in the service; its log has more under the request's id",
            Self::Unavailable => "the database or another service is unavailable; try again later",
            Self::Overloaded => "too many requests at once; try again later",
            Self::TookTooLong => "the answer was not ready in time; the request may be sent again",
        }
    }

    /// Returns the name, the title and the status.
    fn parts(self) -> (&'static str, &'static str, StatusCode) {
        match self {
            Self::BadRequest => ("bad-request", "Bad request", StatusCode::BAD_REQUEST),
            Self::MalformedEvent => ("malformed-event", "Malformed event", StatusCode::BAD_REQUEST),
            Self::BadSignature => ("bad-signature", "Bad signature", StatusCode::UNAUTHORIZED),
            Self::Unauthorized => ("unauthorized", "Unauthorized", StatusCode::UNAUTHORIZED),
            Self::Forbidden => ("forbidden", "Forbidden", StatusCode::FORBIDDEN),
            Self::TooMany => {
                ("too-many-requests", "Too many requests", StatusCode::TOO_MANY_REQUESTS)
            }
            Self::KeyInUse => {
                ("idempotency-key-in-use", "Idempotency key in use", StatusCode::CONFLICT)
            }
            Self::KeyReused => (
                "idempotency-key-reused",
                "Idempotency key used for another request",
                StatusCode::UNPROCESSABLE_ENTITY,
            ),
            Self::NotFound => ("not-found", "Not found", StatusCode::NOT_FOUND),
            Self::MethodNotAllowed => {
                ("method-not-allowed", "Method not allowed", StatusCode::METHOD_NOT_ALLOWED)
            }
            Self::Conflict => ("conflict", "Conflict", StatusCode::CONFLICT),
            Self::Outdated => ("outdated", "Outdated", StatusCode::CONFLICT),
            Self::WouldLoseData => ("would-lose-data", "Data would be lost", StatusCode::CONFLICT),
            Self::Misdirected => ("misdirected", "Misdirected", StatusCode::MISDIRECTED_REQUEST),
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

    /// Returns the status.
    pub(super) fn status(self) -> u16 {
        self.parts().2.as_u16()
    }

    /// Returns the `type`.
    pub(super) fn urn(self) -> String {
        format!("urn:the-deployer:problem:{}", self.parts().0)
    }

    /// Returns whether the same request may succeed in a moment.
    fn is_passing(self) -> bool {
        matches!(self.parts().2, StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
    }
}

/// The texts of a problem, for a page.
#[derive(Debug, Clone)]
pub(super) struct ProblemText {
    pub(super) kind: ProblemKind,
    pub(super) title: &'static str,
    pub(super) detail: String,
}

/// An error on its way to a caller.
#[derive(Debug)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    /// The seconds until the caller may try again.
    retry_after: Option<u64>,
}

impl Problem {
    /// Makes a problem of that kind with its detail.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let retry_after = kind.is_passing().then_some(5);
        Self { kind, detail: detail.into(), retry_after }
    }

    /// Returns the problem with the time to wait.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    /// Returns the kind.
    pub(super) fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Returns the sentence for the caller.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { kind, detail, retry_after } = self;
        let (_, title, status) = kind.parts();
        let body = ProblemBody {
            kind: kind.urn(),
            title: title.to_owned(),
            status: kind.status(),
            detail: Some(detail.clone()),
        };
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(ProblemText { kind, title, detail });
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if kind == ProblemKind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // So that the next request goes another way.
        if kind == ProblemKind::Misdirected {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Answers a request for an unknown path.
pub(super) async fn unknown_route() -> Problem {
    Problem::new(ProblemKind::NotFound, "there is no such route; the API begins at /api/v1")
}

/// Answers a request with a method that the path does not take.
pub(super) async fn unknown_method(method: Method, uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(100).collect();
    Problem::new(ProblemKind::MethodNotAllowed, format!("{path} does not take {method}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_in_the_table_of_all() {
        assert_eq!(
            ProblemKind::TookTooLong as usize + 1,
            ProblemKind::ALL.len(),
            "the last one, and its place"
        );
    }

    #[test]
    fn when_to_come_again_is_never_at_once_and_never_too_soon() {
        let after = |wait| Problem::new(ProblemKind::TooMany, "").after(wait).retry_after;
        assert_eq!(after(Duration::from_millis(1_001)), Some(2));
        assert_eq!(after(Duration::ZERO), Some(1));
        assert_eq!(Problem::new(ProblemKind::Conflict, "").retry_after, None);
        assert_eq!(Problem::new(ProblemKind::Overloaded, "").retry_after, Some(5));
    }
}
