//! The steps and times of a canary, as `bart render --explain-canary` and `bart plan` print them.

use serde_json::json;

use super::place_with;
use crate::harness::developer::Developer;
use crate::harness::process::Home;

const WAML: &str = "schema: \"2\"
name: Shop
slug: shop
owner: squad@example.com
namespace: devx
deploy:
  prod-cluster-1:
    service: [{ports: [{name: http, number: 80}]}]
    ingress: [{hostPrefix: shop, public: true, port: 80}]
    autoscaling: {horizontal: {minReplicas: 2, maxReplicas: 6, cpu: {averageUtilization: 75}}}
    canary: {interval: 1m, threshold: 3, stepWeight: 20, maxWeight: 60}
  dev: {}
";

/// The steps and times of that canary.
const STEPS: &str = "canary: a growing share of the traffic, a check each 1m
     0s  20 %
     1m  40 %
     2m  60 %
     3m  promoted, at the earliest (t_min)
  after 3 failed checks all traffic goes back: 3m from the first (t_rollback)
";

#[tokio::test]
async fn render_explains_a_canary_in_place_of_the_manifests() {
    let developer = Developer::of("https://github.example.com/example/shop", WAML);
    let explain = ["render", "--tag", "1.0", "--explain-canary", "--target"];
    let said = developer.runs(&[], &[&explain[..], &["prod-cluster-1"]].concat()).await;
    assert_eq!(said.ended(0, &[]).out.trim_start(), STEPS);

    let json = ["prod-cluster-1", "--output", "json"];
    let said = developer.runs(&[], &[&explain[..], &json].concat()).await;
    let forecast = said.ended(0, &[]).json();
    assert_eq!(forecast["strategy"], "weights");
    assert_eq!(
        forecast["steps"],
        json!([
            {"after_seconds": 0, "weight": 20},
            {"after_seconds": 60, "weight": 40},
            {"after_seconds": 120, "weight": 60},
        ])
    );

    let said = developer.runs(&[], &[&explain[..], &["dev"]].concat()).await;
    said.ended(2, &["devx/shop has no canary on dev", "where a section says `canary`"]);
    assert_eq!(said.out, "");
}

#[tokio::test]
async fn a_plan_shows_the_steps_of_a_canary() {
    let (_home, process, developer) = place_with(Home::embedded(), WAML).await;
    let server = [("BART_SERVER", process.address())];
    let plan = developer.runs(&server, &["plan", "1.0", "prod-cluster-1", "dev"]).await;
    let plan = plan.ended(0, &[]).out.clone();
    let (of_canary, of_plain) = plan.split_once("devx/shop on dev").unwrap();
    assert!(of_canary.contains(STEPS), "{plan}");
    assert!(!of_plain.contains("canary:"), "{plan}");
    let answer = ["plan", "1.0", "prod-cluster-1", "dev", "--output", "json"];
    let answer = developer.runs(&server, &answer).await;
    let answer = answer.ended(0, &[]).json();
    let [of_canary, of_plain] = [0, 1].map(|number| &answer["plans"][number]["canary"]);
    assert_eq!(
        (&of_canary["minimum_seconds"], &of_canary["rollback_seconds"]),
        (&json!(180), &json!(180))
    );
    assert!(of_plain.is_null(), "{answer}");
}
