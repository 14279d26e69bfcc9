//! POST /api/v1/apps/…/remove

use reqwest::Method;
use serde_json::{Value, json};
use the_deployer::model::audit::AuthMethod;

use super::shop::{FOLDER, TARGET, ask_as, asks, audited, deploys, recovers, tokens};
use super::world::{Answer, get, post, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::process::Held;

const REMOVE: &str = "/api/v1/apps/prod-cluster-1/devx/shop/remove";

async fn ask(deployer: &Deployer, body: &Value) -> Answer {
    post(deployer, REMOVE, body).await
}

/// A request that somebody sends as they like.
async fn ask_raw(deployer: &Deployer, path: &str, content_type: &str, body: &str) -> Answer {
    let request = request(deployer, Method::POST, path).header("content-type", content_type);
    send(request.body(body.to_owned())).await
}

fn of_shop(deployer: &Deployer) -> Vec<String> {
    deployer.manifests().files().into_keys().filter(|path| path.contains("shop")).collect()
}

#[tokio::test]
async fn an_app_is_removed_in_the_name_of_the_tokens_owner() {
    let mut deployer = Deployer::prepared().await;
    tokens(&mut deployer, &[("ci", "scope: deploy"), ("alice", "scope: deploy")]);
    deployer.starts().await;
    deploys(&deployer, "v1").await;
    let files = of_shop(&deployer);
    ask(&deployer, &json!({"reason": "x"})).await.problem(401, "unauthorized");
    assert_eq!((of_shop(&deployer), audited(&deployer).await), (files.clone(), vec![]));
    let why = json!({"reason": " moved\nto another "});
    let answer = ask_as(&deployer, "alice", REMOVE, &why).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let said = answer.json();
    assert_eq!((&said["outcome"], &said["actor"]), (&json!("removed"), &json!("alice")));
    assert_eq!((&said["app"], &said["target"]), (&json!("devx/shop"), &json!(TARGET)));
    assert_eq!(said["commit"], deployer.manifests().tip());
    assert_eq!(said["files"], json!(files));
    assert_eq!(of_shop(&deployer), Vec::<String>::new());
    let [entry] = &audited(&deployer).await[..] else { panic!("one act") };
    assert_eq!((&*entry.act, entry.reason.as_str()), ("remove", "moved to another"));
    assert_eq!((entry.by.name.as_str(), entry.by.via), ("alice", AuthMethod::Token));
    let request = answer.headers["x-request-id"].to_str().unwrap();
    assert_eq!(entry.by.request.as_deref(), Some(request));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_dry_run_has_no_id_and_no_commit() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    let files = of_shop(&deployer);
    let said = ask(&deployer, &json!({"reason": "x", "dry_run": true, "with_data": true})).await;
    let said = said.json();
    assert_eq!(said["outcome"], "would-remove");
    assert_eq!((&said["id"], &said["commit"]), (&Value::Null, &Value::Null));
    assert_eq!(said["files"], json!(files), "what it would take");
    assert_eq!((of_shop(&deployer), audited(&deployer).await), (files, vec![]));
    deployer.settled().await;
}

#[tokio::test]
async fn every_refusal_has_its_kind_and_says_what_to_do() {
    let deployer = Deployer::start().await;
    let reason = json!({"reason": "not used"});
    let unknown = ask(&deployer, &reason).await.problem(404, "not-found");
    assert_eq!(unknown, "there is no devx/shop on prod-cluster-1");
    deploys(&deployer, "v1").await;
    asks(&deployer, "v2").await;
    let busy = ask(&deployer, &reason).await.problem(409, "conflict");
    assert!(busy.contains("ask again when it has ended"), "{busy}");
    deployer.settle().await;
    let bare = deployer.manifests();
    let claim = |n: usize| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data-{n:02}}}\n---\n"
        )
    };
    let claims: String = (0..25).map(claim).collect();
    bare.somebody_writes(&format!("{FOLDER}/latest/claims.yaml"), &claims);
    let data = ask(&deployer, &reason).await.problem(409, "would-lose-data");
    assert!(data.contains("PersistentVolumeClaim data-00, ") && data.contains("5 more"), "{data}");
    assert!(!data.contains("data-20") && data.contains("with_data"), "{data}");
    bare.somebody_writes(&format!("{FOLDER}/OWNERS"), "theirs");
    let with_data = json!({"reason": "not used", "with_data": true});
    let foreign = ask(&deployer, &with_data).await.problem(409, "conflict");
    assert!(foreign.contains(&format!("{FOLDER}/OWNERS")), "{foreign}");
    deployer.stepped().store().close().await;
    let fault = ask(&deployer, &with_data).await.problem(503, "unavailable");
    assert_eq!(fault, "the app cannot be removed now; try again later");
    recovers(deployer).await;
}

#[tokio::test]
async fn what_the_repository_refuses_and_what_moves_meanwhile_is_not_removed() {
    let mut deployer = Deployer::prepared().await;
    deployer.pushes_to_host().await;
    deployer.starts().await;
    deploys(&deployer, "v1").await;
    let bare = deployer.manifests();
    let reason = json!({"reason": "not used"});
    bare.hook("pre-receive", "echo 'error: GH006: Protected branch update failed.' >&2; exit 1");
    let protected = ask(&deployer, &reason).await.problem(503, "unavailable");
    assert!(protected.contains("GH006: Protected branch"), "{protected}");
    let held = Held::first_push(&bare, "pre-receive");
    let removing = request(&deployer, Method::POST, REMOVE).json(&reason);
    let removing = tokio::spawn(send(removing));
    held.reached().await;
    bare.somebody_writes(&format!("{FOLDER}/latest/theirs.yaml"), "kind: A\n");
    held.let_go();
    let moved = removing.await.unwrap().problem(409, "conflict");
    assert!(moved.contains(FOLDER), "{moved}");
    assert!(bare.files().contains_key(&format!("{FOLDER}/latest/theirs.yaml")));
    assert_eq!(bare.commits(), 2, "the deployment, and theirs");
    let removed = ask(&deployer, &reason).await.json();
    assert_eq!(removed["outcome"], "removed", "{removed}");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn what_cannot_be_meant_is_not_asked_of_anybody() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    for (body, status, name) in [
        (r#"{"reason": ""}"#, 422, "unprocessable"),
        (r#"{"reason": " \n "}"#, 422, "unprocessable"),
        (r#"{"with_data": true}"#, 422, "unprocessable"),
        (r#"{"reason": 1}"#, 422, "unprocessable"),
        (r#"{"reason": "x", "force": true}"#, 422, "unprocessable"),
        ("{", 400, "bad-request"),
        ("", 400, "bad-request"),
    ] {
        ask_raw(&deployer, REMOVE, "application/json", body).await.problem(status, name);
    }
    let long = json!({"reason": "é".repeat(501)});
    ask(&deployer, &long).await.problem(422, "unprocessable");
    let huge = "x".repeat(3 * 1024 * 1024);
    ask(&deployer, &json!({"reason": huge})).await.problem(413, "too-large");
    let good = r#"{"reason": "x"}"#;
    for content_type in ["text/plain", "application/x-www-form-urlencoded"] {
        let answer = ask_raw(&deployer, REMOVE, content_type, good).await;
        answer.problem(415, "unsupported-media-type");
    }
    for path in ["/api/v1/apps/..%2Fx/devx/shop/remove", "/api/v1/apps/prod/De/shop/remove"] {
        ask_raw(&deployer, path, "application/json", good).await.problem(400, "bad-request");
    }
    get(&deployer, REMOVE).await.problem(405, "method-not-allowed");
    assert_eq!((deployer.manifests().commits(), audited(&deployer).await), (1, vec![]));
    deployer.settled().await;
}
