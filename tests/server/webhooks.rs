//! `POST /webhooks/github`: every answer it has.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use sqlx::{Executor as _, raw_sql};
use the_deployer::forge::github::webhook::signature::sign;
use the_deployer::server::ServerLimits;
use tracing::Level;

use super::world::{Answer, Delivery, deliver, event, get, send};
use crate::harness::deployer::{Deployer, SECRET};
use crate::harness::log::CapturedLog;

const PREVIOUS: &str = "the secret of last year";

/// What it says to a delivery.
async fn said(deployer: &Deployer, delivery: Delivery) -> Answer {
    send(delivery.request(deployer)).await
}

/// The service with other bounds on requests.
async fn within(limits: ServerLimits) -> Deployer {
    let mut deployer = Deployer::prepared().await;
    deployer.limit(limits);
    deployer.starts().await;
    deployer
}

/// Nothing was stored, and GitHub has heard of nothing.
async fn untouched(deployer: &Deployer) {
    assert_eq!(deployer.deployments().await.len(), 0);
    deployer.settled().await;
    assert_eq!(deployer.github.seen().len(), 0);
}

#[tokio::test]
async fn a_deployment_is_stored_and_then_answered_with_its_id() {
    let deployer = Deployer::start().await;
    let answer = deliver(&deployer, "d-1", "prod-cluster-1").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let [stored] = &deployer.deployments().await[..] else { panic!("it is stored once") };
    assert_eq!(answer.json(), json!({"id": stored.id, "duplicate": false}));
    assert_eq!(stored.request.target.as_str(), "prod-cluster-1");
    let again = deliver(&deployer, "d-1", "prod-cluster-1").await;
    assert_eq!(again.status, 202, "{again:?}");
    assert_eq!(again.json(), json!({"id": stored.id, "duplicate": true}));
    assert_eq!(deployer.deployments().await.len(), 1);
    deployer.github.settled();
}

#[tokio::test]
async fn a_form_is_taken_with_the_signature_over_its_raw_body() {
    let deployer = Deployer::start().await;
    let json = event("prod-cluster-1").to_string();
    let form = |body: String| {
        Delivery::raw(body).with("content-type", "application/x-www-form-urlencoded")
    };
    let body = format!("payload={}", json.replace('%', "%25").replace('+', "%2B"));
    assert_eq!(said(&deployer, form(body)).await.status, 202);
    let over_json = sign(&SECRET.into(), json.as_bytes());
    let over_json = form(format!("payload={json}")).signed(Some(&over_json));
    said(&deployer, over_json).await.problem(401, "bad-signature");
    assert_eq!(deployer.deployments().await.len(), 1);
    deployer.github.settled();
}

#[tokio::test]
async fn what_is_not_githubs_or_not_for_us_is_told_so_and_not_stored() {
    let deployer = Deployer::start().await;
    // Nothing is read, not even what the body is, before it is known to be GitHub's.
    for signature in [None, Some(""), Some("sha1=00")] {
        let unsigned = Delivery::raw("not json").without("content-type").signed(signature);
        said(&deployer, unsigned).await.problem(401, "bad-signature");
    }
    let wrong = Delivery::raw("not json").signed_with("other");
    said(&deployer, wrong).await.problem(401, "bad-signature");
    for content_type in ["text/plain", "multipart/form-data; boundary=x", ""] {
        let odd = Delivery::of(&event("a")).with("content-type", content_type);
        said(&deployer, odd).await.problem(415, "unsupported-media-type");
    }
    let without = Delivery::of(&event("a")).without("content-type");
    said(&deployer, without).await.problem(415, "unsupported-media-type");

    let ping = said(&deployer, Delivery::raw("{}").event("ping")).await;
    assert_eq!((ping.status.as_u16(), ping.json()), (200, json!({"pong": true})));
    let issues = said(&deployer, Delivery::raw("{}").event("issues")).await;
    let ignored = json!({"ignored": "event \"issues\" is not used"});
    assert_eq!((issues.status.as_u16(), issues.json()), (200, ignored));

    let push = json!({
        "ref": "refs/heads/main", "after": "a".repeat(40),
        "repository": {"full_name": "acme/shop"},
    });
    let push = || Delivery::of(&push).event("push");
    let other = said(&deployer, push()).await;
    let ignored = json!({"ignored": "nothing here follows main of acme/shop"});
    assert_eq!((other.status.as_u16(), other.json()), (200, ignored));
    said(&deployer, push().signed(None)).await.problem(401, "bad-signature");
    let broken = Delivery::raw("{}").event("push");
    said(&deployer, broken).await.problem(400, "malformed-event");
    untouched(&deployer).await;
}

#[tokio::test]
async fn what_is_signed_and_malformed_is_refused_with_its_place() {
    let deployer = Deployer::start().await;
    let answer = said(&deployer, Delivery::raw("{\"a\":")).await;
    let detail = answer.problem(400, "malformed-event");
    assert!(detail.contains("line 1, column 5"), "{detail}");
    let detail = deliver(&deployer, "d-1", "prod/../x").await.problem(400, "malformed-event");
    assert!(detail.starts_with("deployment.environment: \"prod/../x\""), "{detail}");
    let nameless = Delivery::of(&event("a")).without("x-github-event");
    let detail = said(&deployer, nameless).await.problem(400, "bad-request");
    assert!(detail.contains("x-github-event"), "{detail}");
    for id in ["", "../x", "a b"] {
        deliver(&deployer, id, "prod").await.problem(400, "bad-request");
    }
    untouched(&deployer).await;
}

#[tokio::test]
async fn while_the_secret_is_changed_both_are_taken_and_no_third() {
    let mut deployer = Deployer::prepared().await;
    deployer.variable("PREVIOUS", PREVIOUS);
    deployer.configure(|config| {
        let secret = "webhook_secret: {env: WEBHOOK_SECRET}\n";
        config.replace(
            secret,
            &format!("{secret}    previous_{}", secret.replace("WEBHOOK_SECRET", "PREVIOUS")),
        )
    });
    deployer.starts().await;
    for (secret, status) in [(SECRET, 202), (PREVIOUS, 202), ("another", 401)] {
        let delivery = Delivery::of(&event("prod-cluster-1")).signed_with(secret);
        assert_eq!(said(&deployer, delivery).await.status, status, "{secret}");
    }
    deployer.github.settled();
}

/// The lines of the metrics that count deliveries, without what is 0.
async fn counted(deployer: &Deployer) -> Vec<String> {
    let metrics = get(deployer, "/metrics").await.text;
    let name = "the_deployer_webhook_deliveries_total";
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let mut lines: Vec<_> = lines.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn every_delivery_is_counted_by_what_became_of_it() {
    let deployer = Deployer::start().await;
    assert_eq!(counted(&deployer).await, [""; 0]);
    deliver(&deployer, "d-1", "prod").await;
    deliver(&deployer, "d-1", "prod").await;
    deliver(&deployer, "d-2", "Prod EU").await.problem(400, "malformed-event");
    let mut task = event("prod");
    task["deployment"]["task"] = json!("preview");
    let mut environment = event("Preview – shop");
    environment["deployment"]["payload"] = json!({});
    for event in [task, environment] {
        assert_eq!(said(&deployer, Delivery::of(&event)).await.status, 200);
    }
    for name in ["ping", "deployment_status"] {
        said(&deployer, Delivery::raw("{}").event(name)).await;
    }
    said(&deployer, Delivery::raw("[")).await;
    said(&deployer, Delivery::raw("{}").signed(None)).await;
    deployer.stepped().store().close().await;
    deliver(&deployer, "d-3", "prod").await;
    let line =
        |outcome: &str, reason: &str| format!("{{outcome=\"{outcome}\",reason=\"{reason}\"}} 1");
    let wanted = [
        line("accepted", "known"),
        line("accepted", "new"),
        line("accepted", "ping"),
        line("failed", "not_stored"),
        line("ignored", "environment"),
        line("ignored", "kind"),
        line("ignored", "task"),
        line("refused", "malformed"),
        line("refused", "signature"),
        line("refused", "unusable"),
    ];
    assert_eq!(counted(&deployer).await, wanted);
    deployer.github.settled();
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_with_and_without_its_length() {
    let deployer = within(ServerLimits { body_bytes: 100, ..ServerLimits::default() }).await;
    let large = "x".repeat(101);
    said(&deployer, Delivery::raw(large.clone())).await.problem(413, "too-large");
    let bytes = large.into_bytes().into_iter().map(|byte| Ok::<_, std::io::Error>(vec![byte]));
    let chunks = reqwest::Body::wrap_stream(futures::stream::iter(bytes));
    let chunked = Delivery::raw("").request(&deployer).body(chunks);
    send(chunked).await.problem(413, "too-large");
    let fits = said(&deployer, Delivery::raw("x".repeat(100))).await;
    fits.problem(400, "malformed-event");
    untouched(&deployer).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let body_timeout = Duration::from_millis(50);
    let deployer = within(ServerLimits { body_timeout, ..ServerLimits::default() }).await;
    let begin = futures::stream::iter([Ok::<_, std::io::Error>(b"{\"action\":".to_vec())]);
    let chunks = reqwest::Body::wrap_stream(begin.chain(futures::stream::pending()));
    let slow = Delivery::raw("").request(&deployer).body(chunks);
    let detail = send(slow).await.problem(408, "slow-body");
    assert!(detail.starts_with("the body arrived too slowly: 10 bytes of it within"), "{detail}");
    assert_eq!(counted(&deployer).await, ["{outcome=\"failed\",reason=\"not_read\"} 1"]);
    untouched(&deployer).await;
}

#[tokio::test]
async fn trouble_behind_the_server_is_told_apart_and_worth_another_delivery() {
    let request_timeout = Duration::from_secs(1);
    let deployer = within(ServerLimits { request_timeout, ..ServerLimits::default() }).await;
    let mut other = deployer.another_connection().await;
    other.execute(raw_sql("BEGIN IMMEDIATE")).await.unwrap();
    deliver(&deployer, "d-1", "prod").await.problem(504, "took-too-long");
    other.execute(raw_sql("ROLLBACK")).await.unwrap();
    let again = deliver(&deployer, "d-1", "prod").await;
    assert_eq!(again.status, 202, "it has not stopped working: {again:?}");
    assert_eq!(again.json()["duplicate"], false, "what was not answered in time was not stored");
    assert_eq!(deployer.deployments().await.len(), 1);
    deployer.stepped().store().close().await;
    let answer = deliver(&deployer, "d-2", "prod").await;
    let detail = answer.problem(503, "unavailable");
    assert_eq!(detail, "the deployment could not be stored; deliver it again", "and not why");
    assert_eq!(answer.headers["retry-after"], "5");
    deployer.github.settled();
}

#[tokio::test]
async fn one_request_more_than_the_bound_is_told_to_come_again() {
    let deployer = within(ServerLimits { webhooks: 1, ..ServerLimits::default() }).await;
    let mut other = deployer.another_connection().await;
    other.execute(raw_sql("BEGIN IMMEDIATE")).await.unwrap();
    // One of them has the slot and waits for the database, the other one waits for the slot.
    let both = ["d-1", "d-2"].map(|id| Box::pin(deliver(&deployer, id, "prod")));
    let (refused, place, mut rest) = futures::future::select_all(both).await;
    refused.problem(503, "overloaded");
    assert_eq!(get(&deployer, "/healthz").await.status, 200, "probes are answered nevertheless");
    other.execute(raw_sql("ROLLBACK")).await.unwrap();
    assert_eq!(rest.pop().unwrap().await.status, 202);
    let again = deliver(&deployer, ["d-1", "d-2"][place], "prod").await;
    assert_eq!(again.status, 202);
    deployer.github.settled();
}

#[tokio::test]
async fn neither_the_secret_nor_the_body_is_ever_logged() {
    let log = CapturedLog::of("", Level::TRACE);
    let deployer = Deployer::start().await;
    let accepted = deliver(&deployer, "d-1", "prod-cluster-1").await;
    assert_eq!(accepted.status, 202);
    deliver(&deployer, "d-2", "b0dy-text/x").await.problem(400, "malformed-event");
    let broken = Delivery::raw("{\"x\": b0dy-text");
    said(&deployer, broken).await.problem(400, "malformed-event");
    let signature = sign(&"other".into(), b"b0dy-text");
    let wrong = Delivery::raw("b0dy-text").signed(Some(&signature));
    said(&deployer, wrong).await.problem(401, "bad-signature");
    let text = log.text();
    assert!(text.contains("webhook accepted") && text.contains("deployment.environment"), "{text}");
    let id = accepted.headers["x-request-id"].to_str().unwrap();
    assert!(text.contains(&format!("request=\"{id}\"")), "no {id} in {text}");
    for absent in ["b0dy-text", SECRET, &signature, "sha256="] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    deployer.github.settled();
}

/// An event of pull request 7, at that second.
fn pull_request(action: &str, sha: &str, second: u32) -> Value {
    let repository = json!({"full_name": "acme/shop"});
    json!({
        "action": action, "number": 7, "repository": repository,
        "pull_request": {
            "head": {"sha": sha.repeat(40), "ref": "x", "repo": repository},
            "base": {"sha": "b".repeat(40), "ref": "main", "repo": repository},
            "user": {"login": "octocat"}, "updated_at": format!("2026-11-21T05:48:{second:02}Z"),
        },
    })
}

#[tokio::test]
async fn a_pull_request_is_stored_and_then_answered() {
    let deployer = Deployer::start_as_app().await;
    let send = async |action: &str, sha: &str, second: u32| {
        let event = pull_request(action, sha, second);
        said(&deployer, Delivery::of(&event).event("pull_request")).await
    };
    let first = send("opened", "a", 12).await;
    assert_eq!((first.status.as_u16(), first.json()), (202, json!({"preview": "waiting"})));
    assert_eq!(send("reopened", "a", 12).await.json(), json!({"preview": "known"}));
    assert_eq!(send("closed", "a", 13).await.json(), json!({"preview": "forgotten"}));
    let ignored = send("labeled", "a", 14).await;
    assert_eq!(ignored.status.as_u16(), 200);

    let now = deployer.clock.now().as_millisecond();
    let flood = format!(
        "INSERT INTO previews (repository, number, request, updated_at, received_at, due_at, turn, \
         attempts, failures, summary, shown_turn) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
         SELECT 'acme/flood', i, '{{}}', {now}, {now}, {now}, 1, 0, 0, '', 0 FROM n"
    );
    deployer.database().execute(&flood).await;
    let full = send("synchronize", "c", 15).await.problem(503, "unavailable");
    assert_eq!(full, "too many previews wait; deliver it again later");

    deployer.stepped().store().close().await;
    let detail = send("opened", "d", 16).await.problem(503, "unavailable");
    assert_eq!(detail, "the pull request could not be stored; deliver it again");
    deployer.github.settled();
}
