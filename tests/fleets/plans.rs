//! Plans and previews of a fleet: what each of its clusters would get.

use serde_json::json;

use crate::fleets::world::{CLUSTERS, cluster, configuration, on_both, waml};
use crate::harness::deployer::Deployer;

const VERSIONS: &str = "[{name: v1, tag: \"1.0\", weight: 90, replicas: 4}, \
                        {name: v2, weight: 10, placement: [{cluster: us-1, replicas: 2}]}]";

fn with_versions(versions: &str) -> String {
    waml("shop").replace("  prod:\n", &format!("  prod:\n    versions: {versions}\n"))
}

#[tokio::test]
async fn a_plan_has_the_changes_and_the_steps_of_versions_on_each_cluster() {
    on_both(async |prod| {
        prod.has_versions(VERSIONS);
        prod.runs("prod", "2.0").await;
        let live = prod.lives(&CLUSTERS);
        let plan = async |versions: &str| {
            let body = json!({
                "repository": "example/shop", "target": "prod", "tag": "2.0", "waml": with_versions(versions),
            });
            let (status, plan) = prod.asks("/plan", body).await;
            assert_eq!(status, 200, "{plan}");
            plan
        };
        assert_eq!(plan(VERSIONS).await["outcome"], "unchanged");
        let next = VERSIONS.replace("replicas: 4", "replicas: 3").replace("us-1, replicas: 2", "eu-2, replicas: 2");
        let plan = plan(&next).await;
        assert_eq!(plan["outcome"], "changes");
        let steps = |number: usize| -> Vec<String> {
            let one = &plan["clusters"][number];
            assert_eq!(one["cluster"], CLUSTERS[number]);
            let notes = one["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap());
            notes.filter(|note| note.starts_with("step ")).map(str::to_owned).collect()
        };
        assert_eq!(steps(0), ["step 1: v1 on eu-1: 4 → 3 pods"]);
        assert!(steps(1)[0].starts_with("step 1: v2 on eu-2: added with "), "{plan}");
        assert_eq!(
            steps(1)[1..],
            ["step 2: v2 on eu-2: 0 → 2 pods", "step 3: v1 on eu-2: 4 → 3 pods"]
        );
        assert_eq!(steps(2).len(), 3, "{plan}");
        assert_eq!(steps(2)[..2], ["step 1: v2 on us-1: 2 → 0 pods", "step 2: v2 on us-1: removed"]);
        assert_eq!(prod.lives(&CLUSTERS), live, "nothing is deployed");
    })
    .await;
}

#[tokio::test]
async fn a_pull_request_shows_what_each_cluster_would_get() {
    let mut deployer = Deployer::prepared().await;
    let all: String = CLUSTERS.iter().map(|name| cluster(name, "")).collect();
    deployer.acts_as_app();
    deployer.configure(|config| format!("{config}{}", configuration(&all, &CLUSTERS)));
    deployer.starts().await;
    let shop = deployer.github.repository("example/shop");
    let text = with_versions(VERSIONS).replace("  eu-1:\n  beside:\n", "");
    shop.opens_pull_request("versions", &[(".weave.yaml", &text)]).await;
    deployer.settle().await;
    let [run] = &shop.check_runs(&shop.tip("versions"))[..] else { panic!() };
    let output = run["output"].to_string();
    assert_eq!(run["output"]["title"], "3 targets are new", "{output}");
    for cluster in CLUSTERS {
        assert!(output.contains(cluster), "{cluster}: {output}");
    }
    deployer.settled().await;
}
