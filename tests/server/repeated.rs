//! Acts with an `Idempotency-Key`.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::shop::{SHOP, asks, audited, deploys, tokens};
use super::world::{Answer, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::fault::Bug;
use crate::harness::process::Held;

const LOCKS: &str = "/api/v1/locks";
const LOCK: &str = r#"{"scope": {"owner": "a@b"}, "reason": "moved"}"#;
const REASON: &str = r#"{"reason": "moved"}"#;

fn with_key(deployer: &Deployer, path: &str, key: &str, body: &str) -> RequestBuilder {
    let request = request(deployer, Method::POST, path).header("content-type", "application/json");
    request.header("idempotency-key", key).body(body.to_owned())
}

/// Places a lock; each that is done makes one more.
async fn lock(deployer: &Deployer, key: &str, body: &str) -> Answer {
    send(with_key(deployer, LOCKS, key, body)).await
}

fn removal(deployer: &Deployer, key: &str, body: &str) -> RequestBuilder {
    with_key(deployer, &format!("{SHOP}/remove"), key, body)
}

/// How often something was done.
async fn acts(deployer: &Deployer) -> usize {
    audited(deployer).await.len()
}

#[tokio::test]
async fn a_repeat_is_answered_as_the_first_one_was_and_does_nothing() {
    let deployer = Deployer::start().await;
    let first = lock(&deployer, "k-1", LOCK).await;
    let again = lock(&deployer, "k-1", LOCK).await;
    assert_eq!((first.status.as_u16(), acts(&deployer).await), (201, 1));
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.headers["content-type"], "application/json");
    assert!(!first.headers.contains_key("idempotent-replayed"));
    assert_ne!(lock(&deployer, "k-2", LOCK).await.text, first.text);
    assert_eq!(acts(&deployer).await, 2, "another key is another act");
    // A removal that is asked for again without a key finds nothing to do.
    deploys(&deployer, "v1").await;
    for (key, outcome) in
        [("k-1", "removed"), ("k-1", "removed"), ("k-2", "already-removed"), ("k-1", "removed")]
    {
        let said = send(removal(&deployer, key, REASON)).await.json();
        assert_eq!(said["outcome"], outcome, "{key}: {said}");
    }
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_key_is_the_callers_own() {
    let mut deployer = Deployer::prepared().await;
    tokens(&mut deployer, &[("ci", "scope: deploy"), ("alice", "scope: deploy")]);
    deployer.starts().await;
    for (token, done) in [("ci", 1), ("alice", 2), ("ci", 2)] {
        let answer = send(with_key(&deployer, LOCKS, "k", LOCK).bearer_auth(token)).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["by"]), (201, &json!(token)));
        assert_eq!(acts(&deployer).await, done);
    }
    let nobody = send(with_key(&deployer, LOCKS, "k", LOCK).bearer_auth("three")).await;
    nobody.problem(401, "unauthorized");
    deployer.settled().await;
}

#[tokio::test]
async fn a_key_with_another_body_is_a_mistake() {
    let deployer = Deployer::start().await;
    lock(&deployer, "k", LOCK).await;
    let other = lock(&deployer, "k", &LOCK.replace("moved", "another")).await;
    other.problem(422, "idempotency-key-reused");
    assert_eq!(acts(&deployer).await, 1);
    deployer.settled().await;
}

#[tokio::test]
async fn what_was_refused_is_judged_anew() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    asks(&deployer, "v2").await;
    let remove = async || send(removal(&deployer, "k", REASON)).await;
    remove().await.problem(409, "conflict");
    deployer.settle().await;
    let removed = remove().await;
    assert_eq!((removed.status.as_u16(), &removed.json()["outcome"]), (200, &json!("removed")));
    lock(&deployer, "k", "{").await.problem(400, "bad-request");
    assert_eq!(lock(&deployer, "k", LOCK).await.status, 201);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn while_one_is_at_work_a_repeat_is_told_so_and_later_gets_its_answer() {
    let mut deployer = Deployer::prepared().await;
    deployer.pushes_to_host().await;
    deployer.starts().await;
    deploys(&deployer, "v1").await;
    let bare = deployer.manifests();
    let held = Held::first_push(&bare, "pre-receive");
    let first = tokio::spawn(send(removal(&deployer, "k", REASON)));
    held.reached().await;
    let repeat = async || send(removal(&deployer, "k", REASON)).await;
    repeat().await.problem(409, "idempotency-key-in-use");
    // The caller goes; the act goes on.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    held.let_go();
    deployer.host().idle().await;
    let again = async {
        loop {
            let again = repeat().await;
            if again.status != 409 {
                return again;
            }
            again.problem(409, "idempotency-key-in-use");
        }
    };
    let again = tokio::time::timeout(Duration::from_mins(1), again).await.expect("its answer");
    assert_eq!((again.status.as_u16(), &again.json()["outcome"]), (200, &json!("removed")));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!((acts(&deployer).await, bare.commits()), (1, 2));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn what_changes_nothing_is_done_anew_and_nothing_of_it_is_kept() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    let dry = r#"{"reason": "moved", "dry_run": true}"#;
    let plan = json!({"repository": "example/shop", "target": "prod", "waml": "x"}).to_string();
    for _ in 0..2 {
        let answer = send(removal(&deployer, "k", dry)).await;
        assert!(answer.status == 200 && !answer.headers.contains_key("idempotent-replayed"));
    }
    for key in ["k", "k", "no key at all"] {
        let answer = send(with_key(&deployer, "/api/v1/plan", key, &plan)).await;
        assert!(answer.status == 200 && !answer.headers.contains_key("idempotent-replayed"));
    }
    assert_eq!(deployer.database().count("answers").await, 0);
    lock(&deployer, "k", LOCK).await;
    assert_eq!(deployer.database().count("answers").await, 1, "of an act it is kept");
    deployer.settled().await;
}

/// The bug is after the deed: its answer is there, as it is kept with it.
#[tokio::test]
async fn one_that_panics_is_let_go_and_is_no_hung_caller() {
    let deployer = Deployer::start().await;
    let bug = Bug::at("lock placed");
    let said = lock(&deployer, "k", LOCK).await.problem(500, "internal");
    assert_eq!(said, "internal error; the service's log has more");
    assert!(bug.happened());
    let again = lock(&deployer, "k", LOCK).await;
    assert_eq!((again.status.as_u16(), acts(&deployer).await), (201, 1));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(lock(&deployer, "k-2", LOCK).await.status, 201, "it happens no more");
    deployer.settled().await;
}

#[tokio::test]
async fn bodies_of_acts_are_small_and_their_keys_are_words() {
    let deployer = Deployer::start().await;
    let huge = json!({"reason": "x".repeat(70 * 1024)}).to_string();
    lock(&deployer, "k", &huge).await.problem(413, "too-large");
    for key in ["a b", "", &"x".repeat(101)] {
        lock(&deployer, key, LOCK).await.problem(400, "bad-request");
    }
    let two = with_key(&deployer, LOCKS, "a", LOCK).header("idempotency-key", "b");
    send(two).await.problem(400, "bad-request");
    assert_eq!(acts(&deployer).await, 0);
    deployer.settled().await;
}
