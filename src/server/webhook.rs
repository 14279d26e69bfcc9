//! `POST /webhooks/github`: verifies, parses and stores an event before it answers.
//!
//! A request that its headers condemn is refused before its body is read; the body is read within limits, and verified
//! while it arrives. A slot among the requests in work is taken only for a valid signature, so that callers without the
//! secret take none.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::deployments::accept::Acceptance;
use crate::forge::github::webhook::signature::{self, Verifier};
use crate::forge::github::webhook::{ContentType, MalformedPayload, is_read, naming, parse};
use crate::model::event::{
    BranchPush, CheckRerun, DeploymentRequest, EventRefusal, PullRequest, RolloutTrigger,
    UnusedPart, WebhookEvent,
};
use crate::model::id::DeliveryId;
use crate::server::deliveries::WebhookOutcome;
use crate::server::limits::Class;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::signed_body::{bad_signature, read_signed};
use crate::server::state::{Shared, Webhook};
use crate::store::PreviewIntake;

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
