//! The deploy clock in the store: each mark once, with the first time, whoever adds it.

use std::time::Duration;

use the_deployer::model::deploy_clock::{DeployMark, MarkClock, MarkTime};
use the_deployer::model::event::DeploymentRequest;
use the_deployer::model::id::{DeployId, TargetName};
use the_deployer::model::notice::{SinkFamily, Subscriptions};
use the_deployer::store::{
    Accepted, ClusterFindings, Completion, DeliveryOutcome, FinalState, Findings, LeaseState,
    PushTurn, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::store::{LEASE, accept, claim, succeeded};

fn prod() -> TargetName {
    TargetName::parse("prod").unwrap()
}

/// The marks of a deployment, each with its second after `at(0)` and its clock.
async fn marks(store: &Store, id: &DeployId) -> Vec<(DeployMark, i64, MarkClock)> {
    let deployment = store.deployment(id).await.unwrap().unwrap();
    let second = |time: &MarkTime| time.at.duration_since(at(0)).as_secs();
    deployment.marks.iter().map(|time| (time.mark, second(time), time.clock)).collect()
}

/// How the deployment of a worker's claim ends at second `n`, planned a second before.
async fn ends(store: &Store, end: fn(FinalState) -> FinalState, n: i64) -> DeployId {
    let claimed = claim(store, n - 2).await.unwrap();
    let findings = Findings { planned_at: Some(at(n - 1)), ..Findings::default() };
    assert_eq!(store.begin_push(&claimed, &findings, at(n)).await.unwrap(), PushTurn::Yes);
    let ending = Completion { end: end(succeeded().end), findings, ..succeeded() };
    assert_eq!(store.finish(&claimed, &ending, at(n)).await.unwrap(), LeaseState::Held);
    claimed.deployment.id
}

fn syncing(end: FinalState) -> FinalState {
    let FinalState::Succeeded(pushed) = end else { panic!("{end:?}") };
    FinalState::Syncing(pushed)
}

#[tokio::test]
async fn each_transaction_adds_its_marks_and_the_first_time_stays() {
    run_on_both(async |db| {
        let subscriptions =
            Subscriptions { argocd: [prod()].into_iter().collect(), ..Subscriptions::default() };
        let store = db.store.clone().with_subscriptions(subscriptions);
        let asked = DeploymentRequest { requested_at: Some(at(1)), ..request("web", "prod", 7) };
        let accepted = store.accept(&delivery(7), &asked, &id(7), at(3)).await.unwrap();
        assert_eq!(accepted, Accepted::New);
        let (service, cluster) = (MarkClock::Service, MarkClock::Cluster);
        let first =
            [(DeployMark::Requested, 1, MarkClock::CodeHost), (DeployMark::Received, 3, service)];
        assert_eq!(marks(&store, &id(7)).await, first);
        let again = store.accept(&delivery(8), &asked, &id(8), at(5)).await.unwrap();
        assert_eq!(again, Accepted::Duplicate(id(7)));
        let stored = store.deployment(&id(7)).await.unwrap().unwrap();
        assert_eq!(stored.request.requested_at, Some(at(1)));

        let pushed = ends(&store, syncing, 10).await;
        let family = SinkFamily::ArgoCd(prod());
        let events = store.take_messages(&family, at(11), LEASE, 9).await.unwrap();
        assert_eq!(events.len(), 1);
        let sent = DeliveryOutcome::Sent { reference: None };
        let outcomes: Vec<_> = events.into_iter().map(|event| (event, sent.clone())).collect();
        let _held = store.record_outcomes(&outcomes, at(12)).await.unwrap();
        let _lost = store.record_outcomes(&outcomes, at(15)).await.unwrap();

        let lease = store.lease_cluster(&prod(), "one", at(20), Duration::from_mins(1)).await;
        let lease = lease.unwrap().unwrap();
        for (n, seconds) in [(0, 14), (1, 99)] {
            let times = vec![
                MarkTime::new(DeployMark::CommitSeen, at(seconds), cluster, at(30)),
                MarkTime::of_service(DeployMark::RolloutBegan, at(18 + n)),
            ];
            let marks = [(pushed.clone(), times), (id(404), Vec::new())];
            let recorded = store
                .record_cluster_progress(
                    &lease,
                    ClusterFindings { marks: &marks, ..ClusterFindings::default() },
                    at(30),
                )
                .await;
            assert_eq!(recorded.unwrap(), LeaseState::Held);
        }
        let last = [
            (DeployMark::Planned, 9, service),
            (DeployMark::Pushed, 10, service),
            (DeployMark::ArgocdNotified, 12, service),
            (DeployMark::CommitSeen, 14, cluster),
            (DeployMark::RolloutBegan, 18, service),
        ];
        assert_eq!(marks(&store, &pushed).await, [&first[..], &last[..]].concat());
        let listed = store.deployments(&the_deployer::store::Filter::default(), None, 9).await;
        let stored = store.deployment(&pushed).await.unwrap().unwrap();
        assert_eq!(listed.unwrap().deployments[0].marks, stored.marks);
    })
    .await;
}

#[tokio::test]
async fn where_no_cluster_is_watched_the_push_is_the_finish_and_a_lost_lease_marks_nothing() {
    run_on_both(async |db| {
        let store = &db.store;
        accept(store, "web", 1).await;
        let done = ends(store, |end| end, 9).await;
        let service = MarkClock::Service;
        let expected = [
            (DeployMark::Requested, 1, service),
            (DeployMark::Received, 1, service),
            (DeployMark::Planned, 8, service),
            (DeployMark::Pushed, 9, service),
            (DeployMark::Finished, 9, service),
        ];
        assert_eq!(marks(store, &done).await, expected);
        let take = async |name: &str, seconds| {
            let lease = store.lease_cluster(&prod(), name, at(seconds), LEASE).await;
            lease.unwrap().unwrap()
        };
        let lost = take("one", 20).await;
        let _held = take("two", 20 + 120).await;
        let times = vec![MarkTime::of_service(DeployMark::Synced, at(21))];
        let marked = [(done.clone(), times)];
        let recorded = store
            .record_cluster_progress(
                &lost,
                ClusterFindings { marks: &marked, ..ClusterFindings::default() },
                at(21),
            )
            .await;
        assert_eq!(recorded.unwrap(), LeaseState::Lost);
        assert_eq!(marks(store, &done).await, expected);
    })
    .await;
}
