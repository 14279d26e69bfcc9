//! One app and its revisions, a deployment's changes, log and events: the whole service over HTTP.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value as Json, json};

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::events::waml;
use crate::harness::git_host::{GitHost, TOKEN};

const TARGET: &str = "prod-cluster-1";
const APP: &str = "/apps/prod-cluster-1/devx/shop";

/// Asks for a deployment of `shop` that nothing was done about yet.
async fn asks(deployer: &Deployer, tag: &str) {
    // Ids of one moment are in no order.
    deployer.clock.advance(Duration::from_secs(1));
    deployer.github.repository("example/shop").deploys(TARGET, tag).await;
    deployer.github.delivered().await;
}

async fn deploys(deployer: &Deployer, tag: &str) -> String {
    asks(deployer, tag).await;
    deployer.settle().await;
    deployer.deployments().await.pop().unwrap().id.to_string()
}

async fn answer(deployer: &Deployer, path: &str) -> (StatusCode, Json) {
    let url = format!("http://{}/api/v1{path}", deployer.stepped().address());
    let answer = reqwest::get(url).await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

async fn get(deployer: &Deployer, path: &str) -> Json {
    let (status, json) = answer(deployer, path).await;
    assert_eq!(status, 200, "{path}: {json}");
    json
}

fn texts<'a>(list: &'a Json, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_app_is_told_with_its_history() {
    on_both(async |deployer| {
        let (status, none) = answer(deployer, APP).await;
        assert_eq!(
            (status.as_u16(), &none["detail"]),
            (404, &json!("there is no devx/shop on prod-cluster-1"))
        );
        assert_eq!(answer(deployer, "/apps/nowhere/devx/shop").await.0, 404);
        deployer.github.repository("example/shop").commit(&waml("shop"));
        let one = deploys(deployer, "v1").await;
        let two = deploys(deployer, "v2").await;
        asks(deployer, "v3").await;
        let app = get(deployer, APP).await;
        assert_eq!(app["live"]["revision"], two.as_str());
        assert_eq!(app["live"]["tag"], "v2");
        assert_eq!(
            (&app["hand_edited"], &app["owner"]),
            (&json!(false), &json!("squad@example.com"))
        );
        assert_eq!(texts(&app["under_way"], "tag"), ["v3"], "whose WAML nobody has read yet");
        assert_eq!(app["last"]["tag"], "v2", "the newest that is known to be the app's");
        assert_eq!(app["sync"]["state"], "by-itself");
        deployer.settle().await;
        let history = get(deployer, &format!("{APP}/revisions")).await;
        let revisions = &history["revisions"];
        assert_eq!(texts(revisions, "tag"), ["v3", "v2", "v1"]);
        assert_eq!(revisions[0]["live"], true);
        let tree = deployer.manifests().object("manifests/prod-cluster-1/devx/shop/latest");
        assert_eq!(revisions[0]["tree"], tree);
        assert_eq!(revisions[2]["id"], one.as_str());
        let first = get(deployer, &format!("{APP}/revisions/{one}")).await;
        assert!(texts(&first["files"], "name").contains(&"deployment.yaml"), "{first}");
        let kinds = texts(&first["changes"], "kind");
        let at = kinds.iter().position(|kind| *kind == "Deployment").unwrap();
        let diff = first["changes"][at]["diff"].as_str().unwrap();
        let line = |sign: char, tag: &str| {
            diff.lines().any(|line| line.starts_with(sign) && line.ends_with(&format!(":{tag}")))
        };
        assert!(line('-', "v3") && line('+', "v1"), "against what is live: {diff}");
        let gone = answer(deployer, &format!("{APP}/revisions/20260101-000000000-abcdef")).await;
        assert_eq!(gone.0, 404);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_has_what_it_changed_and_a_log() {
    on_both(async |deployer| {
        deployer.github.repository("example/shop").commit(&waml("shop"));
        let first = deploys(deployer, "v1").await;
        let second = deploys(deployer, "v2").await;
        let same = deploys(deployer, "v2").await;
        let changed = get(deployer, &format!("/deployments/{second}")).await;
        assert_eq!(changed["log_url"], format!("https://deploy.example.com/deployments/{second}"));
        let how = texts(&changed["changes"], "how");
        assert!(!how.is_empty() && how.iter().all(|how| *how == "changed"), "{changed}");
        let born = get(deployer, &format!("/deployments/{first}")).await["changes"].clone();
        assert!(texts(&born, "how").iter().all(|how| *how == "added"), "{born}");
        assert_eq!(get(deployer, &format!("/deployments/{same}")).await["changes"], json!([]));
        let log = get(deployer, &format!("/deployments/{second}/log")).await;
        let lines = texts(&log["lines"], "text");
        assert!(lines[0].contains("requested `v2` of example/shop on prod-cluster-1"), "{lines:?}");
        let at = |text: &str| {
            let found = lines.iter().position(|line| line.contains(text));
            found.unwrap_or_else(|| panic!("no {text:?} in {lines:#?}"))
        };
        assert!(at("a worker started") < at("pushed with commit"), "{lines:#?}");
        assert!(at("pushed with commit") < at("succeeded"), "{lines:#?}");
        assert!(at("deployment status: `success` sent") > 0);
        deployer.github.repository("example/shop").commit("schema: \"2\"\n");
        let refused = deploys(deployer, "v3").await;
        let log = get(deployer, &format!("/deployments/{refused}/log")).await;
        let lines = texts(&log["lines"], "text");
        assert!(lines.iter().any(|line| line.starts_with("violation: .weave.yaml:")), "{lines:?}");
        assert_eq!(get(deployer, &format!("/deployments/{refused}")).await["changes"], json!(null));
        let list = get(deployer, "/deployments?state=failed&repository=example/shop&tag=v3").await;
        assert_eq!(texts(&list["deployments"], "id"), [refused]);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_is_followed_from_its_arrival_to_its_end() {
    on_both(async |deployer| {
        deployer.github.repository("example/shop").commit(&waml("shop"));
        asks(deployer, "v1").await;
        let id = deployer.deployments().await.pop().unwrap().id;
        let url = format!("http://{}/api/v1/deployments/{id}/events", deployer.stepped().address());
        let following = tokio::spawn({
            let url = url.clone();
            async move { reqwest::get(url).await.unwrap().text().await.unwrap() }
        });
        let mut begun = reqwest::get(&url).await.unwrap();
        let first = String::from_utf8(begun.chunk().await.unwrap().unwrap().to_vec()).unwrap();
        assert!(first.contains("\"state\":\"queued\""), "{first}");
        deployer.settle().await;
        let heard = following.await.unwrap();
        let last = heard.trim_end().rsplit("\n\n").next().unwrap();
        assert!(last.contains("\"state\":\"succeeded\""), "{heard}");
        let version = last.lines().find_map(|line| line.strip_prefix("id:")).unwrap().trim();
        let again = reqwest::Client::new().get(&url).header("last-event-id", version);
        assert_eq!(again.send().await.unwrap().status(), 204);
    })
    .await;
}

#[tokio::test]
async fn a_rollback_is_told_at_the_app_and_in_its_log() {
    on_both(async |deployer| {
        deployer.github.repository("example/shop").commit(&waml("shop"));
        let one = deploys(deployer, "v1").await;
        let two = deploys(deployer, "v2").await;
        deployer.clock.advance(Duration::from_secs(1));
        let url = format!("http://{}/api/v1{APP}/rollback", deployer.stepped().address());
        let ask = json!({"reason": "v2 loses orders"});
        let answer = reqwest::Client::new().post(url).json(&ask).send().await.unwrap();
        assert_eq!(answer.status(), 202);
        let answer: Json = answer.json().await.unwrap();
        let id = answer["deployment"]["id"].as_str().unwrap().to_owned();
        let waiting = get(deployer, APP).await;
        assert_eq!(texts(&waiting["under_way"], "id"), [id.as_str()]);
        deployer.settle().await;
        let app = get(deployer, APP).await;
        let live = &app["live"];
        assert_eq!((&live["revision"], &live["tag"]), (&json!(one), &json!("v1")));
        let rollback = &live["rollback"];
        assert_eq!((&rollback["id"], &rollback["from"]), (&json!(id), &json!(two)));
        assert_eq!(rollback["reason"], "v2 loses orders");
        assert_eq!((&app["hold"]["rollback"], &app["last"]["id"]), (&json!(id), &json!(id)));
        assert_eq!(get(deployer, "/apps").await["apps"][0]["held"], true);
        let history = get(deployer, &format!("{APP}/revisions")).await;
        assert_eq!(texts(&history["revisions"], "id"), [two.as_str(), one.as_str()]);
        assert_eq!(history["revisions"][1]["live"], true);
        let changes = get(deployer, &format!("/deployments/{id}")).await["changes"].clone();
        assert!(texts(&changes, "diff").iter().any(|diff| diff.contains(":v1")), "{changes}");
        let log = get(deployer, &format!("/deployments/{id}/log")).await;
        let first = texts(&log["lines"], "text")[0];
        assert!(
            first.contains(&format!("requested a rollback to `v1` on {TARGET}, revision {one}")),
            "{first}"
        );
    })
    .await;
}

#[tokio::test]
async fn what_the_database_does_not_know_is_in_the_commits() {
    let mut deployer = Deployer::start().await;
    deployer.github.repository("example/shop").commit(&waml("shop"));
    let id = deploys(&deployer, "v1").await;
    let known = get(&deployer, &format!("{APP}/revisions")).await["revisions"][0].clone();
    deployer.dies();
    deployer
        .variable("THE_DEPLOYER_STORAGE_URL", &format!("sqlite:{}", deployer.file("new.db", "")));
    deployer.starts().await;
    let found = get(&deployer, &format!("{APP}/revisions")).await["revisions"][0].clone();
    for key in ["id", "tree", "live", "tag", "commit", "repository", "actor", "template", "digest"]
    {
        assert_eq!(found[key], known[key], "{key}");
    }
    assert!(found["at"].is_string());
    let app = get(&deployer, APP).await;
    assert_eq!((&app["live"]["revision"], &app["live"]["tag"]), (&json!(id), &json!("v1")));
    assert_eq!((&app["last"], &app["under_way"]), (&Json::Null, &json!([])));
    assert_eq!(app["repository"], "example/shop", "as its Application says");
    deployer.github.settled();
}

#[tokio::test]
async fn a_repository_behind_a_server_is_told_while_it_is_known() {
    let host = GitHost::start().await;
    host.create("m.git");
    let mut deployer = Deployer::prepared().await;
    let url = host.url("m.git");
    deployer.configure(|config| {
        format!(
            "{config}manifests:\n  repositories:\n  - {{name: main, url: \"{url}\", token: {{env: TOKEN}}}}\n"
        )
    });
    deployer.variable("TOKEN", TOKEN);
    deployer.starts().await;
    assert_eq!(answer(&deployer, APP).await.0, 404, "there is no branch yet");
    deployer.github.repository("example/shop").commit(&waml("shop"));
    let id = deploys(&deployer, "v1").await;
    assert_eq!(get(&deployer, APP).await["live"]["revision"], id.as_str());
    host.behave(crate::harness::git_host::Behaviour::Status(503, None));
    deployer.clock.advance(Duration::from_secs(31));
    assert_eq!(get(&deployer, APP).await["live"]["tag"], "v1", "known some minutes more");
    deployer.clock.advance(Duration::from_mins(6));
    let (status, problem) = answer(&deployer, APP).await;
    assert_eq!(status, 503, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("m.git"), "{problem}");
    deployer.github.settled();
}

#[tokio::test]
async fn a_lock_is_seen_at_the_app_and_in_the_list() {
    on_both(async |deployer| {
        deployer.github.repository("example/shop").commit(&waml("shop"));
        deploys(deployer, "v1").await;
        assert_eq!(get(deployer, "/apps").await["apps"][0]["locked"], false);
        let url = format!("http://{}/api/v1/locks", deployer.stepped().address());
        let scope = json!({"owner": "Squad@Example.com"});
        let ask = json!({"scope": scope, "reason": "the books are closed", "for": "10m"});
        let placed = reqwest::Client::new().post(url).json(&ask).send().await.unwrap();
        assert_eq!(placed.status(), 201);
        let placed: Json = placed.json().await.unwrap();
        assert_eq!(get(deployer, "/apps?app=devx/shop").await["apps"][0]["locked"], true);
        let locks = get(deployer, APP).await["locks"].clone();
        assert_eq!(locks, json!([placed]));
        assert_eq!(locks[0]["scope"], scope);
        deployer.clock.advance(Duration::from_mins(11));
        assert_eq!(get(deployer, APP).await["locks"], json!([]), "it has run out");
    })
    .await;
}
