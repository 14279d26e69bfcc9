//! Executes acts: bounds their bodies, and executes each act with an `Idempotency-Key` once.
//!
//! ```text
//! key new ──▶ at work ─┬─▶ done (2xx): the answer is kept for a day, and a repeat gets it
//!                      └─▶ refused: nothing was done, so a repeat is judged anew
//! ```
//!
//! The handler passes a [`Reply`](crate::store::Reply) to the use case, which stores the answer in the act's own
//! transaction (`store::idempotency_keys`): wherever the process dies, a repeat either finds the answer, or nothing was
//! done. With a key an act continues to its end even if the caller disconnects, so that the repeat finds its answer. A
//! plan, an import of an edit or a dry run changes nothing: it runs anew each time and stores nothing, so that callers
//! with the right to read cannot fill the database.

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

use crate::deployments::Deployments;
use crate::server::auth::Caller;
use crate::server::limits::LargeBodies;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;
use crate::store::{Begin, IdempotencyKey, KeyLease, StoreError, StoredAnswer};

/// The largest body of an act, in bytes: a reason and a few names.
const ACT: usize = LargeBodies::SMALL;
/// The largest body of a plan, in bytes: it may have a WAML of 256 KiB and files of 1 MiB, which are longer as JSON.
pub(super) const PLAN: usize = 3 * 1024 * 1024;
/// The ends of the paths that only read, and take a WAML: plans, and what is found out like them.
const PLANS: [&str; 3] = ["/plan", "/import-edit", "/builds"];
const LONGEST_KEY: usize = 100;

static KEY: HeaderName = HeaderName::from_static("idempotency-key");
static REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The lease of a request's key, if it has one; each acting request carries this.
#[derive(Clone, Default)]
pub(super) struct RequestKey(pub(super) Option<KeyLease>);

/// Executes each request to the API's routes with an `Idempotency-Key` once.
pub(super) async fn idempotent(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if request.method() != Method::POST {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    // Plans run anew each time.
    let is_plan = is_plan(&path);
    let most = if is_plan { PLAN } else { ACT };
    let length = content_length(&parts.headers);
    // Held until the answer is there.
    let _memory = shared.large_bodies.reserve(length, most)?;
    let body = read(&shared, length, body, most).await?;
    let key = if is_plan { None } else { key(&parts.headers)? };
    let caller = parts.extensions.get::<Caller>().map(Caller::account);
    let digest = hex::encode(Sha256::digest(&body));
    let acts = !is_plan && !is_dry_run(&body);
    let mut request = Request::from_parts(parts, Body::from(body));
    let Some((key, caller)) = key.zip(caller).filter(|_| acts) else {
        request.extensions_mut().insert(RequestKey(None));
        return Ok(next.run(request).await);
    };
    let key = IdempotencyKey { caller, route: path, key, digest };
    let Deployments { store, clock, .. } = &shared.state.deployments;
    let begin = store.begin_idempotent(&key, clock.now()).await;
    match begin.map_err(|error| unavailable(&error))? {
        Begin::Started(lease) => {
            request.extensions_mut().insert(RequestKey(Some(lease.clone())));
            Ok(work(shared, lease, request, next).await)
        }
        Begin::Replay(answer) => Ok(replay(answer)),
        Begin::InProgress => Err(Problem::new(
            ProblemKind::KeyInUse,
            "the request with this Idempotency-Key is still in progress: repeat it in a moment",
        )),
        Begin::KeyReused => Err(Problem::new(
            ProblemKind::KeyReused,
            "this Idempotency-Key was used for a request with another body: use a new one",
        )),
        Begin::TooMany => Err(Problem::new(
            ProblemKind::TooMany,
            "too many Idempotency-Keys in a day; send the request without one",
        )
        .after(Duration::from_hours(1))),
    }
}

fn is_dry_run(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct DryRunFlag {
        #[serde(default)]
        dry_run: bool,
    }
    serde_json::from_slice(body).is_ok_and(|DryRunFlag { dry_run }| dry_run)
}

fn is_plan(path: &str) -> bool {
    PLANS.iter().any(|end| path.ends_with(end))
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read(
    shared: &Shared,
    length: Option<usize>,
    body: Body,
    most: usize,
) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body is larger than {most} bytes, or incomplete");
        Problem::new(ProblemKind::TooLarge, detail)
    };
    if length.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let reading = tokio::time::timeout(shared.state.limits.body_timeout, to_bytes(body, most));
    match reading.await {
        Ok(body) => body.map_err(|_| too_large()),
        Err(_) => Err(Problem::new(ProblemKind::SlowBody, "the body did not arrive in time")),
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(&KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let legal = |key: &&str| {
        (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
    };
    let key = value.to_str().ok().filter(legal).filter(|_| values.next().is_none());
    let wrong = || {
        let detail = "Idempotency-Key: give one, of 1 to 100 visible ASCII characters";
        Problem::new(ProblemKind::BadRequest, detail)
    };
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

/// Runs on a task of its own: a caller who disconnects can come back for the answer.
async fn work(shared: Arc<Shared>, lease: KeyLease, ask: Request, next: Next) -> Response {
    let working = {
        let (shared, lease) = (shared.clone(), lease.clone());
        async move {
            let response = next.run(ask).await;
            settle(&shared, &lease, response).await
        }
    };
    let working = tokio::spawn(working.instrument(tracing::Span::current()));
    match working.await {
        Ok(response) => response,
        Err(fault) => {
            tracing::error!(%fault, "act failed: its task panicked");
            // An act that was done has stored its answer or record; otherwise the key is free again.
            let Deployments { store, clock, .. } = &shared.state.deployments;
            log(store.release_key(&lease, clock.now()).await);
            let detail = "internal error; the service's log has more";
            Problem::new(ProblemKind::Internal, detail).into_response()
        }
    }
}

/// Stores the answer of an act that found nothing to do; any other stored its answer itself.
async fn settle(shared: &Shared, lease: &KeyLease, response: Response) -> Response {
    let Deployments { store, clock, .. } = &shared.state.deployments;
    if !response.status().is_success() {
        log(store.release_key(lease, clock.now()).await);
        return response;
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        log(store.release_key(lease, clock.now()).await);
        return Problem::new(ProblemKind::Internal, "the answer could not be made").into_response();
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    log(store.keep_answer(lease, &StoredAnswer::of_json(parts.status.as_u16(), text)).await);
    Response::from_parts(parts, Body::from(body))
}

fn replay(StoredAnswer { status, body }: StoredAnswer) -> Response {
    let mut response = body.into_response();
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(&REPLAYED, HeaderValue::from_static("true"));
    response
}

fn log(result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::error!(%error, "answer to an act could not be stored");
    }
}

fn unavailable(error: &StoreError) -> Problem {
    tracing::error!(%error, "idempotency key could not be read");
    Problem::new(
        ProblemKind::Unavailable,
        "nothing was done: it cannot be recorded now; try again later",
    )
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
    fn the_contract_allows_only_keys_that_are_taken() {
        use crate::api::forms::{self, Form};
        forms::tests::hold(Form::KEY, |text| read(&[&text]).is_ok());
    }

    #[test]
    fn what_takes_a_waml_and_only_reads_is_a_plan() {
        for path in ["/plan", "/apps/prod/devx/shop/import-edit", "/builds"] {
            assert!(is_plan(path), "{path}");
        }
        for path in ["/apps/prod/devx/shop/remove", "/deployments", "/locks/plan/remove"] {
            assert!(!is_plan(path), "{path}");
        }
    }

    #[test]
    fn a_key_is_one_word() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["a-1"]).unwrap().as_deref(), Some("a-1"));
        let long = "x".repeat(101);
        for wrong in [&[""][..], &["a b"], &["a", "a"], &["é"], &[long.as_str()]] {
            assert_eq!(read(wrong).unwrap_err().kind(), ProblemKind::BadRequest, "{wrong:?}");
        }
    }
}
