//! POST /api/v1/apps/…/remove

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::world::{Answer, Fake, World, now, world, world_with};
use crate::model::audit::Via;
use crate::model::facts::LiveObject;
use crate::model::id::{CommitSha, DeployId};
use crate::model::removal::{Ended, Removal, RemovalRequest, Taken};
use crate::server::Limits;
use crate::server::auth::{Token, Tokens};
use crate::server::ports::{Acts, Fault, Gone, NotRemoved, Outcome};
use crate::store::Reply;

impl Acts for Fake {
    async fn remove(&self, request: RemovalRequest, _: Reply<Gone>) -> Result<Gone, NotRemoved> {
        self.trouble().await?;
        self.held().await;
        let mut inner = self.inner.lock().unwrap();
        inner.removals.push(request.clone());
        match inner.not_removed.take() {
            Some(refusal) => Err(refusal),
            None => Ok(gone(request)),
        }
    }
}

fn gone(request: RemovalRequest) -> Gone {
    let RemovalRequest { target, app, by, reason, with_data: _, dry_run } = request;
    let actor = by.name;
    let ended = Ended {
        at: now(),
        commit: Some(CommitSha::parse("ab".repeat(20)).unwrap()),
        summary: "gone".to_owned(),
    };
    let removal = Removal {
        id: DeployId::parse("20261121-054812000-3f9a2c").unwrap(),
        target,
        app,
        actor,
        reason,
        taken: Taken { files: vec!["apps/prod/devx.my-app.yaml".to_owned()], ..Taken::default() },
        asked_at: now(),
        ended: (!dry_run).then_some(ended),
    };
    Gone { removal, outcome: if dry_run { Outcome::Would } else { Outcome::Now } }
}

const PATH: &str = "/api/v1/apps/prod/devx/my-app/remove";

impl World {
    async fn post(&self, path: &str, content_type: &str, body: impl Into<Body>) -> Answer {
        let request = Request::post(path).header("content-type", content_type);
        self.send(request.body(body.into()).unwrap()).await
    }

    async fn ask(&self, body: &Value) -> Answer {
        self.post(PATH, "application/json", body.to_string()).await
    }

    async fn refuse(&self, why: NotRemoved) -> Answer {
        self.fake.inner.lock().unwrap().not_removed = Some(why);
        self.ask(&json!({"reason": "not used"})).await
    }
}

#[tokio::test]
async fn an_app_is_removed_in_the_name_of_the_tokens_owner() {
    let world = world_with(
        Limits::default(),
        Tokens(vec![Token::of_text("ci", "one"), Token::of_text("alice", "two")]),
    );
    let request = Request::post(PATH)
        .header("content-type", "application/json")
        .header("authorization", "Bearer two")
        .body(Body::from(r#"{"reason": " moved\nto another "}"#));
    let answer = world.send(request.unwrap()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let said = answer.json();
    assert_eq!((&said["outcome"], &said["actor"]), (&json!("removed"), &json!("alice")));
    assert_eq!((&said["app"], &said["target"]), (&json!("devx/my-app"), &json!("prod")));
    assert_eq!(said["commit"], "ab".repeat(20));
    assert_eq!(said["files"], json!(["apps/prod/devx.my-app.yaml"]));
    let asked = world.fake.inner.lock().unwrap().removals[0].clone();
    assert_eq!((asked.by.name.as_str(), asked.reason.as_str()), ("alice", "moved to another"));
    assert!(!asked.with_data && !asked.dry_run);
    assert_eq!((asked.by.via, asked.by.request.as_deref()), (Via::Token, Some("test-0")));
    let nobody = world.ask(&json!({"reason": "x"})).await;
    nobody.problem(401, "unauthorized");
    assert_eq!(world.fake.inner.lock().unwrap().removals.len(), 1);
}

#[tokio::test]
async fn a_dry_run_has_no_id_and_no_commit() {
    let answer = world().ask(&json!({"reason": "x", "dry_run": true, "with_data": true})).await;
    let said = answer.json();
    assert_eq!(said["outcome"], "would-remove");
    assert_eq!((&said["id"], &said["commit"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn every_refusal_has_its_kind_and_says_what_to_do() {
    let world = world();
    world.refuse(NotRemoved::Unknown("none".into())).await.problem(404, "not-found");
    world.refuse(NotRemoved::Busy("busy".into())).await.problem(409, "conflict");
    world.refuse(NotRemoved::Changed("changed".into())).await.problem(409, "conflict");
    let object = |n: usize| LiveObject {
        api_version: "v1".into(),
        kind: "PersistentVolumeClaim".into(),
        name: format!("data-{n}"),
    };
    let data = world.refuse(NotRemoved::KeepsData((0..25).map(object).collect())).await;
    let said = data.problem(409, "would-lose-data");
    assert!(said.contains("PersistentVolumeClaim data-0, ") && said.contains("5 more"), "{said}");
    assert!(said.contains("with_data"), "{said}");
    let foreign = world.refuse(NotRemoved::Foreign(vec!["manifests/x/OWNERS".into()])).await;
    assert!(foreign.problem(409, "conflict").contains("manifests/x/OWNERS"));
    let protected = world.refuse(NotRemoved::Repository("the branch is protected".into())).await;
    assert_eq!(protected.problem(503, "unavailable"), "the branch is protected");
    let fault = world.refuse(Fault::new("disk full").into()).await;
    assert!(!fault.problem(503, "unavailable").contains("disk"));
}

#[tokio::test]
async fn what_cannot_be_meant_is_not_asked_of_anybody() {
    let world = world();
    for (body, status, name) in [
        (r#"{"reason": ""}"#, 422, "unprocessable"),
        (r#"{"reason": " \n "}"#, 422, "unprocessable"),
        (r#"{"with_data": true}"#, 422, "unprocessable"),
        (r#"{"reason": 1}"#, 422, "unprocessable"),
        (r#"{"reason": "x", "force": true}"#, 422, "unprocessable"),
        ("{", 400, "bad-request"),
        ("", 400, "bad-request"),
    ] {
        world.post(PATH, "application/json", body).await.problem(status, name);
    }
    let long = json!({"reason": "é".repeat(501)});
    world.ask(&long).await.problem(422, "unprocessable");
    let huge = "x".repeat(3 * 1024 * 1024);
    world.ask(&json!({"reason": huge})).await.problem(413, "too-large");
    let good = r#"{"reason": "x"}"#;
    for content_type in ["text/plain", "application/x-www-form-urlencoded"] {
        let answer = world.post(PATH, content_type, good).await;
        answer.problem(415, "unsupported-media-type");
    }
    for path in ["/api/v1/apps/..%2Fx/devx/my-app/remove", "/api/v1/apps/prod/De/my-app/remove"] {
        world.post(path, "application/json", good).await.problem(400, "bad-request");
    }
    world.get(PATH).await.problem(405, "method-not-allowed");
    assert!(world.fake.inner.lock().unwrap().removals.is_empty());
}
