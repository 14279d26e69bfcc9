//! One deployment writes to all clusters of its fleet in one push, or to none.

use std::time::Duration;

use the_deployer::model::deployment::{Deployment, State};

use crate::fleets::world::{CLUSTERS, Prod, cluster, configuration, on_both, waml};
use crate::harness::deployer::Deployer;
use crate::harness::github::Fault;
use crate::harness::process::client;

#[tokio::test]
async fn one_deployment_is_on_all_clusters_by_one_push() {
    on_both(async |prod| {
        let before = (prod.pushes(), prod.deployer.manifests().commits());
        let deployment = prod.runs("prod", "v1").await;
        assert_eq!(prod.pushes() - before.0, 1, "one push");
        let manifests = prod.deployer.manifests();
        assert_eq!(manifests.commits() - before.1, 3, "a commit for each cluster");
        assert_eq!(prod.parts(&deployment).await, "eu-1 succeeded, eu-2 succeeded, us-1 succeeded");
        assert!(prod.lives(&CLUSTERS).iter().all(Option::is_some));
        assert_eq!(prod.lives(&["beside"]), [None]);
        let parts = prod.records(&deployment).await;
        for part in &parts {
            let (cluster, id) = (&part.request.target, &part.id);
            let revision = manifests.object(&format!("manifests/{cluster}/devx/shop/{id}"));
            assert_eq!(prod.lives(&[cluster.as_str()]), [Some(revision)]);
            assert_eq!(part.fleet.as_ref(), Some(&deployment.id));
            assert_eq!(
                part.address.as_deref(),
                Some(&*format!("https://shop.{cluster}.example.com/"))
            );
        }
        let message = manifests.message();
        assert!(message.starts_with("deploy devx/shop v1 to us-1\n"), "{message}");
        let fleet = format!("Fleet: prod\nFleet-Deploy-Id: {}\n", deployment.id);
        assert!(message.contains(&fleet), "{message}");
        let all = prod.deployer.deployments().await;
        assert_eq!(all.len(), 1, "a list has the deployment and not its parts");
        let page = prod.reads("/deployments?target=eu-2").await;
        assert_eq!(page["deployments"][0]["fleet"], deployment.id.to_string());
        let detail = prod.reads(&format!("/deployments/{}", deployment.id)).await;
        let clusters = detail["clusters"].as_array().unwrap();
        let clusters: Vec<_> =
            clusters.iter().map(|one| one["cluster"].as_str().unwrap()).collect();
        assert_eq!(clusters, CLUSTERS);
    })
    .await;
}

#[tokio::test]
async fn a_release_that_one_cluster_does_not_take_reaches_none() {
    for deployer in Deployer::prepared_on_both().await {
        let clusters = [
            cluster("eu-1", ""),
            cluster("eu-2", ""),
            cluster("us-1", ", policies: {branches: [stable]}"),
        ];
        let config = configuration(&clusters.concat(), &CLUSTERS);
        let prod = Prod::start(deployer, &config).await;
        let before = prod.pushes();
        let deployment = prod.deploys("prod", "v1").await;
        assert_eq!(deployment.state, State::Failed);
        assert!(deployment.summary.starts_with("on us-1: "), "{}", deployment.summary);
        assert_eq!(prod.pushes(), before, "nothing is written anywhere");
        assert_eq!(prod.parts(&deployment).await, "", "no part has begun");
        prod.deployer.settled().await;
    }
}

#[tokio::test]
async fn a_fleet_whose_newest_deployment_failed_is_in_the_grid_beside_its_clusters() {
    on_both(async |prod| {
        let grid = async || {
            let request = client().get(format!("{}/", prod.deployer.url()));
            request.header("accept", "text/html").send().await.unwrap().text().await.unwrap()
        };
        let cell = |deployment: &Deployment, flag: &str| {
            let id = &deployment.id;
            format!(
                "<td class=\"bad\"><a href=\"/apps/prod/devx/shop\">fleet</a> \
                 <a class=\"badge bad\" href=\"/deployments/{id}\">failed</a>{flag}</td>"
            )
        };
        prod.runs("prod", "v1").await;
        let text = grid().await;
        assert!(text.contains("1 app</p>") && !text.contains(">fleet</a>"), "{text}");
        for (waml, flag) in [
            ("slug: [".to_owned(), " <i>WAML unreadable</i>"),
            (waml("shop").replace("servicePort: 8000", "servicePort: 80"), ""),
        ] {
            prod.shop().commit(&waml);
            let deployment = prod.deploys("prod", "v2").await;
            assert_eq!(deployment.state, State::Failed, "{deployment:#?}");
            let (text, cell) = (grid().await, cell(&deployment, flag));
            assert!(text.contains(&cell), "{cell} is missing in {text}");
            assert!(
                text.contains("<td class=\"good\"><a href=\"/apps/us-1/devx/shop\">v1</a>"),
                "{text}"
            );
        }
        prod.shop().commit(&waml("shop"));
        prod.runs("prod", "v3").await;
        let text = grid().await;
        assert!(!text.contains(">fleet</a>"), "{text}");
    })
    .await;
}

#[tokio::test]
async fn a_host_that_another_app_has_on_one_cluster_stops_the_fleet() {
    on_both(async |prod| {
        let other = prod.deployer.github.repository("example/other");
        let taken = waml("other").replace("hostPrefix: other", "host: shop.eu-1.example.com");
        other.commit(&taken);
        other.deploys("eu-1", "v1").await;
        prod.deployer.works().await;
        let before = prod.pushes();
        let deployment = prod.deploys("prod", "v1").await;
        assert_eq!(deployment.state, State::Failed, "{deployment:#?}");
        assert!(
            deployment.summary.contains("on eu-1: ") && deployment.summary.contains("shop.eu-1"),
            "{}",
            deployment.summary
        );
        assert_eq!(prod.pushes(), before);
        assert_eq!(prod.lives(&CLUSTERS), [None, None, None]);
    })
    .await;
}

#[tokio::test]
async fn an_unchanged_cluster_gets_no_commit_and_a_changed_one_does() {
    on_both(async |prod| {
        prod.runs("eu-1", "v1").await;
        let (before, lived) = (prod.deployer.manifests().commits(), prod.lives(&["eu-1"]));
        let deployment = prod.runs("prod", "v1").await;
        assert_eq!(prod.deployer.manifests().commits() - before, 2, "eu-1 has it already");
        assert_eq!(prod.lives(&["eu-1"]), lived);
        let changed: Vec<bool> = prod
            .records(&deployment)
            .await
            .iter()
            .map(|part| part.pushed.as_ref().unwrap().changed)
            .collect();
        assert_eq!(changed, [false, true, true]);
        let again = prod.runs("prod", "v1").await;
        assert!(!again.pushed.unwrap().changed, "nothing to change anywhere");
    })
    .await;
}

#[tokio::test]
async fn a_newer_deployment_of_one_cluster_supersedes_an_older_one_of_the_fleet() {
    on_both(async |prod| {
        prod.deployer.github.fails(1, "contents/.weave.yaml", Fault::BadGateway);
        prod.deployer.clock.advance(Duration::from_secs(1));
        let fleet = prod.shop().deploys("prod", "v1").await;
        prod.deployer.works().await;
        assert_eq!(prod.deployer.deployment(fleet).await.state, State::Queued, "it is tried again");
        let single = prod.runs("eu-1", "v2").await;
        prod.deployer.settle().await;
        let fleet = prod.deployer.deployment(fleet).await;
        assert_eq!(fleet.state, State::Superseded, "{fleet:#?}");
        assert!(fleet.summary.contains(single.id.as_str()), "{}", fleet.summary);
        assert_eq!(prod.lives(&["eu-2", "us-1"]), [None, None], "all or nothing");
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_after_the_push_has_pushed_once_for_all_clusters() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.pushes_to_host().await;
        let all: String = CLUSTERS.iter().map(|name| cluster(name, "")).collect();
        let mut prod = Prod::start(deployer, &configuration(&all, &CLUSTERS)).await;
        prod.runs("prod", "v1").await;
        let before = prod.deployer.manifests().commits();
        prod.deployer.clock.advance(Duration::from_secs(1));
        let number = prod.shop().deploys("prod", "v2").await;
        let manifests = prod.deployer.manifests();
        let is_pushed = async {
            while manifests.commits() < before + 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        prod.deployer.dies_when(is_pushed).await;
        prod.deployer.starts().await;
        prod.deployer.settle().await;
        let deployment = prod.deployer.deployment(number).await;
        assert_eq!(deployment.state, State::Succeeded, "{deployment:#?}");
        assert_eq!(prod.parts(&deployment).await, "eu-1 succeeded, eu-2 succeeded, us-1 succeeded");
        assert_eq!(prod.deployer.manifests().commits(), before + 3, "none twice");
        prod.deployer.settled().await;
    }
}

#[tokio::test]
async fn versions_are_on_the_clusters_where_their_placements_put_them() {
    on_both(async |prod| {
        let versions = "[{name: v1, tag: \"1.0\", weight: 90}, \
                        {name: v2, weight: 10, placement: [{cluster: us-1, replicas: 2}]}]";
        prod.has_versions(versions);
        let before = prod.pushes();
        let deployment = prod.runs("prod", "2.0").await;
        assert_eq!(prod.pushes() - before, 1, "one push");
        assert_eq!(prod.workloads("eu-1"), ["shop-v1"]);
        assert_eq!(prod.workloads("eu-2"), ["shop-v1"]);
        assert_eq!(prod.workloads("us-1"), ["shop-v1", "shop-v2"]);
        let (eu, us) = (prod.text("eu-1"), prod.text("us-1"));
        assert!(us.contains("weight: 90") && us.contains("weight: 10"), "{us}");
        assert!(us.contains("shop:1.0") && us.contains("shop:2.0") && !eu.contains("shop:2.0"));
        assert!(!eu.contains("weight: 90"), "all requests there go to v1: {eu}");
        let live = prod.lives(&CLUSTERS);
        // Placed elsewhere: it leaves one cluster and comes to another, in one push, and back.
        prod.has_versions(&versions.replace("cluster: us-1", "cluster: eu-2"));
        let before = prod.pushes();
        prod.runs("prod", "2.0").await;
        assert_eq!(prod.pushes() - before, 1, "one push");
        assert_eq!(prod.workloads("eu-2"), ["shop-v1", "shop-v2"]);
        assert_eq!(prod.workloads("us-1"), ["shop-v1"]);
        assert_eq!(prod.lives(&["eu-1"])[0], live[0], "nothing changed there");
        prod.rolls_back(Some(&deployment)).await;
        assert_eq!(prod.lives(&CLUSTERS), live, "byte for byte");
    })
    .await;
}

#[tokio::test]
async fn a_version_that_is_placed_outside_the_fleet_is_refused() {
    on_both(async |prod| {
        prod.has_versions("[{name: v1, placement: [{cluster: beside}]}]");
        let deployment = prod.deploys("prod", "1.0").await;
        assert_eq!(deployment.state, State::Failed);
        assert!(deployment.summary.contains("beside"), "{}", deployment.summary);
        assert_eq!(prod.lives(&CLUSTERS), [None, None, None]);
    })
    .await;
}
