//! Slack has one message about the canaries of a fleet, with each cluster where one goes on.

use std::time::Duration;

use the_deployer::model::canary::CanaryStatus;
use the_deployer::model::deployment::{ClusterPhase, Deployment, ForgeState, State};
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{ClusterChange, ClusterFindings, LeaseState};

use crate::fleets::world::{CLUSTERS, Prod, cluster, configuration, waml};
use crate::harness::deployer::Deployer;
use crate::harness::slack::{Read, Slack, TOKEN};

/// What the watch of a part's cluster records of it.
async fn record(prod: &Prod, part: &Deployment, change: ClusterChange) {
    let (store, clock) = (prod.deployer.stepped().store(), &prod.deployer.clock);
    clock.advance(Duration::from_secs(10));
    let (cluster, length) = (&part.request.target, Duration::from_secs(1));
    let lease = store.lease_cluster(cluster, "one", clock.now(), length).await.unwrap().unwrap();
    let findings = ClusterFindings { changes: &[change], ..ClusterFindings::default() };
    let state = store.record_cluster_progress(&lease, findings, clock.now()).await.unwrap();
    assert_eq!(state, LeaseState::Held);
    let _ended = store.end_cluster_lease(&lease, clock.now()).await.unwrap();
    prod.deployer.settle().await;
}

/// Its canary is at that share, and so many checks have failed.
async fn steps(prod: &Prod, part: &Deployment, weight: u32, failed_checks: u32) {
    let canary = CanaryStatus {
        workload: "Deployment devx/shop".to_owned(),
        phase: "Progressing".to_owned(),
        weight,
        failed_checks,
        threshold: 3,
        reason: (failed_checks > 0).then(|| "request duration 2 s > 1 s".to_owned()),
    };
    let status = ForgeStatus::in_cluster(ClusterPhase::Progressing, "a canary goes on");
    let change = ClusterChange {
        state: State::Progressing,
        summary: "a canary goes on".to_owned(),
        canaries: vec![canary],
        ..ClusterChange::end(part.id.clone(), State::Progressing, status)
    };
    record(prod, part, change).await;
}

#[tokio::test]
async fn the_canaries_of_a_fleet_have_one_message_that_names_their_clusters() {
    for mut deployer in Deployer::prepared_on_both().await {
        let slack = Slack::start(&deployer.clock).await;
        slack.channel("#squad");
        deployer.variable("SLACK_TOKEN", TOKEN);
        deployer.variable("CLUSTER_TOKEN", "token");
        let url = slack.api_url();
        deployer.configure(|text| {
            format!("{text}notify:\n  slack: {{token: {{env: SLACK_TOKEN}}, api_url: '{url}'}}\n")
        });
        let keys = ", kubernetes: {server: 'http://127.0.0.1:9', token: {env: CLUSTER_TOKEN}}";
        let clusters: String = CLUSTERS.iter().map(|name| cluster(name, keys)).collect();
        let prod = Box::pin(Prod::start(deployer, &configuration(&clusters, &CLUSTERS))).await;
        prod.shop().commit(
            &waml("shop").replace("namespace: devx\n", "namespace: devx\nslack: \"#squad\"\n"),
        );
        let deployment = prod.deploys("prod", "v1").await;
        assert_eq!(deployment.state, State::Syncing);
        let [first, second, third] = prod.records(&deployment).await.try_into().unwrap();
        let squad = || slack.read("#squad");
        steps(&prod, &first, 20, 0).await;
        assert_eq!(squad(), [], "the team hears of failed checks alone");
        steps(&prod, &second, 20, 1).await;
        let [halted]: [Read; 1] = squad().try_into().unwrap();
        assert_eq!(halted.title, "✋ shop v1 is halted on prod");
        let lines = [
            "eu-1: Deployment devx/shop: canary at 20 %",
            "eu-2: Deployment devx/shop: canary at 20 %",
        ];
        assert!(lines.iter().all(|line| halted.text.contains(line)), "{}", halted.text);
        // One cluster is done: its canary is not listed any more.
        let done = ForgeStatus::new(ForgeState::Success, "done");
        record(&prod, &first, ClusterChange::end(first.id.clone(), State::Succeeded, done.clone()))
            .await;
        steps(&prod, &second, 20, 2).await;
        let [halted]: [Read; 1] = squad().try_into().unwrap();
        assert!(halted.text.contains("2 of 3 checks failed"), "{}", halted.text);
        assert!(!halted.text.contains("eu-1: Deployment"), "{}", halted.text);
        // The end is a reply.
        for part in [second, third] {
            record(
                &prod,
                &part,
                ClusterChange::end(part.id.clone(), State::Succeeded, done.clone()),
            )
            .await;
        }
        let [canary, end]: [Read; 2] = squad().try_into().unwrap();
        assert_eq!(end.thread, Some(canary.ts));
        assert_eq!(end.title, "✅ shop v1 is deployed to prod");
        prod.deployer.settled().await;
        slack.all_read();
    }
}
