//! Over sockets that a test holds in its hand: half a request, a stream, and stopping.

use std::net::SocketAddr;
use std::time::Duration;

use secrecy::SecretString;
use the_deployer::forge::github::webhook::signature::sign;
use the_deployer::store::Filter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tracing::Level;

use super::shop::TARGET;
use super::world::event;
use crate::harness::deployer::{Deployer, SECRET};
use crate::harness::events::waml;
use crate::harness::github::Fault;
use crate::harness::log::CapturedLog;

/// A client is waited for no longer than this, so that a test need not wait for longer either.
const SOON: Duration = Duration::from_millis(50);

/// A delivery as bytes; of its body only so much is sent.
fn delivery(sent: usize) -> Vec<u8> {
    let body = event("prod").to_string();
    let head = format!(
        "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-GitHub-Event: deployment\r\n\
         X-GitHub-Delivery: d-1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         X-Hub-Signature-256: {}\r\n\r\n",
        body.len(),
        sign(&SecretString::from(SECRET), body.as_bytes())
    );
    [head.as_bytes(), &body.as_bytes()[..sent.min(body.len())]].concat()
}

async fn answer(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
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
async fn a_delivery_is_answered_and_the_server_stops_cleanly() {
    let log = CapturedLog::of("the_deployer::app", Level::INFO);
    let deployer = Deployer::prepared().await;
    let running = deployer.runs().await;
    let address = running.address;
    let text = answer(address, &delivery(usize::MAX)).await;
    assert!(text.starts_with("HTTP/1.1 202 Accepted"), "{text}");
    running.stop.cancel();
    running.ended().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    let said = log.text();
    assert!(said.contains(": stopped\n"), "{said}");
    deployer.github.settled();
}

#[tokio::test]
async fn stopping_waits_for_open_requests_no_longer_than_the_grace() {
    let log = CapturedLog::of("the_deployer::app", Level::INFO);
    let deployer = Deployer::prepared().await;
    let running = deployer.runs_with(|settings| settings.server.shutdown_grace = SOON).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(&delivery(10)).await.unwrap();
    // An answer on a second connection shows that the first was taken before.
    let alive = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(answer(running.address, alive).await.starts_with("HTTP/1.1 200"));
    running.stop.cancel();
    running.ended().await;
    let said = log.text();
    assert!(said.contains("stopped, with requests unanswered"), "{said}");
    deployer.github.settled();
}

#[tokio::test]
async fn a_stream_stays_open_for_longer_than_any_client_is_waited_for() {
    let deployer = Deployer::prepared().await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    deployer.github.fails(1, "GET contents", Fault::Held);
    let running = deployer
        .runs_with(|settings| {
            let limits = &mut settings.limits;
            (limits.header_timeout, limits.idle_timeout, limits.write_timeout) = (SOON, SOON, SOON);
        })
        .await;
    let number = shop.deploys(TARGET, "v1").await;
    let page = running.store.deployments(&Filter::default(), None, 1).await.unwrap();
    let id = &page.deployments[0].id;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let request =
        format!("GET /api/v1/deployments/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    heard(&mut stream, "\"state\":\"running\"").await;
    tokio::time::sleep(SOON * 10).await;
    deployer.github.lets_go();
    heard(&mut stream, "\"state\":\"succeeded\"").await;
    running.stop.cancel();
    running.ended().await;
    drop(stream);
    let mut deployer = deployer;
    deployer.starts().await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(number).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn half_a_request_holds_up_no_end_and_is_not_waited_for() {
    let log = CapturedLog::of("the_deployer::app", Level::INFO);
    let deployer = Deployer::prepared().await;
    let running = deployer.runs_with(|settings| settings.limits.header_timeout = SOON).await;
    let mut half = TcpStream::connect(running.address).await.unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHo").await.unwrap();
    let mut rest = Vec::new();
    assert_eq!(half.read_to_end(&mut rest).await.unwrap(), 0, "it is closed without a word");
    let mut another = TcpStream::connect(running.address).await.unwrap();
    another.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /h").await.unwrap();
    heard(&mut another, "ok").await;
    running.stop.cancel();
    running.ended().await;
    let said = log.text();
    assert!(said.contains(": stopped\n"), "{said}");
    deployer.github.settled();
}
