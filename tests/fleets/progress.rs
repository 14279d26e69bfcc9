//! The progress of a fleet's deployment is that of all its clusters; one that fails, or cannot be seen, stops no other.

use std::time::Duration;

use serde_json::json;
use the_deployer::model::deployment::{Deployment, State};
use tokio_util::sync::CancellationToken;

use crate::fleets::world::{CLUSTERS, Prod, cluster, configuration};
use crate::harness::api_server::{ApiServer, Fault, FaultRule, TOKEN};
use crate::harness::deployer::Deployer;
use crate::progress::cluster::{Pods, pod, quick_limits, replica_set, workload};

/// The service, and the API servers of the fleet's clusters.
struct WatchedFleet {
    prod: Prod,
    servers: Vec<ApiServer>,
    stop: CancellationToken,
}

/// On each database: a service that watches the three clusters.
async fn on_both(keys: &str, story: impl AsyncFn(&WatchedFleet)) {
    for mut deployer in Deployer::prepared_on_both().await {
        Box::pin(async {
            let (mut servers, mut clusters) = (Vec::new(), String::new());
            for name in CLUSTERS {
                let server = ApiServer::start().await;
                server.install_custom_resources();
                let api = format!(
                    ", kubernetes: {{server: '{}', token: {{env: CLUSTER_TOKEN}}}}{keys}",
                    server.url()
                );
                clusters += &cluster(name, &api);
                servers.push(server);
            }
            deployer.variable("CLUSTER_TOKEN", TOKEN);
            let prod = Prod::start(deployer, &configuration(&clusters, &CLUSTERS)).await;
            let stop = CancellationToken::new();
            prod.deployer.stepped().follow_clusters(quick_limits(), &stop);
            let fleet = WatchedFleet { prod, servers, stop };
            story(&fleet).await;
            fleet.stop.cancel();
            fleet.prod.deployer.settle().await;
            fleet.prod.deployer.settled().await;
        })
        .await;
    }
}

impl WatchedFleet {
    /// Pushes a tag to the fleet; the forge's number.
    async fn pushes(&self, tag: &str) -> i64 {
        self.prod.deployer.clock.advance(Duration::from_secs(1));
        let number = self.prod.shop().deploys("prod", tag).await;
        self.prod.deployer.works().await;
        number
    }

    /// Argo CD has applied the newest revision on a cluster, and its controller brings so many pods.
    async fn brings(&self, deployment: &Deployment, place: usize, generation: u32, pods: Pods) {
        self.brings_one("shop", deployment, place, generation, pods).await;
    }

    /// The same for one workload of several.
    async fn brings_one(
        &self,
        workload_name: &str,
        deployment: &Deployment,
        place: usize,
        generation: u32,
        pods: Pods,
    ) {
        let parts = self.prod.records(deployment).await;
        let name = CLUSTERS[place];
        let part = parts.iter().find(|part| part.request.target.as_str() == name).unwrap();
        let made = part.pushed_at.unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let digest = part.pushed.as_ref().unwrap().digest.0.clone();
        let server = &self.servers[place];
        server.apply(replica_set(workload_name, generation, 2, &made));
        for other in 1..generation {
            server.apply(replica_set(workload_name, other, 0, &made));
        }
        server.apply(workload(workload_name, &digest, generation, Some(pods), &made));
    }

    /// The pods of a release never run on a cluster: its image has no legal name.
    async fn fails_on(&self, deployment: &Deployment, place: usize, generation: u32) {
        self.brings(deployment, place, generation, Pods { updated: 1, available: 0 }).await;
        let state = json!({"waiting": {"reason": "InvalidImageName", "message": "no such name"}});
        let status = json!({"ready": false, "restartCount": 0, "state": state});
        self.servers[place].apply(pod("shop", generation, &status));
        self.prod.deployer.clock.advance(Duration::from_secs(1));
    }

    /// The pods run on all clusters.
    async fn all_run(&self, deployment: &Deployment, generation: u32) {
        for place in 0..CLUSTERS.len() {
            self.brings(deployment, place, generation, ALL).await;
        }
    }

    /// Waits until the record satisfies the condition.
    async fn until(
        &self,
        number: i64,
        what: &str,
        holds: impl Fn(&Deployment) -> bool,
    ) -> Deployment {
        let mut last = None;
        for _ in 0..1500 {
            self.prod.deployer.works().await;
            let deployment = self.prod.deployer.deployment(number).await;
            if holds(&deployment) {
                self.prod.deployer.works().await;
                return deployment;
            }
            last = Some(deployment);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("deployment {number} is never {what}: {last:#?}");
    }

    async fn reaches(&self, number: i64, state: State) -> Deployment {
        self.until(number, state.as_str(), |deployment| deployment.state == state).await
    }
}

const ALL: Pods = Pods { updated: 2, available: 2 };

#[tokio::test]
async fn it_ends_when_every_cluster_has_ended() {
    on_both("", async |fleet| {
        let number = fleet.pushes("v1").await;
        let deployment = fleet.reaches(number, State::Syncing).await;
        fleet.brings(&deployment, 0, 1, ALL).await;
        let waits_for_two = |one: &Deployment| {
            let waiting = one.waiting.as_ref().map(|waiting| waiting.what.as_str());
            one.state == State::Progressing
                && one.summary.starts_with("1 of 3 clusters done; eu-2: ")
                && waiting.is_some_and(|what| what.contains("on eu-2, and 1 other cluster"))
        };
        fleet.until(number, "told what it waits for", waits_for_two).await;
        let detail = fleet.prod.reads(&format!("/deployments/{}", deployment.id)).await;
        assert_eq!(detail["clusters"][0]["state"], "succeeded", "{detail}");
        assert_eq!(detail["clusters"][1]["state"], "syncing", "{detail}");
        fleet.brings(&deployment, 1, 1, ALL).await;
        fleet.brings(&deployment, 2, 1, ALL).await;
        let ended = fleet.reaches(number, State::Succeeded).await;
        assert_eq!(ended.summary, "done on 3 of 3 clusters");
        let told = fleet.prod.deployer.github.told(number);
        assert_eq!(told.iter().filter(|state| *state == "success").count(), 1, "{told:?}");
        assert_eq!(told.last().unwrap(), "success");
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_fails_stops_no_other_and_is_named_in_the_end() {
    on_both(", policies: {on_failure: report}", async |fleet| {
        let number = fleet.pushes("v1").await;
        let deployment = fleet.reaches(number, State::Syncing).await;
        fleet.fails_on(&deployment, 1, 1).await;
        let is_named = |one: &Deployment| {
            one.state == State::Progressing && one.summary.contains("; failed on eu-2: ")
        };
        fleet.until(number, "told of eu-2", is_named).await;
        fleet.brings(&deployment, 0, 1, ALL).await;
        fleet.brings(&deployment, 2, 1, ALL).await;
        let failed = fleet.reaches(number, State::Failed).await;
        assert!(
            failed.summary.starts_with("failed on eu-2: ")
                && failed.summary.ends_with("done on 2 of 3 clusters"),
            "{}",
            failed.summary
        );
        assert_eq!(fleet.prod.deployer.github.told(number).last().unwrap(), "failure");
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_cannot_be_seen_is_reported_and_the_others_go_on() {
    on_both("", async |fleet| {
        fleet.servers[0].fail(FaultRule::always(Fault::Status(503)));
        fleet.servers[0].cut_watches();
        let number = fleet.pushes("v1").await;
        let deployment = fleet.reaches(number, State::Syncing).await;
        fleet.brings(&deployment, 1, 1, ALL).await;
        fleet.brings(&deployment, 2, 1, ALL).await;
        let blind = fleet.until(number, "blind on one", |one| {
            one.summary.starts_with("2 of 3 clusters done")
                && one.waiting.as_ref().is_some_and(|waiting| {
                    waiting.what.contains("API server") && waiting.what.contains("on eu-1")
                })
        });
        blind.await;
        fleet.servers[0].recover();
        fleet.brings(&deployment, 0, 1, ALL).await;
        fleet.reaches(number, State::Succeeded).await;
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_a_push_can_be_cancelled_on_its_page_and_nothing_later() {
    on_both("", async |fleet| {
        let number = fleet.prod.shop().deploys("prod", "v1").await;
        let id = fleet.prod.deployer.deployment(number).await.id;
        let path = format!("/deployments/{id}");
        let (cancel, offer) = (format!("{path}/cancel"), format!("{path}/cancel\">Cancel"));
        assert!(fleet.prod.page(&path).await.contains(&offer), "it waits for a worker");
        assert!(fleet.prod.page(&cancel).await.contains("Cancel the deployment</button>"));
        let has_no_offer = async |why: &str| {
            assert!(!fleet.prod.page(&path).await.contains(&offer), "{why}");
            let page = fleet.prod.page(&cancel).await;
            assert!(page.contains(why) && !page.contains("<form"), "{page}");
        };
        fleet.prod.deployer.works().await;
        let deployment = fleet.reaches(number, State::Syncing).await;
        has_no_offer("Its push has begun, and may have arrived, so it cannot be cancelled").await;
        let part = &fleet.prod.records(&deployment).await[0].id;
        let page = fleet.prod.page(&format!("/deployments/{part}")).await;
        assert!(!page.contains("/cancel\""), "nor can a part: {page}");
        fleet.all_run(&deployment, 1).await;
        fleet.reaches(number, State::Succeeded).await;
        has_no_offer("It has ended, so there is nothing to cancel.").await;
    })
    .await;
}

#[tokio::test]
async fn the_page_of_the_service_has_a_row_for_each_cluster_whether_it_is_seen_or_not() {
    on_both("", async |fleet| {
        let shown = async |parts: &[String]| {
            let mut page = String::new();
            for _ in 0..1500 {
                page = fleet.prod.page("/system").await;
                if parts.iter().all(|part| page.contains(part)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("{parts:?} are missing in {page}");
        };
        let row = |cluster: &str, look: &str, state: &str| {
            format!(
                "<th scope=\"row\">cluster {cluster}</th><td data-label=\"State\">\
                 <span class=\"badge {look}\">{state}</span></td>"
            )
        };
        shown(&CLUSTERS.map(|cluster| row(cluster, "good", "seen"))).await;
        fleet.servers[0].fail(FaultRule::always(Fault::Status(503)));
        fleet.servers[0].cut_watches();
        shown(&[
            row("eu-1", "going", "limited"),
            "it is not seen whole since ".to_owned(),
            row("eu-2", "good", "seen"),
            row("us-1", "good", "seen"),
        ])
        .await;
        fleet.servers[0].recover();
        shown(&[row("eu-1", "good", "seen")]).await;
        // Probes are public, and have a note of those that are not seen alone.
        let ready = reqwest::get(format!("{}/readyz", fleet.prod.deployer.url())).await.unwrap();
        let ready = ready.text().await.unwrap();
        assert!(!ready.contains("cluster "), "{ready}");
    })
    .await;
}

#[tokio::test]
async fn a_newer_deployment_supersedes_one_that_waits_for_its_clusters() {
    on_both("", async |fleet| {
        let first = fleet.pushes("v1").await;
        let old = fleet.reaches(first, State::Syncing).await;
        fleet.brings(&old, 0, 1, ALL).await;
        let second = fleet.pushes("v2").await;
        let old = fleet.reaches(first, State::Superseded).await;
        assert_eq!(old.state, State::Superseded);
        let new = fleet.prod.deployer.deployment(second).await;
        fleet.all_run(&new, 2).await;
        fleet.reaches(second, State::Succeeded).await;
        assert_eq!(fleet.prod.deployer.github.told(first).last().unwrap(), "inactive");
    })
    .await;
}

#[tokio::test]
async fn a_fleet_of_which_one_cluster_fails_is_rolled_back_as_a_whole_where_the_policy_is_that() {
    on_both(", policies: {on_failure: rollback}", async |fleet| {
        let first = fleet.pushes("v1").await;
        let good = fleet.reaches(first, State::Syncing).await;
        fleet.all_run(&good, 1).await;
        fleet.reaches(first, State::Succeeded).await;
        let trees = fleet.prod.lives(&CLUSTERS);
        let second = fleet.pushes("v2").await;
        let bad = fleet.reaches(second, State::Syncing).await;
        fleet.fails_on(&bad, 2, 2).await;
        for _ in 0..1500 {
            if fleet.prod.lives(&CLUSTERS) == trees {
                break;
            }
            fleet.prod.deployer.works().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(fleet.prod.lives(&CLUSTERS), trees, "every cluster is back, byte for byte");
        let back = fleet.prod.deployer.deployments().await.pop().unwrap();
        let rollback = back.rollback.as_ref().unwrap();
        assert_eq!((&rollback.to, rollback.undoes.as_ref()), (&good.id, Some(&bad.id)));
        fleet.all_run(&back, 3).await;
        for _ in 0..1500 {
            fleet.prod.deployer.works().await;
            let open = fleet.prod.deployer.deployments().await;
            if open.iter().all(|one| one.state.is_final()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let failed = fleet.prod.deployer.deployment(second).await;
        assert_eq!(failed.state, State::Failed, "{failed:#?}");
    })
    .await;
}

#[tokio::test]
async fn it_ends_when_every_version_runs_on_every_cluster() {
    on_both("", async |fleet| {
        fleet.prod.has_versions("[{name: v1, tag: \"1.0\", weight: 50}, {name: v2, weight: 50}]");
        let number = fleet.pushes("2.0").await;
        let deployment = fleet.reaches(number, State::Syncing).await;
        for place in 0..CLUSTERS.len() {
            fleet.brings_one("shop-v1", &deployment, place, 1, ALL).await;
        }
        fleet.brings_one("shop-v2", &deployment, 0, 1, ALL).await;
        fleet.brings_one("shop-v2", &deployment, 1, 1, ALL).await;
        let waits = |one: &Deployment| one.summary.starts_with("2 of 3 clusters done; us-1: ");
        fleet.until(number, "told what it waits for", waits).await;
        fleet.brings_one("shop-v2", &deployment, 2, 1, ALL).await;
        let ended = fleet.reaches(number, State::Succeeded).await;
        assert_eq!(ended.summary, "done on 3 of 3 clusters");
    })
    .await;
}
