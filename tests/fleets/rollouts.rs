//! A fleet as the target of a rollout: a shift of weights over its clusters, and one undo for all of them.

use jiff::SignedDuration;
use serde_json::{Value as Json, json};

use crate::fleets::world::{CLUSTERS, Prod, on_both};

/// Two versions, one of them on a single cluster, with that percent for it.
fn versions(percent: u32) -> String {
    let rest = 100 - percent;
    format!(
        "[{{name: v1, tag: \"1.0\", weight: {rest}}}, \
         {{name: v2, weight: {percent}, placement: [{{cluster: us-1, replicas: 2}}]}}]"
    )
}

fn shift(percents: &[u32]) -> Json {
    let weights: Vec<Json> =
        percents.iter().map(|percent| json!({"v1": 100 - percent, "v2": percent})).collect();
    json!({
        "repository": "example/shop", "ref": "main", "tag": "2.0", "targets": ["prod"], "bake": "1h",
        "weights": weights, "reason": "the fair",
    })
}

impl Prod {
    /// A rollout of that request; its address.
    async fn rolls_out(&self, request: Json) -> String {
        let (status, begun) = self.asks("/rollouts", request).await;
        assert_eq!(status, 202, "{begun}");
        self.goes_on(5).await;
        format!("/rollouts/{}", begun["id"].as_str().unwrap())
    }

    async fn goes_on(&self, seconds: i64) {
        self.deployer.works_for(SignedDuration::from_secs(seconds)).await;
    }

    fn weights(&self, cluster: &str) -> Vec<String> {
        let text = self.text(cluster);
        let weights = text.lines().filter_map(|line| line.trim().strip_prefix("weight: "));
        weights.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn weights_move_on_the_whole_fleet_and_back_byte_for_byte() {
    on_both(async |prod| {
        prod.has_versions(&versions(0));
        prod.runs("prod", "2.0").await;
        let before = prod.lives(&CLUSTERS);
        assert_eq!(prod.weights("us-1"), ["100", "0"]);
        prod.has_versions(&versions(50));
        let pushes = prod.pushes();
        let rollout = prod.rolls_out(shift(&[10, 50])).await;
        assert_eq!(prod.weights("us-1"), ["90", "10"]);
        assert_eq!(prod.pushes() - pushes, 1, "a step is one push");
        assert_eq!(prod.lives(&["eu-1"])[0], before[0], "it has one version, and nothing to shift");
        prod.goes_on(3700).await;
        assert_eq!(prod.weights("us-1"), ["50", "50"]);
        assert_eq!(prod.reads(&rollout).await["state"], "done");
        let (status, answer) =
            prod.asks(&format!("{rollout}/undo"), json!({"reason": "checkout fails"})).await;
        assert!(status < 300, "{status} {answer}");
        prod.goes_on(60).await;
        let undone = prod.reads(&rollout).await;
        assert_eq!(undone["state"], "undone", "{undone:#}");
        assert_eq!(prod.lives(&CLUSTERS), before, "byte for byte");
        assert_eq!(prod.reads("/holds").await["holds"][0]["target"], "prod");
    })
    .await;
}

#[tokio::test]
async fn a_deployment_to_one_cluster_of_it_ends_a_shift() {
    on_both(async |prod| {
        prod.has_versions(&versions(0));
        prod.runs("prod", "2.0").await;
        prod.has_versions(&versions(50));
        let rollout = prod.rolls_out(shift(&[10, 50])).await;
        let single = prod.runs("eu-1", "3.0").await;
        let live = prod.lives(&CLUSTERS);
        prod.goes_on(3700).await;
        let ended = prod.reads(&rollout).await;
        assert!(ended.to_string().contains(single.id.as_str()), "{ended:#}");
        assert_eq!(prod.lives(&CLUSTERS), live, "the person's release stays");
    })
    .await;
}

#[tokio::test]
async fn a_cluster_is_named_once_and_a_fleet_has_the_app_before() {
    on_both(async |prod| {
        let request = |targets: &[&str], is_dry_run: bool| {
            json!({
                "repository": "example/shop", "ref": "main", "tag": "2.0", "targets": targets,
                "reason": "the fair", "dry_run": is_dry_run,
            })
        };
        let (status, refused) = prod.asks("/rollouts", request(&["eu-1", "prod"], false)).await;
        assert_eq!(status, 422, "{refused}");
        let sentence = "eu-1 and prod are both to have the release on eu-1";
        assert!(refused["detail"].as_str().unwrap().contains(sentence), "{refused}");
        let (status, plan) = prod.asks("/rollouts", request(&["prod"], true)).await;
        assert_eq!(status, 200, "{plan}");
        assert!(
            plan.to_string().contains("nothing of the app is deployed to the fleet yet"),
            "{plan}"
        );
        // A cluster beside it first, then the fleet; a lock of one of its clusters is in the way.
        prod.runs("prod", "1.0").await;
        let lock = json!({"scope": {"target": "us-1"}, "reason": "an incident"});
        let (_, lock) = prod.asks("/locks", lock).await;
        let rollout = prod.rolls_out(request(&["beside", "prod"], false)).await;
        prod.goes_on(30).await;
        let waits = prod.reads(&rollout).await.to_string();
        assert!(waits.contains("an incident"), "{waits}");
        let id = lock["id"].as_str().unwrap();
        prod.asks(&format!("/locks/{id}/remove"), json!({"reason": "it is over"})).await;
        prod.goes_on(60).await;
        let done = prod.reads(&rollout).await;
        assert_eq!(done["state"], "done", "{done:#}");
        for cluster in CLUSTERS {
            assert!(prod.text(cluster).contains("shop:2.0"), "{cluster}");
        }
    })
    .await;
}
