//! HTTP: what comes in, what trouble meets it, what goes out.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::harness::slack::faults::Fault;
use crate::harness::slack::methods::{self, Answer};
use crate::harness::slack::state::State;
use crate::harness::slack::{HOOK, TOKEN};

/// What every request is answered from.
#[derive(Clone)]
pub(super) struct Hub {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) origin: String,
    /// Counts requests that were worked on.
    pub(super) changes: watch::Sender<u64>,
}

/// A request, read.
struct Call {
    method: String,
    token: String,
    arguments: Json,
    json: bool,
}

/// Serves until it is aborted.
pub(super) async fn serve(listener: TcpListener, hub: Hub) {
    let router = Router::new().fallback(answer).with_state(hub);
    axum::serve(listener, router).await.unwrap();
}

async fn answer(Shared(hub): Shared<Hub>, request: Request) -> Response {
    let call = read(request).await;
    // As servers do: what has been received is worked on although the client has gone.
    let working = tokio::spawn(async move {
        let answer = work(&mut hub.state.lock().unwrap(), &call);
        hub.changes.send_modify(|count| *count += 1);
        answer
    });
    match working.await.unwrap() {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}

async fn read(request: Request) -> Call {
    let (parts, body) = request.into_parts();
    let header = |name| parts.headers.get(name).map_or("", |value| value.to_str().unwrap());
    assert!(!header("user-agent").is_empty(), "who asks?");
    let json = header("content-type").starts_with("application/json");
    let token = header("authorization").trim_start_matches("Bearer ").to_owned();
    let path = parts.uri.path().trim_start_matches('/').to_owned();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let arguments = if json { serde_json::from_slice(&body).unwrap() } else { form(&body) };
    let method = if path == HOOK { "hook" } else { path.trim_start_matches("api/") };
    Call { method: method.to_owned(), token, arguments, json }
}

fn form(body: &[u8]) -> Json {
    let url = format!("http://form/?{}", std::str::from_utf8(body).unwrap());
    let url = reqwest::Url::parse(&url).unwrap();
    let pairs = url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned().into()));
    Json::Object(pairs.collect())
}

/// The answer; `None` when none comes.
fn work(state: &mut State, call: &Call) -> Option<Response> {
    state.called.push(call.method.clone());
    let now = state.now();
    match state.faults.judge(&call.method, now) {
        None => Some(done(state, call)),
        Some(Fault::Unavailable) => Some(StatusCode::SERVICE_UNAVAILABLE.into_response()),
        Some(Fault::BadGateway) => Some(gateway()),
        Some(Fault::BadGatewayAfter) => {
            let _done = done(state, call);
            Some(gateway())
        }
        Some(Fault::Wait(seconds)) => {
            let place = call.arguments["channel"].as_str().and_then(|place| state.id_of(place));
            let place = place.or_else(|| state.hook.clone()).unwrap_or_default();
            state.asks_to_wait(&place, seconds);
            Some(wait(seconds))
        }
        Some(Fault::Says(error)) => Some(says(call, error)),
        Some(Fault::SaysAfter(error)) => {
            let _done = done(state, call);
            Some(says(call, error))
        }
        Some(Fault::CutAfter) => {
            let _done = done(state, call);
            Some(cut())
        }
        Some(Fault::CutBefore) => Some(cut()),
        Some(Fault::SilentAfter) => {
            let _done = done(state, call);
            None
        }
        Some(Fault::SilentBefore) => None,
    }
}

fn done(state: &mut State, call: &Call) -> Response {
    if let Some(place) = call.method.strip_prefix("actions/") {
        let ts = place.rsplit('/').next().unwrap();
        return match methods::answer(state, ts, &call.arguments) {
            Ok(()) => "ok".into_response(),
            Err(error) => (StatusCode::BAD_REQUEST, error).into_response(),
        };
    }
    if call.method == "hook" {
        let (status, text, wait) = methods::hook(state, &call.arguments);
        let mut response = (StatusCode::from_u16(status).unwrap(), text).into_response();
        if let Some(seconds) = wait {
            response.headers_mut().insert("retry-after", seconds.into());
        }
        return response;
    }
    match call.token.as_str() {
        "" => return axum::Json(json!({"ok": false, "error": "not_authed"})).into_response(),
        TOKEN if !state.revoked => {}
        _ => return axum::Json(json!({"ok": false, "error": "invalid_auth"})).into_response(),
    }
    match methods::call(state, &call.method, &call.arguments, call.json) {
        Answer::Says(json) => axum::Json(json).into_response(),
        Answer::Wait(seconds) => wait(seconds),
    }
}

fn wait(seconds: u64) -> Response {
    let headers = [("retry-after", seconds.to_string())];
    let body = axum::Json(json!({"ok": false, "error": "ratelimited"}));
    (StatusCode::TOO_MANY_REQUESTS, headers, body).into_response()
}

fn says(call: &Call, error: &str) -> Response {
    if call.method == "hook" {
        return (StatusCode::BAD_REQUEST, error.to_owned()).into_response();
    }
    axum::Json(json!({"ok": false, "error": error})).into_response()
}

fn gateway() -> Response {
    let page = "<html><title>502 Bad Gateway</title></html>";
    (StatusCode::BAD_GATEWAY, [("content-type", "text/html")], page).into_response()
}

/// The head of an answer, and then the connection ends.
fn cut() -> Response {
    let broken = stream::iter([Err::<Vec<u8>, _>(io::Error::other("cut"))]);
    Response::new(Body::from_stream(broken))
}
