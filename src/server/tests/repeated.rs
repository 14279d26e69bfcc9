//! Acts with an `Idempotency-Key`.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use super::world::{Answer, World, world, world_with};
use crate::server::Limits;
use crate::server::auth::{Token, Tokens};
use crate::server::ports::NotRemoved;

const PATH: &str = "/api/v1/apps/prod/devx/my-app/remove";

impl World {
    async fn remove_with_key(&self, token: &str, key: &str, body: &str) -> Answer {
        let request = Request::post(PATH)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .header("idempotency-key", key);
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    fn removals(&self) -> usize {
        self.fake.inner.lock().unwrap().removals.len()
    }
}

const BODY: &str = r#"{"reason": "moved"}"#;

#[tokio::test]
async fn a_repeat_is_answered_as_the_first_one_was_and_does_nothing() {
    let world = world();
    let first = world.remove_with_key("", "k-1", BODY).await;
    let again = world.remove_with_key("", "k-1", BODY).await;
    assert_eq!((first.status.as_u16(), world.removals()), (200, 1));
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.headers["content-type"], "application/json");
    assert!(!first.headers.contains_key("idempotent-replayed"));
    world.remove_with_key("", "k-2", BODY).await;
    assert_eq!(world.removals(), 2, "another key is another act");
}

#[tokio::test]
async fn a_key_is_the_callers_own() {
    let tokens = Tokens(vec![Token::of_text("ci", "one"), Token::of_text("alice", "two")]);
    let world = world_with(Limits::default(), tokens);
    for (token, removals) in [("one", 1), ("two", 2), ("one", 2)] {
        assert_eq!(world.remove_with_key(token, "k", BODY).await.status, 200);
        assert_eq!(world.removals(), removals);
    }
    world.remove_with_key("three", "k", BODY).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_key_with_another_body_is_a_mistake() {
    let world = world();
    world.remove_with_key("", "k", BODY).await;
    let other = world.remove_with_key("", "k", r#"{"reason": "another"}"#).await;
    other.problem(422, "idempotency-key-reused");
    assert_eq!(world.removals(), 1);
}

#[tokio::test]
async fn what_was_refused_is_judged_anew() {
    let world = world();
    let busy = NotRemoved::Busy("under way".to_owned());
    world.fake.inner.lock().unwrap().not_removed = Some(busy);
    world.remove_with_key("", "k", BODY).await.problem(409, "conflict");
    assert_eq!(world.remove_with_key("", "k", BODY).await.status, 200);
    let world = self::world();
    world.remove_with_key("", "k", "{").await.problem(400, "bad-request");
    assert_eq!(world.remove_with_key("", "k", BODY).await.status, 200);
}

#[tokio::test]
async fn while_one_is_at_work_a_repeat_is_told_so_and_later_gets_its_answer() {
    let world = world();
    let hold = world.fake.hold_removals();
    let first = tokio::spawn({
        let world = world.clone();
        async move { world.remove_with_key("", "k", BODY).await }
    });
    hold.reached().await;
    world.remove_with_key("", "k", BODY).await.problem(409, "idempotency-key-in-use");
    // The caller goes; the act goes on.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    hold.let_go();
    world.fake.answered().await;
    let again = world.remove_with_key("", "k", BODY).await;
    assert_eq!((again.status.as_u16(), world.removals()), (200, 1));
    assert_eq!(again.json()["outcome"], json!("removed"));
}

#[tokio::test]
async fn what_changes_nothing_is_done_anew_and_nothing_of_it_is_kept() {
    let world = world();
    let dry = r#"{"reason": "moved", "dry_run": true}"#;
    for _ in 0..2 {
        let answer = world.remove_with_key("", "k", dry).await;
        assert!(answer.status == 200 && !answer.headers.contains_key("idempotent-replayed"));
    }
    for key in ["k", "k", "no key at all"] {
        let plan = json!({"repository": "acme/shop", "target": "prod", "waml": "x"});
        let request = Request::post("/api/v1/plan").header("content-type", "application/json");
        let request = request.header("idempotency-key", key).body(Body::from(plan.to_string()));
        assert_eq!(world.send(request.unwrap()).await.status, 200);
    }
    assert!(world.fake.callers(|callers| callers.answers.is_empty()));
}

#[tokio::test]
async fn one_that_panics_is_let_go_and_is_no_hung_caller() {
    let world = world();
    world.fake.inner.lock().unwrap().panics = true;
    world.remove_with_key("", "k", BODY).await.problem(500, "internal");
}

#[tokio::test]
async fn bodies_of_acts_are_small_and_their_keys_are_words() {
    let world = world();
    let huge = json!({"reason": "x".repeat(70 * 1024)}).to_string();
    world.remove_with_key("", "k", &huge).await.problem(413, "too-large");
    for key in ["a b", "", &"x".repeat(101)] {
        world.remove_with_key("", key, BODY).await.problem(400, "bad-request");
    }
    assert_eq!(world.removals(), 0);
}
