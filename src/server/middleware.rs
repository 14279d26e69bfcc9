//! The layers around every request: an id, a log line, limits on time and number, and an answer even when a handler
//! panics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

use crate::server::auth::RequestId;
use crate::server::limits::Class;
use crate::server::pages;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Wraps all routes: an id for the log and the answer, an answer after a panic, and errors as pages for browsers.
pub(super) fn wrap_all(router: Router, shared: &Arc<Shared>) -> Router {
    with_error_answers(router).layer(from_fn_with_state(shared.clone(), add_request_id))
}

/// Adds an answer after a panic, and errors as pages for browsers.
fn with_error_answers(router: Router) -> Router {
    router
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| panic_answer()))
        .layer(from_fn(pages::readable))
}

/// Wraps routes that do work: at most so many of that class at once, each for at most so long.
pub(super) fn with_limits(
    router: Router<Arc<Shared>>,
    shared: &Arc<Shared>,
    class: Class,
) -> Router<Arc<Shared>> {
    let state = (shared.clone(), class);
    with_timeout(router, shared).layer(from_fn_with_state(state, within_bounds))
}

/// Wraps routes that take their slots themselves: each request for at most so long.
pub(super) fn with_timeout(
    router: Router<Arc<Shared>>,
    shared: &Arc<Shared>,
) -> Router<Arc<Shared>> {
    router.layer(from_fn_with_state(shared.clone(), in_time))
}

/// Gives a request its id. A caller's own id is not used: it would be a foreign text in the log.
async fn add_request_id(
    State(shared): State<Arc<Shared>>,
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

async fn within_bounds(
    State((shared, class)): State<(Arc<Shared>, Class)>,
    request: Request,
    next: Next,
) -> Response {
    match shared.slots.take(class).await {
        Ok(_slot) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn in_time(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let limit = shared.state.limits.request_timeout;
    tokio::time::timeout(limit, next.run(request)).await.unwrap_or_else(|_| {
        tracing::warn!(?limit, "request timed out");
        let detail = "the answer took too long; the same request may be sent again";
        Problem::new(ProblemKind::TookTooLong, detail).into_response()
    })
}

/// Makes the answer after a panic. The panic's text is on standard error and may contain anything; it goes no further.
fn panic_answer() -> Response {
    tracing::error!("request handler panicked");
    let detail = "internal error; the service's log has more under this request's id";
    Problem::new(ProblemKind::Internal, detail).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::StatusCode;
    use axum::http::header::{ACCEPT, CONTENT_TYPE};
    use axum::routing::get;
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;

    /// Sends a GET; returns the status, the content type and the text of the response.
    async fn send_get(router: &Router, path: &str, accept: &str) -> (StatusCode, String, String) {
        let request = Request::get(path).header(ACCEPT, accept).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let (status, kind) = (response.status(), response.headers()[CONTENT_TYPE].to_str());
        let kind = kind.unwrap().to_owned();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, kind, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_without_its_words_and_the_next_one_too() {
        async fn bug() -> &'static str {
            panic!("a bug, told to panic")
        }
        let router = Router::new().route("/bug", get(bug)).route("/well", get(async || "well"));
        let router = with_error_answers(router);
        let (status, kind, text) = send_get(&router, "/bug", "*/*").await;
        assert_eq!((status.as_u16(), kind.as_str()), (500, "application/problem+json"));
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["type"], "urn:the-deployer:problem:internal");
        assert!(!text.contains("told to panic"), "{text}");
        let (status, kind, text) = send_get(&router, "/bug", "text/html,*/*;q=0.8").await;
        assert_eq!((status.as_u16(), kind.as_str()), (500, "text/html; charset=utf-8"));
        assert!(text.contains("500") && !text.contains("told to panic"), "{text}");
        let (status, _, text) = send_get(&router, "/well", "*/*").await;
        assert_eq!((status.as_u16(), text.as_str()), (200, "well"), "it has not stopped working");
    }
}
