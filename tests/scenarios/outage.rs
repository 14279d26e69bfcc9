//! GitHub is down, limits, answers badly, or not at all; and the process dies in between.

use std::time::Duration;

use jiff::SignedDuration;

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::github::Fault;
use crate::scenarios::{TARGET, WELL, app, took};

#[tokio::test]
async fn down_for_ten_minutes_in_the_middle_of_a_deployment() {
    let deployer = Deployer::start().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.github.down_for(Duration::from_mins(10));
    let time = deployer.settle().await;
    took("down before the WAML was read", time, SignedDuration::from_mins(20));
    assert!(time >= SignedDuration::from_mins(10));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    assert_eq!(deployer.manifests().commits(), 1);
    deployer.settled().await;
}

#[tokio::test]
async fn down_for_ten_minutes_after_the_push() {
    let deployer = Deployer::start().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.stepped().step().await.unwrap();
    assert_eq!(deployer.manifests().commits(), 1);
    deployer.github.down_for(Duration::from_mins(10));
    took("down after the push", deployer.settle().await, SignedDuration::from_mins(15));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    assert_eq!(deployer.manifests().commits(), 1);
    deployer.settled().await;
}

#[tokio::test]
async fn bad_gateways_are_got_over() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    deployer.github.fails(2, "GET contents", Fault::BadGateway);
    deployer.github.fails(2, "POST statuses", Fault::BadGateway);
    let id = shop.deploys(TARGET, "v1").await;
    took("502 now and then", deployer.settle().await, SignedDuration::from_mins(2));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn a_status_that_was_taken_and_not_answered_is_told_once() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    deployer.github.fails(1, "POST deployments statuses", Fault::CutAfter);
    let id = shop.deploys(TARGET, "v1").await;
    took("an answer cut off", deployer.settle().await, SignedDuration::from_mins(2));
    assert_once(&deployer, id);
    deployer.settled().await;
}

#[tokio::test]
async fn killed_between_the_push_and_the_status() {
    on_both(async |deployer| {
        for fault in [Fault::SilentBefore, Fault::SilentAfter] {
            let name = format!("shop-{fault:?}").to_lowercase();
            let id = app(deployer, &name).deploys(TARGET, "v1").await;
            deployer.stepped().step().await.unwrap();
            deployer.github.fails(1, "POST deployments statuses", fault);
            let met = deployer.github.met("POST deployments statuses");
            deployer.dies_when(met).await;
            deployer.starts().await;
            took(
                &format!("killed, {fault:?}"),
                deployer.settle().await,
                SignedDuration::from_mins(3),
            );
            assert_once(deployer, id);
        }
        assert_eq!(deployer.manifests().commits(), 2, "one each");
    })
    .await;
}

#[tokio::test]
async fn told_to_wait_it_waits() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    deployer.github.fails(1, "POST deployments statuses", Fault::Wait(403, 90));
    let id = shop.deploys(TARGET, "v1").await;
    let time = deployer.settle().await;
    took("told to wait", time, SignedDuration::from_mins(4));
    assert!(time >= SignedDuration::from_secs(90));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn a_commit_that_github_does_not_show_yet_is_waited_for() {
    let deployer = Deployer::start().await;
    deployer.github.late(2);
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    took("late consistency", deployer.settle().await, SignedDuration::from_mins(5));
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    deployer.settled().await;
}

/// GitHub applies a status half a minute after it cut the connection: by then the deployment has ended.
#[tokio::test]
async fn a_status_that_is_applied_late_does_not_outlive_the_end() {
    on_both(async |deployer| {
        let shop = app(deployer, "late");
        let sha = shop.commit(&crate::harness::events::waml("late"));
        for words in ["POST deployments statuses", "POST late/statuses"] {
            deployer.github.fails(1, words, Fault::DoneLate(40));
        }
        let id = shop.deploys(TARGET, "v1").await;
        took("answered late", deployer.settle().await, SignedDuration::from_mins(2));
        deployer.works_for(SignedDuration::from_mins(15)).await;
        let told = deployer.github.told(id);
        assert_eq!(told.last().unwrap(), "success", "{told:?}");
        let at = told.iter().rposition(|state| state == "queued");
        assert!(at > told.iter().position(|state| state == "success"), "it came late: {told:?}");
        let commit = shop.commit_statuses(&sha);
        assert_eq!(commit.last().unwrap().1, "success", "{commit:?}");
    })
    .await;
}

/// The same of a success that is applied when the deployment has been replaced.
#[tokio::test]
async fn a_success_that_is_applied_late_makes_nothing_active_again() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    let first = shop.deploys(TARGET, "v1").await;
    deployer.stepped().step().await.unwrap();
    deployer.works_for(SignedDuration::from_secs(1)).await;
    let before = deployer.github.told(first);
    assert_eq!(before.last().unwrap(), "success");
    let second = shop.deploys(TARGET, "v2").await;
    // After its queued and its in_progress.
    let words = format!("POST deployments/{second}/statuses");
    deployer.github.fails_after(2, &words, Fault::DoneLate(200));
    deployer.works_for(SignedDuration::from_mins(1)).await;
    assert_eq!(deployer.github.told(second), ["queued", "in_progress", "success"]);
    let third = shop.deploys(TARGET, "v3").await;
    deployer.works_for(SignedDuration::from_mins(1)).await;
    assert_eq!(deployer.github.told(second).last().unwrap(), "inactive", "it is replaced");
    deployer.works_for(SignedDuration::from_mins(15)).await;
    let ends = &deployer.github.told(second)[2..];
    assert_eq!(ends, ["success", "inactive", "success", "inactive"], "it came late, and was seen");
    for (id, end) in [(first, "inactive"), (third, "success")] {
        assert_eq!(deployer.github.told(id).last().unwrap(), end);
    }
    deployer.settle().await;
    deployer.settled().await;
}

/// What was answered needs no look: reading costs requests.
#[tokio::test]
async fn an_end_of_which_nothing_was_in_doubt_is_not_looked_at() {
    let deployer = Deployer::start().await;
    app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.settle().await;
    deployer.works_for(SignedDuration::from_mins(15)).await;
    assert_eq!(deployer.github.count("GET statuses"), 0);
    deployer.settled().await;
}

/// No state was told twice, and the last is the end.
fn assert_once(deployer: &Deployer, id: i64) {
    let told = deployer.github.told(id);
    let mut once = told.clone();
    once.dedup();
    assert_eq!(told, once, "told once each");
    assert_eq!(told.last().unwrap(), "success");
    assert!(told.iter().all(|state| WELL.contains(&state.as_str())), "{told:?}");
}
