//! Sends requests to an API server, and reads its refusals.
//!
//! The text of an answer that does not come from an API server is never repeated: it can be anything.

use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::Value as Json;

use crate::cluster::connection::client::describe;
use crate::model::status::one_line;
use crate::support::http::body::read_bounded;
use crate::support::http::retry_after::retry_after_seconds;
use crate::support::secret_mask::mask_secrets;

/// The most bytes of a refusal that are read: one sentence of it counts.
const MAX_REFUSAL: usize = 64 * 1024;

/// The longest sentence of a server, in characters.
pub(in crate::cluster) const MAX_MESSAGE: usize = 300;

/// The longest time for a refusal's body.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(5);

/// The reason why a request has no answer that is a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) enum RequestError {
    /// The server answered with another status.
    Refused(ServerRefusal),
    /// The head of the answer did not come in time.
    Timeout(String),
    /// There is no answer.
    NoAnswer(String),
}

/// An answer with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) struct ServerRefusal {
    pub(in crate::cluster) code: u16,
    /// The reason on one line: `the server answers 403: pods is forbidden`.
    pub(in crate::cluster) message: String,
    /// The time after which the server wants to be asked again.
    pub(in crate::cluster) retry_after: Option<Duration>,
}

impl ServerRefusal {
    /// Makes a refusal from its status and the server's own sentence, which may be empty.
    pub(in crate::cluster) fn new(code: u16, message: &str, retry_after: Option<Duration>) -> Self {
        // A server, or what stands before it, may repeat what it was sent.
        let message = match one_line(&mask_secrets(message), MAX_MESSAGE).as_str() {
            "" => format!("the server answers {code}"),
            message => format!("the server answers {code}: {message}"),
        };
        Self { code, message, retry_after }
    }

    /// Reads a Kubernetes `Status`.
    pub(in crate::cluster) fn from_status(status: &Json) -> Self {
        let code = status.get("code").and_then(Json::as_u64);
        let code = code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        Self::new(code, message_of(status), None)
    }
}

/// Sends a request; the answer is a success, and its body is still to be read.
pub(in crate::cluster) async fn send(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<Response<Body>, RequestError> {
    let response = client.send(request.map(Body::from)).await;
    let response = response.map_err(|error| match &error {
        kube::Error::Service(cause) if cause.is::<tower::timeout::error::Elapsed>() => {
            RequestError::Timeout(describe(&error))
        }
        error => RequestError::NoAnswer(describe(error)),
    })?;
    if response.status().is_success() {
        return Ok(response);
    }
    let (code, retry_after) = (response.status().as_u16(), retry_after_seconds(response.headers()));
    let read = read_bounded(response.into_body(), MAX_REFUSAL);
    let body = tokio::time::timeout(REFUSAL_DEADLINE, read).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.bytes).unwrap_or_default();
    // A body that is not JSON comes from a proxy, or from a path that does not exist.
    let status = serde_json::from_slice::<Json>(&body).unwrap_or_default();
    Err(RequestError::Refused(ServerRefusal::new(code, message_of(&status), retry_after)))
}

fn message_of(status: &Json) -> &str {
    status.get("message").and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_one_line_of_bounded_length() {
        let message = |text: &str| ServerRefusal::new(403, text, None).message;
        assert_eq!(message("pods  is\nforbidden"), "the server answers 403: pods is forbidden");
        assert_eq!(message(""), "the server answers 403");
        assert!(message(&"x".repeat(10_000)).chars().count() < 400);
    }
}
