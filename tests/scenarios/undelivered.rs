//! Events that GitHub could not deliver to our App: they are read again from GitHub.

use std::time::Duration;

use the_deployer::controller::sweep::{SweepOutcome, SweepReport};

use crate::harness::deployer::Deployer;
use crate::harness::github::{Fault, Webhooks};
use crate::scenarios::{WELL, app};

const TARGET: &str = "prod-cluster-1";

/// Running as the App, and it has swept once: from now on nothing is history.
async fn as_app() -> Deployer {
    let mut deployer = Deployer::prepared().await;
    let us = deployer.github.app();
    let key = deployer.file("app.pem", &us.key);
    let app = format!("app: {{id: \"{}\", private_key: {{file: {key}}}}}", us.id);
    deployer.configure(|config| config.replace("token: {env: GITHUB_TOKEN}", &app));
    deployer.starts().await;
    // GitHub knows the App where it is installed.
    self::app(&deployer, "first");
    assert_eq!(healed(&sweeps(&deployer).await), 0);
    deployer
}

async fn sweeps(deployer: &Deployer) -> Vec<SweepReport> {
    deployer.stepped().sweep().await.unwrap()
}

fn healed(reports: &[SweepReport]) -> u64 {
    reports.iter().map(|report| report.healed).sum()
}

#[tokio::test]
async fn what_failed_while_nobody_was_there_is_taken_in_at_the_start() {
    let mut deployer = as_app().await;
    deployer.dies();
    deployer.github.webhooks(Webhooks::Lost);
    let lost = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.clock.advance(Duration::from_hours(1));
    deployer.starts().await;
    assert_eq!(healed(&sweeps(&deployer).await), 1, "by both sweeps together, once");
    deployer.settle().await;
    assert_eq!(deployer.github.told(lost), WELL);
    let read = deployer.github.count("GET app/hook/deliveries/");
    assert_eq!(healed(&sweeps(&deployer).await), 0);
    assert_eq!(deployer.github.count("GET app/hook/deliveries/"), read, "it is read once");
    deployer.settled().await;
}

#[tokio::test]
async fn an_event_of_a_repository_that_never_deployed_is_found_although_no_delivery_tells_of_it() {
    let deployer = as_app().await;
    let shop = app(&deployer, "shop");
    // The list of repositories is asked for once an hour.
    deployer.clock.advance(Duration::from_hours(1));
    deployer.github.webhooks(Webhooks::Unheard);
    let lost = shop.deploys(TARGET, "v1").await;
    deployer.clock.advance(Duration::from_mins(5));
    assert_eq!(healed(&sweeps(&deployer).await), 1);
    deployer.settle().await;
    assert_eq!(deployer.github.told(lost), WELL);
    deployer.settled().await;
}

#[tokio::test]
async fn what_we_refused_ourselves_is_a_failed_delivery_and_is_looked_at_once() {
    let deployer = as_app().await;
    let wrong = app(&deployer, "shop").deploys("Prod EU", "v1").await;
    assert_eq!(deployer.github.answers(), [400]);
    deployer.clock.advance(Duration::from_mins(5));
    let refused = |reports: Vec<SweepReport>| reports.iter().map(|one| one.refused).sum::<u64>();
    assert_eq!(refused(sweeps(&deployer).await), 1);
    let read = deployer.github.count("GET app/hook/deliveries/");
    for _ in 0..3 {
        deployer.clock.advance(Duration::from_mins(5));
        assert_eq!(refused(sweeps(&deployer).await), 0);
    }
    assert_eq!(deployer.github.count("GET app/hook/deliveries/"), read);
    let statuses = deployer.github.statuses(wrong);
    assert_eq!(statuses.len(), 1, "{statuses:?}");
    assert!(statuses[0].1.contains("\"Prod EU\" is not a legal target"), "{statuses:?}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_limit_among_many_lost_events_is_kept_and_none_is_lost_or_doubled() {
    let deployer = as_app().await;
    deployer.github.webhooks(Webhooks::Lost);
    let mut lost = Vec::new();
    for n in 1..=5 {
        lost.push(app(&deployer, &format!("app-{n}")).deploys(TARGET, "v1").await);
    }
    deployer.clock.advance(Duration::from_mins(1));
    deployer.github.fails(1, "GET repos/example/app-3/deployments", Fault::Wait(403, 300));
    let reports = sweeps(&deployer).await;
    assert_eq!((reports[0].outcome, reports[0].healed), (SweepOutcome::Limited, 2), "newest first");
    deployer.clock.advance(Duration::from_mins(5));
    assert_eq!(healed(&sweeps(&deployer).await), 3);
    deployer.settle().await;
    for id in lost {
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    }
    assert_eq!(deployer.deployments().await.len(), 5);
    deployer.settled().await;
}
