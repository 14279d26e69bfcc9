//! GitHub's event with anything anywhere in it: every answer is one of ours, and the log has none
//! of it.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tracing::Level;

use super::world::{Answer, Delivery, SHA, send};
use crate::harness::deployer::Deployer;
use crate::harness::log::CapturedLog;

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

/// One program for all events, on this thread with whoever asks it.
struct Place {
    runtime: Runtime,
    deployer: Deployer,
}

impl Place {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let deployer = runtime.block_on(Deployer::start());
        Self { runtime, deployer }
    }

    /// Delivers it under an id of its own.
    fn delivers(&self, event: &str, body: impl Into<Vec<u8>>) -> Answer {
        let delivery = Delivery::raw(body).id(&uuid::Uuid::now_v7().to_string());
        let request = delivery.with("x-github-event", event).request(&self.deployer);
        self.runtime.block_on(send(request))
    }

    /// Delivers it; the answer must be one of ours, and neither it nor the log may carry control
    /// characters or much of what came. True for one that was taken.
    fn assert_answered(&self, event: &str, body: Vec<u8>) -> bool {
        let log = CapturedLog::of("", Level::TRACE);
        let answer = self.delivers(event, body);
        let status = answer.status.as_u16();
        assert!(matches!(status, 200 | 202 | 400), "{answer:?}");
        let said = answer.json();
        let said = said["detail"].as_str().or(said["ignored"].as_str()).unwrap_or_default();
        assert!(said.len() < 500 && !said.chars().any(char::is_control), "{said:?}");
        let log = log.text();
        assert!(log.contains("webhook ") && log.lines().all(|line| line.len() < 1000), "{log}");
        assert!(!log.contains('\u{1b}'), "{log:?}");
        assert!(status == 200 || !log.contains(FOREIGN), "a value is logged: {log}");
        status == 202
    }

    /// Nothing was done about what was taken: GitHub knows nothing of it.
    fn ends(self) {
        self.deployer.github.settled();
    }
}

#[test]
fn whatever_is_changed_in_a_real_event_is_answered() {
    let place = Place::start();
    let changes = prop::collection::vec(change(), 1..4);
    let event = prop_oneof![Just("deployment"), Just("push")];
    let taken = Cell::new(0);
    let tried = TestRunner::default().run(&(changes, event), |(changes, event)| {
        let body = changed(&changes).to_string().into_bytes();
        taken.update(|taken| taken + usize::from(place.assert_answered(event, body)));
        Ok(())
    });
    tried.unwrap();
    assert!(taken.get() > 0, "what nobody reads may be anything");
    place.ends();
}

#[test]
fn bytes_that_are_lost_or_turned_are_answered() {
    let place = Place::start();
    let any = (any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    let tried = TestRunner::default().run(&any, |(at, byte, cut)| {
        let mut body = real().to_string().into_bytes();
        let at = at.index(body.len());
        if cut {
            body.truncate(at);
        } else {
            body[at] = byte;
        }
        place.assert_answered("deployment", body);
        Ok(())
    });
    tried.unwrap();
    place.ends();
}

#[test]
fn a_payload_of_every_kind_however_deep_or_large_loses_no_deployment() {
    let place = Place::start();
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
    for (number, payload) in payloads.iter().enumerate() {
        let mut event = real();
        event["deployment"]["id"] = json!(number + 1);
        let body = event.to_string().replace("{\"tag\":\"v1\"}", payload);
        assert!(body.contains(payload), "it is in the event");
        let answer = place.delivers("deployment", body);
        let shown = &payload[..payload.len().min(40)];
        assert_eq!(answer.status.as_u16(), 202, "{shown} {}", answer.text);
    }
    let stored = place.runtime.block_on(place.deployer.deployments());
    assert_eq!(stored.len(), payloads.len());
    place.ends();
}

#[test]
fn a_sender_with_signs_that_no_login_has_is_shown_by_their_numbers() {
    let mut event = real();
    event["sender"]["login"] = json!("jo🙂\n[bot]");
    let place = Place::start();
    assert_eq!(place.delivers("deployment", event.to_string()).status, 202);
    let stored = place.runtime.block_on(place.deployer.deployments());
    assert_eq!(stored[0].request.actor, "jo\\u{1f642}\\u{a}[bot]");
    place.ends();
}

#[test]
fn a_repository_name_that_tries_paths_is_refused() {
    let place = Place::start();
    for name in
        ["../x", "a/b/c", "a/..", "a/.", "/", "a/", "a\\b/c", "a/b\u{0}", "a/%2e%2e", "a/b.git"]
    {
        let mut event = real();
        event["repository"]["full_name"] = json!(name);
        let answer = place.delivers("deployment", event.to_string());
        let detail = answer.problem(400, "malformed-event");
        assert!(detail.starts_with("repository.full_name: "), "{detail}");
    }
    assert!(place.runtime.block_on(place.deployer.deployments()).is_empty());
    place.ends();
}
