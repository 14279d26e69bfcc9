//! `/api/v1/deployments`: filters, one deployment's changes, and its log.

use serde_json::{Value, json};

use super::records::ended;
use super::world::{World, world};

async fn with_one_that_ended() -> (World, String) {
    let world = world();
    assert_eq!(world.deliver("d-1", "prod").await.status, 202);
    assert_eq!(world.deliver("d-2", "dev").await.status, 202);
    let mut inner = world.fake.inner.lock().unwrap();
    inner.stored[0].1 = ended(inner.stored[0].1.clone());
    let id = inner.stored[0].1.id.to_string();
    drop(inner);
    (world, id)
}

async fn count(world: &World, query: &str) -> usize {
    let answer = world.get(&format!("/api/v1/deployments?{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["deployments"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_list_is_asked_by_app_person_tag_and_number() {
    let (world, _) = with_one_that_ended().await;
    for (query, wanted) in [
        ("app=devx%2Fshop", 1),
        ("app=devx/cart", 0),
        ("actor=octo-dev", 2),
        ("actor=nobody", 0),
        ("tag=1.10&target=dev", 1),
        ("tag=1.11", 0),
        ("forge_id=7&repository=acme/shop", 2),
        ("forge_id=8", 0),
    ] {
        assert_eq!(count(&world, query).await, wanted, "{query}");
    }
    world.get("/api/v1/deployments?app=shop").await.problem(400, "bad-request");
    world.get("/api/v1/deployments?since=monday").await.problem(400, "bad-request");
}

#[tokio::test]
async fn a_deployment_has_its_page_and_what_it_changed() {
    let (world, id) = with_one_that_ended().await;
    let one = world.get(&format!("/api/v1/deployments/{id}")).await.json();
    assert_eq!(one["log_url"], format!("https://deployer.example.com/deployments/{id}"));
    assert_eq!(one["changes"][0]["how"], "changed");
    let list = world.get("/api/v1/deployments?target=dev").await.json();
    let waiting = list["deployments"][0]["id"].as_str().unwrap().to_owned();
    let waiting = world.get(&format!("/api/v1/deployments/{waiting}")).await.json();
    assert_eq!(waiting["changes"], json!(null), "nothing was pushed");
}

#[tokio::test]
async fn the_log_tells_what_happened_in_order() {
    let (world, id) = with_one_that_ended().await;
    let log = world.get(&format!("/api/v1/deployments/{id}/log")).await.json();
    let lines = log["lines"].as_array().unwrap();
    let text = |line: &Value| line["text"].as_str().unwrap().to_owned();
    let texts: Vec<_> = lines.iter().map(text).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    octo-dev asked for `1.10` of acme/shop on prod, commit a84d88e7: b0dy-text
    it is devx/shop, made by the template `backend-default@latest`
    edited by hand: service.yaml (changed), in cccccccccccc by Jo
    warning: .weave.yaml:3:5: no SLO [slo]; set `slo`
    1 file pushed with commit cccccccc of the manifest repository
    it took 61.2 ms: fetch 61.2 ms
    succeeded: 1.10 is on prod
    webhook warehouse: `queued` given up, the webhook <warehouse> refuses us
    deployment status: `queued` sent
    ");
    assert!(lines.iter().all(|line| line["at"] == "2026-11-21T05:48:12Z"));
    let none = "/api/v1/deployments/20261121-054812123-3f9a2c/log";
    world.get(none).await.problem(404, "not-found");
}
