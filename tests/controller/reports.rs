//! The forge and others are told.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::model::deployment::State;
use the_deployer::model::notice::Sink;

use crate::controller::acts::{TARGET, WELL, app};
use crate::harness::deployer::Deployer;
use crate::harness::fault::Bug;
use crate::harness::receiver::{Receiver, SECRET};

#[tokio::test]
async fn a_right_that_is_given_later_is_in_time() {
    let deployer = Deployer::start_as_app().await;
    let shop = app(&deployer, "shop");
    deployer.github.forbids("example", "deployments");
    let id = shop.deploys(TARGET, "v1").await;
    deployer.works_for(SignedDuration::from_mins(5)).await;
    assert_eq!(deployer.deployment(id).await.state, State::Succeeded);
    assert_eq!(deployer.github.told(id), [""; 0]);
    deployer.github.allows("example", "deployments", "write");
    deployer.settle().await;
    assert_eq!(deployer.github.told(id), ["success"], "how it stands by now");
    deployer.settled().await;
}

/// An hour, as before, would have lost every status of that night. It may be two days.
#[tokio::test]
async fn a_nights_outage_loses_nothing() {
    const HOURS: i64 = 8;
    let deployer = Deployer::start().await;
    let mut ids = Vec::new();
    for name in ["shop", "cart"] {
        ids.push(app(&deployer, name).deploys(TARGET, "v1").await);
    }
    while deployer.stepped().step().await.unwrap() {}
    let before = deployer.github.seen().len();
    let night = SignedDuration::from_hours(HOURS);
    deployer.github.down_for(night.unsigned_abs());
    deployer.works_for(night - SignedDuration::from_secs(1)).await;
    let tries = deployer.github.seen().len() - before;
    let most = usize::try_from(night.as_mins()).unwrap() + 20;
    assert!(tries <= most, "about one try a minute for all: {tries}");
    deployer.settle().await;
    for id in ids {
        assert_eq!(deployer.github.told(id), ["success"]);
    }
    deployer.settled().await;
}

/// A program that tells a warehouse of everything, too; not started yet.
async fn with_warehouse() -> (Deployer, Receiver) {
    let mut deployer = Deployer::prepared().await;
    let receiver = Receiver::start(&deployer.clock).await;
    let url = receiver.url();
    deployer.configure(|config| {
        format!(
            "{config}notify:\n  webhooks:\n  - \
             {{name: warehouse, url: \"{url}\", secret: {{env: SIGNING}}}}\n"
        )
    });
    deployer.variable("SIGNING", SECRET);
    (deployer, receiver)
}

#[tokio::test]
async fn while_github_is_down_others_hear_of_everything() {
    let (mut deployer, warehouse) = with_warehouse().await;
    deployer.starts().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    assert!(deployer.stepped().step().await.unwrap());
    deployer.github.down_for(Duration::from_mins(10));
    deployer.works().await;
    assert_eq!(warehouse.kinds().last().unwrap(), "service.deployed", "a record without gaps");
    assert_eq!(warehouse.kinds().len(), 4);
    assert_eq!(deployer.github.told(id), [""; 0]);
    deployer.settle().await;
    assert_eq!(deployer.github.told(id), ["success"], "how it stands at the forge");
    deployer.settled().await;
    warehouse.settled();
}

/// Somebody who is configured no more is not waited for.
#[tokio::test]
async fn messages_for_somebody_who_is_configured_no_more_are_not_kept_for_ever() {
    let (mut deployer, warehouse) = with_warehouse().await;
    deployer.starts().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.dies();
    deployer.configure(|config| config.split("notify:").next().unwrap().to_owned());
    deployer.starts().await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id), WELL);
    let ours = deployer.deployment(id).await.id;
    let all = deployer.stepped().store().messages(&ours).await.unwrap();
    let theirs: Vec<_> =
        all.into_iter().filter(|one| matches!(one.sink, Sink::Events(_))).collect();
    assert!(!theirs.is_empty());
    for one in theirs {
        assert!(one.skipped.is_some(), "{one:?}");
    }
    assert_eq!(warehouse.came().len(), 0);
    deployer.settled().await;
}

#[tokio::test]
async fn a_fault_in_a_sender_is_that_messages_failure_and_no_others() {
    let deployer = Deployer::start().await;
    let mut ids = Vec::new();
    for name in ["shop", "cart"] {
        ids.push(app(&deployer, name).deploys(TARGET, "v1").await);
    }
    while deployer.stepped().step().await.unwrap() {}
    // GitHub has answered, and nothing of that is written down.
    let bug = Bug::at("GitHub answered");
    deployer.works().await;
    assert!(bug.happened());
    drop(bug);
    let told = ids.iter().map(|id| deployer.github.told(*id)).collect::<Vec<_>>();
    assert!(told.iter().any(|told| told == &WELL), "{told:?}");
    let unsent = deployer.stepped().store().depth().await.unwrap().unsent;
    assert!((1..=3).contains(&unsent), "one, and what comes after it: {unsent}");
    deployer.settle().await;
    for id in ids {
        assert_eq!(deployer.github.told(id), WELL, "each once");
    }
    deployer.settled().await;
}
