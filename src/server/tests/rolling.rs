//! POST /api/v1/apps/…/rollback, …/hold, …/release; GET /api/v1/holds

use axum::http::Request;
use serde_json::{Value, json};

use super::world::{Answer, Fake, World, now, world};
use crate::model::audit::By;
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::{Hold, RollbackRequest};
use crate::server::ports::{Fault, NotRolledBack, Rollbacks, RolledBack, Version};
use crate::store::Reply;

impl Rollbacks for Fake {
    async fn roll_back(
        &self,
        request: RollbackRequest,
        by: By,
        _: &Reply<RolledBack>,
    ) -> Result<RolledBack, NotRolledBack> {
        self.trouble().await?;
        let mut inner = self.inner.lock().unwrap();
        inner.rollbacks.push((request.clone(), by));
        if let Some(refusal) = inner.not_rolled_back.take() {
            return Err(refusal);
        }
        let to = request.to.unwrap_or_else(|| id("000001"));
        let version = |id| Version { id, release: None, by: None };
        let (from, to) = (Some(version(id("000002"))), version(to));
        Ok(RolledBack {
            deployment: None,
            from,
            to,
            warning: None,
            notes: vec![],
            hold: true,
            changes: None,
        })
    }

    async fn hold(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: By,
        _: &Reply<Hold>,
    ) -> Result<Hold, NotRolledBack> {
        self.trouble().await?;
        let hold = Hold {
            target,
            app,
            by: by.name,
            reason,
            since: now(),
            rollback: None,
            away: None,
            to: None,
        };
        self.inner.lock().unwrap().holds.push(hold.clone());
        Ok(hold)
    }

    async fn release(
        &self,
        _: TargetName,
        _: AppKey,
        _: String,
        _: By,
        _: &Reply<Hold>,
    ) -> Result<Option<Hold>, NotRolledBack> {
        self.trouble().await?;
        Ok(self.inner.lock().unwrap().holds.pop())
    }

    async fn holds(&self, target: Option<&TargetName>) -> Result<Vec<Hold>, Fault> {
        self.trouble().await?;
        let mut holds = self.inner.lock().unwrap().holds.clone();
        holds.retain(|hold| target.is_none_or(|target| hold.target == *target));
        Ok(holds)
    }
}

fn id(random: &str) -> DeployId {
    DeployId::parse(format!("20261121-054812000-{random}")).unwrap()
}

impl World {
    async fn act(&self, what: &str, body: &Value) -> Answer {
        let path = format!("/api/v1/apps/prod/devx/my-app/{what}");
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(body.to_string().into()).unwrap()).await
    }
}

#[tokio::test]
async fn a_rollback_is_asked_for_with_who_and_why() {
    let world = world();
    let answer = world.act("rollback", &json!({"reason": " checkout\nfails "})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let ask = json!({"reason": "x", "dry_run": true, "with_data": true, "to": id("000001")});
    assert_eq!(world.act("rollback", &ask).await.status, 200);
    let asked = world.fake.inner.lock().unwrap().rollbacks.clone();
    assert_eq!((asked[0].0.reason.as_str(), &asked[0].0.to), ("checkout fails", &None));
    assert_eq!(asked[0].1.name, "unknown, on this machine");
    assert_eq!((asked[1].0.dry_run, &asked[1].0.to), (true, &Some(id("000001"))));
    assert_eq!((asked[0].0.with_data, asked[1].0.with_data), (false, true));
}

#[tokio::test]
async fn each_refusal_has_its_kind() {
    let world = world();
    let data = LiveObject {
        api_version: "v1".into(),
        kind: "PersistentVolumeClaim".into(),
        name: "data".into(),
    };
    for (why, status, name) in [
        (NotRolledBack::Unknown("x".into()), 404, "not-found"),
        (NotRolledBack::Against("x".into()), 409, "conflict"),
        (NotRolledBack::KeepsData(vec![data]), 409, "would-lose-data"),
        (NotRolledBack::NotMeant("x".into()), 422, "unprocessable"),
        (NotRolledBack::Repository("x".into()), 503, "unavailable"),
        (Fault::new("disk full").into(), 503, "unavailable"),
    ] {
        world.fake.inner.lock().unwrap().not_rolled_back = Some(why);
        let said = world.act("rollback", &json!({"reason": "x"})).await.problem(status, name);
        assert!(!said.contains("disk"), "{said}");
    }
}

#[tokio::test]
async fn what_cannot_be_meant_is_not_asked_of_anybody() {
    let world = world();
    for (body, status, name) in [
        (json!({"reason": ""}), 422, "unprocessable"),
        (json!({}), 422, "unprocessable"),
        (json!({"reason": "x", "too": "y"}), 422, "unprocessable"),
        (json!({"reason": "x", "to": "latest"}), 400, "bad-request"),
        (json!({"reason": "x".repeat(501)}), 422, "unprocessable"),
        (json!({"reason": "by ops\u{202e}x"}), 422, "unprocessable"),
    ] {
        world.act("rollback", &body).await.problem(status, name);
    }
    assert!(world.fake.inner.lock().unwrap().rollbacks.is_empty());
}

#[tokio::test]
async fn a_hold_is_placed_listed_and_released_once() {
    let world = world();
    let held = world.act("hold", &json!({"reason": "we watch it"})).await.json();
    assert_eq!(held["hold"]["app"], "devx/my-app");
    let listed = world.get("/api/v1/holds?target=prod").await.json();
    assert_eq!(listed["holds"][0]["reason"], "we watch it");
    assert_eq!(world.get("/api/v1/holds?target=dev").await.json(), json!({"holds": []}));
    world.get("/api/v1/holds?app=x").await.problem(400, "bad-request");
    assert_eq!(world.act("release", &json!({"reason": "x"})).await.status, 200);
    world.act("release", &json!({"reason": "x"})).await.problem(404, "not-found");
}
