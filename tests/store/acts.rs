//! Removals: recorded before and after, and never beside a deployment of the same app.

use std::time::Duration;

use the_deployer::model::audit::Search;
use the_deployer::model::id::{AppKey, CommitSha, DeployId};
use the_deployer::model::removal::{RemovalEnd, RemovalRecord, RemovedObjects};
use the_deployer::store::{ActTurn, Completion, Findings, LeaseState, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id, request, somebody};
use crate::store::{accept, claim, push, succeeded};

const HOLD: Duration = Duration::from_mins(1);

fn app(lane: &str) -> AppKey {
    AppKey { namespace: "shop".parse().unwrap(), slug: lane.parse().unwrap() }
}

/// Removal `n` of the lane's app, asked for at second `n`.
fn removal(lane: &str, n: i64) -> RemovalRecord {
    RemovalRecord {
        id: id(n),
        target: "prod".parse().unwrap(),
        app: app(lane),
        actor: "alice".to_owned(),
        reason: "not used\0 any more".to_owned(),
        taken: RemovedObjects {
            files: vec!["apps/prod/shop.web.yaml".to_owned()],
            repository: Some(request(lane, "prod", n).release.repository),
            ..RemovedObjects::default()
        },
        asked_at: at(n),
        ended: None,
    }
}

async fn begin(store: &Store, lane: &str, n: i64) -> ActTurn {
    store.begin_removal((&removal(lane, n), &somebody()), None, at(n), HOLD).await.unwrap()
}

fn ended(n: i64) -> RemovalEnd {
    let commit = Some(CommitSha::parse("ab".repeat(20)).unwrap());
    RemovalEnd { at: at(n), commit, summary: "gone".to_owned() }
}

/// Deploys to the end, so that the store knows the app's repository.
async fn deployed(store: &Store, lane: &str, n: i64) -> DeployId {
    let id = accept(store, lane, n).await;
    let claimed = claim(store, n).await.unwrap();
    let _turn = push(store, &claimed, n).await;
    let known = Findings { app: Some(app(lane)), ..Findings::default() };
    let ending = Completion { findings: known, ..succeeded() };
    assert_eq!(store.finish(&claimed, &ending, at(n)).await.unwrap(), LeaseState::Held);
    id
}

#[tokio::test]
async fn a_removal_is_recorded_before_and_after() {
    run_on_both(async |db| {
        assert_eq!(begin(&db.store, "web", 5).await, ActTurn::Yes);
        let open = db.store.removals(&"prod".parse().unwrap(), &app("web")).await.unwrap();
        let expected =
            RemovalRecord { reason: "not used any more".to_owned(), ..removal("web", 5) };
        assert_eq!(open, std::slice::from_ref(&expected));
        db.store.end_removal(&id(5), &ended(6), None).await.unwrap();
        let later = RemovalEnd { commit: None, summary: "too late".to_owned(), ..ended(9) };
        db.store.end_removal(&id(5), &later, None).await.unwrap();
        let after = db.reopened().await.removals(&"prod".parse().unwrap(), &app("web")).await;
        assert_eq!(after.unwrap(), [RemovalRecord { ended: Some(ended(6)), ..expected }]);
    })
    .await;
}

#[tokio::test]
async fn nothing_begins_while_a_deployment_waits_or_runs() {
    run_on_both(async |db| {
        let waiting = accept(&db.store, "web", 1).await;
        assert_eq!(begin(&db.store, "web", 2).await, ActTurn::Deploying(waiting.clone()));
        let running = claim(&db.store, 3).await.unwrap();
        assert_eq!(begin(&db.store, "web", 4).await, ActTurn::Deploying(waiting));
        assert_eq!(begin(&db.store, "other", 5).await, ActTurn::Yes, "another app");
        let _yes = push(&db.store, &running, 6).await;
        let _yes = db.store.finish(&running, &succeeded(), at(7)).await.unwrap();
        assert_eq!(begin(&db.store, "web", 8).await, ActTurn::Yes);
        assert_eq!(begin(&db.store, "web", 9).await, ActTurn::Acting(id(8)));
    })
    .await;
}

#[tokio::test]
async fn the_repository_is_known_from_the_last_deployment_where_nothing_else_says_it() {
    run_on_both(async |db| {
        deployed(&db.store, "web", 1).await;
        let under_way = async || db.store.deploying(&"prod".parse().unwrap(), &app("web")).await;
        assert_eq!(under_way().await.unwrap(), None);
        let waiting = accept(&db.store, "web", 2).await;
        assert_eq!(under_way().await.unwrap(), Some(waiting.clone()));
        let mut unsaid = removal("web", 3);
        unsaid.taken.repository = None;
        let turn = db.store.begin_removal((&unsaid, &somebody()), None, at(3), HOLD).await.unwrap();
        assert_eq!(turn, ActTurn::Deploying(waiting));
    })
    .await;
}

#[tokio::test]
async fn a_deployment_that_comes_meanwhile_waits_until_the_end() {
    run_on_both(async |db| {
        assert_eq!(begin(&db.store, "web", 5).await, ActTurn::Yes);
        let web = accept(&db.store, "web", 6).await;
        let other = accept(&db.store, "other", 7).await;
        let first = claim(&db.store, 8).await.unwrap();
        assert_eq!(first.deployment.id, other, "only the app itself rests");
        assert_eq!(claim(&db.store, 8).await, None);
        db.store.end_removal(&id(5), &ended(9), None).await.unwrap();
        assert_eq!(claim(&db.store, 10).await.unwrap().deployment.id, web);
    })
    .await;
}

#[tokio::test]
async fn a_removal_whose_process_died_holds_nothing_up_for_ever() {
    run_on_both(async |db| {
        assert_eq!(begin(&db.store, "web", 5).await, ActTurn::Yes);
        assert!(db.store.abandoned_removals(at(64)).await.unwrap().is_empty());
        let abandoned = db.store.abandoned_removals(at(65)).await.unwrap();
        assert_eq!(abandoned[0].id, id(5));
        let web = accept(&db.store, "web", 6).await;
        assert_eq!(claim(&db.store, 64).await, None);
        assert_eq!(claim(&db.store, 65).await.unwrap().deployment.id, web);
        assert_eq!(begin(&db.store, "other", 70).await, ActTurn::Yes);
        db.store.end_leases(at(71)).await.unwrap();
        assert_eq!(db.store.abandoned_removals(at(71)).await.unwrap().len(), 2);
        db.store.abandon_removal(&id(5), at(71)).await.unwrap();
        db.store.end_removal(&id(5), &ended(72), None).await.unwrap();
        assert_eq!(db.store.abandoned_removals(at(80)).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_arrival_and_a_removal_at_once_agree() {
    run_on_both(async |db| {
        for n in (10..50).step_by(2) {
            let lane = format!("web{n}");
            let (deployment, turn) =
                tokio::join!(accept(&db.store, &lane, n), begin(&db.store, &lane, n + 1));
            let claimed = claim(&db.store, 60).await;
            match turn {
                ActTurn::Yes => {
                    assert_eq!(claimed, None, "the removal has the app to itself");
                    db.store.end_removal(&id(n + 1), &ended(61), None).await.unwrap();
                    let claimed = claim(&db.store, 62).await.unwrap();
                    let _held = db.store.finish(&claimed, &succeeded(), at(63)).await.unwrap();
                }
                ActTurn::Deploying(id) => {
                    assert_eq!(id, deployment);
                    let _held =
                        db.store.finish(&claimed.unwrap(), &succeeded(), at(63)).await.unwrap();
                }
                ActTurn::Acting(id) => panic!("{id}"),
                ActTurn::Superseded(_) => panic!("no rollout ordered it"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_removal_that_begins_is_in_the_audit_log_and_one_that_may_not_is_not() {
    run_on_both(async |db| {
        let logged = async || {
            let search = Search { limit: 9, ..Search::default() };
            db.store.audit_records(&search).await.unwrap().entries
        };
        assert_eq!(begin(&db.store, "a", 1).await, ActTurn::Yes);
        assert!(matches!(begin(&db.store, "a", 2).await, ActTurn::Acting(_)));
        let entries = logged().await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!((&*entries[0].act, &entries[0].by), ("remove", &somebody()));
    })
    .await;
}
