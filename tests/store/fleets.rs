//! Deployments to fleets: what their parts claim on each cluster, in the transaction that begins the push.

use std::collections::BTreeMap;

use the_deployer::model::claim::Claims;
use the_deployer::model::deployment::State;
use the_deployer::model::fleets::Fleets;
use the_deployer::model::id::{AppKey, DeployId, RepoName, TargetName};
use the_deployer::model::route::RouteClaim;
use the_deployer::store::{
    Accepted, Claim, Completion, Findings, FleetPart, FleetPartPush, LeaseState, PushTurn, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::store::{claim, succeeded};

const CLUSTERS: [&str; 2] = ["eu", "us"];

fn name(text: &str) -> TargetName {
    TargetName::parse(text).unwrap()
}

fn fleets() -> Fleets {
    Fleets::new(BTreeMap::from([(name("world"), CLUSTERS.map(name).into())]))
}

fn app(slug: &str) -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() }
}

fn route(host: &str) -> RouteClaim {
    RouteClaim { host: host.to_owned(), path: "/".to_owned(), live: false }
}

/// Deployment `n` of a repository, at a worker since second `n`.
async fn running(store: &Store, repository: &str, target: &str, n: i64) -> Claim {
    running_since(store, (repository, target), n, n).await
}

/// Deployment `n` of a repository, at a worker since a second.
async fn running_since(
    store: &Store,
    (repository, target): (&str, &str),
    n: i64,
    second: i64,
) -> Claim {
    let mut request = request("x", target, n);
    request.release.repository = RepoName::parse(repository).unwrap();
    let accepted = store.accept(&delivery(n), &request, &id(n), at(second)).await;
    assert_eq!(accepted.unwrap(), Accepted::New);
    claim(store, second).await.unwrap()
}

/// The id of the part of deployment `n` on a cluster.
fn part_id(n: i64, cluster: &str) -> DeployId {
    let place = CLUSTERS.iter().position(|one| *one == cluster).unwrap();
    id(100_000 + 10 * n + i64::try_from(place).unwrap())
}

/// What a plan for an app on each cluster found out: `HOST.eu` and `HOST.us` are its own.
fn planned(slug: &str, host: &str, n: i64) -> Findings {
    let part = |cluster: &str| FleetPart {
        id: part_id(n, cluster),
        cluster: name(cluster),
        address: None,
        claims: Claims { routes: vec![route(&format!("{host}.{cluster}"))], objects: Vec::new() },
        rollback: None,
    };
    Findings { app: Some(app(slug)), parts: CLUSTERS.map(part).into(), ..Findings::default() }
}

/// What a plan for an app on one cluster found out.
fn planned_alone(slug: &str, host: &str) -> Findings {
    Findings { app: Some(app(slug)), routes: vec![route(host)], ..Findings::default() }
}

/// The end of a push to all clusters, of which none is watched.
fn pushed(findings: Findings) -> Completion {
    let end = succeeded();
    let the_deployer::store::FinalState::Succeeded(push) = &end.end else { panic!("pushed") };
    let of_part = |part: &FleetPart| FleetPartPush {
        id: part.id.clone(),
        cluster: part.cluster.clone(),
        pushed: push.clone(),
        is_watched: false,
        hand_edit: None,
    };
    let part_pushes = findings.parts.iter().map(of_part).collect();
    Completion { findings: Findings { part_pushes, ..findings }, ..end }
}

#[tokio::test]
async fn of_a_fleet_and_an_app_that_take_one_host_on_one_cluster_one_gets_the_turn() {
    run_on_both(async |db| {
        let store = db.store.clone().with_fleets(fleets());
        let other = db.reopened().await.with_fleets(fleets());
        // All within the minute that a lease lasts: later, workers would take up the first ones again.
        for pair in 0..40 {
            let (n, m) = (2 * pair + 1, 2 * pair + 2);
            let host = format!("shop-{pair}");
            let a = running_since(&store, (&format!("acme/fleet-{pair}"), "world"), n, pair).await;
            let b = running_since(&store, (&format!("acme/single-{pair}"), "us"), m, pair).await;
            let (fleet, single) = (
                planned(&format!("fleet-{pair}"), &host, n),
                planned_alone(&format!("single-{pair}"), &format!("{host}.us")),
            );
            let (a_turn, b_turn) = tokio::join!(
                store.begin_push(&a, &fleet, at(pair)),
                other.begin_push(&b, &single, at(pair)),
            );
            let turns = [a_turn.unwrap(), b_turn.unwrap()];
            let given = turns.iter().filter(|turn| **turn == PushTurn::Yes).count();
            let refused = turns.iter().filter(|turn| matches!(turn, PushTurn::Claimed(_))).count();
            assert_eq!((given, refused), (1, 1), "{turns:?}");
            let parts = store.fleet_parts(&a.deployment.id).await.unwrap();
            let expected = if turns[0] == PushTurn::Yes { CLUSTERS.len() } else { 0 };
            assert_eq!(parts.len(), expected, "a part on every cluster, or on none");
        }
    })
    .await;
}

#[tokio::test]
async fn a_part_is_no_workers_and_ends_with_its_fleets_deployment() {
    run_on_both(async |db| {
        let store = db.store.clone().with_fleets(fleets());
        let fleet = running(&store, "acme/shop", "world", 1).await;
        let findings = planned("shop", "shop", 1);
        assert_eq!(store.begin_push(&fleet, &findings, at(2)).await.unwrap(), PushTurn::Yes);
        assert!(claim(&store, 3).await.is_none(), "parts are not claimed");
        // A deployment to one of the clusters waits for it.
        let mut single = request("x", "eu", 4);
        single.release.repository = RepoName::parse("acme/shop").unwrap();
        let _new = store.accept(&delivery(4), &single, &id(4), at(4)).await.unwrap();
        assert!(claim(&store, 5).await.is_none(), "the cluster's lane is the fleet's");
        let depth = store.depth().await.unwrap();
        assert_eq!((depth.queued, depth.running), (1, 1), "parts are not counted");
        let end = pushed(findings);
        assert_eq!(store.finish(&fleet, &end, at(6)).await.unwrap(), LeaseState::Held);
        for part in store.fleet_parts(&fleet.deployment.id).await.unwrap() {
            assert_eq!(part.state, State::Succeeded);
            let owner = store.ownership(&part.request.target, &app("shop")).await.unwrap();
            assert_eq!(owner.app.unwrap().as_str(), "acme/shop");
        }
        let next = claim(&store, 7).await.unwrap();
        assert_eq!(next.deployment.id, id(4), "then it is the single one's turn");
    })
    .await;
}

#[tokio::test]
async fn on_each_cluster_the_newest_wins_and_a_fleet_is_whole() {
    Box::pin(run_on_both(async |db| {
        let store = db.store.clone().with_fleets(fleets());
        // The single one is newer: the fleet's is superseded as a whole.
        let fleet = running(&store, "acme/shop", "world", 1).await;
        let single = running(&store, "acme/shop", "eu", 2).await;
        let turn = store.begin_push(&fleet, &planned("shop", "shop", 1), at(3)).await.unwrap();
        assert_eq!(turn, PushTurn::Superseded { by: id(2) });
        let alone = planned_alone("shop", "shop.eu");
        assert_eq!(store.begin_push(&single, &alone, at(4)).await.unwrap(), PushTurn::Yes);
        // A newer one of the fleet waits while that pushes.
        let fleet = running(&store, "acme/shop", "world", 5).await;
        let findings = planned("shop", "shop", 5);
        let turn = store.begin_push(&fleet, &findings, at(6)).await.unwrap();
        assert_eq!(turn, PushTurn::Busy { with: id(2) });
        let end = Completion { findings: alone, ..succeeded() };
        assert_eq!(store.finish(&single, &end, at(7)).await.unwrap(), LeaseState::Held);
        assert_eq!(store.begin_push(&fleet, &findings, at(8)).await.unwrap(), PushTurn::Yes);
        // An older single one that a worker has does not push over it.
        assert_eq!(store.finish(&fleet, &pushed(findings), at(9)).await.unwrap(), LeaseState::Held);
        let late = running_late(&store, 10).await;
        let turn =
            store.begin_push(&late, &planned_alone("shop", "shop.eu"), at(13)).await.unwrap();
        assert!(matches!(turn, PushTurn::Superseded { .. }), "{turn:?}");
    }))
    .await;
}

/// A deployment to one cluster that a worker has had since before a newer one of the fleet was pushed.
async fn running_late(store: &Store, n: i64) -> Claim {
    let late = running(store, "acme/shop", "eu", n).await;
    let fleet = running(store, "acme/shop", "world", n + 1).await;
    let findings = planned("shop", "shop", n + 1);
    assert_eq!(store.begin_push(&fleet, &findings, at(n + 2)).await.unwrap(), PushTurn::Yes);
    assert_eq!(store.finish(&fleet, &pushed(findings), at(n + 2)).await.unwrap(), LeaseState::Held);
    late
}

#[tokio::test]
async fn another_attempt_keeps_the_parts_of_clusters_that_are_still_in_the_fleet() {
    run_on_both(async |db| {
        let store = db.store.clone().with_fleets(fleets());
        let fleet = running(&store, "acme/shop", "world", 1).await;
        let findings = planned("shop", "shop", 1);
        assert_eq!(store.begin_push(&fleet, &findings, at(2)).await.unwrap(), PushTurn::Yes);
        let retried = store.retry_at(&fleet, at(3), "the host is down", None).await.unwrap();
        assert_eq!(retried, LeaseState::Held);
        let again = claim(&store, 4).await.unwrap();
        assert_eq!(again.deployment.state, State::Pushing);
        let fewer = Findings { parts: findings.parts[..1].to_vec(), ..findings };
        assert_eq!(store.begin_push(&again, &fewer, at(5)).await.unwrap(), PushTurn::Yes);
        let parts = store.fleet_parts(&again.deployment.id).await.unwrap();
        let ids: Vec<_> = parts.iter().map(|part| part.id.clone()).collect();
        assert_eq!(ids, [part_id(1, "eu")]);
    })
    .await;
}
