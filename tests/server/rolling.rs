//! POST /api/v1/apps/…/rollback, …/hold, …/release; GET /api/v1/holds

use serde_json::{Value, json};

use super::shop::{SHOP, TARGET, deploys, deploys_with, recovers};
use super::world::{Answer, get, post};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

async fn act(deployer: &Deployer, what: &str, body: &Value) -> Answer {
    post(deployer, &format!("{SHOP}/{what}"), body).await
}

#[tokio::test]
async fn a_rollback_is_asked_for_with_who_and_why() {
    let deployer = Deployer::start().await;
    let (first, second) = (deploys(&deployer, "v1").await, deploys(&deployer, "v2").await);
    let ask = json!({"reason": "x", "dry_run": true, "with_data": true, "to": first});
    let would = act(&deployer, "rollback", &ask).await;
    assert_eq!(would.status, 200, "{would:?}");
    assert_eq!(
        (&would.json()["to"]["id"], &would.json()["deployment"]),
        (&json!(first), &Value::Null)
    );
    assert_eq!(deployer.deployments().await.len(), 2, "nothing was asked for");
    let answer = act(&deployer, "rollback", &json!({"reason": " checkout\nfails "})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let asked = deployer.deployments().await.pop().unwrap();
    assert_eq!(answer.json()["deployment"]["id"], asked.id.as_str());
    let back = asked.rollback.unwrap();
    assert_eq!((back.reason.as_str(), back.to.as_str()), ("checkout fails", first.as_str()));
    assert_eq!((asked.request.actor.as_str(), back.with_data), ("unknown, on this machine", false));
    deployer.settle().await;
    deployer.clock.advance(std::time::Duration::from_secs(1));
    let ask = json!({"reason": "x", "with_data": true, "to": second});
    assert_eq!(act(&deployer, "rollback", &ask).await.status, 202);
    let forward = deployer.deployments().await.pop().unwrap().rollback.unwrap();
    assert_eq!((forward.to.as_str(), forward.with_data), (second.as_str(), true));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn each_refusal_has_its_kind() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    let disk = "volumes: [{name: data, mountPath: /data, size: 1Gi, accessMode: ReadWriteMany}]";
    let with_disk =
        waml("shop").replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {disk}\n"));
    let live = deploys_with(&deployer, "v2", &with_disk).await;
    let failed = deploys_with(&deployer, "v3", "schema: \"2\"\nnonsense: true\n").await;
    let reason = json!({"reason": "x"});
    for (ask, status, name, says) in [
        (&json!({"reason": "x", "to": live}), 409, "conflict", "is live on prod-cluster-1 already"),
        (&reason, 409, "would-lose-data", "PersistentVolumeClaim shop.data"),
        (&json!({"reason": "x", "to": failed}), 422, "unprocessable", "not of devx/shop"),
    ] {
        let said = act(&deployer, "rollback", ask).await.problem(status, name);
        assert!(said.contains(says), "{said}");
    }
    let none = format!("/api/v1/apps/{TARGET}/devx/none/rollback");
    let none = post(&deployer, &none, &reason).await.problem(404, "not-found");
    assert_eq!(none, "there is no devx/none on prod-cluster-1");
    let bare = deployer.manifests().0;
    let away = bare.with_extension("away");
    std::fs::rename(&bare, &away).unwrap();
    let gone = act(&deployer, "rollback", &reason).await.problem(503, "unavailable");
    std::fs::rename(&away, &bare).unwrap();
    assert!(gone.contains("manifests.git"), "{gone}");
    assert_eq!(deployer.deployments().await.len(), 3);
    deployer.stepped().store().close().await;
    let said = act(&deployer, "rollback", &reason).await.problem(503, "unavailable");
    assert_eq!(said, "this cannot be recorded now; nothing was done, try again later");
    recovers(deployer).await;
}

#[tokio::test]
async fn what_cannot_be_meant_is_not_asked_of_anybody() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    deploys(&deployer, "v2").await;
    for (body, status, name) in [
        (json!({"reason": ""}), 422, "unprocessable"),
        (json!({}), 422, "unprocessable"),
        (json!({"reason": "x", "too": "y"}), 422, "unprocessable"),
        (json!({"reason": "x", "to": "latest"}), 400, "bad-request"),
        (json!({"reason": "x".repeat(501)}), 422, "unprocessable"),
        (json!({"reason": "by ops\u{202e}x"}), 422, "unprocessable"),
    ] {
        act(&deployer, "rollback", &body).await.problem(status, name);
    }
    assert_eq!(deployer.deployments().await.len(), 2);
    deployer.settled().await;
}

#[tokio::test]
async fn a_hold_is_placed_listed_and_released_once() {
    let deployer = Deployer::start().await;
    let never = act(&deployer, "hold", &json!({"reason": "we watch it"})).await;
    assert_eq!(never.problem(404, "not-found"), "devx/shop was never deployed to prod-cluster-1");
    deploys(&deployer, "v1").await;
    let held = act(&deployer, "hold", &json!({"reason": "we watch it"})).await.json();
    assert_eq!(held["hold"]["app"], "devx/shop");
    let listed = get(&deployer, &format!("/api/v1/holds?target={TARGET}")).await.json();
    assert_eq!(listed, json!({"holds": [held["hold"]]}));
    assert_eq!(listed["holds"][0]["reason"], "we watch it");
    assert_eq!(get(&deployer, "/api/v1/holds?target=dev").await.json(), json!({"holds": []}));
    get(&deployer, "/api/v1/holds?app=x").await.problem(400, "bad-request");
    let released = act(&deployer, "release", &json!({"reason": "x"})).await;
    assert_eq!((released.status.as_u16(), released.json()), (200, held));
    let again = act(&deployer, "release", &json!({"reason": "x"})).await;
    assert_eq!(again.problem(404, "not-found"), "devx/shop is not held on prod-cluster-1");
    deployer.settled().await;
}
