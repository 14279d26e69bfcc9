//! Tests how deployments end in a cluster.

use std::time::Duration;

use the_deployer::cluster::object::WatchedKind;
use the_deployer::model::deployment::State;

use crate::progress::cluster::{Pods, Watched, unpullable_pod};

const NONE: Pods = Pods { updated: 1, available: 0 };
const ALL: Pods = Pods { updated: 2, available: 2 };

#[tokio::test]
async fn a_deployment_succeeds_when_its_pods_run_and_not_when_it_is_pushed() {
    Watched::on_both(async |world| {
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        let syncing = world.reaches(id, State::Syncing).await;
        assert!(syncing.pushed.is_some() && syncing.pushed_at.is_some());
        assert_eq!(syncing.finished_at, None);
        let waiting =
            world.until(id, "waiting", |one| one.waiting.is_some()).await.waiting.unwrap();
        assert!(waiting.what.contains("Argo CD to sync"), "{waiting:?}");
        assert_eq!(world.deployer.github.told(id).last().unwrap(), "in_progress");
        world.sync(id, "shop", 1).await;
        world.reaches(id, State::Progressing).await;
        world.bring(id, "shop", 1, NONE).await;
        let counted = |one: &the_deployer::model::deployment::Deployment| {
            one.summary.contains("1 of 2 updated, 0 available")
        };
        world.until(id, "counted", counted).await;
        world.deployer.clock.advance(Duration::from_secs(7));
        world.bring(id, "shop", 1, ALL).await;
        let done = world.reaches(id, State::Succeeded).await;
        assert_eq!(done.waiting, None);
        assert!(done.finished_at > done.pushed_at, "{done:?}");
        let told = world.deployer.github.told(id);
        assert_eq!(told.first().unwrap(), "queued");
        assert_eq!(told.iter().filter(|state| *state == "success").count(), 1, "{told:?}");
        assert_eq!(told.last().unwrap(), "success");
    })
    .await;
}

#[tokio::test]
async fn a_release_whose_image_cannot_be_pulled_says_so_at_once_and_fails_after_its_patience() {
    Watched::on_both_with(", progress: {patience: 20s}", async |world| {
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.sync(id, "shop", 1).await;
        world.bring(id, "shop", 1, NONE).await;
        world.server.apply(unpullable_pod("shop", 1));
        let is_named = |one: &the_deployer::model::deployment::Deployment| {
            one.summary.contains("image") && one.summary.contains("no such tag")
        };
        let failing = world.until(id, "failing", is_named).await;
        assert_eq!(failing.state, State::Progressing);
        let said = |world: &Watched| world.deployer.github.statuses(id).pop().unwrap();
        assert!(said(world).1.contains("image"), "{:?}", said(world));
        // A jump of the clock is time in which the service has not looked.
        world.stands_still(id, "shop", 1, NONE).await;
        world.deployer.clock.advance(Duration::from_mins(20));
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(world.deployer.deployment(id).await.state, State::Progressing);
        let failed = world.passes_until(id, State::Failed).await;
        assert!(failed.pushed.is_some(), "it is live in the manifest repository");
        let (state, description, _) = said(world);
        assert_eq!(state, "failure");
        assert!(description.contains("image"), "{description}");
        let told = world.deployer.github.told(id);
        assert_eq!(told.iter().filter(|state| *state == "failure").count(), 1, "{told:?}");
        // A fix is a deployment as any other.
        let fix = world.push(&shop, "v2").await;
        world.sync(fix, "shop", 2).await;
        world.bring(fix, "shop", 2, ALL).await;
        world.reaches(fix, State::Succeeded).await;
        assert_eq!(world.deployer.deployment(id).await.state, State::Failed);
    })
    .await;
}

#[tokio::test]
async fn a_container_that_crashes_is_told_with_the_end_of_its_log_and_once() {
    Watched::on_both(async |world| {
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        let failing = world.crashes(id, "shop").await;
        assert_eq!(failing.state, State::Progressing);
        assert_eq!(failing.log_tail.last().unwrap(), "no such table: users");
        assert!(!failing.log_tail.concat().contains("ghp_a"), "{:?}", failing.log_tail);
        // A process that takes over has nothing new to tell.
        let statuses = world.deployer.github.statuses(id);
        assert!(statuses.last().unwrap().1.contains("exit code 1"), "{statuses:?}");
        world.stop.cancel();
        world.server.watched(0).await;
        world.follow();
        world.server.watched(WatchedKind::ALL.len()).await;
        assert_eq!(world.recovers(id, "shop").await.waiting, None);
        let ends = world.deployer.github.statuses(id).split_off(statuses.len());
        assert_eq!(ends.iter().map(|(state, ..)| state.as_str()).collect::<Vec<_>>(), ["success"]);
    })
    .await;
}

#[tokio::test]
async fn a_newer_push_supersedes_what_still_waits_for_its_cluster() {
    Watched::on_both(async |world| {
        let shop = world.app("shop");
        let first = world.push(&shop, "v1").await;
        world.sync(first, "shop", 1).await;
        world.reaches(first, State::Progressing).await;
        let second = world.push(&shop, "v2").await;
        let superseded = world.reaches(first, State::Superseded).await;
        assert!(superseded.finished_at.is_some());
        assert_eq!(world.deployer.github.told(first).last().unwrap(), "inactive");
        // What is late about the first says nothing of the second.
        world.bring(first, "shop", 1, ALL).await;
        world.sync(second, "shop", 2).await;
        world.bring(second, "shop", 2, ALL).await;
        world.reaches(second, State::Succeeded).await;
        let third = world.push(&shop, "v3").await;
        world.sync(third, "shop", 3).await;
        world.bring(third, "shop", 3, ALL).await;
        world.reaches(third, State::Succeeded).await;
        // One that succeeded is active until the next one has. So many statuses come one a second.
        world.deployer.settle().await;
        assert_eq!(world.deployer.github.told(second).last().unwrap(), "inactive");
        assert_eq!(world.deployer.github.told(third).last().unwrap(), "success");
    })
    .await;
}

#[tokio::test]
async fn a_deployment_ends_at_its_push_when_its_cluster_is_no_longer_watched() {
    Watched::on_both(async |world| {
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        world.reaches(id, State::Syncing).await;
        world.stop.cancel();
        world.server.watched(0).await;
        world.configure_without_connection();
        world.deployer.dies();
        world.deployer.starts().await;
        // A replica that watches it may be about to start.
        world.deployer.works().await;
        assert_eq!(world.deployer.deployment(id).await.state, State::Syncing);
        world.deployer.clock.advance(Duration::from_mins(11));
        let ended = world.reaches(id, State::Succeeded).await;
        assert!(ended.summary.contains("no longer watched"), "{}", ended.summary);
        assert_eq!(world.deployer.github.told(id).last().unwrap(), "success");
    })
    .await;
}
