//! `POST /webhooks/github`: verifies, parses and stores an event before it answers.
//!
//! A request that its headers condemn is refused before its body is read; the body is read within limits, and verified
//! while it arrives. A slot among the requests in work is taken only for a valid signature, so that callers without the
//! secret take none.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::deployments::accept::Acceptance;
use crate::forge::github::webhook::signature::{self, BadSignature, Verifier};
use crate::forge::github::webhook::{ContentType, MalformedPayload, is_read, naming, parse};
use crate::model::event::{
    BranchPush, CheckRerun, DeploymentRequest, EventRefusal, PullRequest, RolloutTrigger,
    UnusedPart, WebhookEvent,
};
use crate::model::id::DeliveryId;
use crate::server::auth::subscriber;
use crate::server::body_budget::HeldBody;
use crate::server::connections::{Connection, ConnectionPhase};
use crate::server::deliveries::WebhookOutcome;
use crate::server::limits::{Class, ServerLimits};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::{Shared, Webhook};
use crate::store::PreviewIntake;

/// The longest time in which a sender may be slower than [`PACE`].
const SLOW_FOR: Duration = Duration::from_secs(4);
/// The slowest accepted speed of a sender, in bytes a second.
const PACE: u64 = 16 * 1024;

/// Receives one delivery.
pub(super) async fn github(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let verifier = verifier(&shared, headers)?;
    let content_type = header(headers, CONTENT_TYPE.as_str()).ok().and_then(ContentType::of);
    let content_type = content_type.ok_or_else(unsupported)?;
    let event = header(headers, "x-github-event")?;
    let body = read_signed(&shared, &parts, body, verifier, is_read(event)).await?;
    let _slot = shared.slots.take(Class::Webhook).await?;
    let rules = &shared.state.webhook.rules;
    let repository = naming::read(event, content_type, &body.bytes, rules);
    let event = parse(event, content_type, &body.bytes, rules);
    drop(body);
    if let Some(repository) = repository {
        shared.state.deployments.recognize_repository(&repository).await;
    }
    match event.map_err(|error| malformed(&shared, &error))? {
        WebhookEvent::Ping => {
            shared.count(WebhookOutcome::Ping);
            Ok(Json(json!({"pong": true})).into_response())
        }
        WebhookEvent::Ignored { why, reason } => Ok(ignore(&shared, why, &reason)),
        WebhookEvent::Push(push) => Ok(handle_push(&shared, &push)),
        WebhookEvent::PullRequest(request) => store_pull_request(&shared, request).await,
        WebhookEvent::Rerun(rerun) => repeat_preview(&shared, rerun).await,
        WebhookEvent::Refused(refusal) => Err(refuse(&shared, &refusal)),
        WebhookEvent::Deployment(request) => accept(&shared, headers, request).await,
        WebhookEvent::Rollout(trigger) => accept_rollout(&shared, &trigger).await,
    }
}

/// Refuses an event: the sender sees the reason in the answer, the actor in the deployment's status.
fn refuse(shared: &Shared, refusal: &EventRefusal) -> Problem {
    let EventRefusal { repository, forge_id, field, problem } = refusal;
    tracing::warn!(%repository, forge_id, field, "webhook refused: unusable");
    shared.count(WebhookOutcome::Refused);
    shared.state.deployments.hints.add_hint(&refusal.repository);
    Problem::new(ProblemKind::MalformedEvent, format!("{field}: {problem}"))
}

/// Accepts a push as a hint: nothing is stored, and a follower of the branch fetches it soon.
fn handle_push(shared: &Shared, push: &BranchPush) -> Response {
    let BranchPush { repository, branch, after: _ } = push;
    if shared.state.deployments.notice_push(push) {
        tracing::info!(%repository, branch, "push accepted");
        return hint(shared, json!({"refresh": true}));
    }
    let reason = format!("nothing here follows {branch} of {repository}");
    tracing::debug!(reason, "webhook ignored");
    shared.count(WebhookOutcome::Ignored(UnusedPart::Repository));
    Json(json!({"ignored": reason})).into_response()
}

async fn store_pull_request(shared: &Shared, request: PullRequest) -> Result<Response, Problem> {
    let (repository, number) = (request.repository.clone(), request.number);
    let outcome = shared.state.deployments.note_pull_request(&request).await.map_err(|error| {
        tracing::error!(%repository, number, %error, "pull request could not be stored");
        shared.count(WebhookOutcome::NotStored);
        Problem::new(
            ProblemKind::Unavailable,
            "the pull request could not be stored; deliver it again",
        )
    })?;
    let preview = match outcome {
        PreviewIntake::New => "waiting",
        PreviewIntake::Known => "known",
        PreviewIntake::Forgotten => "forgotten",
        PreviewIntake::Full => {
            tracing::error!(%repository, number, "preview refused: too many wait");
            shared.count(WebhookOutcome::NotStored);
            let detail = "too many previews wait; deliver it again later";
            return Err(Problem::new(ProblemKind::Unavailable, detail));
        }
    };
    Ok(hint(shared, json!({"preview": preview})))
}

/// Repeats a preview. The check run of a deployment is not repeated: it shows how that one ended.
async fn repeat_preview(shared: &Shared, rerun: CheckRerun) -> Result<Response, Problem> {
    let repository = rerun.repository.clone();
    let is_known = shared.state.deployments.repeat_previews(&rerun).await.map_err(|error| {
        tracing::error!(%repository, %error, "request for a new preview could not be stored");
        shared.count(WebhookOutcome::NotStored);
        Problem::new(
            ProblemKind::Unavailable,
            "the request for a new preview could not be stored; deliver it again",
        )
    })?;
    if is_known {
        return Ok(hint(shared, json!({"preview": "waiting"})));
    }
    let reason = format!(
        "no preview of {repository} has that check run; to plan a deployment again, deploy again"
    );
    Ok(ignore(shared, UnusedPart::Kind, &reason))
}

fn ignore(shared: &Shared, why: UnusedPart, reason: &str) -> Response {
    tracing::info!(reason, "webhook ignored");
    shared.count(WebhookOutcome::Ignored(why));
    Json(json!({"ignored": reason})).into_response()
}

/// Answers an event that is accepted and becomes no deployment.
fn hint(shared: &Shared, answer: Value) -> Response {
    shared.count(WebhookOutcome::Hint);
    (StatusCode::ACCEPTED, Json(answer)).into_response()
}

async fn accept(
    shared: &Shared,
    headers: &HeaderMap,
    request: DeploymentRequest,
) -> Result<Response, Problem> {
    let delivery = DeliveryId::parse(header(headers, "x-github-delivery")?).map_err(|error| {
        Problem::new(ProblemKind::BadRequest, format!("X-GitHub-Delivery: {error}"))
    })?;
    let (target, repository) = (request.target.clone(), request.release.repository.clone());
    let accepted = shared.state.deployments.accept(&delivery, &request).await.map_err(|error| {
        tracing::error!(%delivery, %error, "deployment could not be stored");
        shared.count(WebhookOutcome::NotStored);
        Problem::new(
            ProblemKind::Unavailable,
            "the deployment could not be stored; deliver it again",
        )
    })?;
    let (id, duplicate) = match accepted {
        Acceptance::New(id) => (id, false),
        Acceptance::Duplicate(id) => (id, true),
    };
    shared.count(if duplicate { WebhookOutcome::Duplicate } else { WebhookOutcome::Accepted });
    tracing::debug!(deployment = %id, %delivery, %repository, %target, duplicate, "webhook accepted");
    Ok((StatusCode::ACCEPTED, Json(json!({"id": id, "duplicate": duplicate}))).into_response())
}

/// Stores the request to start a rollout; the WAML is read after the answer.
async fn accept_rollout(shared: &Shared, trigger: &RolloutTrigger) -> Result<Response, Problem> {
    let accepted = shared.state.deployments.accept_rollout(trigger).await.map_err(|error| {
        let repository = &trigger.release.repository;
        tracing::error!(%repository, %error, "request for a rollout could not be stored");
        shared.count(WebhookOutcome::NotStored);
        Problem::new(ProblemKind::Unavailable, "the rollout could not be stored; deliver it again")
    })?;
    let outcome = if accepted { WebhookOutcome::Accepted } else { WebhookOutcome::Duplicate };
    shared.count(outcome);
    let answer = json!({"rollout": trigger.rollout.to_string(), "duplicate": !accepted});
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Problem> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| {
        let detail = format!("the header {name} is missing or not plain text");
        Problem::new(ProblemKind::BadRequest, detail)
    })
}

fn unsupported() -> Problem {
    let detail = "send application/json or application/x-www-form-urlencoded, as GitHub does";
    Problem::new(ProblemKind::UnsupportedMediaType, detail)
}

/// Tells the caller which value is wrong; the log has only its field.
fn malformed(shared: &Shared, error: &MalformedPayload) -> Problem {
    shared.count(WebhookOutcome::Malformed);
    match error {
        MalformedPayload::Field { field, .. } => {
            tracing::warn!(field, "webhook refused: malformed");
        }
        MalformedPayload::NoPayloadField
        | MalformedPayload::NotJson { .. }
        | MalformedPayload::Shape { .. } => {
            tracing::warn!(%error, "webhook refused: malformed");
        }
    }
    Problem::new(ProblemKind::MalformedEvent, error.to_string())
}

/// Returns the verifier of the body's signature.
fn verifier(shared: &Shared, headers: &HeaderMap) -> Result<Verifier, Problem> {
    let Webhook { secret, previous, rules: _ } = &shared.state.webhook;
    let header = headers.get(signature::HEADER).and_then(|value| value.to_str().ok());
    let verifier = Verifier::begin(previous.iter().chain([secret]), header);
    verifier.map_err(|error| bad_signature(shared, error))
}

/// Returns the raw body of a valid signature; an empty one if it is not needed.
async fn read_signed(
    shared: &Shared,
    parts: &Parts,
    body: Body,
    mut verifier: Verifier,
    keep: bool,
) -> Result<HeldBody, Problem> {
    let limits = shared.state.limits;
    let length = parts.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length > ServerLimits::LARGEST_BODY) {
        return Err(too_large(limits.body_bytes));
    }
    enter(&parts.extensions, ConnectionPhase::Reading);
    // The client whose share of the readers' places is used.
    let origin = shared.state.auth.client_ip(&parts.extensions, &parts.headers);
    let address = origin.map_or_else(String::new, subscriber);
    let not_read = |problem| {
        shared.count(WebhookOutcome::NotRead);
        problem
    };
    let mut reader = shared.bodies.enter(&address).await.map_err(not_read)?;
    let (since, mut received) = (Instant::now(), 0_usize);
    let mut chunks = body.into_data_stream();
    loop {
        let until = too_slow_at(since, received, limits.body_timeout);
        let chunk = tokio::select! {
            problem = reader.evicted() => return Err(not_read(problem)),
            chunk = timeout_at(until, chunks.next()) => chunk,
        };
        let Some(chunk) = chunk.map_err(|_| not_read(too_slow(since, received)))? else { break };
        let chunk =
            chunk.map_err(|_| Problem::new(ProblemKind::BadRequest, "the body is incomplete"))?;
        received = received.saturating_add(chunk.len());
        if received > ServerLimits::LARGEST_BODY {
            break;
        }
        // A body that is too large is still read to its end and dropped: closing the connection while a sender sends
        // would take the answer away from it.
        if received > limits.body_bytes {
            reader.forget();
        } else {
            verifier.update(&chunk);
            if keep {
                reader.keep(&chunk, limits.body_bytes).await.map_err(not_read)?;
            }
        }
        reader.progress(received);
    }
    if received > limits.body_bytes {
        return Err(too_large(limits.body_bytes));
    }
    verifier.finish().map_err(|error| bad_signature(shared, error))?;
    enter(&parts.extensions, ConnectionPhase::Working);
    Ok(reader.finish())
}

/// Sets the phase of the connection, which is absent in tests without a socket.
fn enter(extensions: &Extensions, phase: ConnectionPhase) {
    if let Some(connection) = extensions.get::<Connection>() {
        connection.enter(phase);
    }
}

/// Returns the time at which a sender of so many bytes is too slow.
fn too_slow_at(since: Instant, received: usize, total: Duration) -> Instant {
    let received = u64::try_from(received).unwrap_or(u64::MAX);
    let earned = Duration::from_millis(received.saturating_mul(1000) / PACE);
    since + total.min(SLOW_FOR.saturating_add(earned))
}

fn too_slow(since: Instant, received: usize) -> Problem {
    let detail = format!(
        "the body arrived too slowly: {received} bytes of it within {} ms",
        since.elapsed().as_millis()
    );
    Problem::new(ProblemKind::SlowBody, detail)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(ProblemKind::TooLarge, format!("the body is larger than {limit} bytes"))
}

fn bad_signature(shared: &Shared, error: BadSignature) -> Problem {
    tracing::warn!(%error, "webhook refused");
    shared.count(WebhookOutcome::Unsigned);
    Problem::new(ProblemKind::BadSignature, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_come_at_some_pace_and_end_in_time() {
        let since = Instant::now();
        let seconds = |received: usize, total| {
            too_slow_at(since, received, Duration::from_secs(total)).duration_since(since).as_secs()
        };
        assert_eq!((seconds(0, 7), seconds(16 * 1024, 7), seconds(64 * 1024, 7)), (4, 5, 7));
        assert_eq!((seconds(usize::MAX, 7), seconds(0, 1)), (7, 1));
    }
}
