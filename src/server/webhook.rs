//! `POST /webhooks/github`: verified, understood, stored, and only then answered.
//!
//! What the headers alone give away is refused before the body is read. A slot among the requests that
//! are worked on is taken only after the signature was found right: nobody without the secret
//! takes one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::deployments::accept::Acceptance;
use crate::forge::github::webhook::{ContentType, Malformed, is_read, naming, parse};
use crate::model::event::{
    CheckRerun, DeploymentRequest, Event, PullRequest, Push, Refusal, Unused,
};
use crate::model::id::DeliveryId;
use crate::server::body;
use crate::server::deliveries::Delivery;
use crate::server::limits::Class;
use crate::server::problem::{Kind, Problem};
use crate::server::state::Shared;
use crate::store::Noted;

/// Takes one delivery.
pub(super) async fn github(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let verifier = body::verifier(&shared, headers)?;
    let content_type = header(headers, CONTENT_TYPE.as_str()).ok().and_then(ContentType::of);
    let content_type = content_type.ok_or_else(unsupported)?;
    let event = header(headers, "x-github-event")?;
    let body = body::signed(&shared, &parts, body, verifier, is_read(event)).await?;
    let _slot = shared.slots.take(Class::Webhook).await?;
    let rules = &shared.state.webhook.rules;
    let named = naming::read(event, content_type, &body.bytes, rules);
    let event = parse(event, content_type, &body.bytes, rules);
    drop(body);
    if let Some(named) = named {
        shared.state.deployments.recognize_repository(&named).await;
    }
    match event.map_err(|error| malformed(&shared, &error))? {
        Event::Ping => {
            shared.count(Delivery::Ping);
            Ok((StatusCode::OK, Json(json!({"pong": true}))).into_response())
        }
        Event::Ignored { why, reason } => {
            tracing::info!(reason, "webhook ignored");
            shared.count(Delivery::Ignored(why));
            Ok((StatusCode::OK, Json(json!({"ignored": reason}))).into_response())
        }
        Event::Push(push) => Ok(pushed(&shared, &push)),
        Event::PullRequest(request) => note(&shared, request).await,
        Event::Rerun(rerun) => make_again(&shared, rerun).await,
        Event::Refused(refusal) => Err(refused(&shared, &refusal)),
        Event::Deployment(request) => accept(&shared, headers, request).await,
    }
}

/// The sender sees it in the answer, whoever asked for the deployment in its status.
fn refused(shared: &Shared, refusal: &Refusal) -> Problem {
    let Refusal { repository, forge_id, field, problem } = refusal;
    tracing::warn!(%repository, forge_id, field, "webhook refused: nothing can be made of it");
    shared.count(Delivery::Refused);
    shared.state.deployments.hints.look_at(&refusal.repository);
    Problem::new(Kind::MalformedEvent, format!("{field}: {problem}"))
}

/// A push is a hint: nothing is stored, what follows the branch looks at it soon.
fn pushed(shared: &Shared, push: &Push) -> Response {
    let Push { repository, branch, after: _ } = push;
    if shared.state.deployments.notice_push(push) {
        tracing::info!(%repository, branch, "push accepted");
        shared.count(Delivery::Hint);
        return (StatusCode::ACCEPTED, Json(json!({"refresh": true}))).into_response();
    }
    let reason = format!("nothing here follows {branch} of {repository}");
    tracing::debug!(reason, "webhook ignored");
    shared.count(Delivery::Ignored(Unused::Repository));
    (StatusCode::OK, Json(json!({"ignored": reason}))).into_response()
}

async fn note(shared: &Shared, request: PullRequest) -> Result<Response, Problem> {
    let (repository, number) = (request.repository.clone(), request.number);
    let noted = shared.state.deployments.note_pull_request(&request).await.map_err(|error| {
        tracing::error!(%repository, number, %error, "a pull request could not be stored");
        shared.count(Delivery::NotStored);
        Problem::new(Kind::Unavailable, "the pull request could not be stored; deliver it again")
    })?;
    let preview = match noted {
        Noted::New => "waiting",
        Noted::Known => "known",
        Noted::Forgotten => "forgotten",
        Noted::Full => {
            tracing::error!(%repository, number, "too many previews wait, this one is refused");
            shared.count(Delivery::NotStored);
            let detail = "too many previews wait; deliver it again later";
            return Err(Problem::new(Kind::Unavailable, detail));
        }
    };
    shared.count(Delivery::Hint);
    Ok((StatusCode::ACCEPTED, Json(json!({"preview": preview}))).into_response())
}

/// A preview is made again. What a deployment left on a commit is not: it says how that one ended.
async fn make_again(shared: &Shared, rerun: CheckRerun) -> Result<Response, Problem> {
    let repository = rerun.repository.clone();
    let found = shared.state.deployments.repeat_previews(&rerun).await.map_err(|error| {
        tracing::error!(%repository, %error, "a wish to make a preview again could not be stored");
        shared.count(Delivery::NotStored);
        Problem::new(Kind::Unavailable, "the wish could not be stored; deliver it again")
    })?;
    if found {
        shared.count(Delivery::Hint);
        return Ok((StatusCode::ACCEPTED, Json(json!({"preview": "waiting"}))).into_response());
    }
    let reason = format!(
        "no preview of {repository} has that check run; to plan a deployment again, deploy again"
    );
    tracing::info!(reason, "webhook ignored");
    shared.count(Delivery::Ignored(Unused::Kind));
    Ok((StatusCode::OK, Json(json!({"ignored": reason}))).into_response())
}

async fn accept(
    shared: &Shared,
    headers: &HeaderMap,
    request: DeploymentRequest,
) -> Result<Response, Problem> {
    let delivery = DeliveryId::parse(header(headers, "x-github-delivery")?)
        .map_err(|error| Problem::new(Kind::BadRequest, format!("X-GitHub-Delivery: {error}")))?;
    let (target, repository) = (request.target.clone(), request.release.repository.clone());
    let accepted = shared.state.deployments.accept(&delivery, &request).await.map_err(|error| {
        tracing::error!(%delivery, %error, "a deployment could not be stored");
        shared.count(Delivery::NotStored);
        Problem::new(Kind::Unavailable, "the deployment could not be stored; deliver it again")
    })?;
    let (id, duplicate) = match accepted {
        Acceptance::New(id) => (id, false),
        Acceptance::Duplicate(id) => (id, true),
    };
    shared.count(if duplicate { Delivery::Duplicate } else { Delivery::Accepted });
    tracing::debug!(deployment = %id, %delivery, %repository, %target, duplicate, "webhook accepted");
    Ok((StatusCode::ACCEPTED, Json(json!({"id": id, "duplicate": duplicate}))).into_response())
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Problem> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| {
        let detail = format!("the header {name} is missing or not plain text");
        Problem::new(Kind::BadRequest, detail)
    })
}

fn unsupported() -> Problem {
    let detail = "send application/json or application/x-www-form-urlencoded, as GitHub does";
    Problem::new(Kind::UnsupportedMediaType, detail)
}

/// The caller is told which value is wrong; the log only where it stands.
fn malformed(shared: &Shared, error: &Malformed) -> Problem {
    shared.count(Delivery::Malformed);
    match error {
        Malformed::Field { field, .. } => tracing::warn!(field, "webhook refused: malformed"),
        Malformed::NoPayloadField | Malformed::NotJson { .. } | Malformed::Shape { .. } => {
            tracing::warn!(%error, "webhook refused: malformed");
        }
    }
    Problem::new(Kind::MalformedEvent, error.to_string())
}
