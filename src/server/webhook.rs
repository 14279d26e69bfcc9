//! `POST /webhooks/github`: verified, understood, stored, and only then answered.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::json;

use crate::forge::github::webhook::{ContentType, Malformed, parse, signature};
use crate::model::event::{DeploymentRequest, Event, PullRequest, Push, Refusal, Unused};
use crate::model::id::DeliveryId;
use crate::server::ports::{Accepted, Backend, Delivery, Noted};
use crate::server::problem::{Kind, Problem};
use crate::server::{Limits, Shared, Webhook};

/// Takes one delivery.
pub(super) async fn github<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let backend = &shared.state.backend;
    let body = signed(&shared, &headers, body).await?;
    let event = header(&headers, "x-github-event")?;
    let content_type = header(&headers, CONTENT_TYPE.as_str()).ok().and_then(ContentType::of);
    let content_type = content_type.ok_or_else(unsupported)?;
    let event = parse(event, content_type, &body, &shared.state.webhook.rules);
    match event.map_err(|error| malformed(backend, &error))? {
        Event::Ping => {
            backend.count(Delivery::Ping);
            Ok((StatusCode::OK, Json(json!({"pong": true}))).into_response())
        }
        Event::Ignored { why, reason } => {
            tracing::info!(reason, "webhook ignored");
            backend.count(Delivery::Ignored(why));
            Ok((StatusCode::OK, Json(json!({"ignored": reason}))).into_response())
        }
        Event::Push(push) => Ok(pushed(backend, &push)),
        Event::PullRequest(request) => note(backend, request).await,
        Event::Refused(refusal) => Err(refused(backend, &refusal)),
        Event::Deployment(request) => accept(backend, &headers, request).await,
    }
}

/// The sender sees it in the answer, whoever asked for the deployment in its status.
fn refused<B: Backend>(backend: &B, refusal: &Refusal) -> Problem {
    let Refusal { repository, forge_id, field, problem } = refusal;
    tracing::warn!(%repository, forge_id, field, "webhook refused: nothing can be made of it");
    backend.count(Delivery::Refused);
    backend.refused(refusal);
    Problem::new(Kind::MalformedEvent, format!("{field}: {problem}"))
}

/// A push is a hint: nothing is stored, what follows the branch looks at it soon.
fn pushed<B: Backend>(backend: &B, push: &Push) -> Response {
    let Push { repository, branch, after: _ } = push;
    if backend.pushed(push) {
        tracing::info!(%repository, branch, "push accepted");
        backend.count(Delivery::Hint);
        return (StatusCode::ACCEPTED, Json(json!({"refresh": true}))).into_response();
    }
    let reason = format!("nothing here follows {branch} of {repository}");
    tracing::debug!(reason, "webhook ignored");
    backend.count(Delivery::Ignored(Unused::Repository));
    (StatusCode::OK, Json(json!({"ignored": reason}))).into_response()
}

async fn note<B: Backend>(backend: &B, request: PullRequest) -> Result<Response, Problem> {
    let (repository, number) = (request.repository.clone(), request.number);
    let noted = backend.note(request).await.map_err(|error| {
        tracing::error!(%repository, number, %error, "a pull request could not be stored");
        backend.count(Delivery::NotStored);
        Problem::new(Kind::Unavailable, "the pull request could not be stored; deliver it again")
    })?;
    let preview = match noted {
        Noted::New => "waiting",
        Noted::Known => "known",
        Noted::Forgotten => "forgotten",
        Noted::Full => {
            tracing::error!(%repository, number, "too many previews wait, this one is refused");
            backend.count(Delivery::NotStored);
            let detail = "too many previews wait; deliver it again later";
            return Err(Problem::new(Kind::Unavailable, detail));
        }
    };
    backend.count(Delivery::Hint);
    Ok((StatusCode::ACCEPTED, Json(json!({"preview": preview}))).into_response())
}

/// The raw body, once it is known to be GitHub's.
async fn signed<B: Backend>(
    shared: &Shared<B>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<u8>, Problem> {
    let header = headers.get(signature::HEADER).and_then(|value| value.to_str().ok());
    if header.is_none() {
        // Nobody else's body is worth reading.
        return Err(bad_signature(&shared.state.backend, signature::BadSignature::Missing));
    }
    let body = read(shared, headers, body).await?;
    let Webhook { secret, previous, rules: _ } = &shared.state.webhook;
    let verified = match (signature::verify(secret, &body, header), previous) {
        (Err(signature::BadSignature::Wrong), Some(previous)) => {
            signature::verify(previous, &body, header)
        }
        (verified, _) => verified,
    };
    verified.map(|()| body).map_err(|error| bad_signature(&shared.state.backend, error))
}

async fn read<B: Backend>(
    shared: &Shared<B>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<u8>, Problem> {
    let limits = shared.state.limits;
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length > Limits::LARGEST_BODY) {
        return Err(too_large(limits.body_bytes));
    }
    let collected = tokio::time::timeout(limits.body_timeout, collect(body, limits.body_bytes));
    collected.await.unwrap_or_else(|_| {
        let detail = format!("the body did not arrive within {:?}", limits.body_timeout);
        Err(Problem::new(Kind::SlowBody, detail))
    })
}

/// The body, if it is within the limit. One that is not is read to its end nevertheless and
/// forgotten: while a sender still sends, closing the connection takes the answer away from it.
async fn collect(body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let mut chunks = body.into_data_stream();
    let (mut bytes, mut received) = (Vec::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::new(Kind::BadRequest, "the body broke off"))?;
        received = received.saturating_add(chunk.len());
        if received > Limits::LARGEST_BODY {
            break;
        }
        if received <= limit {
            bytes.extend_from_slice(&chunk);
        } else {
            bytes = Vec::new();
        }
    }
    if received > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("the body is larger than {limit} bytes"))
}

async fn accept<B: Backend>(
    backend: &B,
    headers: &HeaderMap,
    request: DeploymentRequest,
) -> Result<Response, Problem> {
    let delivery = DeliveryId::parse(header(headers, "x-github-delivery")?)
        .map_err(|error| Problem::new(Kind::BadRequest, format!("X-GitHub-Delivery: {error}")))?;
    let (target, repository) = (request.target.clone(), request.release.repository.clone());
    let accepted = backend.accept(delivery.clone(), request).await.map_err(|error| {
        tracing::error!(%delivery, %error, "a deployment could not be stored");
        backend.count(Delivery::NotStored);
        Problem::new(Kind::Unavailable, "the deployment could not be stored; deliver it again")
    })?;
    let (id, duplicate) = match accepted {
        Accepted::New(id) => (id, false),
        Accepted::Duplicate(id) => (id, true),
    };
    backend.count(if duplicate { Delivery::Duplicate } else { Delivery::Accepted });
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

fn bad_signature<B: Backend>(backend: &B, error: signature::BadSignature) -> Problem {
    tracing::warn!(%error, "webhook refused");
    backend.count(Delivery::Unsigned);
    Problem::new(Kind::BadSignature, error.to_string())
}

/// The caller is told which value is wrong; the log only where it stands.
fn malformed<B: Backend>(backend: &B, error: &Malformed) -> Problem {
    backend.count(Delivery::Malformed);
    match error {
        Malformed::Field { field, .. } => tracing::warn!(field, "webhook refused: malformed"),
        Malformed::NoPayloadField | Malformed::NotJson { .. } | Malformed::Shape { .. } => {
            tracing::warn!(%error, "webhook refused: malformed");
        }
    }
    Problem::new(Kind::MalformedEvent, error.to_string())
}
