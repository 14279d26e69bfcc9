//! HTTP: each request goes through the same doors, is worked on in one piece, and may be cut off.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request, State as Shared};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use jiff::fmt::rfc2822::DateTimePrinter;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::github::answer::Answer;
use crate::harness::github::app::{self, Who};
use crate::harness::github::call::Call;
use crate::harness::github::deliveries;
use crate::harness::github::faults::{EVER, Verdict};
use crate::harness::github::routes;
use crate::harness::github::state::{Seen, State};

/// What every request is answered from.
#[derive(Clone)]
pub(super) struct Hub {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) post: deliveries::Post,
    pub(super) origin: String,
    /// Counts requests that were worked on.
    pub(super) changes: watch::Sender<u64>,
    /// Changes when what is held is let go.
    pub(super) gate: watch::Sender<()>,
}

/// Serves until it is aborted.
pub(super) async fn serve(listener: TcpListener, hub: Hub) {
    let router = Router::new().fallback(answer).with_state(hub);
    let service = router.into_make_service_with_connect_info::<Cutter>();
    axum::serve(Cuttable(listener), service).await.unwrap();
}

async fn answer(
    Shared(hub): Shared<Hub>,
    ConnectInfo(cutter): ConnectInfo<Cutter>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    // Who hangs up while it still sends, has asked nothing.
    let Ok(body) = to_bytes(body, usize::MAX).await else { return Response::default() };
    let call = Call::new(&hub.origin, parts.method, &parts.uri, parts.headers, &body);
    hub.state.lock().unwrap().limits.opened();
    // As servers do: what has been received is worked on although the client has gone.
    let working = tokio::spawn({
        let hub = hub.clone();
        async move { work(&hub, &call).await }
    });
    let answer = working.await.unwrap();
    hub.state.lock().unwrap().limits.closed();
    if let Some(answer) = answer {
        response(answer)
    } else {
        cutter.0.store(true, Ordering::SeqCst);
        Response::default()
    }
}

/// The answer; `None` when the connection is cut instead.
async fn work(hub: &Hub, call: &Call) -> Option<Answer> {
    loop {
        let mut gate = hub.gate.subscribe();
        let done = {
            let mut state = hub.state.lock().unwrap();
            let done = done(&mut state, call);
            hub.post.send_what_came_of_it(&mut state);
            done
        };
        hub.changes.send_modify(|count| *count += 1);
        if let Some((answer, delay)) = done {
            tokio::time::sleep(delay).await;
            return answer;
        }
        gate.changed().await.unwrap();
    }
}

/// Everything between a request and its answer, at one moment; nothing where it is held.
fn done(state: &mut State, call: &Call) -> Option<(Option<Answer>, Duration)> {
    let now = state.now();
    catch_up(state);
    let line = format!("{} {}", call.method, call.path.join("/"));
    let who = app::identify(state, call);
    let key = who.as_ref().map_or_else(|_| "a stranger".to_owned(), Who::key);
    let (answer, delay, cut) = match state.limits.pass(&key, &line, now) {
        Err(refusal) => (Some(refusal), Duration::ZERO, false),
        Ok(()) => match state.faults.judge(&line, &key, &mut state.limits, now) {
            Verdict::Cut => (None, Duration::ZERO, true),
            Verdict::Later(at) => {
                state.late_calls.push((at, call.clone(), who.clone().ok()));
                (None, Duration::ZERO, true)
            }
            Verdict::Silence => (None, EVER, true),
            Verdict::Hold => return None,
            Verdict::Refuse(refusal) => (Some(refusal), Duration::ZERO, false),
            Verdict::Work { delay, cut } => (Some(routed(state, call, who)), delay, cut),
        },
    };
    let status = answer.as_ref().map_or(0, |answer| answer.status);
    state.limits.count(&key, &line, now, status);
    state.seen.push(Seen { line, status, at: now });
    let headers = state.limits.headers(&key, now);
    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&now).unwrap();
    let with_headers = |mut answer: Answer| {
        answer.headers.extend(headers);
        answer.with("date", date).with("x-github-request-id", "0401:2BD3:1")
    };
    Some((answer.filter(|_| !cut).map(with_headers), delay))
}

/// Works on what was to be done late, and is due.
pub(super) fn catch_up(state: &mut State) {
    let now = state.now();
    let (due, later): (Vec<_>, Vec<_>) =
        std::mem::take(&mut state.late_calls).into_iter().partition(|(at, _, _)| *at <= now);
    state.late_calls = later;
    for (_, call, who) in due {
        let _nobody_hears_it = routed(state, &call, who.ok_or_else(Answer::not_found));
    }
}

fn routed(state: &mut State, call: &Call, who: Result<Who, Answer>) -> Answer {
    if call.header("user-agent").is_none_or(str::is_empty) {
        let says = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header";
        return Answer::refusal(403, says);
    }
    let answered = who.and_then(|who| routes::route(state, call, &who));
    match answered {
        Ok(answer) => unless_known(answer, call),
        Err(refusal) => refusal,
    }
}

/// 304 for what the client says it has.
fn unless_known(answer: Answer, call: &Call) -> Answer {
    let mut answer = answer;
    let had = answer.headers.iter().find(|(name, _)| *name == "etag").map(|(_, tag)| tag.clone());
    let tag = had.or_else(|| {
        let json = call.method == "GET" && answer.status == 200;
        let tag = format!("W/\"{}\"", hex::encode(Sha256::digest(&answer.body)));
        json.then(|| answer.headers.push(("etag", tag.clone())))?;
        Some(tag)
    });
    match tag {
        Some(tag) if call.header("if-none-match") == Some(tag.as_str()) => {
            Answer::empty(304).with("etag", tag)
        }
        _ => answer,
    }
}

fn response(answer: Answer) -> Response {
    let Answer { status, headers, body } = answer;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_str(&value).unwrap());
    }
    response
}

/// Set, the connection breaks instead of answering.
#[derive(Debug, Clone, Default)]
struct Cutter(Arc<AtomicBool>);

impl Connected<IncomingStream<'_, Cuttable>> for Cutter {
    fn connect_info(stream: IncomingStream<'_, Cuttable>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A listener whose connections can be cut by whoever answers on them.
struct Cuttable(TcpListener);

impl Listener for Cuttable {
    type Io = Connection;
    type Addr = Cutter;

    async fn accept(&mut self) -> (Connection, Cutter) {
        loop {
            let Ok((stream, _)) = self.0.accept().await else { continue };
            // Else head and body of an answer wait for each other for 40 ms.
            stream.set_nodelay(true).unwrap();
            let cutter = Cutter::default();
            return (Connection { stream, cutter: cutter.clone() }, cutter);
        }
    }

    fn local_addr(&self) -> io::Result<Cutter> {
        Ok(Cutter::default())
    }
}

struct Connection {
    stream: TcpStream,
    cutter: Cutter,
}

impl Connection {
    fn whole(&self) -> io::Result<()> {
        if self.cutter.0.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "cut by the test"));
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
