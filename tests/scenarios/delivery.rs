//! Events that are doubled, out of order, or come while nobody is there.

use jiff::SignedDuration;
use the_deployer::model::deployment::State;

use crate::harness::deployer::on_both;
use crate::harness::github::Webhooks;
use crate::scenarios::{TARGET, WELL, app, took};

#[tokio::test]
async fn an_event_becomes_manifests_and_statuses() {
    on_both(async |deployer| {
        let id = app(deployer, "shop").deploys(TARGET, "v1").await;
        took("a deployment", deployer.settle().await, SignedDuration::from_secs(10));
        assert_eq!(deployer.github.told(id), WELL);
        assert_eq!(deployer.manifests().commits(), 1);
        assert_eq!(deployer.github.answers(), [202]);
    })
    .await;
}

#[tokio::test]
async fn delivered_twice_at_once_it_is_one_deployment() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        deployer.github.webhooks(Webhooks::Doubled);
        let id = shop.deploys(TARGET, "v1").await;
        took("delivered twice at once", deployer.settle().await, SignedDuration::from_secs(10));
        assert_eq!(deployer.github.answers().len(), 2);
        assert!(deployer.github.answers().iter().all(|status| (200..300).contains(status)));
        assert_eq!(deployer.deployments().await.len(), 1);
        assert_eq!(deployer.github.told(id), WELL);
        assert_eq!(deployer.manifests().commits(), 1);
    })
    .await;
}

#[tokio::test]
async fn out_of_order_the_newest_deployment_is_live_and_no_older_one_overtakes_it() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        deployer.github.webhooks(Webhooks::Held);
        let mut ids = Vec::new();
        for tag in ["v1", "v2", "v3"] {
            ids.push(shop.deploys(TARGET, tag).await);
        }
        deployer.github.release(&[2, 0, 1]).await;
        took("delivered out of order", deployer.settle().await, SignedDuration::from_secs(10));
        assert_eq!(deployer.github.told(ids[2]), WELL);
        for older in &ids[..2] {
            assert_eq!(deployer.github.told(*older).last().unwrap(), "inactive");
            assert_eq!(deployer.deployment(*older).await.state, State::Superseded);
        }
        assert_eq!(deployer.manifests().commits(), 1, "the older ones were never pushed");
    })
    .await;
}

#[tokio::test]
async fn an_older_event_that_comes_after_the_newer_one_is_live_changes_nothing() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        deployer.github.webhooks(Webhooks::Held);
        let older = shop.deploys(TARGET, "v1").await;
        deployer.github.webhooks(Webhooks::Delivered);
        let newer = shop.deploys(TARGET, "v2").await;
        deployer.settle().await;
        let live = deployer.manifests().tip();
        deployer.github.release(&[0]).await;
        took("the older event late", deployer.settle().await, SignedDuration::from_secs(10));
        assert_eq!(deployer.manifests().tip(), live);
        assert_eq!(deployer.github.told(newer), WELL);
        assert_eq!(deployer.github.told(older).last().unwrap(), "inactive");
    })
    .await;
}
