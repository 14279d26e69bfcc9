//! One process watches a cluster, and another one goes on where it stopped.

use std::time::Duration;

use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::id::TargetName;
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{ClusterChange, ClusterFindings, LeaseState};

use crate::harness::deployer::Deployer;
use crate::progress::cluster::{Pods, TARGET, Watched};

const ALL: Pods = Pods { updated: 2, available: 2 };

#[tokio::test]
async fn a_process_that_starts_again_tells_the_end_that_it_missed_and_no_other_again() {
    Watched::on_both(async |world| {
        let (shop, cart) = (world.app("shop"), world.app("cart"));
        let (first, second) = (world.push(&shop, "v1").await, world.push(&cart, "v1").await);
        world.sync(first, "shop", 1).await;
        world.bring(first, "shop", 1, ALL).await;
        world.reaches(first, State::Succeeded).await;
        world.sync(second, "cart", 1).await;
        world.reaches(second, State::Progressing).await;
        let statuses = world.deployer.github.told(first);
        world.stop.cancel();
        world.server.watched(0).await;
        world.bring(second, "cart", 1, ALL).await;
        world.follow();
        world.reaches(second, State::Succeeded).await;
        assert_eq!(world.deployer.github.told(first), statuses);
        let successes = world.deployer.github.told(second);
        assert_eq!(successes.iter().filter(|state| *state == "success").count(), 1);
    })
    .await;
}

#[tokio::test]
async fn who_lost_the_lease_of_a_cluster_records_nothing() {
    for deployer in Deployer::prepared_on_both().await {
        let world = Watched::start(deployer, "").await;
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.reaches(id, State::Syncing).await;
        world.stop.cancel();
        world.server.watched(0).await;
        let (store, now) = (world.deployer.stepped().store(), world.deployer.clock.now());
        let (cluster, length) = (TargetName::parse(TARGET).unwrap(), Duration::from_mins(1));
        let take = async |name: &str, at| store.lease_cluster(&cluster, name, at, length).await;
        let mut lost = None;
        for _ in 0..500 {
            lost = take("one", now).await.unwrap();
            if lost.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let lost = lost.expect("a process that stops gives its lease back");
        assert_eq!(take("two", now).await.unwrap(), None);
        let later = now + jiff::SignedDuration::from_mins(2);
        let held = take("two", later).await.unwrap().expect("the lease has ended");
        let change = ClusterChange {
            is_canary_failure: false,
            deployment: world.deployer.deployment(id).await.id,
            state: State::Succeeded,
            summary: "it runs".to_owned(),
            waiting: None,
            log_tail: Vec::new(),
            canaries: Vec::new(),
            status: Some(ForgeStatus::new(ForgeState::Success, "it runs")),
        };
        let changes = [change];
        let record = async |lease| {
            let findings = ClusterFindings { changes: &changes, ..ClusterFindings::default() };
            store.record_cluster_progress(lease, findings, later).await
        };
        assert_eq!(record(&lost).await.unwrap(), LeaseState::Lost);
        assert_eq!(world.deployer.deployment(id).await.state, State::Syncing);
        assert_eq!(
            store.extend_cluster_lease(&lost, later, length).await.unwrap(),
            LeaseState::Lost
        );
        assert_eq!(record(&held).await.unwrap(), LeaseState::Held);
        assert_eq!(world.deployer.deployment(id).await.state, State::Succeeded);
        world.deployer.settle().await;
        world.deployer.settled().await;
    }
}
