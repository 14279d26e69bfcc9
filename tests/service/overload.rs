//! Tests that a sender without the secret cannot keep the service from its work, with all the connections it can have:
//! signed webhooks are taken, probes are answered, and memory stays bounded.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::attack::{Attack, exchange, peak_memory, signed_webhooks};
use crate::harness::process::{Home, Process};

/// Half of what `deploy/kubernetes/base/deployment.yaml` allows.
const MAX_MEMORY: u64 = 256 * 1024 * 1024;
const WEBHOOKS: usize = 40;
/// Clients are waited for no longer than this, so that a test need not wait for longer either.
const HASTY: [(&str, &str); 3] = [
    ("THE_DEPLOYER_LIMITS_HEADER_TIMEOUT", "2s"),
    ("THE_DEPLOYER_LIMITS_BODY_TIMEOUT", "2s"),
    ("THE_DEPLOYER_LIMITS_WRITE_TIMEOUT", "2s"),
];

fn address(process: &Process) -> SocketAddr {
    process.address().trim_start_matches("http://").parse().unwrap()
}

async fn assert_serves(process: &Process) {
    let took = signed_webhooks(address(process), &process.secret, WEBHOOKS, 1).await;
    let took = took.unwrap_or_else(|wrong| panic!("{wrong}\n{}", process.log()));
    assert_eq!(took.len(), WEBHOOKS);
    let peak = peak_memory(&process.id()) / 1024 / 1024;
    assert!(peak > 0 && peak < MAX_MEMORY / 1024 / 1024, "{peak} MiB");
}

async fn assert_withstands(attack: Attack) {
    let home = Home::embedded();
    let process = home.start_with(&HASTY).await;
    let attacking = attack.begin(address(&process)).await;
    assert_serves(&process).await;
    attacking.until("the service closes them", |attacking| attacking.closed() > 0).await;
    drop(attacking);
    assert_eq!(process.get("/healthz").await.0, 200);
    assert_eq!(process.deployments().await.len(), WEBHOOKS, "none is lost, none is doubled");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_take_no_slot_of_a_signed_webhook() {
    assert_withstands(Attack::SlowBodies).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_nobody_signed_have_a_bound_on_their_memory() {
    assert_withstands(Attack::UnsignedBodies).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_read_no_answers_are_let_go() {
    assert_withstands(Attack::SlowReaders).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_in_clear_text_is_not_spoken() {
    assert_withstands(Attack::Http2).await;
    let home = Home::embedded();
    let process = home.start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let answer = exchange(address(&process), preface).await.unwrap_or_default();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_requests_take_neither_all_descriptors_nor_their_time() {
    let home = Home::embedded();
    // Fewer open files than there are half requests, soft and hard.
    let process = home.start_by(&["prlimit", "--nofile=1024:1024"], &HASTY).await;
    let attack = Attack::HalfRequests.begin(address(&process)).await;
    assert_serves(&process).await;
    attack.until("every one is closed", |attack| attack.closed() > 1124).await;
    assert!(!process.log().contains("no connection can be accepted"), "{}", process.log());
}

#[tokio::test]
async fn the_soft_limit_on_open_files_is_raised_to_the_hard_one() {
    let home = Home::embedded();
    let process = home.start().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
}

/// The answer to a request of which only the head is sent.
async fn answer_to_head(process: &Process, signature: &str, content_type: &str) -> String {
    let head = format!(
        "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         X-GitHub-Event: deployment\r\nX-GitHub-Delivery: d\r\nContent-Length: 1000\r\n\
         {content_type}{signature}\r\n"
    );
    exchange(address(process), head.as_bytes()).await.unwrap()
}

#[tokio::test]
async fn what_the_head_gives_away_is_refused_before_the_body_comes() {
    let home = Home::embedded();
    let process = home.start_with(&[("THE_DEPLOYER_LIMITS_BODY_TIMEOUT", "5m")]).await;
    let (json, text) = ("Content-Type: application/json\r\n", "Content-Type: text/plain\r\n");
    let right = format!("X-Hub-Signature-256: sha256={}\r\n", "0".repeat(64));
    for (signature, content_type, status) in [
        ("", json, "401"),
        ("X-Hub-Signature-256: sha1=00\r\n", json, "401"),
        ("X-Hub-Signature-256: sha256=00\r\n", json, "401"),
        (&right.replace('0', "g"), json, "401"),
        (&right, text, "415"),
        (&right, "", "415"),
    ] {
        let answer = answer_to_head(&process, signature, content_type);
        let answer = timeout(Duration::from_secs(30), answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{signature}: {answer}");
    }
    let huge = format!("X-Large: {}\r\n", "x".repeat(64 * 1024));
    let answer = answer_to_head(&process, &huge, json).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn a_connection_that_is_silent_is_closed_and_one_that_is_used_is_not() {
    let home = Home::embedded();
    let process = home.start_with(&[("THE_DEPLOYER_LIMITS_IDLE_TIMEOUT", "3s")]).await;
    let mut stream = TcpStream::connect(address(&process)).await.unwrap();
    let mut answer = [0; 4096];
    for _ in 0..5 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    let closed = timeout(Duration::from_mins(1), stream.read(&mut answer)).await.unwrap();
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
}
