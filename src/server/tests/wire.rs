//! Over real sockets: a delivery, a slow caller, and stopping.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::world::{SECRET, World, event, world, world_with};
use crate::forge::github::webhook::signature::sign;
use crate::server::Limits;
use crate::server::auth::Tokens;
use crate::server::connections::{ConnectionLimits, ConnectionMetrics, Connections};
use crate::server::serve::{Stopped, bind, serve};

struct Running {
    address: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Stopped>,
}

fn running(world: &World, grace: Duration) -> Running {
    running_within(world, grace, ConnectionLimits::default())
}

fn running_within(world: &World, grace: Duration, limits: ConnectionLimits) -> Running {
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let connections = Connections::new(limits, ConnectionMetrics::default());
    let router = world.router.clone();
    let task = tokio::spawn(serve(listener, router, connections, stop.clone(), grace));
    Running { address, stop, task }
}

/// A delivery as bytes; of its body only so much is sent.
fn delivery(sent: usize) -> Vec<u8> {
    let body = event("prod").to_string();
    let head = format!(
        "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-GitHub-Event: deployment\r\n\
         X-GitHub-Delivery: d-1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         X-Hub-Signature-256: {}\r\n\r\n",
        body.len(),
        sign(&SECRET.into(), body.as_bytes())
    );
    [head.as_bytes(), &body.as_bytes()[..sent.min(body.len())]].concat()
}

async fn answer(address: std::net::SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_delivery_is_answered_and_the_server_stops_cleanly() {
    let world = world();
    let server = running(&world, Duration::from_secs(10));
    let text = answer(server.address, &delivery(usize::MAX)).await;
    assert!(text.starts_with("HTTP/1.1 202 Accepted"), "{text}");
    server.stop.cancel();
    assert_eq!(server.task.await.unwrap(), Stopped::Clean);
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_caller_that_stops_sending_is_let_go() {
    let limits = Limits { body_timeout: Duration::from_millis(50), ..Limits::default() };
    let world = world_with(limits, Tokens::default());
    let server = running(&world, Duration::from_secs(10));
    let text = answer(server.address, &delivery(10)).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
}

#[tokio::test]
async fn stopping_waits_for_open_requests_no_longer_than_the_grace() {
    let world = world();
    let server = running(&world, Duration::from_millis(50));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&delivery(10)).await.unwrap();
    // An answer on a second connection shows that the first was taken before.
    let alive = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(answer(server.address, alive).await.starts_with("HTTP/1.1 200"));
    server.stop.cancel();
    assert_eq!(server.task.await.unwrap(), Stopped::Cut);
}

/// Reads until the text has come.
async fn heard(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    while !text.contains(wanted) {
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "no {wanted:?} in {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    text
}

#[tokio::test]
async fn a_stream_stays_open_for_longer_than_any_client_is_waited_for() {
    let world = world();
    assert_eq!(world.deliver("d-1", "prod").await.status, 202);
    let id = world.fake.inner.lock().unwrap().stored[0].1.id.clone();
    let soon = Duration::from_millis(50);
    let limits = ConnectionLimits {
        header_timeout: soon,
        idle_timeout: soon,
        write_timeout: soon,
        ..Default::default()
    };
    let server = running_within(&world, Duration::from_secs(10), limits);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let path = format!("/api/v1/deployments/{id}/events");
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
        .await
        .unwrap();
    heard(&mut stream, "queued").await;
    tokio::time::sleep(soon * 10).await;
    world.fake.inner.lock().unwrap().stored[0].1.summary = "it goes on".to_owned();
    world.fake.bell.send_replace(());
    heard(&mut stream, "it goes on").await;
    server.stop.cancel();
    world.closing.cancel();
    assert_eq!(server.task.await.unwrap(), Stopped::Clean);
}

#[tokio::test]
async fn half_a_request_holds_up_no_end_and_is_not_waited_for() {
    let world = world();
    let limits =
        ConnectionLimits { header_timeout: Duration::from_millis(50), ..Default::default() };
    let server = running_within(&world, Duration::from_secs(10), limits);
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHo").await.unwrap();
    let mut rest = Vec::new();
    assert_eq!(half.read_to_end(&mut rest).await.unwrap(), 0, "it is closed without a word");
    let mut another = TcpStream::connect(server.address).await.unwrap();
    another.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /h").await.unwrap();
    heard(&mut another, "ok").await;
    server.stop.cancel();
    assert_eq!(server.task.await.unwrap(), Stopped::Clean);
}
