//! `bart traffic`: weights are set in the WAML, deployed like any change, and shown as they are live.

use serde_json::json;

use super::place_with;
use crate::harness::process::Home;

const WAML: &str = "schema: \"2\"
name: Shop
slug: shop
owner: squad@example.com
namespace: devx
deploy:
  prod-cluster-1:
    service: [{ports: [{name: http, number: 80}]}]
    ingress: [{hostPrefix: shop}]
    versions:
    - {name: v1, tag: \"1.0\", weight: 100, replicas: 4}   # the old one
    - {name: v2, weight: 0, replicas: 2}
";

#[tokio::test]
async fn weights_are_set_deployed_and_shown() {
    let (_home, process, developer) = place_with(Home::embedded(), WAML).await;
    let server = [("BART_SERVER", process.address())];
    let show = ["traffic", "show", "prod-cluster-1"];
    developer.runs(&server, &show).await.ended(1, &["no revision of devx/shop is live"]);
    let deploy = ["deploy", "1.1", "prod-cluster-1"];
    developer.runs(&server, &deploy).await.ended(0, &["succeeded"]);
    let shown = developer.runs(&server, &show).await;
    let shown = shown.ended(0, &[]).out.clone();
    assert!(shown.contains("v1 100 %, v2 0 %") && shown.contains("shop.prod"), "{shown}");

    let set = ["traffic", "set", "v1=90", "v2=10", "--target", "prod-cluster-1"];
    let dry = developer.runs(&server, &[&set[..], &["--dry-run"]].concat()).await;
    dry.ended(0, &[]);
    assert!(
        dry.out.contains("+ - {name: v1, tag: \"1.0\", weight: 90, replicas: 4}"),
        "{}",
        dry.out
    );
    developer.runs(&server, &set).await.ended(0, &["nothing is deployed yet"]);
    let text = std::fs::read_to_string(developer.work().join(".weave.yaml")).unwrap();
    let expected = WAML.replace("weight: 100", "weight: 90").replace("weight: 0", "weight: 10");
    assert_eq!(text, expected, "only the numbers change");

    let plan = developer.runs(&server, &["plan", "--live", "prod-cluster-1"]).await;
    assert!(plan.ended(0, &[]).out.contains("TraefikService"), "{}", plan.out);
    developer.commits(&text);
    developer.pushes();
    developer.runs(&server, &deploy).await.ended(0, &["succeeded"]);
    let shown = developer.runs(&server, &[&show[..], &["--output", "json"]].concat()).await;
    let shown = shown.ended(0, &[]).json();
    assert_eq!(
        shown["routes"][0]["shares"],
        json!([
            {"version": "v1", "service": "shop-v1", "weight": 90},
            {"version": "v2", "service": "shop-v2", "weight": 10},
        ])
    );
    assert_eq!(shown["versions"][0]["replicas"], 4);
}

#[tokio::test]
async fn a_plan_lists_the_steps_of_versions() {
    let (_home, process, developer) = place_with(Home::embedded(), WAML).await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["deploy", "1.1", "prod-cluster-1"]).await.ended(0, &["succeeded"]);
    let next =
        WAML.replace("replicas: 4", "replicas: 2").replace("replicas: 2}\n", "replicas: 4}\n");
    std::fs::write(developer.work().join(".weave.yaml"), &next).unwrap();
    let plan = developer.runs(&server, &["plan", "--live", "prod-cluster-1"]).await;
    let plan = plan.ended(0, &[]).out.clone();
    let steps: Vec<&str> = plan.lines().filter(|line| line.contains("step ")).collect();
    assert_eq!(steps.len(), 2, "{plan}");
    let (before, _) = plan.split_once("step 1: ").unwrap();
    assert!(before.contains("the steps below are applied together, in one sync"), "{plan}");
    for (step, part) in
        steps.iter().zip(["v2 on prod-cluster-1: 2 → 4 pods", "v1 on prod-cluster-1: 4 → 2 pods"])
    {
        assert!(step.contains(part), "{plan}");
    }
}

#[tokio::test]
async fn a_shift_leads_from_the_live_weights_to_those_of_the_waml() {
    let (_home, process, developer) = place_with(Home::embedded(), WAML).await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["deploy", "1.1", "prod-cluster-1"]).await.ended(0, &["succeeded"]);
    let shift =
        ["traffic", "shift", "--to", "v2", "--steps", "10,100", "--target", "prod-cluster-1"];
    let refused = developer.runs(&server, &shift).await;
    refused.ended(1, &["first `bart traffic set v1=0 v2=100 --target prod-cluster-1`"]);
    developer.commits(
        &WAML
            .replace("weight: 100", "weight: 0")
            .replace("weight: 0, replicas: 2", "weight: 100, replicas: 2"),
    );
    developer.pushes();
    let dry = developer.runs(&server, &[&shift[..], &["--dry-run"]].concat()).await;
    let dry = dry.ended(0, &[]).out.clone();
    assert!(dry.contains("v1=90 v2=10") && dry.contains("v1=0 v2=100"), "{dry}");
    developer.runs(&server, &shift).await.ended(0, &["complete"]);
    let shown = developer.runs(&server, &["traffic", "show", "prod-cluster-1"]).await;
    assert!(shown.ended(0, &[]).out.contains("v1 0 %, v2 100 %"), "{}", shown.out);
}
