//! What happens around every request: an id, a log line, a bound on time and number, and an answer
//! even when a handler panics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

use crate::server::Shared;
use crate::server::pages;
use crate::server::ports::Backend;
use crate::server::problem::{Kind, Problem};
use crate::server::slots::Class;

/// Names a request, in its answer and in the log.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Around all routes: an id that the log and the answer carry, an answer after a panic, and errors
/// that people can read.
pub(super) fn around<B: Backend>(router: Router, shared: &Arc<Shared<B>>) -> Router {
    router
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| panicked()))
        .layer(from_fn(pages::readable))
        .layer(from_fn_with_state(shared.clone(), identified::<B>))
}

/// Around routes that do work: at most so many of that class at once, each for at most so long.
pub(super) fn bounded<B: Backend>(
    router: Router<Arc<Shared<B>>>,
    shared: &Arc<Shared<B>>,
    class: Class,
) -> Router<Arc<Shared<B>>> {
    let state = (shared.clone(), class);
    let timed = timed(router, shared);
    timed.layer(from_fn_with_state(state, within_bounds::<B>))
}

/// Around routes that take their slots themselves: each request takes at most so long.
pub(super) fn timed<B: Backend>(
    router: Router<Arc<Shared<B>>>,
    shared: &Arc<Shared<B>>,
) -> Router<Arc<Shared<B>>> {
    router.layer(from_fn_with_state(shared.clone(), in_time::<B>))
}

/// A caller's own id is not taken: it would be a foreign text in our log.
async fn identified<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    mut request: Request,
    next: Next,
) -> Response {
    let number = shared.requests.fetch_add(1, Ordering::Relaxed);
    let id = format!("{}-{number}", shared.state.instance);
    let span = tracing::info_span!("request", request = id);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).instrument(span.clone()).await;
    let _entered = span.enter();
    let status = response.status().as_u16();
    tracing::debug!(%method, route = route.as_deref().unwrap_or("none"), status, "answered");
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(&REQUEST_ID, id);
    }
    response
}

async fn within_bounds<B: Backend>(
    State((shared, class)): State<(Arc<Shared<B>>, Class)>,
    request: Request,
    next: Next,
) -> Response {
    match shared.slots.take(class).await {
        Ok(_slot) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn in_time<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    request: Request,
    next: Next,
) -> Response {
    let limit = shared.state.limits.request_timeout;
    tokio::time::timeout(limit, next.run(request)).await.unwrap_or_else(|_| {
        tracing::warn!(?limit, "a request took too long");
        let detail = "the answer took too long; the same request may be sent again";
        Problem::new(Kind::TookTooLong, detail).into_response()
    })
}

/// The panic's own text is on standard error and may hold anything; it goes no further.
fn panicked() -> Response {
    tracing::error!("a request handler panicked");
    let detail = "a mistake in the server; its log has more under this request's id";
    Problem::new(Kind::Internal, detail).into_response()
}
