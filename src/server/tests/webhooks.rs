//! `POST /webhooks/github`: every answer it has.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tracing::Level;

use super::world::{Delivery, PREVIOUS, SECRET, event, hasty_world, world, world_with};
use crate::forge::github::webhook::signature::sign;
use crate::model::event::Unused;
use crate::server::Limits;
use crate::server::auth::Tokens;
use crate::server::ports::Delivery as Became;
use crate::support::log::Log;

#[tokio::test]
async fn a_deployment_is_stored_and_then_answered_with_its_id() {
    let world = world();
    let answer = world.deliver("d-1", "prod-cluster-1").await;
    assert_eq!(answer.status, 202);
    let stored = world.fake.inner.lock().unwrap().stored.clone();
    assert_eq!(answer.json(), json!({"id": stored[0].1.id, "duplicate": false}));
    assert_eq!(stored[0].0.as_str(), "d-1");
    assert_eq!(stored[0].1.request.target.as_str(), "prod-cluster-1");
}

#[tokio::test]
async fn a_redelivery_gets_the_same_id_and_is_stored_once() {
    let world = world();
    let first = world.deliver("d-1", "prod-cluster-1").await.json();
    let second = world.deliver("d-1", "prod-cluster-1").await;
    assert_eq!(second.status, 202);
    assert_eq!(second.json(), json!({"id": first["id"], "duplicate": true}));
    assert_eq!(world.fake.inner.lock().unwrap().stored.len(), 1);
}

#[tokio::test]
async fn a_form_is_taken_with_the_signature_over_its_raw_body() {
    let world = world();
    let json = event("prod-cluster-1").to_string();
    let body = format!("payload={}", json.replace('%', "%25").replace('+', "%2B"));
    let form = Delivery::raw(body).with("content-type", "application/x-www-form-urlencoded");
    assert_eq!(world.send(form.request()).await.status, 202);
    let over_json = Delivery::raw(format!("payload={json}"))
        .with("content-type", "application/x-www-form-urlencoded")
        .signed(Some(&sign(&SECRET.into(), json.as_bytes())));
    world.send(over_json.request()).await.problem(401, "bad-signature");
}

#[tokio::test]
async fn pings_and_what_is_not_used_are_answered_and_not_stored() {
    let world = world();
    let ping = world.send(Delivery::raw("{}").with("x-github-event", "ping").request()).await;
    assert_eq!((ping.status.as_u16(), ping.json()), (200, json!({"pong": true})));
    let issues = world.send(Delivery::raw("{}").with("x-github-event", "issues").request()).await;
    assert_eq!(issues.status, 200);
    assert_eq!(issues.json(), json!({"ignored": "event \"issues\" is not used"}));
    assert!(world.fake.inner.lock().unwrap().stored.is_empty());
}

#[tokio::test]
async fn a_push_is_accepted_where_somebody_follows_the_branch() {
    let world = world();
    let push = |repository: &str, branch: &str| {
        let body = json!({
            "ref": format!("refs/heads/{branch}"), "after": "a".repeat(40),
            "repository": {"full_name": repository},
        });
        Delivery::raw(body.to_string()).with("x-github-event", "push")
    };
    let ours = world.send(push("acme/templates", "main").request()).await;
    assert_eq!((ours.status.as_u16(), ours.json()), (202, json!({"refresh": true})));
    let other = world.send(push("acme/shop", "main").request()).await;
    let ignored = json!({"ignored": "nothing here follows main of acme/shop"});
    assert_eq!((other.status.as_u16(), other.json()), (200, ignored));
    let unsigned = push("acme/templates", "main").signed(None);
    world.send(unsigned.request()).await.problem(401, "bad-signature");
    let broken = Delivery::raw("{}").with("x-github-event", "push");
    world.send(broken.request()).await.problem(400, "malformed-event");
}

#[tokio::test]
async fn a_wrong_or_missing_signature_is_refused_before_anything_is_read() {
    let world = world();
    let wrong = sign(&"other".into(), b"not json");
    for signature in [None, Some(""), Some("sha1=00")] {
        let request = Delivery::raw("not json").without("content-type").signed(signature);
        world.send(request.request()).await.problem(401, "bad-signature");
    }
    let request = Delivery::raw("not json").signed(Some(wrong.as_str()));
    world.send(request.request()).await.problem(401, "bad-signature");
    assert!(world.fake.inner.lock().unwrap().stored.is_empty());
}

#[tokio::test]
async fn what_is_signed_and_malformed_is_refused_with_its_place() {
    let world = world();
    let answer = world.send(Delivery::raw("{\"a\":").request()).await;
    let detail = answer.problem(400, "malformed-event");
    assert!(detail.contains("line 1, column 5"), "{detail}");
    let detail = world.deliver("d-1", "prod/../x").await.problem(400, "malformed-event");
    assert!(detail.starts_with("deployment.environment: \"prod/../x\""), "{detail}");
    let request = Delivery::of(&event("a")).without("x-github-event").request();
    let detail = world.send(request).await.problem(400, "bad-request");
    assert!(detail.contains("x-github-event"), "{detail}");
    for id in ["", "../x", "a b"] {
        world.deliver(id, "prod").await.problem(400, "bad-request");
    }
    assert!(world.fake.inner.lock().unwrap().stored.is_empty());
}

#[tokio::test]
async fn while_the_secret_is_changed_both_are_taken_and_no_third() {
    let world = world();
    let body = event("prod-cluster-1").to_string();
    for (secret, status) in [(SECRET, 202), (PREVIOUS, 202), ("another", 401)] {
        let signature = sign(&secret.into(), body.as_bytes());
        let delivery = Delivery::raw(body.clone()).signed(Some(&signature));
        assert_eq!(world.send(delivery.request()).await.status, status, "{secret}");
    }
}

#[tokio::test]
async fn whoever_asked_is_to_be_told_what_cannot_be_used() {
    let world = world();
    let detail = world.deliver("d-1", "Prod EU").await.problem(400, "malformed-event");
    assert!(
        detail.starts_with("deployment.environment: \"Prod EU\" is not a legal target"),
        "{detail}"
    );
    let refused = world.fake.inner.lock().unwrap().refused.clone();
    let [refusal] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((refusal.repository.as_str(), refusal.forge_id), ("acme/shop", 7));
    assert_eq!(format!("{}: {}", refusal.field, refusal.problem), detail);
}

#[tokio::test]
async fn every_delivery_is_counted_by_what_became_of_it() {
    let world = world();
    world.deliver("d-1", "prod").await;
    world.deliver("d-1", "prod").await;
    world.deliver("d-2", "Prod EU").await;
    let mut task = event("prod");
    task["deployment"]["task"] = json!("preview");
    let mut environment = event("Preview – shop");
    environment["deployment"]["payload"] = json!({});
    for event in [task, environment] {
        assert_eq!(world.send(Delivery::of(&event).request()).await.status, 200);
    }
    for name in ["ping", "deployment_status"] {
        world.send(Delivery::raw("{}").with("x-github-event", name).request()).await;
    }
    world.send(Delivery::raw("[").request()).await;
    world.send(Delivery::raw("{}").signed(None).request()).await;
    world.fake.inner.lock().unwrap().broken = true;
    world.deliver("d-3", "prod").await;
    let wanted = [
        Became::Accepted,
        Became::Duplicate,
        Became::Refused,
        Became::Ignored(Unused::Task),
        Became::Ignored(Unused::Environment),
        Became::Ping,
        Became::Ignored(Unused::Kind),
        Became::Malformed,
        Became::Unsigned,
        Became::NotStored,
    ];
    assert_eq!(world.fake.inner.lock().unwrap().counted, wanted);
}

#[tokio::test]
async fn another_content_type_is_415() {
    let world = world();
    for content_type in ["text/plain", "multipart/form-data; boundary=x", ""] {
        let request = Delivery::of(&event("a")).with("content-type", content_type).request();
        world.send(request).await.problem(415, "unsupported-media-type");
    }
    let request = Delivery::of(&event("a")).without("content-type").request();
    world.send(request).await.problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_with_and_without_its_length() {
    let limits = Limits { body_bytes: 100, ..Limits::default() };
    let world = world_with(limits, Tokens::default());
    let large = "x".repeat(101);
    let sized = Delivery::raw(large.clone()).with("content-length", "101").request();
    world.send(sized).await.problem(413, "too-large");
    let chunks = futures::stream::iter(
        large.into_bytes().into_iter().map(|b| Ok::<_, std::io::Error>(vec![b])),
    );
    let (parts, _) = Delivery::raw("").request().into_parts();
    let unsized_ = Request::from_parts(parts, Body::from_stream(chunks));
    world.send(unsized_).await.problem(413, "too-large");
    let fits = world.send(Delivery::raw("x".repeat(100)).request()).await;
    fits.problem(400, "malformed-event");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let world = hasty_world();
    let (parts, _) = Delivery::raw("").request().into_parts();
    let never = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request = Request::from_parts(parts, Body::from_stream(never));
    world.send(request).await.problem(408, "slow-body");
}

#[tokio::test]
async fn trouble_behind_the_server_is_told_apart_and_worth_another_delivery() {
    let world = hasty_world();
    world.fake.inner.lock().unwrap().broken = true;
    let answer = world.deliver("d-1", "prod").await;
    let detail = answer.problem(503, "unavailable");
    assert!(!detail.contains("disk full"), "{detail}");
    assert_eq!(answer.headers["retry-after"], "5");
    world.fake.inner.lock().unwrap().silent = true;
    world.deliver("d-1", "prod").await.problem(504, "took-too-long");
    world.fake.inner.lock().unwrap().panics = true;
    world.deliver("d-1", "prod").await.problem(500, "internal");
    *world.fake.inner.lock().unwrap() = super::world::Inner::default();
    assert_eq!(world.deliver("d-1", "prod").await.status, 202, "it has not stopped working");
}

#[tokio::test]
async fn one_request_more_than_the_bound_is_told_to_come_again() {
    let limits = Limits { webhooks: 1, ..Limits::default() };
    let world = world_with(limits, Tokens::default());
    world.fake.inner.lock().unwrap().silent = true;
    let first = tokio::spawn({
        let world = world.clone();
        async move { world.deliver("d-1", "prod").await }
    });
    tokio::task::yield_now().await;
    world.deliver("d-2", "prod").await.problem(503, "overloaded");
    assert_eq!(world.get("/healthz").await.status, 200, "probes are answered nevertheless");
    first.abort();
    let _ = first.await;
    world.fake.inner.lock().unwrap().silent = false;
    assert_eq!(world.deliver("d-2", "prod").await.status, 202);
}

#[tokio::test]
async fn neither_the_secret_nor_the_body_is_ever_logged() {
    let log = Log::of("", Level::TRACE);
    let world = world();
    assert_eq!(world.deliver("d-1", "prod-cluster-1").await.status, 202);
    world.deliver("d-2", "b0dy-text/x").await.problem(400, "malformed-event");
    let broken = Delivery::raw("{\"x\": b0dy-text").request();
    world.send(broken).await.problem(400, "malformed-event");
    let signature = sign(&"other".into(), b"b0dy-text");
    let wrong = Delivery::raw("b0dy-text").signed(Some(&signature)).request();
    world.send(wrong).await.problem(401, "bad-signature");
    let text = log.text();
    assert!(text.contains("webhook accepted") && text.contains("deployment.environment"), "{text}");
    assert!(text.contains("request=\"test-0\""), "{text}");
    for absent in ["b0dy-text", SECRET, &signature, "sha256="] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
}

#[tokio::test]
async fn a_pull_request_is_stored_and_then_answered() {
    let world = world();
    let event = |action: &str, sha: &str| {
        let repository = json!({"full_name": "acme/shop"});
        json!({
            "action": action, "number": 7, "repository": repository,
            "pull_request": {
                "head": {"sha": sha.repeat(40), "ref": "x", "repo": repository},
                "base": {"sha": "b".repeat(40), "ref": "main", "repo": repository},
                "user": {"login": "octocat"}, "updated_at": "2026-11-21T05:48:12Z",
            },
        })
    };
    let send = async |action: &str, sha: &str| {
        let delivery = Delivery::of(&event(action, sha)).with("x-github-event", "pull_request");
        world.send(delivery.request()).await
    };
    let first = send("opened", "a").await;
    assert_eq!((first.status.as_u16(), first.json()), (202, json!({"preview": "waiting"})));
    assert_eq!(send("reopened", "a").await.json(), json!({"preview": "known"}));
    assert_eq!(send("closed", "a").await.json(), json!({"preview": "forgotten"}));
    send("synchronize", "c").await.problem(503, "unavailable");
    let ignored = send("labeled", "a").await;
    assert_eq!(ignored.status.as_u16(), 200);
    world.fake.inner.lock().unwrap().broken = true;
    let detail = send("opened", "d").await.problem(503, "unavailable");
    assert!(detail.ends_with("deliver it again"), "{detail}");
}
