//! `bart` in a repository with several apps, against the real service.

use serde_json::json;

use super::place_with;
use crate::harness::developer::Developer;
use crate::harness::events::waml;
use crate::harness::process::{Home, Process};

const TARGET: &str = "prod-cluster-1";

/// A repository with `.weave.yaml`, and the apps `web` and `worker` beside it.
async fn place() -> (Home, Process, Developer) {
    let (home, process, developer) = place_with(Home::embedded(), &waml("shop")).await;
    std::fs::create_dir(developer.work().join(".weave")).unwrap();
    for app in ["web", "worker"] {
        std::fs::write(developer.work().join(format!(".weave/{app}.yaml")), waml(app)).unwrap();
    }
    developer.commits(&waml("shop"));
    developer.pushes();
    (home, process, developer)
}

async fn live(process: &Process, app: &str) -> serde_json::Value {
    process.json(&format!("/api/v1/apps/{TARGET}/devx/{app}")).await["live"]["tag"].clone()
}

#[tokio::test]
async fn one_app_is_deployed_by_its_name_and_all_without_one() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let said = developer.runs(&server, &["deploy", "1.0", TARGET, "--app", "worker"]).await;
    said.ended(0, &["succeeded"]);
    assert_eq!(live(&process, "worker").await, "1.0");
    let said = developer.runs(&server, &["deploy", "1.1", TARGET]).await;
    said.ended(0, &["all 3 apps are deployed", "worker: succeeded", "3 of 3 apps done"]);
    for app in ["shop", "web", "worker"] {
        assert_eq!(live(&process, app).await, "1.1", "{app}");
    }
    let said = developer.runs(&server, &["deploy", "1.2", TARGET, "--app", "wokrer"]).await;
    said.ended(2, &["has no app `wokrer`", "did you mean `worker`?"]);
    // The apps of the record, and the record of an app.
    let list = process.json("/api/v1/deployments?limit=10").await;
    let all = list["deployments"].as_array().unwrap().iter().find(|one| one["all_apps"] == true);
    let id = all.unwrap()["id"].as_str().unwrap().to_owned();
    developer.runs(&server, &["status", &id]).await.ended(0, &["apps", ".weave.yaml", "worker"]);
}

#[tokio::test]
async fn plans_promotions_and_the_state_are_of_one_app() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["deploy", "1.0", TARGET]).await.ended(0, &[]);
    let plan = ["plan", "1.1", TARGET, "--output", "json"];
    developer.runs(&server, &plan).await.ended(2, &["name one: `.weave.yaml`, `web` and `worker`"]);
    let said = developer.runs(&server, &[&plan[..], &["--app", "web"]].concat()).await;
    let planned = &said.ended(0, &[]).json()["plans"][0];
    assert_eq!((&planned["app"], &planned["outcome"]), (&json!("devx/web"), &json!("changes")));
    let remote = [&plan[..], &["--app", "worker", "--ref", "main"]].concat();
    let said = developer.runs(&server, &remote).await;
    assert_eq!(said.ended(0, &[]).json()["plans"][0]["app"], "devx/worker");
    developer.runs(&server, &["status", "--app", "worker"]).await.ended(0, &["devx/worker"]);
    let shell = [("BART_SERVER", process.address()), ("BART_COMPLETE", "fish")];
    let said = developer.runs(&shell, &["--", "bart", "deploy", "--app", ""]).await;
    said.ended(0, &["worker\tdevx/worker", "web\tdevx/web"]);
    let start = ["rollout", "start", "1.2", "--targets", TARGET, "--app", "worker"];
    developer.runs(&server, &start).await.ended(0, &["done, 1 of 1"]);
    assert_eq!(
        (live(&process, "worker").await, live(&process, "web").await),
        (json!("1.2"), json!("1.0"))
    );
    let back = ["rollback", TARGET, "--app", "worker", "--reason", "slow"];
    developer.runs(&server, &back).await.ended(0, &[]);
    assert_eq!(
        (live(&process, "worker").await, live(&process, "web").await),
        (json!("1.0"), json!("1.0"))
    );
}
