//! Deployments of all apps of a repository: what becomes of those of their apps.

use the_deployer::model::deployment::State;
use the_deployer::model::id::{AppName, DeployId};
use the_deployer::store::{
    AppsTurn, Cancelled, Claim, LeaseState, PushTurn, Reply, RollbackTurn, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, entry, id};
use crate::harness::rollbacks;
use crate::store::{accept, claim, push, succeeded};

fn app(name: &str) -> AppName {
    AppName::parse(name).unwrap()
}

/// Deployment `n` of the repository names no app, and becomes one of each of these.
async fn split(store: &Store, n: i64, apps: &[(i64, &str)]) -> DeployId {
    let parent = accept(store, "shop", n).await;
    split_next(store, &parent, apps, n).await;
    parent
}

async fn split_next(store: &Store, parent: &DeployId, apps: &[(i64, &str)], second: i64) {
    let running = claim(store, second).await.unwrap();
    assert_eq!(&running.deployment.id, parent);
    let apps: Vec<_> = apps.iter().map(|(n, name)| (id(*n), app(name))).collect();
    assert_eq!(store.split(&running, &apps, at(second)).await.unwrap(), LeaseState::Held);
}

/// Claims everything that is due.
async fn claim_all(store: &Store, second: i64) -> Vec<Claim> {
    let mut claims = Vec::new();
    while let Some(one) = claim(store, second).await {
        claims.push(one);
    }
    claims
}

fn of(claims: &[Claim], deployment: &DeployId) -> Claim {
    claims.iter().find(|one| one.deployment.id == *deployment).unwrap().clone()
}

async fn cancel(store: &Store, deployment: &DeployId, second: i64) -> Cancelled {
    let entry = entry("cancel", 100_000 + second, "ada", "the wrong tag", at(second));
    store.cancel(deployment, &entry, &Reply::without_key()).await.unwrap()
}

async fn state(store: &Store, deployment: &DeployId) -> State {
    store.deployment(deployment).await.unwrap().unwrap().state
}

#[tokio::test]
async fn a_cancellation_ends_what_waits_and_all_ends_with_what_was_pushed() {
    run_on_both(async |db| {
        let store = &db.store;
        let all = split(store, 1, &[(20, "web"), (21, "worker")]).await;
        let claims = claim_all(store, 2).await;
        let web = of(&claims, &id(20));
        assert_eq!(store.follow_apps(&of(&claims, &all), at(3)).await.unwrap(), AppsTurn::Waiting);
        assert_eq!(push(store, &web, 3).await, PushTurn::Yes);
        let Cancelled::Yes(was) = cancel(store, &all, 4).await else { panic!() };
        assert_eq!(was.state, State::Running, "web is on its way");
        assert_eq!(state(store, &id(21)).await, State::Cancelled);
        // It is due at once, and says what has become of them.
        let parent = claim(store, 5).await.unwrap();
        assert_eq!(store.follow_apps(&parent, at(5)).await.unwrap(), AppsTurn::Waiting);
        assert_eq!(cancel(store, &all, 6).await, Cancelled::Pushing, "there is nothing left");
        assert_eq!(store.finish(&web, &succeeded(), at(7)).await.unwrap(), LeaseState::Held);
        let parent = claim(store, 8).await.unwrap();
        let turn = store.follow_apps(&parent, at(8)).await.unwrap();
        assert_eq!(turn, AppsTurn::Ended(State::Failed));
        let summary = store.deployment(&all).await.unwrap().unwrap().summary;
        assert_eq!(summary, "1 of 2 apps done; worker was cancelled by ada: the wrong tag");
        assert_eq!(db.audited().await.len(), 1, "what was not done is not in it");
    })
    .await;
}

#[tokio::test]
async fn a_cancellation_before_any_push_ends_all() {
    run_on_both(async |db| {
        let store = &db.store;
        let all = split(store, 1, &[(20, "web"), (21, "worker")]).await;
        let Cancelled::Yes(was) = cancel(store, &all, 4).await else { panic!() };
        assert_eq!(was.state, State::Cancelled);
        assert_eq!(state(store, &id(20)).await, State::Cancelled);
        assert_eq!(claim(store, 1_000).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_cancellation_of_what_has_ended_leaves_its_apps_alone() {
    run_on_both(async |db| {
        let store = &db.store;
        let older = split(store, 1, &[(20, "old"), (21, "web")]).await;
        accept(store, "shop", 30).await;
        // The older ones wait for their turn meanwhile.
        let claims = claim_all(store, 30).await;
        let turn = store.follow_apps(&of(&claims, &older), at(30)).await.unwrap();
        assert_eq!(turn, AppsTurn::Waiting);
        let newer = of(&claims, &id(30));
        let apps = [(id(40), app("web"))];
        assert_eq!(store.split(&newer, &apps, at(31)).await.unwrap(), LeaseState::Held);
        assert_eq!(state(store, &older).await, State::Superseded);
        let Cancelled::Ended(was) = cancel(store, &older, 32).await else { panic!() };
        assert_eq!(was.state, State::Superseded);
        let left = state(store, &id(20)).await;
        assert!(!left.is_final(), "it was not in the newer one: {left:?}");
        assert!(db.audited().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_race_of_a_cancellation_and_the_making_of_the_apps_leaves_none_behind() {
    run_on_both(async |db| {
        let store = &db.store;
        for n in 1..=10 {
            let parent = accept(store, "shop", n).await;
            let running = claim(store, n).await.unwrap();
            let apps = [(id(100 + n), app("web"))];
            let (cancelled, _) =
                tokio::join!(cancel(store, &parent, 200 + n), store.split(&running, &apps, at(n)));
            assert!(matches!(cancelled, Cancelled::Yes(_)), "{cancelled:?}");
            assert_eq!(state(store, &parent).await, State::Cancelled);
            assert_eq!(claim(store, 60).await, None, "nothing of it is deployed");
        }
    })
    .await;
}

#[tokio::test]
async fn a_rollback_of_an_app_is_newer_than_a_request_that_waits_and_names_none() {
    run_on_both(async |db| {
        let store = &db.store;
        let parent = accept(store, "web", 10).await;
        let mut back = rollbacks::new(30, 1);
        back.request.release.app = Some(app("web"));
        let entry = rollbacks::entry(30, "rollback", "broken");
        let turn = store.accept_rollback(&back, (&entry, None), at(30)).await.unwrap();
        assert_eq!(turn, RollbackTurn::Yes);
        let claims = claim_all(store, 31).await;
        let apps = [(id(40), app("web")), (id(41), app("worker"))];
        let lease = store.split(&of(&claims, &parent), &apps, at(32)).await.unwrap();
        assert_eq!(lease, LeaseState::Held);
        assert_eq!(state(store, &id(40)).await, State::Superseded);
        assert!(!state(store, &id(30)).await.is_final());
        assert_eq!(state(store, &id(41)).await, State::Queued);
    })
    .await;
}
