//! Tests the statuses that GitHub gets of a deployment, and how few they are.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::model::notice::Sink;
use the_deployer::store::Notification;

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::events::waml;
use crate::harness::github::{Ask, Fault, Repository};
use crate::scenarios::{WELL, app};

const TARGET: &str = "prod-cluster-1";
const CONTEXT: &str = "deploy/prod-cluster-1";
/// It names a port that nobody serves.
const BROKEN: &str = "schema: \"2\"\nname: Shop\nslug: shop\nowner: squad@example.com\n\
    namespace: devx\ntemplate: backend-default\ndeploy:\n  prod-cluster-1:\n    \
    image: {repository: registry.example.com/shop}\n    service: [{ports: [{name: http, number: 99999}]}]\n";

/// The states of a commit's statuses in the target's context, oldest first.
fn commit_states(repository: &Repository<'_>, sha: &str) -> Vec<String> {
    let statuses = repository.commit_statuses(sha).into_iter();
    statuses.filter(|one| one.0 == CONTEXT).map(|one| one.1).collect()
}

/// What became of the messages to one sink about a deployment.
async fn messages(deployer: &Deployer, forge_id: i64, sink: Sink) -> Vec<Notification> {
    let id = deployer.deployment(forge_id).await.id;
    let all = deployer.stepped().store().messages(&id).await.unwrap();
    all.into_iter().filter(|told| told.sink == sink).collect()
}

#[tokio::test]
async fn on_an_idle_system_everything_is_told_in_order_with_its_page_and_address() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    let id = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id), WELL);
    let ours = deployer.deployment(id).await.id;
    for (state, description, page) in deployer.github.statuses(id) {
        assert_eq!(page, format!("https://deploy.example.com/deployments/{ours}"), "{state}");
        assert!((1..=140).contains(&description.chars().count()), "{state}: {description}");
    }
    assert_eq!(commit_states(&shop, &shop.tip("main")), ["pending", "success"]);
    let address = deployer.deployment(id).await.address.expect("the example has a host");
    let bodies = deployer.github.environment_urls(id);
    assert_eq!(bodies, ["", "", address.as_str()], "it is there once it is deployed");
    assert_eq!(deployer.github.count("POST repos"), 5, "few writes");

    let again = shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    assert_eq!(deployer.github.environment_urls(again), vec![address; 3]);
    deployer.settled().await;
}

#[tokio::test]
async fn a_sender_that_is_behind_tells_how_things_stand() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    let id = shop.deploys(TARGET, "v1").await;
    deployer.github.fails(1, "POST deployments statuses", Fault::Wait(429, 600));
    deployer.stepped().step().await.unwrap();
    let time = deployer.settle().await;
    assert!(time >= SignedDuration::from_mins(10), "{time:#}");
    assert_eq!(deployer.github.told(id), ["success"]);
    assert_eq!(commit_states(&shop, &shop.tip("main")), ["success"]);
    let skipped = messages(&deployer, id, Sink::Forge).await;
    let reasons: Vec<_> = skipped.iter().map(|told| told.skipped.is_some()).collect();
    assert_eq!(reasons, [true, true, false], "and says so: {skipped:?}");
    deployer.settled().await;
}

#[tokio::test]
async fn an_answer_that_is_cut_off_makes_nothing_twice() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    deployer.github.fails(2, "POST deployments statuses", Fault::CutAfter);
    deployer.github.fails(2, "POST repos/example/shop/statuses", Fault::CutAfter);
    let id = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id), WELL);
    assert_eq!(commit_states(&shop, &shop.tip("main")), ["pending", "success"]);
    deployer.settled().await;
}

/// Whoever dies after GitHub took it and before we noted it down, has told it: another looks.
#[tokio::test]
async fn a_sender_that_is_killed_between_telling_and_recording_has_told_it_once() {
    on_both(async |deployer| {
        for what in ["POST deployments statuses", "POST repos/example statuses"] {
            let name = format!("shop{}", what.len());
            let shop = deployer.github.repository(&format!("example/{name}"));
            let sha = shop.commit(&waml(&name));
            let id = shop.deploys(TARGET, "v1").await;
            deployer.github.fails(1, what, Fault::SilentAfter);
            let met = deployer.github.met(what);
            deployer.dies_when(met).await;
            deployer.starts().await;
            deployer.settle().await;
            let shop = deployer.github.repository(&format!("example/{name}"));
            // Where another process may be alive its lease is waited for, and what was over is left
            // out; either way nothing is there twice.
            for told in [deployer.github.told(id), commit_states(&shop, &sha)] {
                let mut once = told.clone();
                once.dedup();
                assert_eq!(told, once, "{what}");
                assert_eq!(told.last().unwrap(), "success", "{what}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_rejection_is_a_failure_of_the_commit_and_a_better_commit_stands_for_itself() {
    let deployer = Deployer::start().await;
    let shop = deployer.github.repository("example/shop");
    let broken = shop.commit(BROKEN);
    let bad = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(bad), ["queued", "in_progress", "failure"]);
    assert_eq!(commit_states(&shop, &broken), ["pending", "failure"]);
    let good = shop.commit(&waml("shop"));
    let id = shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id), WELL);
    assert_eq!(commit_states(&shop, &broken), ["pending", "failure"]);
    assert_eq!(commit_states(&shop, &good), ["pending", "success"]);
    assert_eq!(deployer.github.told(bad).last().unwrap(), "failure", "it never was active");
    deployer.settled().await;
}

#[tokio::test]
async fn a_superseded_deployments_commit_gets_an_end() {
    let deployer = Deployer::start().await;
    let shop = deployer.github.repository("example/shop");
    let first = shop.commit(&waml("shop"));
    let older = shop.deploys(TARGET, "v1").await;
    let second = shop.commit(&waml("shop").replace("squad@example.com", "other@example.com"));
    let newer = shop.deploys(TARGET, "v2").await;
    let same_commit = shop.deploys(TARGET, "v3").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(older), ["queued", "inactive"]);
    assert_eq!(commit_states(&shop, &first), ["pending", "error"]);
    assert_eq!(deployer.github.told(newer), ["queued", "inactive"]);
    assert_eq!(deployer.github.told(same_commit), WELL);
    assert_eq!(commit_states(&shop, &second), ["pending", "success"], "of the newest alone");
    let told = messages(&deployer, newer, Sink::Commit).await;
    assert!(told.iter().all(|told| told.skipped.is_some()), "{told:?}");
    deployer.settled().await;
}

#[tokio::test]
async fn what_is_replaced_is_inactive_production_or_not() {
    for production in [true, false] {
        let deployer = Deployer::start().await;
        let shop = app(&deployer, "shop");
        let ask = |tag| Ask { production, ..Ask::new(TARGET, tag) };
        let first = shop.asks(ask("v1")).await;
        deployer.settle().await;
        let second = shop.asks(ask("v2")).await;
        deployer.settle().await;
        let third = shop.asks(ask("v3")).await;
        deployer.settle().await;
        for (id, by) in [(first, (second, "v2")), (second, (third, "v3"))] {
            let (state, description, _) = deployer.github.statuses(id).pop().unwrap();
            let (by, tag) = by;
            assert_eq!(state, "inactive");
            assert_eq!(description, format!("replaced by deployment {by} ({tag})"));
            let told = deployer.github.told(id);
            assert_eq!(told.iter().filter(|one| *one == "inactive").count(), 1, "{told:?}");
        }
        assert_eq!(deployer.github.told(third), WELL);
        deployer.settled().await;
    }
}

/// Nothing is counted against messages that wait for GitHub's leave, however many they are.
#[tokio::test]
async fn a_limit_with_many_waiting_burns_no_attempts() {
    let deployer = Deployer::start().await;
    for n in 0..30 {
        app(&deployer, &format!("app{n}")).deploys(TARGET, "v1").await;
    }
    deployer.clock.advance(Duration::from_secs(10));
    deployer.github.fails(1, "POST deployments statuses", Fault::UsedUp);
    deployer.github.fails(1, "POST repos/example statuses", Fault::Wait(403, 120));
    deployer.settle().await;
    for one in deployer.deployments().await {
        assert_eq!(deployer.github.told(one.request.forge_id).last().unwrap(), "success");
    }
    assert!(deployer.github.busiest_minute() <= 80, "{}", deployer.github.busiest_minute());
    let refused = deployer.github.seen().iter().filter(|seen| seen.status == 403).count();
    assert!(refused <= 2 + 8, "{refused} were told to wait");
    deployer.settled().await;
}
