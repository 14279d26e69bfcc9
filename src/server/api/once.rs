//! Acts: their bodies are bounded, and with an `Idempotency-Key` each is done once.
//!
//! ```text
//! key new ──▶ at work ─┬─▶ done (2xx): the answer is kept for a day, and a repeat gets it
//!                      └─▶ refused: nothing was done, so a repeat is judged anew
//! ```
//!
//! With a key an act goes on to its end although the caller has gone, so that the repeat, which is
//! what the key is for, finds its answer. When the process dies in the middle, a repeat begins anew
//! some minutes later. Removals, rollbacks, holds and cancellations then find what was done; a lock
//! and a deployment that was asked for here can be there twice, where the process died between them
//! and their kept answer. What changes nothing, a plan or a dry run, is done anew each time: nothing of
//! it is kept, so that who may only read fills no database.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tracing::Instrument;

use crate::server::Shared;
use crate::server::auth::Caller;
use crate::server::ports::{Backend, Fault};
use crate::server::problem::{Kind, Problem};
use crate::store::{AnswerTurn, Answered, Begun, Repeatable};

/// An act is a reason and a few names.
const ACT: usize = 64 * 1024;
/// A plan may bring a WAML, of which 256 KiB are read; as JSON it is longer.
const PLAN: usize = 1024 * 1024;
/// A longer answer is not kept.
const LONGEST_ANSWER: usize = 64 * 1024;
const LONGEST_KEY: usize = 100;

static KEY: HeaderName = HeaderName::from_static("idempotency-key");
static REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Around all routes of the API.
pub(super) async fn once<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if request.method() != Method::POST {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let body = read(&shared, &parts.headers, body, most(&path)).await?;
    let key = if is_plan(&path) { None } else { key(&parts.headers)? };
    let caller = parts.extensions.get::<Caller>().map(Caller::account);
    let digest = hex::encode(Sha256::digest(&body));
    let acts = !is_plan(&path) && !is_dry_run(&body);
    let request = Request::from_parts(parts, Body::from(body));
    let Some((key, caller)) = key.zip(caller).filter(|_| acts) else {
        return Ok(next.run(request).await);
    };
    let repeatable = Repeatable { caller, route: path, key, digest };
    let begun = shared.state.backend.begin(&repeatable).await;
    match begun.map_err(|error| unavailable(&error))? {
        Begun::Now(turn) => Ok(work(shared, (repeatable, turn), request, next).await),
        Begun::Before(answered) => Ok(replayed(answered)),
        Begun::AtWork => Err(Problem::new(
            Kind::KeyInUse,
            "the request with this Idempotency-Key is still at work: repeat it in a moment",
        )),
        Begun::OfAnother => Err(Problem::new(
            Kind::KeyReused,
            "this Idempotency-Key was used for a request with another body: take a new one",
        )),
        Begun::TooMany => Err(Problem::new(
            Kind::TooMany,
            "too many Idempotency-Keys in a day; without one the request is taken",
        )
        .after(Duration::from_hours(1))),
    }
}

fn most(path: &str) -> usize {
    if is_plan(path) { PLAN } else { ACT }
}

fn is_plan(path: &str) -> bool {
    path.ends_with("/plan")
}

fn is_dry_run(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Ask {
        #[serde(default)]
        dry_run: bool,
    }
    serde_json::from_slice(body).is_ok_and(|Ask { dry_run }| dry_run)
}

async fn read<B: Backend>(
    shared: &Shared<B>,
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body is larger than {most} bytes, or broke off");
        Problem::new(Kind::TooLarge, detail)
    };
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length.and_then(|text| text.parse().ok()).is_some_and(|length: usize| length > most) {
        return Err(too_large());
    }
    let reading = tokio::time::timeout(shared.state.limits.body_timeout, to_bytes(body, most));
    match reading.await {
        Ok(read) => read.map_err(|_| too_large()),
        Err(_) => Err(Problem::new(Kind::SlowBody, "the body did not arrive in time")),
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(&KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let legal = |key: &&str| {
        (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
    };
    let key = value.to_str().ok().filter(legal).filter(|_| given.next().is_none());
    let wrong = || {
        let detail = "Idempotency-Key: give one, of 1 to 100 visible ASCII characters";
        Problem::new(Kind::BadRequest, detail)
    };
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

/// On its own: whoever stops waiting may come again for the answer.
async fn work<B: Backend>(
    shared: Arc<Shared<B>>,
    begun: (Repeatable, AnswerTurn),
    ask: Request,
    next: Next,
) -> Response {
    let working = async move {
        let response = next.run(ask).await;
        kept(&shared, &begun, response).await
    };
    let working = tokio::spawn(working.instrument(tracing::Span::current()));
    working.await.unwrap_or_else(|fault| {
        tracing::error!(%fault, "an act ended by a fault");
        Problem::new(Kind::Internal, "a mistake in the server; its log has more").into_response()
    })
}

async fn kept<B: Backend>(
    shared: &Shared<B>,
    (request, turn): &(Repeatable, AnswerTurn),
    response: Response,
) -> Response {
    let backend = &shared.state.backend;
    if !response.status().is_success() {
        log(backend.forget(request, *turn).await);
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        log(backend.forget(request, *turn).await);
        return Problem::new(Kind::Internal, "the answer could not be made").into_response();
    };
    log(backend.keep(request, *turn, &answered(parts.status, &body)).await);
    Response::from_parts(parts, Body::from(body))
}

/// It was done, and must not be done again, even where the answer is too long to be kept.
fn answered(status: StatusCode, body: &Bytes) -> Answered {
    let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= LONGEST_ANSWER);
    let body = text.unwrap_or("{\"note\": \"it is done; the answer was too long to be kept\"}");
    Answered { status: status.as_u16(), body: body.to_owned() }
}

fn replayed(Answered { status, body }: Answered) -> Response {
    let mut response = body.into_response();
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(&REPLAYED, HeaderValue::from_static("true"));
    response
}

fn log(kept: Result<(), Fault>) {
    if let Err(error) = kept {
        tracing::error!(%error, "the answer to an act could not be kept");
    }
}

fn unavailable(error: &Fault) -> Problem {
    tracing::error!(%error, "it cannot be found out whether a request is a repeat");
    Problem::new(Kind::Unavailable, "nothing was done: it cannot be recorded now; come again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Option<String>, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&KEY, HeaderValue::from_str(value).unwrap());
        }
        key(&headers)
    }

    #[test]
    fn a_key_is_one_word() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["a-1"]).unwrap().as_deref(), Some("a-1"));
        let long = "x".repeat(101);
        for wrong in [&[""][..], &["a b"], &["a", "a"], &["é"], &[long.as_str()]] {
            assert_eq!(read(wrong).unwrap_err().kind(), Kind::BadRequest, "{wrong:?}");
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_kept_but_that_there_was_one() {
        let long = Bytes::from("x".repeat(LONGEST_ANSWER + 1));
        let Answered { status, body } = answered(StatusCode::ACCEPTED, &long);
        assert!(status == 202 && body.contains("done"), "{body}");
    }
}
