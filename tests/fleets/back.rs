//! A rollback of a fleet restores every cluster's tree exactly, in one push.

use std::time::Duration;

use serde_json::json;
use the_deployer::app::rebuild::{RebuildOptions, rebuild};
use the_deployer::model::deployment::State;

use crate::fleets::world::{CLUSTERS, cluster, configuration, on_both};

#[tokio::test]
async fn every_clusters_tree_is_restored_byte_for_byte_in_one_push() {
    on_both(async |prod| {
        let first = prod.runs("prod", "v1").await;
        let trees = prod.lives(&CLUSTERS);
        let second = prod.runs("prod", "v2").await;
        assert!(prod.lives(&CLUSTERS).iter().zip(&trees).all(|(now, before)| now != before));
        let before = prod.pushes();
        let back = prod.rolls_back(None).await;
        assert_eq!(back.state, State::Succeeded, "{back:#?}");
        assert_eq!(prod.lives(&CLUSTERS), trees);
        assert_eq!(prod.pushes() - before, 1);
        assert_eq!(prod.parts(&back).await, "eu-1 succeeded, eu-2 succeeded, us-1 succeeded");
        let rollback = back.rollback.unwrap();
        assert_eq!((&rollback.to, rollback.from.as_ref()), (&first.id, Some(&second.id)));
        let holds = prod.reads("/holds").await;
        assert_eq!(holds["holds"][0]["target"], "prod", "one hold, of the fleet");
        assert_eq!(holds["holds"].as_array().unwrap().len(), 1);
        let (status, answer) = prod
            .asks(
                "/apps/prod/devx/shop/rollback",
                json!({"reason": "again", "to": first.id.to_string()}),
            )
            .await;
        assert_eq!(status, 409, "{answer}");
        let forth = prod.rolls_back(Some(&second)).await;
        assert_eq!(forth.state, State::Succeeded, "{forth:#?}");
        assert!(prod.lives(&CLUSTERS).iter().zip(&trees).all(|(now, before)| now != before));
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_had_the_revision_already_goes_back_to_it() {
    on_both(async |prod| {
        prod.runs("eu-1", "v1").await;
        let first = prod.runs("prod", "v1").await;
        let trees = prod.lives(&CLUSTERS);
        prod.runs("prod", "v2").await;
        let back = prod.rolls_back(Some(&first)).await;
        assert_eq!(back.state, State::Succeeded, "{back:#?}");
        assert_eq!(prod.lives(&CLUSTERS), trees);
    })
    .await;
}

#[tokio::test]
async fn clusters_that_joined_or_left_since_stay_as_they_are_and_are_named() {
    on_both(async |prod| {
        let all: String = CLUSTERS.iter().map(|name| cluster(name, "")).collect();
        prod.restarts_with(&configuration(&all, &["eu-1", "us-1"])).await;
        let first = prod.runs("prod", "v1").await;
        let trees = prod.lives(&CLUSTERS);
        assert_eq!(prod.parts(&first).await, "eu-1 succeeded, us-1 succeeded");
        // One joins, and one leaves.
        prod.restarts_with(&configuration(&all, &["eu-1", "eu-2"])).await;
        let second = prod.runs("prod", "v2").await;
        assert_eq!(prod.parts(&second).await, "eu-1 succeeded, eu-2 succeeded");
        let live = prod.lives(&CLUSTERS);
        assert_eq!(live[2], trees[2], "it left with what it had");
        let order = json!({"reason": "checkout fails", "dry_run": true});
        let (status, preview) = prod.asks("/apps/prod/devx/shop/rollback", order).await;
        assert_eq!(status, 200, "{preview}");
        let notes = preview["notes"].to_string();
        assert!(
            notes.contains("eu-2 has joined prod since")
                && notes.contains("us-1 has left prod since"),
            "{notes}"
        );
        let back = prod.rolls_back(None).await;
        assert_eq!(back.state, State::Succeeded, "{back:#?}");
        assert_eq!(prod.parts(&back).await, "eu-1 succeeded");
        assert_eq!(prod.lives(&CLUSTERS), [trees[0].clone(), live[1].clone(), trees[2].clone()]);
    })
    .await;
}

#[tokio::test]
async fn a_revision_that_one_cluster_does_not_keep_any_more_is_refused_for_all() {
    on_both(async |prod| {
        let first = prod.runs("prod", "v1").await;
        for tag in ["v2", "v3", "v4", "v5", "v6"] {
            prod.runs("eu-1", tag).await;
        }
        prod.runs("prod", "v7").await;
        let live = prod.lives(&CLUSTERS);
        let order = json!({"reason": "checkout fails", "to": first.id.to_string()});
        let (status, answer) = prod.asks("/apps/prod/devx/shop/rollback", order).await;
        assert_eq!(status, 409, "{answer}");
        assert!(
            answer["detail"].as_str().unwrap().contains("eu-1 does not keep the revision"),
            "{answer}"
        );
        assert_eq!(prod.lives(&CLUSTERS), live);
    })
    .await;
}

#[tokio::test]
async fn after_its_record_was_lost_and_rebuilt_a_fleet_is_rolled_back_as_before() {
    on_both(async |prod| {
        let first = prod.runs("prod", "v1").await;
        let trees = prod.lives(&CLUSTERS);
        let second = prod.runs("prod", "v2").await;
        prod.deployer.dies();
        prod.deployer.loses_its_record().await;
        let options = RebuildOptions { by: "jo".to_owned(), ..RebuildOptions::default() };
        let report =
            rebuild(&prod.deployer.settings(), &options, &prod.deployer.clock).await.unwrap();
        assert!(report.notes.is_empty(), "{report:?}");
        prod.deployer.clock.advance(Duration::from_mins(5));
        prod.deployer.starts().await;
        let records = prod.deployer.deployments().await;
        let numbers: Vec<_> = records.iter().map(|one| (&one.id, one.request.number())).collect();
        let expected = [&first, &second].map(|one| (&one.id, one.request.number()));
        assert_eq!(numbers, expected, "GitHub's numbers are those of the fleet's deployments");
        assert_eq!(prod.parts(&records[1]).await, "eu-1 succeeded, eu-2 succeeded, us-1 succeeded");
        let back = prod.rolls_back(None).await;
        assert_eq!(back.state, State::Succeeded, "{back:#?}");
        assert_eq!(prod.lives(&CLUSTERS), trees);
    })
    .await;
}
