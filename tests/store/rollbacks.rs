//! A rollback has its place behind everything that there is, and its success takes a hold.

use the_deployer::model::app_instance::AppInstance;
use the_deployer::model::deployment::State;
use the_deployer::model::event::DeploymentRequest;
use the_deployer::model::id::{AppKey, DeployId};
use the_deployer::model::rollback::Hold;
use the_deployer::store::{Findings, LeaseState, PushTurn, Reply, RollbackTurn, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::harness::rollbacks::{app, entry, new};
use crate::store::{accept, claim, push, succeeded};

async fn ask(store: &Store, n: i64, to: i64) -> RollbackTurn {
    store
        .accept_rollback(&new(n, to), (&entry(n, "rollback", "broken"), None), at(n))
        .await
        .unwrap()
}

/// Claims the next, which must be that one, and brings it to a good end.
async fn done(store: &Store, n: i64, seconds: i64) {
    let claimed = claim(store, seconds).await.unwrap();
    assert_eq!(claimed.deployment.id, id(n));
    assert_eq!(push(store, &claimed, seconds).await, PushTurn::Yes);
    let known = Findings { app: Some(app()), ..Findings::default() };
    let mut ending = succeeded();
    ending.findings = known;
    assert_eq!(store.finish(&claimed, &ending, at(seconds)).await.unwrap(), LeaseState::Held);
}

async fn state(store: &Store, id: &DeployId) -> State {
    store.deployment(id).await.unwrap().unwrap().state
}

#[tokio::test]
async fn it_is_read_as_it_was_stored_and_supersedes_what_waits() {
    run_on_both(async |db| {
        let store = &db.store;
        accept(store, "web", 1).await;
        done(store, 1, 1).await;
        accept(store, "web", 2).await;
        assert_eq!(ask(store, 30, 1).await, RollbackTurn::Yes);
        assert_eq!(state(store, &id(2)).await, State::Superseded);
        let stored = store.deployment(&id(30)).await.unwrap().unwrap();
        let wanted = new(30, 1);
        assert_eq!(stored.rollback, Some(wanted.rollback));
        assert_eq!((stored.request, stored.app), (wanted.request, Some(app())));
        assert_eq!(ask(store, 31, 1).await, RollbackTurn::RollingBack(id(30)));
        done(store, 30, 40).await;
        assert_eq!(ask(store, 41, 1).await, RollbackTurn::Yes);
    })
    .await;
}

#[tokio::test]
async fn what_comes_after_it_waits_and_does_not_supersede_it() {
    run_on_both(async |db| {
        let store = &db.store;
        accept(store, "web", 1).await;
        done(store, 1, 1).await;
        assert_eq!(ask(store, 30, 1).await, RollbackTurn::Yes);
        accept(store, "web", 32).await;
        assert_eq!(state(store, &id(30)).await, State::Queued);
        done(store, 30, 33).await;
        done(store, 32, 34).await;
        // One that was asked for before and arrives late is older than the rollback.
        let _new = store
            .accept(&delivery(99), &request("web", "prod", 1_000), &id(50), at(50))
            .await
            .unwrap();
        done(store, 50, 51).await;
        assert_eq!(ask(store, 60, 1).await, RollbackTurn::Yes);
        let _new = store
            .accept(&delivery(98), &request("web", "prod", 999), &id(61), at(61))
            .await
            .unwrap();
        assert_eq!(state(store, &id(61)).await, State::Superseded);
    })
    .await;
}

#[tokio::test]
async fn its_success_takes_a_hold_that_a_person_ends() {
    run_on_both(async |db| {
        let (store, target) = (&db.store, "prod".parse().unwrap());
        accept(store, "web", 1).await;
        done(store, 1, 1).await;
        assert_eq!(ask(store, 30, 1).await, RollbackTurn::Yes);
        assert_eq!(store.hold(&target, &app()).await.unwrap(), None, "not before its end");
        done(store, 30, 31).await;
        let hold = store.hold(&target, &app()).await.unwrap().unwrap();
        assert_eq!((hold.by.as_str(), hold.reason.as_str()), ("jo", "broken"));
        assert_eq!((&hold.rollback, hold.to.as_ref().unwrap().as_str()), (&Some(id(30)), "v1"));
        assert_eq!(hold.away.as_ref().unwrap().tag.as_str(), "v2");
        let automatic = DeploymentRequest { automatic: true, ..request("web", "prod", 32) };
        let _new = store.accept(&delivery(32), &automatic, &id(32), at(32)).await.unwrap();
        done(store, 32, 33).await;
        assert_eq!(store.holds(None).await.unwrap(), std::slice::from_ref(&hold));
        accept(store, "web", 34).await;
        done(store, 34, 35).await;
        assert_eq!(store.holds(Some(&target)).await.unwrap(), []);
    })
    .await;
}

/// A hold of Alice's.
fn held(reason: &str, n: i64) -> Hold {
    Hold {
        target: "prod".parse().unwrap(),
        app: app(),
        by: "alice".into(),
        reason: reason.into(),
        since: at(n),
        rollback: None,
        away: None,
        to: None,
    }
}

#[tokio::test]
async fn a_hold_that_comes_while_a_deployment_is_planned_stops_its_push() {
    run_on_both(async |db| {
        let store = &db.store;
        let known = Findings { app: Some(app()), ..Findings::default() };
        store
            .place_hold(&held("before", 1), &entry(1, "hold", "before"), &Reply::without_key())
            .await
            .unwrap();
        accept(store, "web", 2).await;
        let claimed = claim(store, 3).await.unwrap();
        store
            .place_hold(
                &held("meanwhile", 4),
                &entry(4, "hold", "meanwhile"),
                &Reply::without_key(),
            )
            .await
            .unwrap();
        let turn = store.begin_push(&claimed, &known, at(5)).await.unwrap();
        let PushTurn::HeldBack(hold) = turn else { panic!("{turn:?}") };
        assert_eq!(hold.reason, "meanwhile");
        assert_eq!(store.retry_at(&claimed, at(6), "held", None).await.unwrap(), LeaseState::Held);
        // The next attempt's rules have judged it.
        let again = claim(store, 7).await.unwrap();
        assert_eq!(store.begin_push(&again, &known, at(8)).await.unwrap(), PushTurn::Yes);
        let mut ending = succeeded();
        ending.findings = known;
        // One that is placed while it is pushed is not ended by it.
        store
            .place_hold(&held("late", 9), &entry(9, "hold", "late"), &Reply::without_key())
            .await
            .unwrap();
        assert_eq!(store.finish(&again, &ending, at(10)).await.unwrap(), LeaseState::Held);
        let left: Vec<_> = store.holds(None).await.unwrap();
        assert_eq!(left.iter().map(|one| one.reason.as_str()).collect::<Vec<_>>(), ["late"]);
    })
    .await;
}

#[tokio::test]
async fn a_persons_hold_keeps_what_a_rollbacks_knows() {
    run_on_both(async |db| {
        let store = &db.store;
        accept(store, "web", 1).await;
        done(store, 1, 1).await;
        assert_eq!(ask(store, 30, 1).await, RollbackTurn::Yes);
        done(store, 30, 31).await;
        let over = store
            .place_hold(&held("watched", 40), &entry(40, "hold", "watched"), &Reply::without_key())
            .await;
        let over = over.unwrap();
        assert_eq!((over.reason.as_str(), over.rollback), ("watched", Some(id(30))));
        assert_eq!(over.away.unwrap().tag.as_str(), "v2");
    })
    .await;
}

#[tokio::test]
async fn a_hold_takes_the_place_of_another_and_is_released_once() {
    run_on_both(async |db| {
        let (store, target) = (&db.store, "prod".parse().unwrap());
        store
            .place_hold(&held("one", 1), &entry(1, "hold", "one"), &Reply::without_key())
            .await
            .unwrap();
        store
            .place_hold(&held("two", 2), &entry(2, "hold", "two"), &Reply::without_key())
            .await
            .unwrap();
        assert_eq!(store.holds(None).await.unwrap(), [held("two", 2)]);
        let held_app = AppInstance { target, app: app() };
        let slug = "shop".parse().unwrap();
        let other_app =
            AppInstance { app: AppKey { slug, ..app() }, target: held_app.target.clone() };
        let release = async |instance: &AppInstance, of_rollback: Option<i64>, n: i64| {
            let (rollback, entry) = (of_rollback.map(id), entry(n, "release", "x"));
            let reply = Reply::without_key();
            store.release_hold(instance, rollback.as_ref(), &entry, &reply).await.unwrap()
        };
        assert_eq!(release(&other_app, None, 3).await, None);
        assert_eq!(release(&other_app, Some(2), 4).await, None);
        assert_eq!(release(&held_app, Some(1), 5).await, None, "another took its place");
        assert_eq!(store.holds(None).await.unwrap(), [held("two", 2)]);
        assert_eq!(release(&held_app, Some(2), 6).await, Some(held("two", 2)));
        assert_eq!(release(&held_app, Some(2), 7).await, None);
        store
            .place_hold(&held("three", 8), &entry(8, "hold", "three"), &Reply::without_key())
            .await
            .unwrap();
        assert_eq!(release(&held_app, None, 9).await, Some(held("three", 8)));
        assert_eq!(release(&held_app, None, 10).await, None);
    })
    .await;
}

#[tokio::test]
async fn the_forges_number_is_noted_once() {
    run_on_both(async |db| {
        let store = &db.store;
        accept(store, "web", 1).await;
        done(store, 1, 1).await;
        assert_eq!(ask(store, 30, 1).await, RollbackTurn::Yes);
        let number = async || store.deployment(&id(30)).await.unwrap().unwrap().request.number();
        assert_eq!(number().await, None);
        store.number_rollback(&id(30), 77).await.unwrap();
        store.number_rollback(&id(30), 78).await.unwrap();
        assert_eq!(number().await, Some(77));
    })
    .await;
}
