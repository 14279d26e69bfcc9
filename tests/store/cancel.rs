//! A person stops a deployment, or comes too late.

use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::id::DeployId;
use the_deployer::store::{Cancelled, LeaseState, PushTurn, Reply, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, entry, id};
use crate::store::{accept, claim, push, succeeded, told};

/// Somebody cancels it in that second.
async fn cancel(store: &Store, deployment: &DeployId, second: i64) -> Cancelled {
    let entry = entry("cancel", 100_000 + second, "ada", "the wrong tag", at(second));
    store.cancel(deployment, &entry, &Reply::without_key()).await.unwrap()
}

#[tokio::test]
async fn one_that_waits_ends_with_the_reason_and_the_next_has_its_turn() {
    run_on_both(async |db| {
        let one = accept(&db.store, "web", 1).await;
        let Cancelled::Yes(was) = cancel(&db.store, &one, 2).await else { panic!() };
        assert_eq!((was.state, was.finished_at), (State::Cancelled, Some(at(2))));
        assert_eq!(was.summary, "cancelled by ada: the wrong tag");
        assert_eq!(told(&db.store, &one).await, [ForgeState::Queued, ForgeState::Inactive]);
        let last = db.store.statuses(&one).await.unwrap().pop().unwrap();
        assert_eq!(last.status.description(), "cancelled by ada: the wrong tag");
        assert_eq!(claim(&db.store, 3).await, None);
        let next = accept(&db.store, "web", 4).await;
        assert_eq!(claim(&db.store, 5).await.unwrap().deployment.id, next);
        let Cancelled::Ended(was) = cancel(&db.store, &one, 6).await else { panic!() };
        assert_eq!(was.state, State::Cancelled);
        assert_eq!(told(&db.store, &one).await.len(), 2, "nobody is told twice");
        assert_eq!(cancel(&db.store, &id(99), 7).await, Cancelled::NotThere);
        let noted = format!("ada cancel prod - - deployment {one} of acme/web the wrong tag");
        assert_eq!(db.audited().await, [noted], "what was not done is not in it");
    })
    .await;
}

#[tokio::test]
async fn one_that_runs_loses_its_worker() {
    run_on_both(async |db| {
        let one = accept(&db.store, "web", 1).await;
        let running = claim(&db.store, 2).await.unwrap();
        assert!(matches!(cancel(&db.store, &one, 3).await, Cancelled::Yes(_)));
        assert_eq!(push(&db.store, &running, 4).await, PushTurn::Lost);
        assert_eq!(db.store.retry_at(&running, at(9), "x", None).await.unwrap(), LeaseState::Lost);
        assert_eq!(db.store.finish(&running, &succeeded(), at(5)).await.unwrap(), LeaseState::Lost);
        assert_eq!(claim(&db.store, 1_000).await, None, "nobody takes it up again");
        let after = db.store.deployment(&one).await.unwrap().unwrap();
        assert_eq!((after.state, after.finished_at), (State::Cancelled, Some(at(3))));
    })
    .await;
}

#[tokio::test]
async fn after_the_point_of_no_return_it_is_too_late() {
    run_on_both(async |db| {
        let one = accept(&db.store, "web", 1).await;
        let pushing = claim(&db.store, 2).await.unwrap();
        assert_eq!(push(&db.store, &pushing, 3).await, PushTurn::Yes);
        assert_eq!(cancel(&db.store, &one, 4).await, Cancelled::Pushing);
        assert_eq!(db.store.finish(&pushing, &succeeded(), at(5)).await.unwrap(), LeaseState::Held);
        let Cancelled::Ended(was) = cancel(&db.store, &one, 6).await else { panic!() };
        assert_eq!(was.state, State::Succeeded);
    })
    .await;
}

#[tokio::test]
async fn a_cancellation_and_the_point_of_no_return_at_once_agree() {
    run_on_both(async |db| {
        for n in 10..50 {
            let one = accept(&db.store, &format!("web{n}"), n).await;
            let running = claim(&db.store, 60).await.unwrap();
            let (cancelled, turn) =
                tokio::join!(cancel(&db.store, &one, 100 + n), push(&db.store, &running, 61));
            let state = db.store.deployment(&one).await.unwrap().unwrap().state;
            match (cancelled, turn) {
                (Cancelled::Yes(_), PushTurn::Lost) => assert_eq!(state, State::Cancelled),
                (Cancelled::Pushing, PushTurn::Yes) => assert_eq!(state, State::Pushing),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn of_two_who_cancel_one_has_done_it() {
    run_on_both(async |db| {
        for n in 10..30 {
            let one = accept(&db.store, &format!("web{n}"), n).await;
            let both =
                tokio::join!(cancel(&db.store, &one, 100 + n), cancel(&db.store, &one, 200 + n));
            let done = matches!(both.0, Cancelled::Yes(_)) != matches!(both.1, Cancelled::Yes(_));
            assert!(done, "{both:?}");
            assert_eq!(told(&db.store, &one).await, [ForgeState::Queued, ForgeState::Inactive]);
        }
    })
    .await;
}
