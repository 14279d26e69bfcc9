//! Old deployments are deleted, and what is needed of them is kept.

use the_deployer::model::id::{AppKey, DeployId};
use the_deployer::store::{
    ClusterFindings, Completion, Findings, LeaseState, RollbackTurn, Store, WorkloadRecord,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::harness::rollbacks::{app, entry, new};
use crate::store::{accept, claim, push, succeeded};

/// Long after everything that the tests do.
const LATER: i64 = 400 * 86_400;

fn of(slug: &str) -> AppKey {
    AppKey { slug: slug.parse().unwrap(), ..app() }
}

/// Deployment `n` of the lane to that end; what is told of it waits.
async fn run(store: &Store, lane: &str, n: i64, ending: Completion) -> DeployId {
    let id = accept(store, lane, n).await;
    let claimed = claim(store, n).await.unwrap();
    assert_eq!(claimed.deployment.id, id);
    let _turn = push(store, &claimed, n).await;
    let known = Findings { app: Some(of(lane)), ..Findings::default() };
    assert_eq!(
        store.finish(&claimed, &Completion { findings: known, ..ending }, at(n)).await.unwrap(),
        LeaseState::Held
    );
    id
}

fn failed() -> Completion {
    Completion { end: the_deployer::store::FinalState::Failed, ..succeeded() }
}

/// Everything that waits is sent.
async fn told(db: &crate::harness::database::Database) {
    db.execute("UPDATE outbox SET outcome = 'sent', done_at = at WHERE outcome IS NULL").await;
}

async fn prune(store: &Store) -> u64 {
    let mut behind = None;
    let mut all = 0;
    loop {
        let batch = store.prune_deployments(at(LATER), behind.as_ref(), 2).await.unwrap();
        all += batch.deleted;
        behind = batch.last;
        if behind.is_none() {
            return all;
        }
    }
}

async fn left(store: &Store) -> Vec<DeployId> {
    let page = store.deployments(&the_deployer::store::Filter::default(), None, 500).await.unwrap();
    let mut ids: Vec<_> = page.deployments.into_iter().map(|one| one.id).collect();
    ids.reverse();
    ids
}

#[tokio::test]
async fn of_an_app_the_live_one_and_those_that_a_rollback_needs_are_kept() {
    run_on_both(async |db| {
        for n in 1..=12 {
            run(&db.store, "web", n, succeeded()).await;
        }
        // Without a change there is no revision, and no room of one is taken.
        let same = |mut ending: Completion| {
            if let the_deployer::store::FinalState::Succeeded(pushed) = &mut ending.end {
                pushed.changed = false;
            }
            ending
        };
        for n in 13..=30 {
            run(&db.store, "web", n, same(succeeded())).await;
        }
        told(&db).await;
        assert_eq!(prune(&db.store).await, 2);
        assert_eq!(left(&db.store).await, (3..=30).map(id).collect::<Vec<_>>());
        assert_eq!(prune(&db.store).await, 0);
    })
    .await;
}

#[tokio::test]
async fn what_is_young_unfinished_or_still_to_be_told_is_kept() {
    run_on_both(async |db| {
        run(&db.store, "web", 1, failed()).await;
        told(&db).await;
        run(&db.store, "web", 2, failed()).await;
        run(&db.store, "web", 3, succeeded()).await;
        accept(&db.store, "web", 4).await;
        let young = db.store.prune_deployments(at(0), None, 100).await.unwrap();
        assert_eq!((young.deleted, young.last), (0, None));
        // Of 2 nobody was told; 3 is live; 4 waits.
        assert_eq!(prune(&db.store).await, 1);
        assert_eq!(left(&db.store).await, [2, 3, 4].map(id));
        assert!(db.store.messages(&id(1)).await.unwrap().is_empty());
        told(&db).await;
        assert_eq!(prune(&db.store).await, 1);
        assert_eq!(left(&db.store).await, [3, 4].map(id));
    })
    .await;
}

#[tokio::test]
async fn of_names_that_are_no_app_nothing_stays_once_another_has_ended() {
    run_on_both(async |db| {
        for (n, name) in [(1, "wokrer"), (2, "workre")] {
            let mut unknown = request("web", "prod", n);
            unknown.release.app = Some(the_deployer::model::id::AppName::parse(name).unwrap());
            let _new = db.store.accept(&delivery(n), &unknown, &id(n), at(n)).await.unwrap();
            let claimed = claim(&db.store, n).await.unwrap();
            let lease = db.store.finish(&claimed, &failed(), at(n)).await.unwrap();
            assert_eq!(lease, LeaseState::Held);
        }
        told(&db).await;
        assert_eq!(prune(&db.store).await, 1);
        assert_eq!(left(&db.store).await, [id(2)], "the newest");
        run(&db.store, "web", 3, failed()).await;
        told(&db).await;
        assert_eq!(prune(&db.store).await, 1);
        assert_eq!(left(&db.store).await, [id(3)]);
    })
    .await;
}

#[tokio::test]
async fn of_a_lane_the_newest_that_ended_is_kept_and_of_an_app_its_newest_success() {
    run_on_both(async |db| {
        for n in 1..=5 {
            run(&db.store, "broken", n, failed()).await;
        }
        // The lane's WAML names another app now; the first one is live still.
        let first = run(&db.store, "web", 6, succeeded()).await;
        db.execute("UPDATE deployments SET slug = 'before' WHERE state = 'succeeded'").await;
        for n in 7..=8 {
            run(&db.store, "web", n, succeeded()).await;
        }
        told(&db).await;
        assert_eq!(prune(&db.store).await, 4);
        assert_eq!(left(&db.store).await, [id(5), first, id(7), id(8)]);
        // An event that comes late is older than what is known of its lane.
        let late = request("broken", "prod", 2);
        let _accepted = db.store.accept(&delivery(90), &late, &id(90), at(LATER)).await.unwrap();
        let state = db.store.deployment(&id(90)).await.unwrap().unwrap().state;
        assert_eq!(state, the_deployer::model::deployment::State::Superseded);
    })
    .await;
}

#[tokio::test]
async fn claims_go_with_their_deployments() {
    run_on_both(async |db| {
        let old = run(&db.store, "web", 1, failed()).await;
        run(&db.store, "web", 2, failed()).await;
        let claim = format!(
            "INSERT INTO object_claims (deployment, target, namespace, slug, claimed_at, api_group, kind, name) \
             VALUES ('{old}', 'prod', 'shop', 'web', 0, '', 'Service', 'web')"
        );
        db.execute(&claim).await;
        told(&db).await;
        assert_eq!(prune(&db.store).await, 1);
        assert_eq!(db.url().count("object_claims").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_rollback_whose_hold_is_there_is_kept() {
    run_on_both(async |db| {
        run(&db.store, "web", 1, succeeded()).await;
        let noted = entry(2, "rollback", "x");
        let asked = db.store.accept_rollback(&new(2, 1), (&noted, None), at(2)).await;
        assert_eq!(asked.unwrap(), RollbackTurn::Yes);
        let claimed = claim(&db.store, 2).await.unwrap();
        let _turn = push(&db.store, &claimed, 2).await;
        assert_eq!(db.store.finish(&claimed, &succeeded(), at(2)).await.unwrap(), LeaseState::Held);
        let hold = db.store.hold(&"prod".parse().unwrap(), &app()).await.unwrap().unwrap();
        assert_eq!(hold.rollback, Some(id(2)));
        // Twelve more that leave the hold alone: programs ask for them.
        for n in 3..=14 {
            run(&db.store, "web", n, succeeded()).await;
            db.execute("UPDATE holds SET ended_at = NULL").await;
        }
        told(&db).await;
        prune(&db.store).await;
        let left = left(&db.store).await;
        assert!(left.contains(&id(2)) && !left.contains(&id(1)), "{left:?}");
    })
    .await;
}

#[tokio::test]
async fn what_is_known_of_canaries_goes_with_their_deployment() {
    run_on_both(async |db| {
        let store = &db.store;
        for n in 1..=15 {
            run(store, "web", n, succeeded()).await;
            let row =
                format!("('{}', 1, 'Deployment devx/web', {n}, 'Progressing', 10, 0, 3)", id(n));
            let columns =
                "deployment, number, workload, at, phase, weight, failed_checks, threshold";
            db.execute(&format!("INSERT INTO canary_samples ({columns}) VALUES {row}")).await;
        }
        told(&db).await;
        assert!(prune(store).await > 0);
        let left = left(store).await;
        for n in 1..=15 {
            let samples = store.canary_samples(&id(n)).await.unwrap();
            assert_eq!(samples.len(), usize::from(left.contains(&id(n))), "{n}");
        }
    })
    .await;
}

#[tokio::test]
async fn records_of_other_peoples_workloads_go_by_their_age_and_those_of_ours_with_their_deployments()
 {
    run_on_both(async |db| {
        let store = &db.store;
        let cluster = "prod".parse().unwrap();
        let length = std::time::Duration::from_mins(1);
        let lease = store.lease_cluster(&cluster, "one", at(0), length).await.unwrap().unwrap();
        let ours = run(store, "web", 1, succeeded()).await;
        let record = |workload: &str, sequence: u32, deployment: Option<DeployId>| WorkloadRecord {
            workload: format!("Deployment/devx/{workload}"),
            uid: "uid".to_owned(),
            sequence,
            deployment,
            record: format!("\"{workload} {sequence}\""),
        };
        let old = [
            record("pr-1", 1, None),
            record("pr-1", 2, None),
            record("web", 1, None),
            record("web", 2, Some(ours)),
        ];
        let findings = ClusterFindings { workloads: &old, ..ClusterFindings::default() };
        let _state = store.record_cluster_progress(&lease, findings, at(2)).await.unwrap();
        let new = [record("pr-2", 1, None)];
        let findings = ClusterFindings { workloads: &new, ..ClusterFindings::default() };
        let _state = store.record_cluster_progress(&lease, findings, at(9)).await.unwrap();
        assert_eq!(store.prune_foreign_progress(at(2), 10).await.unwrap(), 0, "none is older");
        assert_eq!(store.prune_foreign_progress(at(5), 1).await.unwrap(), 1, "in batches");
        assert_eq!(store.prune_foreign_progress(at(5), 10).await.unwrap(), 1);
        assert_eq!(store.prune_foreign_progress(at(5), 10).await.unwrap(), 0);
        let mut left = store.workload_records(&cluster).await.unwrap();
        left.sort();
        assert_eq!(left, ["\"pr-2 1\"", "\"web 1\"", "\"web 2\""]);
    })
    .await;
}
