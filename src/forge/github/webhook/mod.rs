//! GitHub's webhook deliveries: their signature, and the event in them. Pure.
//!
//! ```text
//! signature::Verifier ─▶ parse ─▶ WebhookEvent::{Ping, Deployment, Rollout, Refused, Push, PullRequest, Rerun, Ignored} | Malformed
//!       the API's list ─▶ listed ─▶ the same
//! ```
//!
//! [`rules`] and [`environments`] are the configured filters. `request` decides about a deployment event, whose shape
//! is `payload`: it is converted, or ignored or refused with a reason. `push`, `pull_request` and `check_run` read the
//! other events, and `field` reads one value.
//!
//! Nothing here knows HTTP: the server passes header values and the raw body. The signature must be verified first;
//! nothing here reads a body that is not signed.

pub mod environments; // the environments that the service deploys to
pub mod listed_deployment; // a deployment as GitHub's API lists it
pub mod naming; // the repository that an event names
pub mod rules; // the rules for incoming events
pub mod signature; // HMAC over the raw body

mod check_run; // a re-run of a check run
mod document; // the body and the document in it
mod field; // one value of a JSON document, read leniently
mod push; // a branch that has moved
mod pull_request; // a pull request to preview
mod payload; // the shape of a deployment event
mod rollout; // the rollout that a deployment starts
mod request; // the decision about a deployment event: a DeploymentRequest, ignored or refused

use crate::forge::github::webhook::document::document;
use crate::forge::github::webhook::field::{ignore, quote_text};
use crate::forge::github::webhook::rules::Rules;
use crate::model::event::{UnusedPart, WebhookEvent};

pub use crate::forge::github::webhook::document::{ContentType, field as form_field};
pub use crate::forge::github::webhook::field::MalformedPayload;

/// Returns whether the body of such an event is read at all.
pub fn is_read(event: &str) -> bool {
    matches!(event, "deployment" | "push" | "pull_request" | "check_run" | "check_suite")
}

/// Reads the event of a delivery.
///
/// `event` is the header `X-GitHub-Event`. Bodies of events that are not used are not read.
///
/// # Errors
/// [`MalformedPayload`], which says which field is wrong.
pub fn parse(
    event: &str,
    content_type: ContentType,
    body: &[u8],
    rules: &Rules,
) -> Result<WebhookEvent, MalformedPayload> {
    match event {
        "ping" => Ok(WebhookEvent::Ping),
        "deployment" => request::decide(&document(content_type, body)?, rules),
        "push" => push::read(&document(content_type, body)?),
        "pull_request" => pull_request::read(&document(content_type, body)?, rules),
        "check_run" | "check_suite" => check_run::read(&document(content_type, body)?, rules),
        other => Ok(ignore(UnusedPart::Kind, format!("event {} is not used", quote_text(other)))),
    }
}

/// Checks that any body of any event is read, as JSON and as a form alike, and that a signed body verifies.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    let rules = Rules {
        previews: Some(rules::PreviewRules { forks: true, always: true }),
        ..Rules::default()
    };
    let form: Vec<u8> = data.iter().flat_map(|byte| format!("%{byte:02x}").into_bytes()).collect();
    let form = [b"payload=", form.as_slice()].concat();
    for event in ["deployment", "pull_request", "push", "check_run"] {
        let json = parse(event, ContentType::Json, data, &rules);
        let form = parse(event, ContentType::Form, &form, &rules);
        assert_eq!(format!("{json:?}"), format!("{form:?}"));
    }
    let _ = parse("deployment", ContentType::Form, data, &rules);
    let secret = secrecy::SecretString::from("secret");
    let verified = |header: &str| {
        let mut verifier = signature::Verifier::begin([&secret], Some(header))?;
        // A body comes in pieces of any size.
        data.chunks(7).for_each(|part| verifier.update(part));
        verifier.finish()
    };
    let _ = verified(&String::from_utf8_lossy(data));
    assert_eq!(verified(&signature::sign(&secret, data)), Ok(()));
}

#[cfg(test)]
mod tests;
