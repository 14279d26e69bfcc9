//! Tests /api/v1/locks, /api/v1/deployments/…/cancel and /api/v1/plan: valid requests, and each refusal.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::shop::{TARGET, ask_as, asks, audited, deploys, tokens};
use super::world::{Answer, SHA, get, post, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Fault;

async fn place(deployer: &Deployer, scope: &Value) -> Answer {
    let lock = json!({"scope": scope, "reason": "an  incident\n"});
    post(deployer, "/api/v1/locks", &lock).await
}

fn removal_of(lock: &Value) -> String {
    format!("/api/v1/locks/{}/remove", lock["id"].as_str().unwrap())
}

fn scopes(list: &Answer) -> Vec<Value> {
    list.json()["locks"].as_array().unwrap().iter().map(|lock| lock["scope"].clone()).collect()
}

#[tokio::test]
async fn a_lock_is_placed_listed_and_taken_away() {
    let deployer = Deployer::start().await;
    let (app, everything) =
        (json!({"target": "prod", "app": "devx/shop"}), json!({"everything": true}));
    let mut first = Value::Null;
    for scope in [&app, &everything, &json!({"target": "prod"}), &json!({"owner": "a@b"})] {
        deployer.clock.advance(Duration::from_secs(1));
        let placed = place(&deployer, scope).await;
        assert_eq!(placed.status, 201, "{placed:?}");
        let said = placed.json();
        assert_eq!((&said["scope"], &said["reason"]), (scope, &json!("an incident")));
        let now = json!(deployer.clock.now());
        assert_eq!((&said["since"], &said["until"]), (&now, &Value::Null));
        assert_eq!(said["by"], "unknown, on this machine");
        first = if *scope == app { said } else { first };
    }
    deployer.clock.advance(Duration::from_secs(1));
    let lasting = json!({"scope": everything, "reason": "x", "for": "2h"});
    let lasting = post(&deployer, "/api/v1/locks", &lasting).await.json();
    assert_eq!(lasting["until"], json!(deployer.clock.now() + Duration::from_hours(2)));
    let list = get(&deployer, "/api/v1/locks?target=dev&app=devx/shop").await;
    assert_eq!(scopes(&list), [everything.clone(), json!({"owner": "a@b"}), everything.clone()]);
    let why = json!({"reason": "it is over"});
    let gone = post(&deployer, &removal_of(&first), &why).await;
    assert_eq!((gone.status.as_u16(), gone.json()), (200, first.clone()));
    let again = post(&deployer, &removal_of(&first), &why).await.problem(409, "conflict");
    assert!(again.contains("took lock") && again.contains("it is over"), "{again}");
    deployer.clock.advance(Duration::from_hours(2));
    let late = post(&deployer, &removal_of(&lasting), &why).await.problem(409, "conflict");
    assert!(late.contains("has ended by itself"), "{late}");
    let left = get(&deployer, "/api/v1/locks").await;
    assert_eq!(scopes(&left), [everything, json!({"target": "prod"}), json!({"owner": "a@b"})]);
    let unknown = post(&deployer, "/api/v1/locks/00000000/remove", &why).await;
    assert!(unknown.problem(404, "not-found").contains("there is no lock 00000000"));
    deployer.settled().await;
}

#[tokio::test]
async fn a_lock_that_cannot_be_meant_is_not_placed() {
    let deployer = Deployer::start().await;
    for scope in [
        json!({}),
        json!({"everything": false}),
        json!({"everything": true, "target": "prod"}),
        json!({"app": "devx/shop"}),
        json!({"target": "prod", "app": "shop"}),
        json!({"target": "prod", "app": "devx/Shop"}),
        json!({"target": "../x"}),
        json!({"owner": " "}),
        json!({"owner": "a\nb"}),
        json!({"owner": "a\u{200b}b"}),
        json!({"owner": "é".repeat(255)}),
        json!({"target": "prod", "owner": "a@b"}),
        json!({"targets": "prod"}),
        json!("everything"),
    ] {
        place(&deployer, &scope).await.problem(422, "unprocessable");
    }
    let (everything, later) =
        (json!({"everything": true}), deployer.clock.now() + Duration::from_mins(1));
    for body in [
        json!({"scope": everything, "reason": " "}),
        json!({"scope": everything}),
        json!({"scope": everything, "reason": "x", "for": "two hours"}),
        json!({"scope": everything, "reason": "x", "until": "tomorrow"}),
        json!({"scope": everything, "reason": "x", "until": later, "for": "2h"}),
        json!({"scope": everything, "reason": "x", "force": true}),
        json!({"scope": everything, "reason": "by ops\u{202e}x"}),
    ] {
        post(&deployer, "/api/v1/locks", &body).await.problem(422, "unprocessable");
    }
    for (key, wrong, says) in [
        ("for", "2 months", "for: write it like 90m, 2h or 2d"),
        ("until", "tomorrow", "until: write it like 2026-11-22"),
    ] {
        let body = json!({"scope": everything, "reason": "x", key: wrong});
        let said = post(&deployer, "/api/v1/locks", &body).await.problem(422, "unprocessable");
        assert!(said.starts_with(&format!("the JSON is wrong: {says}")), "{said}");
    }
    for query in ["targets=prod", "target=a&target=b", "app=shop", "owner="] {
        get(&deployer, &format!("/api/v1/locks?{query}")).await.problem(400, "bad-request");
    }
    let nope = post(&deployer, "/api/v1/locks/nope/remove", &json!({"reason": "x"})).await;
    nope.problem(400, "bad-request");
    assert_eq!(get(&deployer, "/api/v1/locks").await.json(), json!({"locks": []}));
    // As many as nobody looks through any more; one after the other takes long.
    deployer
        .database()
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999) \
             INSERT INTO locks (id, scope, reason, placed_by, since) \
             SELECT printf('%08x', i), 'everything', 'x', 'ops', 0 FROM n",
        )
        .await;
    assert_eq!(place(&deployer, &everything).await.status, 201);
    let many = place(&deployer, &everything).await.problem(409, "conflict");
    assert!(many.contains("take some away"), "{many}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_deployment_is_cancelled_or_it_is_said_why_not() {
    let deployer = Deployer::start().await;
    let number = asks(&deployer, "v1").await;
    let id = deployer.deployment(number).await.id.to_string();
    let path = format!("/api/v1/deployments/{id}/cancel");
    for (path, body, status, name) in [
        (path.as_str(), json!({"reason": ""}), 422, "unprocessable"),
        (path.as_str(), json!({}), 422, "unprocessable"),
        ("/api/v1/deployments/nope/cancel", json!({"reason": "x"}), 400, "bad-request"),
        (
            "/api/v1/deployments/20261121-054812999-3f9a2c/cancel",
            json!({"reason": "x"}),
            404,
            "not-found",
        ),
    ] {
        post(&deployer, path, &body).await.problem(status, name);
    }
    get(&deployer, &path).await.problem(405, "method-not-allowed");
    let done = post(&deployer, &path, &json!({"reason": " the wrong\ntag "})).await;
    assert_eq!(done.status, 200, "{done:?}");
    let said = done.json();
    assert_eq!((&said["id"], &said["state"]), (&json!(id), &json!("cancelled")));
    assert_eq!(said["summary"], "cancelled by unknown, on this machine: the wrong tag");
    let again = post(&deployer, &path, &json!({"reason": "x"})).await.problem(409, "conflict");
    assert!(again.contains("has cancelled: cancelled by"), "{again}");
    let late = deploys(&deployer, "v2").await;
    let late = format!("/api/v1/deployments/{late}/cancel");
    let late = post(&deployer, &late, &json!({"reason": "too late"})).await;
    assert!(late.problem(409, "conflict").contains("has succeeded"));
    deployer.settled().await;
}

/// A plan of `example/shop` with more said.
fn plan(repository: &str, more: &Value) -> Value {
    let mut body = json!({"repository": repository, "target": TARGET, "tag": "1"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_plan_is_answered_or_it_is_said_why_not() {
    let deployer = Deployer::start().await;
    let commit = deployer.github.repository("example/shop").commit(&waml("shop"));
    let ask =
        async |more: Value| post(&deployer, "/api/v1/plan", &plan("example/shop", &more)).await;
    place(&deployer, &json!({"target": TARGET})).await;
    let answer = ask(json!({"commit": commit, "waml": waml("shop")})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let said = answer.json();
    assert_eq!((&said["outcome"], &said["target"]), (&json!("refused"), &json!(TARGET)));
    assert_eq!((&said["tag"], &said["commit"]), (&json!("1"), &json!(commit)));
    assert_eq!(said["violations"][0]["rule"], "locks");
    let yet = format!("nothing of devx/shop is deployed to {TARGET} yet");
    assert_eq!((&said["changes"], &said["notes"]), (&json!([]), &json!([yet])));

    ask(json!({"ref": "none"})).await.problem(404, "not-found");
    ask(json!({"commit": SHA})).await.problem(404, "not-found");
    let unmeant = ask(json!({"ref": "main", "tag": null})).await;
    let unmeant = unmeant.problem(422, "unprocessable");
    assert!(unmeant.contains("nothing of devx/shop is live"), "{unmeant}");
    deployer.github.down_for(Duration::from_mins(1));
    let down = ask(json!({"ref": "main"})).await;
    assert!(down.problem(503, "unavailable").contains("502"), "{down:?}");
    assert!(down.headers.contains_key("retry-after"));
    deployer.clock.advance(Duration::from_mins(2));
    for more in [
        json!({}),
        json!({"commit": SHA, "ref": "main"}),
        json!({"commit": "main"}),
        json!({"ref": "-x"}),
        json!({"ref": "a..b"}),
        json!({"ref": "main~1"}),
        json!({"ref": "x".repeat(256)}),
        json!({"waml": 7}),
        json!({"ref": "main", "tag": "a b"}),
        json!({"ref": "main", "target": "../x"}),
        json!({"ref": "main", "dry_run": true}),
    ] {
        ask(more).await.problem(422, "unprocessable");
    }
    get(&deployer, "/api/v1/plan").await.problem(405, "method-not-allowed");
    assert!(deployer.deployments().await.is_empty());
    deployer.settled().await;
}

/// So many are made at once.
const PLANS: u32 = 4;

#[tokio::test]
async fn where_many_plans_are_made_one_more_is_told_to_come_again() {
    let deployer = Deployer::start().await;
    deployer.github.repository("example/shop").commit(&waml("shop"));
    let body = plan("example/shop", &json!({"ref": "main"}));
    deployer.github.fails(PLANS, "GET commits main", Fault::SilentBefore);
    let asked = deployer.github.met("GET commits main");
    let waiting: Vec<_> = (0..PLANS)
        .map(|_| request(&deployer, Method::POST, "/api/v1/plan").json(&body))
        .map(|request| tokio::spawn(send(request)))
        .collect();
    asked.await;
    let busy = post(&deployer, "/api/v1/plan", &body).await;
    busy.problem(503, "overloaded");
    assert!(busy.headers.contains_key("retry-after"));
    // Whoever stops waiting ends it.
    for one in waiting {
        one.abort();
        assert!(one.await.unwrap_err().is_cancelled());
    }
    let planned = async { while post(&deployer, "/api/v1/plan", &body).await.status == 503 {} };
    tokio::time::timeout(Duration::from_mins(1), planned).await.expect("their places stay taken");
    deployer.settled().await;
}

#[tokio::test]
async fn nobody_acts_without_a_token_where_there_are_some() {
    let mut deployer = Deployer::prepared().await;
    tokens(&mut deployer, &[("ci", "scope: admin")]);
    deployer.starts().await;
    let number = asks(&deployer, "v1").await;
    let id = deployer.deployment(number).await.id;
    place(&deployer, &json!({"everything": true})).await.problem(401, "unauthorized");
    get(&deployer, "/api/v1/locks").await.problem(401, "unauthorized");
    post(&deployer, "/api/v1/plan", &json!({})).await.problem(401, "unauthorized");
    let cancel = format!("/api/v1/deployments/{id}/cancel");
    post(&deployer, &cancel, &json!({"reason": "x"})).await.problem(401, "unauthorized");
    assert_eq!(audited(&deployer).await, []);
    deployer.settle().await;
    assert_eq!(deployer.github.told(number).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn who_may_deploy_what_a_lock_stops_may_place_it_and_take_it_away() {
    let mut deployer = Deployer::prepared().await;
    tokens(
        &mut deployer,
        &[
            ("reader", "scope: read"),
            ("shop", "scope: deploy, targets: [prod], apps: [devx/shop]"),
            ("deployer", "scope: deploy"),
            ("keeper", "scope: admin, targets: [prod]"),
            ("operator", "scope: admin"),
        ],
    );
    deployer.starts().await;
    let all = ["reader", "shop", "deployer", "keeper", "operator"];
    for (scope, may) in [
        (json!({"target": "prod", "app": "devx/shop"}), &all[1..]),
        (json!({"target": "prod", "app": "devx/api"}), &all[2..]),
        (json!({"target": "dev", "app": "devx/shop"}), &["deployer", "operator"][..]),
        (json!({"owner": "a@b"}), &["deployer", "operator"]),
        (json!({"target": "prod"}), &["keeper", "operator"]),
        (json!({"target": "dev"}), &["operator"]),
        (json!({"everything": true}), &["operator"]),
    ] {
        for token in all {
            let ask = json!({"scope": scope, "reason": "x"});
            let mut placed = ask_as(&deployer, token, "/api/v1/locks", &ask).await;
            let allowed = may.contains(&token);
            if allowed {
                assert_eq!(placed.status, 201, "{token} {scope}: {placed:?}");
                assert_eq!(placed.json()["by"], token);
            } else {
                placed.problem(403, "forbidden");
                placed = ask_as(&deployer, "operator", "/api/v1/locks", &ask).await;
            }
            let (away, why) = (removal_of(&placed.json()), json!({"reason": "x"}));
            let gone = ask_as(&deployer, token, &away, &why).await;
            if allowed {
                assert_eq!(gone.status, 200, "{token} {scope}: {gone:?}");
            } else {
                gone.problem(403, "forbidden");
                assert_eq!(ask_as(&deployer, "operator", &away, &why).await.status, 200);
            }
        }
    }
    let left = ask_as(&deployer, "operator", "/api/v1/locks", &Value::Null).await;
    assert_eq!(left.json(), json!({"locks": []}));
    deployer.settled().await;
}

#[tokio::test]
async fn a_lock_on_an_app_is_seen_by_who_may_see_the_app_and_others_by_all() {
    let mut deployer = Deployer::prepared().await;
    tokens(
        &mut deployer,
        &[
            ("shop", "scope: read, targets: [prod], apps: [devx/shop]"),
            ("operator", "scope: admin"),
        ],
    );
    deployer.starts().await;
    let placed = [
        json!({"target": "prod", "app": "devx/api"}),
        json!({"target": "prod", "app": "devx/shop"}),
        json!({"target": "dev"}),
        json!({"owner": "a@b"}),
        json!({"everything": true}),
    ];
    for scope in &placed {
        deployer.clock.advance(Duration::from_secs(1));
        let ask = json!({"scope": scope, "reason": "x"});
        assert_eq!(ask_as(&deployer, "operator", "/api/v1/locks", &ask).await.status, 201);
    }
    for (token, hidden) in [("operator", 0), ("shop", 1)] {
        let list = ask_as(&deployer, token, "/api/v1/locks", &Value::Null).await;
        assert_eq!(scopes(&list), placed[hidden..], "{token}: oldest first");
    }
    deployer.settled().await;
}
