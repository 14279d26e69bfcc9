//! GitHub's event with anything anywhere in it: every answer is one of ours, and the log has none
//! of it.

use proptest::prelude::*;
use serde_json::{Value, json};
use tracing::Level;

use super::world::{Delivery, SHA, World, world};
use crate::support::log::Log;

/// A text that no log may have.
const FOREIGN: &str = "f0reign";

/// As GitHub sends it, down to what nobody reads.
fn real() -> Value {
    let user = json!({"login": "octocat", "id": 583_231, "type": "User", "site_admin": false});
    json!({
        "action": "created",
        "deployment": {
            "url": "https://api.github.com/repos/acme/shop/deployments/7", "id": 7, "task": "deploy",
            "original_environment": "prod", "environment": "prod", "description": null,
            "created_at": "2026-11-21T05:48:12Z", "updated_at": "2026-11-21T05:48:12Z", "sha": SHA,
            "ref": "main", "creator": user, "payload": {"tag": "v1"},
            "transient_environment": false, "production_environment": false,
        },
        "workflow": null, "workflow_run": null,
        "repository": {"id": 1, "name": "shop", "full_name": "acme/shop", "private": true,
            "owner": {"login": "acme", "id": 2}, "topics": [], "license": null},
        "organization": {"login": "acme", "id": 2}, "sender": user,
    })
}

/// Every place in a document, as pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    if let Value::Object(map) = value {
        for (key, value) in map {
            places(value, &format!("{at}/{key}"), found);
        }
    }
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[{"tag": FOREIGN}]]])),
        Just(json!({"tag": FOREIGN, "login": 7})),
        ".{0,40}".prop_map(|text| json!(format!("{FOREIGN}/{text}"))),
        Just(json!("x".repeat(10_000))),
        Just(json!("../../etc")),
        Just(json!("🙂\u{1b}[31m\n")),
    ]
}

/// One change of a document.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, Value),
    Remove(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<prop::sample::Index>(), anything())
            .prop_map(|(at, v)| Change::Set(at.index(999), v)),
        any::<prop::sample::Index>().prop_map(|at| Change::Remove(at.index(999))),
    ]
}

fn changed(changes: &[Change]) -> Value {
    let mut document = real();
    for change in changes {
        let mut all = Vec::new();
        places(&document, "", &mut all);
        match change {
            Change::Set(at, value) => {
                let place = &all[at % all.len()];
                *document.pointer_mut(place).unwrap() = value.clone();
            }
            Change::Remove(at) => {
                let place = &all[at % all.len()];
                let Some((parent, key)) = place.rsplit_once('/') else { continue };
                document.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
            }
        }
    }
    document
}

fn on_the_spot<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

/// Sends it; the answer must be one of ours, and neither it nor the log may carry control characters
/// or much of what came.
async fn assert_answered(world: &World, event: &str, body: Vec<u8>) {
    let log = Log::of("", Level::TRACE);
    let request = Delivery::raw(body).with("x-github-event", event).request();
    let answer = world.send(request).await;
    let status = answer.status.as_u16();
    assert!(matches!(status, 200 | 202 | 400), "{answer:?}");
    let said = answer.json();
    let said = said["detail"].as_str().or(said["ignored"].as_str()).unwrap_or_default();
    assert!(said.len() < 500 && !said.chars().any(char::is_control), "{said:?}");
    let log = log.text();
    assert!(log.lines().all(|line| line.len() < 1000), "{log}");
    assert!(!log.contains('\u{1b}'), "{log:?}");
    assert!(status == 200 || !log.contains(FOREIGN), "a value is logged: {log}");
}

proptest! {
    #[test]
    fn whatever_is_changed_in_a_real_event_is_answered(
        changes in prop::collection::vec(change(), 1..4),
        event in prop_oneof![Just("deployment"), Just("push")],
    ) {
        let body = changed(&changes).to_string().into_bytes();
        on_the_spot(assert_answered(&world(), event, body));
    }

    #[test]
    fn bytes_that_are_lost_or_turned_are_answered(
        at: prop::sample::Index, byte: u8, cut: bool,
    ) {
        let mut body = real().to_string().into_bytes();
        let at = at.index(body.len());
        if cut { body.truncate(at) } else { body[at] = byte }
        on_the_spot(assert_answered(&world(), "deployment", body));
    }
}

#[test]
fn a_payload_of_every_kind_however_deep_or_large_loses_no_deployment() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let digits = "9".repeat(400);
    let payloads = [
        "null",
        "true",
        "7",
        "-1.5e300",
        "\"text\"",
        "\"\"",
        "[]",
        "[1, [2]]",
        "{}",
        "{\"other\": {\"tag\": 1}}",
        "{\"tag\": null}",
        "{\"tag\": \"a\", \"tag\": \"b\"}",
        &deep(100_000),
        &format!("{{\"other\": {}}}", deep(100_000)),
        &format!("{{\"other\": {digits}}}"),
        "{\"\\u0000\": \"\\u0000\"}",
    ];
    for payload in payloads {
        let body = real().to_string().replace("{\"tag\":\"v1\"}", payload);
        assert!(body.contains(payload), "it is in the event");
        let world = world();
        let answer = on_the_spot(world.send(Delivery::raw(body).request()));
        assert_eq!(
            answer.status.as_u16(),
            202,
            "{} {}",
            &payload[..payload.len().min(40)],
            answer.text
        );
    }
}

#[test]
fn a_sender_with_signs_that_no_login_has_is_shown_by_their_numbers() {
    let mut event = real();
    event["sender"]["login"] = json!("jo🙂\n[bot]");
    let world = world();
    assert_eq!(on_the_spot(world.send(Delivery::of(&event).request())).status, 202);
    let stored = world.fake.inner.lock().unwrap().stored[0].1.request.actor.clone();
    assert_eq!(stored, "jo\\u{1f642}\\u{a}[bot]");
}

#[test]
fn a_repository_name_that_tries_paths_is_refused() {
    for name in
        ["../x", "a/b/c", "a/..", "a/.", "/", "a/", "a\\b/c", "a/b\u{0}", "a/%2e%2e", "a/b.git"]
    {
        let mut event = real();
        event["repository"]["full_name"] = json!(name);
        let world = world();
        let answer = on_the_spot(world.send(Delivery::of(&event).request()));
        let detail = answer.problem(400, "malformed-event");
        assert!(detail.starts_with("repository.full_name: "), "{detail}");
        assert!(world.fake.inner.lock().unwrap().stored.is_empty());
    }
}
