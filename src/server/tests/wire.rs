//! Over real sockets: a delivery, a slow caller, and stopping.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::world::{SECRET, World, event, world, world_with};
use crate::forge::github::webhook::signature::sign;
use crate::server::Limits;
use crate::server::auth::Tokens;
use crate::server::serve::{Stopped, serve};

struct Running {
    address: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<std::io::Result<Stopped>>,
}

async fn running(world: &World, grace: Duration) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, world.router.clone(), stop.clone(), grace));
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
    let server = running(&world, Duration::from_secs(10)).await;
    let text = answer(server.address, &delivery(usize::MAX)).await;
    assert!(text.starts_with("HTTP/1.1 202 Accepted"), "{text}");
    server.stop.cancel();
    assert_eq!(server.task.await.unwrap().unwrap(), Stopped::Clean);
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_caller_that_stops_sending_is_let_go() {
    let limits = Limits { body_timeout: Duration::from_millis(50), ..Limits::default() };
    let world = world_with(limits, Tokens::default());
    let server = running(&world, Duration::from_secs(10)).await;
    let text = answer(server.address, &delivery(10)).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
}

#[tokio::test]
async fn stopping_waits_for_open_requests_no_longer_than_the_grace() {
    let world = world();
    let server = running(&world, Duration::from_millis(50)).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&delivery(10)).await.unwrap();
    // An answer on a second connection shows that the first was taken before.
    let alive = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(answer(server.address, alive).await.starts_with("HTTP/1.1 200"));
    server.stop.cancel();
    assert_eq!(server.task.await.unwrap().unwrap(), Stopped::Cut);
}
