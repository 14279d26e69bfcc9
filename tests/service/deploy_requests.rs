//! Deployments and plans that callers ask of the service itself, end to end.

use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::harness::events::{Event, waml};
use crate::harness::process::{Home, Process};

async fn ask(process: &Process, path: &str, body: Json) -> (u16, Json) {
    let request = process.request(Method::POST, &format!("/api/v1{path}"));
    let answer = request.json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn a_deployment_that_is_asked_for_here_is_in_the_audit_log() {
    let home = Home::embedded();
    let commit = home.commit("example/shop", &waml("shop"));
    let process = home.start().await;
    let wanted = json!({
        "repository": "example/shop", "ref": "main", "tag": "v1", "target": "prod-cluster-1",
        "description": "the first",
    });
    let (status, asked) = ask(&process, "/deployments", wanted).await;
    assert_eq!(status, 202, "{asked}");
    let id = asked["id"].as_str().unwrap();
    assert_eq!(process.ended(id).await["state"], "succeeded", "{}", process.log());
    Event::of_app(&home, 2, "shop").accepted(&process).await;
    let log = process.json("/api/v1/audit?act=deploy").await;
    let entries = log["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "an event is no act: {log}");
    let entry = &entries[0];
    let what = format!("deployment {id} of example/shop:v1 at {} (main)", &commit[..8]);
    assert_eq!((&entry["subject"], &entry["app"]), (&json!(what), &json!("devx/shop")));
    let of_app = process.json("/api/v1/audit?app=devx/shop&act=deploy").await;
    assert_eq!(of_app["entries"], log["entries"]);
    let of_other = process.json("/api/v1/audit?app=devx/cart&act=deploy").await;
    assert_eq!(of_other["entries"], json!([]));
    assert_eq!(
        (&entry["target"], &entry["reason"]),
        (&json!("prod-cluster-1"), &json!("the first"))
    );
    assert_eq!((&entry["via"], &entry["from"]), (&json!("loopback"), &json!("127.0.0.1")));
}

#[tokio::test]
async fn what_is_live_and_nobodys_is_shown_to_nobody() {
    let home = Home::embedded();
    home.commit("example/shop", &waml("shop"));
    let process = home.start().await;
    let plan = json!({
        "repository": "example/shop", "ref": "main", "tag": "v1", "target": "prod-cluster-1",
    });
    let (status, free) = ask(&process, "/plan", plan.clone()).await;
    assert_eq!((status, &free["outcome"]), (200, &json!("changes")), "{free}");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: by-hand}\ndata: {a: private}\n";
    let file = "manifests/prod-cluster-1/devx/shop/latest/config.yaml";
    home.manifests().somebody_writes(file, text);
    let (status, refused) = ask(&process, "/plan", plan).await;
    assert_eq!(status, 503, "{refused}");
    let said = refused["detail"].as_str().unwrap();
    assert!(
        said.contains("the owner of this app") && !refused.to_string().contains("private"),
        "{said}"
    );
}
