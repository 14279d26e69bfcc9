//! Bad input of every kind: a clear answer or a failed deployment at its place, nothing
//! half-written, and a service that goes on.

use serde_json::{Value as Json, json};

use crate::harness::events::{Answer, Delivery, Event, waml};
use crate::harness::process::{Home, Process};

/// A value that is in every body, and that no log may have.
const IN_EVERY_BODY: &str = "DE_kwDOABCD";

/// After anything bad: it lives, it takes good input, and its log has neither secret nor body.
async fn assert_unharmed(process: &Process) {
    assert_eq!(process.get("/healthz").await.0, 200);
    let log = process.log();
    for never in [process.secret.as_str(), IN_EVERY_BODY, "s3cret-of-a-body"] {
        assert!(!log.contains(never), "{never} is in the log:\n{log}");
    }
}

/// What a deployment that must fail says: its summary, or the place and message of a violation.
fn said(one: &Json) -> Vec<String> {
    let place = |violation: &Json| {
        let at = &violation["position"];
        let message = violation["message"].as_str().unwrap();
        format!("{}:{}:{}: {message}", at["file"].as_str().unwrap_or(""), at["line"], at["column"])
    };
    let violations = one["violations"].as_array().unwrap().iter().map(place);
    std::iter::once(one["summary"].as_str().unwrap().to_owned()).chain(violations).collect()
}

async fn assert_fails(process: &Process, event: &Event, what: &str) {
    let id = event.accepted(process).await;
    let one = process.ended(&id).await;
    assert_eq!(one["state"], "failed", "{what}: {one}");
    assert!(said(&one).iter().any(|line| line.contains(what)), "no {what:?} in {:#?}", said(&one));
    let last = one["statuses"].as_array().unwrap().last().unwrap();
    assert_eq!(last["state"], "failure", "{what}: the request is at fault");
    assert!(!last["description"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_waml_that_cannot_be_used_fails_its_deployment_at_its_place() {
    let home = Home::embedded();
    let process = home.start().await;
    let good = Event::of_app(&home, 1, "good").accepted(&process).await;
    assert_eq!(process.ended(&good).await["state"], "succeeded");
    let tip = home.manifests().tip();
    let with = |from: &str, to: &str| {
        let text = waml("bad").replace(from, to);
        assert_ne!(text, waml("bad"), "{from}");
        text
    };
    let cases = [
        ("name: [\n".to_owned(), ".weave.yaml:"),
        ("just words\n".to_owned(), ".weave.yaml:1:1"),
        (
            with("  prod-cluster-1:\n", "- prod-cluster-1:\n"),
            ".weave.yaml:14:3: `deploy` must be a map, but this is a list",
        ),
        (with("slug: bad ", "slug: ../../x "), ".weave.yaml:3:7"),
        (
            with("  prod-cluster-1:", "  prod-cluster-2:"),
            ".weave.yaml:13:1: `prod-cluster-1` is not a target of this app",
        ),
        ("#".repeat(10 * 1024 * 1024), "larger than 262144 bytes: make it smaller"),
        (format!("a: {}{}", "[".repeat(5000), "]".repeat(5000)), ".weave.yaml:1:"),
        (String::new(), ".weave.yaml"),
        ("\u{0}\u{1}".to_owned(), ".weave.yaml"),
    ];
    for (n, (text, what)) in cases.into_iter().enumerate() {
        let commit = home.commit("example/bad", &text);
        let event = Event::new(i64::try_from(n).unwrap() + 10, "bad", &commit);
        assert_fails(&process, &event, what).await;
    }
    assert_eq!(home.manifests().tip(), tip, "nothing was written");
    home.manifests().assert_sound();
    assert_unharmed(&process).await;
    let fixed = Event::of_app(&home, 99, "bad").accepted(&process).await;
    assert_eq!(process.ended(&fixed).await["state"], "succeeded", "its lane is free");
}

#[tokio::test]
async fn what_a_request_names_and_is_not_there_fails_its_deployment() {
    let home = Home::embedded();
    let process = home.start().await;
    let commit = home.commit_file("example/shop", "README.md", "no WAML here");
    let cases = [
        (Event::new(1, "nowhere", &commit), "repository example/nowhere is not there"),
        (Event::new(2, "shop", &commit), "has no file .weave.yaml at commit"),
        (Event::new(3, "shop", &"ab".repeat(20)), "has no commit abab"),
    ];
    for (event, what) in cases {
        assert_fails(&process, &event, what).await;
    }
    assert_eq!(home.manifests().commits(), 0);
    assert_unharmed(&process).await;
}

fn assert_problem(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.text);
    assert_eq!(answer.content_type, "application/problem+json", "{what}");
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(what), "no {what:?} in {detail:?}");
}

/// A change to an event's body at a place in it.
fn changed(pointer: &str, value: Json) -> String {
    let mut body = Event::new(1, "shop", &"ab".repeat(20)).body();
    *body.pointer_mut(pointer).unwrap() = value;
    body.to_string()
}

#[tokio::test]
async fn a_malformed_event_is_answered_with_the_field_that_is_wrong() {
    let home = Home::embedded();
    let process = home.start().await;
    let cases = [
        (changed("/deployment/payload/tag", json!("v1\nv2")), "deployment.payload.tag"),
        (changed("/deployment/environment", json!("prod/eu")), "deployment.environment"),
        (changed("/deployment/environment", json!("..")), "deployment.environment"),
        (changed("/deployment/sha", json!("main")), "deployment.sha"),
        (changed("/deployment/id", json!("one")), "deployment.id"),
        (changed("/deployment/ref", json!("a\u{7}b")), "deployment.ref"),
        (changed("/repository/full_name", json!("../../etc")), "repository.full_name"),
        (changed("/repository", json!(null)), "repository"),
        (changed("/deployment", json!([1, 2])), ""),
        ("s3cret-of-a-body".to_owned(), "not JSON"),
        (String::new(), "not JSON"),
        ("[]".to_owned(), "deployment"),
        ("7".to_owned(), "shape"),
    ];
    for (body, what) in cases {
        let delivery = Delivery::of_body("bad", body, &process.secret);
        assert_problem(&delivery.send(&process).await, 400, what);
    }
    let list = process.deployments().await;
    assert!(list.is_empty(), "{list:?}");
    assert_unharmed(&process).await;
}

#[tokio::test]
async fn a_delivery_that_is_not_githubs_is_turned_away() {
    let home = Home::embedded();
    let process = home.start().await;
    let good = Delivery::of(&Event::of_app(&home, 1, "shop"), &process.secret);
    let refused = |change: &dyn Fn(&mut Delivery)| {
        let mut delivery = good.clone();
        change(&mut delivery);
        let process = &process;
        async move { delivery.send(process).await }
    };
    let wrong = refused(&|d| d.signature = Some(format!("sha256={}", "0".repeat(64)))).await;
    assert_problem(&wrong, 401, "signature");
    assert_problem(&refused(&|d| d.signature = None).await, 401, "X-Hub-Signature-256 is missing");
    assert_problem(&refused(&|d| d.signature = Some("sha1=00".to_owned())).await, 401, "");
    assert_problem(&refused(&|d| d.body.push(' ')).await, 401, "signature");
    assert_problem(&refused(&|d| d.content_type = "text/plain".to_owned()).await, 415, "");
    let large = Delivery::of_body("large", " ".repeat(2 * 1024 * 1024), &process.secret);
    assert_problem(&large.send(&process).await, 413, "larger than 1048576 bytes");
    assert!(process.deployments().await.is_empty());
    assert_unharmed(&process).await;
    assert_eq!(good.send(&process).await.status, 202, "the same, unspoiled, is taken");
}

#[tokio::test]
async fn what_comes_twice_or_asks_nothing_changes_nothing() {
    let home = Home::embedded();
    let process = home.start().await;
    let event = Event::of_app(&home, 1, "shop");
    let first = Delivery::of(&event, &process.secret);
    let id = event.accepted(&process).await;
    assert_eq!(process.ended(&id).await["state"], "succeeded");
    let (again, mut redelivered) = (first.clone(), first.clone());
    redelivered.id = "another-delivery".to_owned();
    for delivery in [again, redelivered] {
        let answer = delivery.send(&process).await;
        assert_eq!(answer.status, 202);
        assert_eq!(answer.json(), json!({"id": id, "duplicate": true}));
    }
    for (event, answer) in [("ping", json!({"pong": true})), ("issues", Json::Null)] {
        let mut other =
            Delivery::of_body(event, r#"{"zen": "Keep it."}"#.to_owned(), &process.secret);
        other.event = event.to_owned();
        let got = other.send(&process).await;
        assert_eq!(got.status, 200, "{}", got.text);
        assert!(answer.is_null() || got.json() == answer, "{}", got.text);
    }
    assert_eq!(process.deployments().await.len(), 1);
    assert_eq!(home.manifests().commits(), 1);
    assert_unharmed(&process).await;
}

#[tokio::test]
async fn an_event_may_come_as_a_form() {
    let home = Home::embedded();
    let process = home.start().await;
    let body = Event::of_app(&home, 1, "shop").body().to_string();
    let escaped: String = body.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut form = Delivery::of_body("form", format!("payload={escaped}"), &process.secret);
    form.content_type = "application/x-www-form-urlencoded".to_owned();
    let answer = form.send(&process).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let one = process.ended(answer.json()["id"].as_str().unwrap()).await;
    assert_eq!(one["state"], "succeeded", "{one}");
    let nothing = Delivery::of_body("empty", "other=1".to_owned(), &process.secret);
    let nothing = Delivery { content_type: form.content_type, ..nothing };
    assert_problem(&nothing.send(&process).await, 400, "no field `payload`");
}
