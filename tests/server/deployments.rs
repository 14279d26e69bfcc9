//! `/api/v1/deployments`: filters, and the log of one.

use super::pages::{edited, with_receiver};
use super::reading::with_three;
use super::shop::{TARGET, deploys_with};
use super::world::get;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

async fn count(deployer: &Deployer, query: &str) -> usize {
    let answer = get(deployer, &format!("/api/v1/deployments?{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["deployments"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_list_is_asked_by_app_person_tag_and_number() {
    let deployer = Deployer::start().await;
    with_three(&deployer).await;
    // The second is worked on; which app it is of is known by that.
    assert!(deployer.stepped().step().await.unwrap());
    let number = deployer.deployments().await[1].request.forge_id;
    for (query, wanted) in [
        ("app=devx%2Fshop", 1),
        ("app=devx/cart", 0),
        ("actor=octocat", 3),
        ("actor=nobody", 0),
        ("tag=v2&target=dev", 1),
        (&*format!("tag=v2&target={TARGET}"), 0),
        ("tag=v4", 0),
        (&*format!("forge_id={number}&repository=example/shop"), 1),
        (&*format!("forge_id={number}&repository=example/cart"), 0),
        ("forge_id=8", 0),
    ] {
        assert_eq!(count(&deployer, query).await, wanted, "{query}");
    }
    for wrong in ["app=shop", "since=monday"] {
        let answer = get(&deployer, &format!("/api/v1/deployments?{wrong}")).await;
        answer.problem(400, "bad-request");
    }
    deployer.settle().await;
    deployer.settled().await;
}

/// What differs from run to run is left out: ids of commits, and times.
fn plain(text: &str) -> String {
    let hex = regex::Regex::new("[0-9a-f]{8}([0-9a-f]{4})?\\b").unwrap();
    let took = regex::Regex::new("took .*: fetch .*, push .*").unwrap();
    took.replace(&hex.replace_all(text, "COMMIT"), "took TIME: fetch TIME, …, push TIME")
        .into_owned()
}

#[tokio::test]
async fn the_log_tells_what_happened_in_order() {
    let (mut deployer, _receiver) = with_receiver().await;
    deployer.starts().await;
    edited(&deployer).await;
    let waml = waml("shop").replace("  ingress:", "  slo: {requestClass: low}\n  ingress:");
    let id = deploys_with(&deployer, "v2", &waml).await;
    let log = get(&deployer, &format!("/api/v1/deployments/{id}/log")).await.json();
    let lines = log["lines"].as_array().unwrap();
    let texts: Vec<_> = lines.iter().map(|line| plain(line["text"].as_str().unwrap())).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    octocat requested `v2` of example/shop on prod-cluster-1, commit COMMIT
    a worker started
    the app is devx/shop, rendered by the template `backend-default@latest`
    edited by hand: service.yaml (changed), in COMMIT by Somebody
    warning: .weave.yaml:12:23: `defaults[0].slo.requestClass` does nothing: every target that it is for has another value [ignored]; remove it; `bart explain` shows what is in its stead
    9 files pushed with commit COMMIT of the manifest repository
    it took TIME: fetch TIME, …, push TIME
    succeeded: v2 is in the manifest repository, commit COMMIT; 1 warning
    deploy clock: deployer time 0 µs
    commit status: `queued` sent
    commit status: `success` sent
    webhook warehouse: `success` not delivered, the webhook warehouse does not take this event: it answered 400
    deployment status: `queued` sent
    deployment status: `in_progress` sent
    deployment status: `success` sent
    ");
    assert!(lines.iter().all(|line| line["at"] == "2026-11-21T05:46:43Z"), "{log}");
    let none = "/api/v1/deployments/20261121-054812123-3f9a2c/log";
    get(&deployer, none).await.problem(404, "not-found");
    deployer.github.settled();
}
