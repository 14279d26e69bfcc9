//! Tests the logs and metrics that an operator reads.

use std::time::Duration;

use the_deployer::model::deployment::State;
use the_deployer::store::Filter;
use tracing::Level;

use crate::controller::acts::{TARGET, app};
use crate::harness::deployer::Deployer;
use crate::harness::github::Fault;
use crate::harness::log::CapturedLog;
use crate::harness::process::client;

#[tokio::test]
async fn every_line_about_a_deployment_names_it() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    let log = CapturedLog::of("the_deployer", Level::INFO);
    let id = shop.deploys(TARGET, "v1").await;
    deployer.github.fails(1, "GET contents", Fault::BadGateway);
    deployer.settle().await;
    let ours = deployer.deployment(id).await.id;
    let text = log.text();
    let lines = text.lines().filter(|line| {
        let words = ["deployment ", "begins", "took", "attempt failed"];
        words.iter().any(|word| line.contains(word))
    });
    let mut about = 0;
    for line in lines {
        about += 1;
        assert!(line.contains(&format!("deployment={ours}")), "{line}");
    }
    assert!(about >= 12, "{text}");
    let said = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!((said("deployment accepted"), said("deployment succeeded")), (1, 1));
    assert_eq!(
        (said("attempt failed"), said("502 Bad Gateway")),
        (1, 1),
        "a failure is logged once\n{text}"
    );
    assert_eq!((said("fetch begins"), said("fetch took")), (2, 2));
    assert_eq!((said("push begins"), said("push took")), (1, 1));
    deployer.settled().await;
}

#[tokio::test]
async fn metrics_tell_of_stages_outcomes_and_what_waits() {
    let mut deployer = Deployer::prepared().await;
    // One is deployed, one is being read, and one waits behind it; GitHub wants to hear of none yet.
    deployer.github.fails(1, "POST statuses", Fault::Wait(403, 600));
    let running = deployer.runs().await;
    let shop = app(&deployer, "shop");
    let done = shop.deploys(TARGET, "v1").await;
    let all = async || {
        let page = running.store.deployments(&Filter::default(), None, 9).await.unwrap();
        page.deployments
    };
    while all().await.iter().any(|one| one.state != State::Succeeded) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    deployer.github.fails(1, "GET contents", Fault::Held);
    let met = deployer.github.met("GET contents");
    let read = shop.deploys(TARGET, "v2").await;
    met.await;
    let waits = shop.deploys(TARGET, "v3").await;
    deployer.clock.advance(Duration::from_secs(30));
    let lines = [
        "stage_duration_seconds_count{stage=\"fetch\"} 1",
        "attempts_total{outcome=\"succeeded\"} 1",
        "queue_depth{state=\"queued\"} 1",
        "queue_depth{state=\"running\"} 1",
        "queue_oldest_seconds 30",
        "outbox_depth{state=\"unsent\"} 10",
        "outbox_waiting{family=\"forge\"} 10",
        "outbox_parked{family=\"forge\"} 0",
        "outbox_oldest_seconds{family=\"forge\"} 30",
        "outbox_closed_until_timestamp_seconds{family=\"forge\"} 1795240600",
    ];
    let url = format!("http://{}/metrics", running.address);
    let mut text = String::new();
    for _ in 0..500 {
        text = client().get(&url).send().await.unwrap().text().await.unwrap();
        if lines.iter().all(|line| text.contains(line)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for line in lines {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    deployer.github.lets_go();
    running.stop.cancel();
    running.ended().await;
    deployer.clock.advance(Duration::from_mins(10));
    deployer.starts().await;
    deployer.settle().await;
    for (id, end) in [(done, "inactive"), (read, "inactive"), (waits, "success")] {
        assert_eq!(deployer.github.told(id).last().unwrap(), end);
    }
    deployer.settled().await;
}
