//! As a GitHub App: tokens end in the middle, keys are not enough, permissions change.

use std::time::Duration;

use jiff::SignedDuration;

use crate::harness::deployer::Deployer;
use crate::harness::github::Webhooks;
use crate::scenarios::{TARGET, WELL, app, took};

#[tokio::test]
async fn an_app_mints_few_tokens_and_tells_of_failures_at_their_lines() {
    let deployer = Deployer::start_as_app().await;
    let shop = deployer.github.repository("example/shop");
    let sha = shop.commit("schema: \"2\"\nslug: shop\nnonsense: true\n");
    let id = shop.deploys(TARGET, "v1").await;
    took("a failure, as an App", deployer.settle().await, SignedDuration::from_secs(10));
    assert_eq!(deployer.github.told(id).last().unwrap(), "failure");
    let runs = shop.check_runs(&sha);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["conclusion"], "failure");
    let lines: Vec<_> =
        runs[0]["annotations"].as_array().unwrap().iter().map(|a| &a["start_line"]).collect();
    assert!(lines.contains(&&serde_json::json!(3)), "where the unknown key is: {lines:?}");
    assert!(deployer.github.count("POST access_tokens") <= 3, "one a purpose");
    deployer.settled().await;
}

#[tokio::test]
async fn the_token_ends_in_the_middle_of_a_deployment() {
    let deployer = Deployer::start_as_app().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.stepped().step().await.unwrap();
    deployer.clock.advance(Duration::from_mins(61));
    took("a token that ended", deployer.settle().await, SignedDuration::from_mins(2));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    let refused = deployer.github.seen().iter().filter(|seen| seen.status == 401).count();
    assert_eq!(refused, 0, "its end was known beforehand");
    deployer.settled().await;
}

#[tokio::test]
async fn the_token_is_revoked_in_the_middle_of_a_deployment() {
    let deployer = Deployer::start_as_app().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.stepped().step().await.unwrap();
    deployer.works().await;
    let again = deployer.github.repository("example/shop").deploys(TARGET, "v2").await;
    deployer.github.revokes_tokens();
    took("a token that was revoked", deployer.settle().await, SignedDuration::from_mins(5));
    assert_eq!(deployer.github.told(again), WELL);
    let told = deployer.github.told(id);
    assert_eq!(told[..3], WELL, "{told:?}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_lost_event_is_found_among_the_failed_deliveries() {
    let deployer = Deployer::start_as_app().await;
    let shop = app(&deployer, "shop");
    deployer.stepped().sweep().await.unwrap();
    deployer.clock.advance(Duration::from_mins(1));
    deployer.github.webhooks(Webhooks::Lost);
    let lost = shop.deploys(TARGET, "v1").await;
    let begin = deployer.clock.now();
    deployer.clock.advance(Duration::from_mins(5));
    deployer.stepped().sweep().await.unwrap();
    deployer.settle().await;
    let time = deployer.clock.now().duration_since(begin);
    took("a delivery that failed", time, SignedDuration::from_mins(6));
    assert_eq!(deployer.github.told(lost), WELL);
    assert_eq!(deployer.manifests().commits(), 1);
    deployer.settled().await;
}

#[tokio::test]
async fn suspended_in_the_middle_it_says_so_and_goes_on_when_it_is_let() {
    let deployer = Deployer::start_as_app().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.stepped().step().await.unwrap();
    deployer.github.suspended("example", true);
    deployer.works().await;
    assert!(deployer.github.told(id).is_empty());
    deployer.clock.advance(Duration::from_mins(30));
    deployer.works().await;
    deployer.github.suspended("example", false);
    took("suspended for half an hour", deployer.settle().await, SignedDuration::from_hours(1));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    deployer.settled().await;
}
