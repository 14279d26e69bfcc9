//! Locks and holds of a fleet concern its clusters, and those of a cluster its fleets.

use serde_json::json;
use the_deployer::model::deployment::State;

use crate::fleets::world::{CLUSTERS, on_both};
use crate::harness::github::Ask;

#[tokio::test]
async fn a_lock_of_a_cluster_stops_the_fleet_and_one_of_the_fleet_its_clusters() {
    on_both(async |prod| {
        for (locked, stopped, free) in
            [("eu-1", "prod", "beside"), ("prod", "eu-1", "beside"), ("beside", "", "prod")]
        {
            let body = json!({"scope": {"target": locked}, "reason": "an incident"});
            let (status, lock) = prod.asks("/locks", body).await;
            assert_eq!(status, 201, "{lock}");
            if !stopped.is_empty() {
                let refused = prod.deploys(stopped, "v1").await;
                assert_eq!(refused.state, State::Failed, "{locked} stops {stopped}: {refused:#?}");
                assert!(refused.summary.contains("an incident"), "{}", refused.summary);
            }
            prod.runs(free, locked).await;
            let id = lock["id"].as_str().unwrap();
            let (status, answer) =
                prod.asks(&format!("/locks/{id}/remove"), json!({"reason": "it is over"})).await;
            assert_eq!(status, 200, "{answer}");
        }
        let (status, unknown) =
            prod.asks("/locks", json!({"scope": {"target": "prot"}, "reason": "mistyped"})).await;
        assert_eq!(status, 422, "{unknown}");
    })
    .await;
}

#[tokio::test]
async fn an_app_is_removed_by_the_name_of_a_cluster() {
    on_both(async |prod| {
        prod.runs("prod", "v1").await;
        let body = json!({"reason": "it is not needed any more"});
        let (status, refused) = prod.asks("/apps/prod/devx/shop/remove", body.clone()).await;
        assert_eq!(status, 404, "{refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(
            detail.contains("prod is a fleet") && detail.contains("eu-1, eu-2, us-1"),
            "{detail}"
        );
        let (status, removed) = prod.asks("/apps/eu-2/devx/shop/remove", body).await;
        assert_eq!(status, 200, "{removed}");
        let lives = prod.lives(&CLUSTERS);
        assert!(lives[0].is_some() && lives[1].is_none() && lives[2].is_some());
    })
    .await;
}

#[tokio::test]
async fn a_hold_of_one_cluster_keeps_automation_from_the_fleet_until_a_person_deploys() {
    on_both(async |prod| {
        prod.runs("prod", "v1").await;
        let (status, hold) =
            prod.asks("/apps/eu-1/devx/shop/hold", json!({"reason": "we look at it"})).await;
        assert!(status < 300, "{status} {hold}");
        let ask = Ask { actor: "ci[bot]".to_owned(), ..Ask::new("prod", "v2") };
        let robot = prod.shop().asks(ask).await;
        prod.deployer.works().await;
        let refused = prod.deployer.deployment(robot).await;
        assert_eq!(refused.state, State::Failed, "{refused:#?}");
        assert!(refused.summary.contains("we look at it"), "{}", refused.summary);
        let live = prod.lives(&CLUSTERS);
        prod.runs("prod", "v3").await;
        assert_ne!(prod.lives(&CLUSTERS), live, "a person deploys over it");
        let holds = prod.reads("/holds").await;
        assert_eq!(holds["holds"], json!([]), "and ends it on every cluster");
    })
    .await;
}
