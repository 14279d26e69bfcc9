//! /api/v1/locks, /api/v1/deployments/…/cancel and /api/v1/plan: what is understood, and what is refused how.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::world::{Answer, Fake, SHA, World, now, world, world_with};
use crate::model::audit::By;
use crate::model::deployment::{Deployment, State as Life};
use crate::model::id::AppKey;
use crate::model::id::DeployId;
use crate::model::lock::{Lock, LockFilter, LockId};
use crate::model::violation::{Rejection, Violation};
use crate::pipeline::dry_run;
use crate::server::Limits;
use crate::server::auth::{Rights, Scope, Token, Tokens};
use crate::server::ports::{
    At, Ends, Fault, LockRequest, Locks, NotCancelled, NotLocked, NotPlanned, NotUnlocked, Plan,
    PlanRequest, Plans, Records as _,
};
use crate::store::Reply;
use crate::support::globs::Globs;

const ID: &str = "3f9a2c41";

fn of_request(request: &LockRequest, by: &By) -> Lock {
    let LockRequest { scope, reason, ends } = request.clone();
    let until = ends.map(|ends| match ends {
        Ends::At(at) => at,
        Ends::After(lasting) => now() + lasting,
    });
    Lock { scope, reason, by: by.name.clone(), since: now(), until }
}

impl Locks for Fake {
    async fn locks(&self, filter: &LockFilter) -> Result<Vec<(LockId, Lock)>, Fault> {
        self.trouble().await?;
        let inner = self.inner.lock().unwrap();
        let all = inner.locks.iter().filter(|lock| filter.takes(&lock.scope)).cloned();
        Ok(all.map(|lock| (LockId::parse(ID).unwrap(), lock)).collect())
    }

    async fn placed(&self, id: &LockId) -> Result<Option<Lock>, Fault> {
        self.trouble().await?;
        let inner = self.inner.lock().unwrap();
        Ok(inner.locks.first().filter(|_| id.as_str() == ID).cloned())
    }

    async fn lock(
        &self,
        request: LockRequest,
        by: By,
        _: &Reply<(LockId, Lock)>,
    ) -> Result<(LockId, Lock), NotLocked> {
        self.trouble().await?;
        let mut inner = self.inner.lock().unwrap();
        if inner.locks.len() > 9 {
            return Err(NotLocked::TooMany);
        }
        let lock = of_request(&request, &by);
        inner.locks.push(lock.clone());
        Ok((LockId::parse(ID).unwrap(), lock))
    }

    async fn unlock(
        &self,
        id: &LockId,
        reason: String,
        _: By,
        _: &Reply<(LockId, Lock)>,
    ) -> Result<Lock, NotUnlocked> {
        self.trouble().await?;
        let mut inner = self.inner.lock().unwrap();
        if reason == "too late" {
            return Err(NotUnlocked::Gone(format!("lock {id} has run out")));
        }
        Ok(inner.locks.remove(0))
    }

    async fn cancel(
        &self,
        id: &DeployId,
        reason: String,
        _: By,
        _: &Reply<Deployment>,
    ) -> Result<Deployment, NotCancelled> {
        let (found, _) = self.deployment(id).await?.expect("the handler has looked");
        if reason == "too late" {
            return Err(NotCancelled::TooLate(format!("deployment {id} has succeeded")));
        }
        Ok(Deployment { state: Life::Cancelled, summary: reason, ..found })
    }
}

impl Plans for Fake {
    async fn plan(
        &self,
        request: PlanRequest,
        seen: impl Fn(&AppKey) -> bool + Send + Sync,
    ) -> Result<Plan, NotPlanned> {
        self.trouble().await?;
        let app = super::visitors::app("pay/web");
        if request.waml.as_deref() == Some("pay/web") && !seen(&app) {
            return Err(NotPlanned::Hidden(app));
        }
        let why = || "said so".to_owned();
        match request.repository.as_str() {
            "acme/busy" => return Err(NotPlanned::Busy),
            "acme/missing" => return Err(NotPlanned::Missing(why())),
            "acme/unmeant" => return Err(NotPlanned::Unmeant(why())),
            "acme/down" => return Err(NotPlanned::Unavailable(why())),
            _ => {}
        }
        let violation = Violation::error("locks", format!("{:?} {:?}", request.at, request.waml));
        let run = dry_run::refused(Rejection::from(violation));
        let PlanRequest { target, tag, at, .. } = request;
        let commit = at.and_then(|at| match at {
            At::Commit(commit) => Some(commit),
            At::Ref(_) => None,
        });
        Ok(Plan { run, app: None, target, tag, commit, notes: vec!["so it is".to_owned()] })
    }
}

impl World {
    async fn said(&self, path: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    async fn lock(&self, scope: Value) -> Answer {
        self.said("/api/v1/locks", &json!({"scope": scope, "reason": "an  incident\n"})).await
    }
}

#[tokio::test]
async fn a_lock_is_placed_listed_and_taken_away() {
    let world = world();
    let app = json!({"target": "prod", "app": "devx/shop"});
    for scope in [
        app.clone(),
        json!({"everything": true}),
        json!({"target": "prod"}),
        json!({"owner": "a@b"}),
    ] {
        let placed = world.lock(scope.clone()).await;
        assert_eq!(placed.status, 201, "{placed:?}");
        let said = placed.json();
        assert_eq!((&said["scope"], &said["reason"]), (&scope, &json!("an incident")));
        assert_eq!((&said["id"], &said["until"]), (&json!(ID), &Value::Null));
        assert_eq!(
            (&said["by"], &said["since"]),
            (&json!("unknown, on this machine"), &json!(now()))
        );
    }
    let lasting = json!({"scope": {"everything": true}, "reason": "x", "for": "2h"});
    let lasting = world.said("/api/v1/locks", &lasting).await;
    assert_eq!(lasting.json()["until"], "2026-11-21T07:48:12Z");
    let list = world.get("/api/v1/locks?target=dev&app=devx/shop").await.json();
    let scopes: Vec<_> = list["locks"].as_array().unwrap().iter().map(|l| &l["scope"]).collect();
    let everything = json!({"everything": true});
    assert_eq!(scopes, [&everything, &json!({"owner": "a@b"}), &everything]);
    let away = format!("/api/v1/locks/{ID}/remove");
    let late = world.said(&away, &json!({"reason": "too late"})).await;
    assert_eq!(late.problem(409, "conflict"), format!("lock {ID} has run out"));
    let gone = world.said(&away, &json!({"reason": "it is over"})).await;
    assert_eq!((gone.status.as_u16(), &gone.json()["scope"]), (200, &app));
    let unknown = world.said("/api/v1/locks/00000000/remove", &json!({"reason": "x"})).await;
    assert!(unknown.problem(404, "not-found").contains("there is no lock 00000000"));
}

#[tokio::test]
async fn a_lock_that_cannot_be_meant_is_not_placed() {
    let world = world();
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
        world.lock(scope.clone()).await.problem(422, "unprocessable");
    }
    let everything = json!({"everything": true});
    for body in [
        json!({"scope": everything, "reason": " "}),
        json!({"scope": everything}),
        json!({"scope": everything, "reason": "x", "for": "two hours"}),
        json!({"scope": everything, "reason": "x", "until": "tomorrow"}),
        json!({"scope": everything, "reason": "x", "until": now(), "for": "2h"}),
        json!({"scope": everything, "reason": "x", "force": true}),
        json!({"scope": everything, "reason": "by ops\u{202e}x"}),
    ] {
        world.said("/api/v1/locks", &body).await.problem(422, "unprocessable");
    }
    for (key, wrong, says) in [
        ("for", "2 months", "for: write it like 90m, 2h or 2d"),
        ("until", "tomorrow", "until: write it like 2026-11-22"),
    ] {
        let body = json!({"scope": everything, "reason": "x", key: wrong});
        let said = world.said("/api/v1/locks", &body).await.problem(422, "unprocessable");
        assert!(said.starts_with(&format!("the JSON is wrong: {says}")), "{said}");
    }
    for query in ["targets=prod", "target=a&target=b", "app=shop", "owner="] {
        world.get(&format!("/api/v1/locks?{query}")).await.problem(400, "bad-request");
    }
    world
        .said("/api/v1/locks/nope/remove", &json!({"reason": "x"}))
        .await
        .problem(400, "bad-request");
    assert_eq!(world.fake.inner.lock().unwrap().locks, []);
    for _ in 0..10 {
        assert_eq!(world.lock(everything.clone()).await.status, 201);
    }
    let many = world.lock(everything).await.problem(409, "conflict");
    assert!(many.contains("take some away"), "{many}");
}

#[tokio::test]
async fn a_deployment_is_cancelled_or_it_is_said_why_not() {
    let world = world();
    let id = world.deliver("one", "prod").await.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/deployments/{id}/cancel");
    let late = world.said(&path, &json!({"reason": "too late"})).await;
    assert!(late.problem(409, "conflict").contains("has succeeded"));
    let done = world.said(&path, &json!({"reason": " the wrong\ntag "})).await;
    assert_eq!(done.status, 200, "{done:?}");
    let said = done.json();
    assert_eq!((&said["id"], &said["state"]), (&json!(id), &json!("cancelled")));
    assert_eq!(said["summary"], "the wrong tag");
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
        world.said(path, &body).await.problem(status, name);
    }
    world.get(&path).await.problem(405, "method-not-allowed");
}

#[tokio::test]
async fn a_plan_is_answered_or_it_is_said_why_not() {
    let world = world();
    let plan = async |repository: &str, more: &Value| {
        let mut body = json!({"repository": repository, "target": "prod", "tag": "1"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.said("/api/v1/plan", &body).await
    };
    let answer = plan("acme/shop", &json!({"commit": SHA, "waml": "a: b"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let said = answer.json();
    assert_eq!((&said["outcome"], &said["target"]), (&json!("refused"), &json!("prod")));
    assert_eq!((&said["tag"], &said["commit"]), (&json!("1"), &json!(SHA)));
    assert_eq!(said["violations"][0]["rule"], "locks");
    assert_eq!((&said["changes"], &said["notes"]), (&json!([]), &json!(["so it is"])));
    for (repository, status, name) in [
        ("acme/busy", 503, "overloaded"),
        ("acme/missing", 404, "not-found"),
        ("acme/unmeant", 422, "unprocessable"),
        ("acme/down", 503, "unavailable"),
    ] {
        let answer = plan(repository, &json!({"ref": "main"})).await;
        answer.problem(status, name);
        assert_eq!(answer.headers.contains_key("retry-after"), status == 503);
    }
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
        plan("acme/shop", &more).await.problem(422, "unprocessable");
    }
    world.get("/api/v1/plan").await.problem(405, "method-not-allowed");
}

#[tokio::test]
async fn nobody_acts_without_a_token_where_there_are_some() {
    let world = world_with(Limits::default(), Tokens(vec![Token::of_text("ci", "one")]));
    world.lock(json!({"everything": true})).await.problem(401, "unauthorized");
    world.get("/api/v1/locks").await.problem(401, "unauthorized");
    world.said("/api/v1/plan", &json!({})).await.problem(401, "unauthorized");
    let cancel = "/api/v1/deployments/20261121-054812000-3f9a2c/cancel";
    world.said(cancel, &json!({"reason": "x"})).await.problem(401, "unauthorized");
    assert_eq!(world.fake.inner.lock().unwrap().locks, []);
}

/// A token that is named as it reads.
fn limited(name: &str, scope: Scope, target: &str, app: &str) -> Token {
    let globs = |text: &str| Globs::parse([text]).unwrap();
    let rights = Rights { scope, targets: globs(target), apps: globs(app) };
    Token { rights: rights.into(), ..Token::of_text(name, name) }
}

impl World {
    async fn said_as(&self, token: &str, path: &str, body: &Value) -> Answer {
        let request = if body.is_null() { Request::get(path) } else { Request::post(path) };
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }
}

#[tokio::test]
async fn who_may_deploy_what_a_lock_stops_may_place_it_and_take_it_away() {
    let tokens = vec![
        limited("reader", Scope::Read, "*", "*"),
        limited("shop", Scope::Deploy, "prod", "devx/shop"),
        limited("deployer", Scope::Deploy, "*", "*"),
        limited("keeper", Scope::Admin, "prod", "*"),
        limited("operator", Scope::Admin, "*", "*"),
    ];
    let world = world_with(Limits::default(), Tokens(tokens));
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
            world.fake.inner.lock().unwrap().locks.clear();
            let ask = json!({"scope": scope, "reason": "x"});
            let placed = world.said_as(token, "/api/v1/locks", &ask).await;
            let allowed = may.contains(&token);
            if allowed {
                assert_eq!(placed.status, 201, "{token} {scope}: {placed:?}");
            } else {
                placed.problem(403, "forbidden");
                assert!(world.fake.inner.lock().unwrap().locks.is_empty());
                let ask = json!({"scope": scope, "reason": "x"});
                world.said_as("operator", "/api/v1/locks", &ask).await;
            }
            let away = format!("/api/v1/locks/{ID}/remove");
            let away = world.said_as(token, &away, &json!({"reason": "x"})).await;
            assert_eq!(away.status == 200, allowed, "{token} {scope}: {away:?}");
        }
    }
}

#[tokio::test]
async fn a_lock_on_an_app_is_seen_by_who_may_see_the_app_and_others_by_all() {
    let tokens = vec![
        limited("shop", Scope::Read, "prod", "devx/shop"),
        limited("operator", Scope::Admin, "*", "*"),
    ];
    let world = world_with(Limits::default(), Tokens(tokens));
    let scopes = [
        json!({"target": "prod", "app": "devx/api"}),
        json!({"target": "prod", "app": "devx/shop"}),
        json!({"target": "dev"}),
        json!({"owner": "a@b"}),
        json!({"everything": true}),
    ];
    for scope in &scopes {
        let ask = json!({"scope": scope, "reason": "x"});
        assert_eq!(world.said_as("operator", "/api/v1/locks", &ask).await.status, 201);
    }
    for (token, hidden) in [("operator", 0), ("shop", 1)] {
        let list = world.said_as(token, "/api/v1/locks", &Value::Null).await.json();
        let mut seen: Vec<_> = list["locks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lock| lock["scope"].to_string())
            .collect();
        let mut right: Vec<_> = scopes[hidden..].iter().map(Value::to_string).collect();
        seen.sort();
        right.sort();
        assert_eq!(seen, right, "{token}");
    }
}
