//! `GET /api/v1/insights`: figures of what the caller may see.

use std::time::Duration;

use serde_json::{Value, json};

use super::admission::{TARGET, get_as, with_tokens};
use super::shop::recovers;
use super::world::get;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

const INSIGHTS: &str = "/api/v1/insights";

/// `devx/shop` was deployed twice, the second time in vain, and `pay/web` once.
async fn with_three(tokens: &[&str]) -> Deployer {
    let deployer = with_tokens(tokens).await;
    let web = waml("web").replace("namespace: devx", "namespace: pay");
    let broken = waml("shop").replace("number: 8000", "number: 80000");
    for (name, text) in [("shop", waml("shop")), ("shop", broken), ("web", web)] {
        let repository = deployer.github.repository(&format!("acme/{name}"));
        repository.commit(&text);
        repository.deploys(TARGET, "v1").await;
        deployer.settle().await;
        deployer.clock.advance(Duration::from_mins(1));
    }
    deployer
}

/// The number of deployments, and of those that have a deployer time.
fn counts(answer: &Value) -> (u64, u64) {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{answer}"));
    (number(&answer["deployments"]), number(&answer["intervals"][0]["count"]))
}

#[tokio::test]
async fn figures_are_of_the_deployments_of_the_window() {
    let deployer = with_three(&["{name: all}"]).await;
    let all = get_as(&deployer, "all", INSIGHTS).await.json();
    assert_eq!(counts(&all), (3, 2), "{all}");
    assert_eq!(
        all["outcomes"],
        json!([{"state": "succeeded", "count": 2}, {"state": "failed", "count": 1}])
    );
    let words: Vec<_> =
        all["intervals"].as_array().unwrap().iter().map(|one| &one["interval"]).collect();
    assert_eq!(words, ["deployer", "pickup", "wait", "sync", "total"]);
    let dora = &all["dora"];
    assert_eq!((&dora["successes"], &dora["successes_per_day"]), (&json!(2), &json!(8.0)));
    assert_eq!((&dora["changes"], &dora["failed_changes"]), (&json!(2), &json!(0)), "{dora}");
    assert_eq!(dora["lead_time"]["count"], 2);
    assert_eq!((&all["complete"], &all["until"]), (&json!(true), &json!(deployer.clock.now())));
    let ask = async |query: &str| {
        counts(&get_as(&deployer, "all", &format!("{INSIGHTS}{query}")).await.json())
    };
    assert_eq!(ask("?app=devx/shop").await, (2, 1));
    assert_eq!(ask(&format!("?target={TARGET}&window=1h")).await, (3, 2));
    assert_eq!(ask("?target=dev").await, (0, 0));
    deployer.clock.advance(Duration::from_hours(7));
    assert_eq!(ask("").await, (0, 0), "the default window is six hours");
    assert_eq!(ask("?window=90d").await, (3, 2));
    deployer.settled().await;
}

#[tokio::test]
async fn a_token_gets_figures_of_its_own_apps_and_targets_only() {
    let deployer = with_three(&[
        "{name: devx, scope: read, apps: ['devx/*']}",
        "{name: pay, scope: read, apps: ['pay/*']}",
        "{name: dev, scope: read, targets: [dev]}",
        "{name: all}",
    ])
    .await;
    for (token, expected) in [("devx", (2, 1)), ("pay", (1, 1)), ("dev", (0, 0)), ("all", (3, 2))] {
        let answer = get_as(&deployer, token, INSIGHTS).await;
        assert_eq!(answer.status, 200, "{token}: {answer:?}");
        assert_eq!(counts(&answer.json()), expected, "{token}: {answer:?}");
    }
    let other = get_as(&deployer, "pay", &format!("{INSIGHTS}?app=devx/shop")).await.json();
    assert_eq!(counts(&other), (0, 0), "{other}");
    get(&deployer, INSIGHTS).await.problem(401, "unauthorized");
    deployer.settled().await;
}

#[tokio::test]
async fn a_wrong_window_is_named_with_what_is_right() {
    let deployer = Deployer::start().await;
    for wrong in [
        "window=0h",
        "window=91d",
        "window=six",
        "window=",
        "since=1h",
        "window=1h&window=2h",
        "app=shop",
        "target=%2F",
    ] {
        let problem =
            get(&deployer, &format!("{INSIGHTS}?{wrong}")).await.problem(400, "bad-request");
        let name = wrong.split('=').next().unwrap();
        assert!(problem.contains(name), "{wrong}: {problem}");
    }
    deployer.stepped().store().close().await;
    get(&deployer, INSIGHTS).await.problem(503, "unavailable");
    recovers(deployer).await;
}
