//! An event becomes a deployment once, and never overtakes.

use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::store::Accepted;

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::store::{LEASE, accept, claim, push, succeeded, told};

#[tokio::test]
async fn an_accepted_deployment_is_read_back_as_it_came() {
    run_on_both(async |db| {
        let mut asked = request("web", "prod", 7);
        asked.description = "Grüße; it's \"quoted\"\n$1 ?".to_owned();
        let new = db.store.accept(&delivery(1), &asked, &id(1), at(0)).await.unwrap();
        assert_eq!(new, Accepted::New);
        let stored = db.store.deployment(&id(1)).await.unwrap().unwrap();
        assert_eq!(stored.request, asked);
        assert_eq!((stored.state, stored.received_at), (State::Queued, at(0)));
        assert_eq!((stored.attempts, stored.finished_at, stored.app), (0, None, None));
        assert_eq!(told(&db.store, &id(1)).await, [ForgeState::Queued]);
    })
    .await;
}

#[tokio::test]
async fn a_nul_in_a_free_text_is_left_out() {
    run_on_both(async |db| {
        let mut asked = request("web", "prod", 7);
        asked.actor = "j\0o".to_owned();
        let _new = db.store.accept(&delivery(1), &asked, &id(1), at(0)).await.unwrap();
        let stored = db.store.deployment(&id(1)).await.unwrap().unwrap();
        assert_eq!(stored.request.actor, "jo");
    })
    .await;
}

#[tokio::test]
async fn a_redelivery_is_the_same_deployment() {
    run_on_both(async |db| {
        let first = accept(&db.store, "web", 1).await;
        let again = db.store.accept(&delivery(1), &request("web", "prod", 1), &id(2), at(9)).await;
        assert_eq!(again.unwrap(), Accepted::Duplicate(first.clone()));
        assert_eq!(db.store.deployment(&id(2)).await.unwrap(), None);
        assert_eq!(told(&db.store, &first).await, [ForgeState::Queued]);
    })
    .await;
}

#[tokio::test]
async fn a_second_delivery_about_the_same_deployment_is_a_duplicate() {
    run_on_both(async |db| {
        let first = accept(&db.store, "web", 1).await;
        let again = db.store.accept(&delivery(2), &request("web", "prod", 1), &id(2), at(9)).await;
        assert_eq!(again.unwrap(), Accepted::Duplicate(first));
        let other = db.store.accept(&delivery(3), &request("api", "prod", 1), &id(3), at(9)).await;
        assert_eq!(other.unwrap(), Accepted::New, "numbers are the forge's per repository");
    })
    .await;
}

#[tokio::test]
async fn a_deliverys_id_that_comes_again_with_another_deployment_swallows_neither() {
    run_on_both(async |db| {
        let first = accept(&db.store, "web", 1).await;
        let other = request("api", "prod", 2);
        let taken = db.store.accept(&delivery(1), &other, &id(2), at(9)).await;
        assert_eq!(taken.unwrap(), Accepted::New);
        for (asked, stored) in [(request("web", "prod", 1), first), (other, id(2))] {
            let again = db.store.accept(&delivery(1), &asked, &id(3), at(9)).await;
            assert_eq!(again.unwrap(), Accepted::Duplicate(stored));
        }
        assert_eq!(db.store.depth().await.unwrap().queued, 2);
    })
    .await;
}

#[tokio::test]
async fn the_same_delivery_eight_times_at_once_is_stored_once() {
    run_on_both(async |db| {
        let tries = (0..8).map(|n| {
            let store = db.store.clone();
            let asked = request("web", "prod", 1);
            tokio::spawn(async move { store.accept(&delivery(1), &asked, &id(n), at(0)).await })
        });
        let results = futures::future::join_all(tries).await;
        let new = results.into_iter().filter(|r| matches!(r, Ok(Ok(Accepted::New)))).count();
        assert_eq!(new, 1);
        assert_eq!(db.store.depth().await.unwrap().queued, 1);
    })
    .await;
}

#[tokio::test]
async fn an_id_that_is_taken_is_told() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let taken = db.store.accept(&delivery(2), &request("web", "prod", 2), &id(1), at(9)).await;
        assert!(taken.unwrap_err().to_string().contains("is taken"));
    })
    .await;
}

#[tokio::test]
async fn a_newer_one_supersedes_those_that_wait() {
    run_on_both(async |db| {
        let older = accept(&db.store, "web", 1).await;
        let newer = accept(&db.store, "web", 2).await;
        let elsewhere = accept(&db.store, "api", 3).await;
        let over = db.store.deployment(&older).await.unwrap().unwrap();
        assert_eq!((over.state, over.finished_at), (State::Superseded, Some(at(2))));
        assert_eq!(over.summary, format!("superseded by deployment 2 ({newer})"));
        assert_eq!(told(&db.store, &older).await, [ForgeState::Queued, ForgeState::Inactive]);
        let claimed = [claim(&db.store, 9).await.unwrap(), claim(&db.store, 9).await.unwrap()];
        assert_eq!(claimed.map(|claim| claim.deployment.id), [newer, elsewhere]);
    })
    .await;
}

#[tokio::test]
async fn one_that_arrives_late_is_superseded_at_once() {
    run_on_both(async |db| {
        accept(&db.store, "web", 5).await;
        let late = accept(&db.store, "web", 4).await;
        assert_eq!(told(&db.store, &late).await, [ForgeState::Queued, ForgeState::Inactive]);

        let running = claim(&db.store, 9).await.unwrap();
        let late = accept(&db.store, "web", 3).await;
        assert_eq!(told(&db.store, &late).await, [ForgeState::Queued, ForgeState::Inactive]);

        let _yes = push(&db.store, &running, 10).await;
        let _yes = db.store.finish(&running, &succeeded(), at(11)).await.unwrap();
        let late = accept(&db.store, "web", 2).await;
        assert_eq!(told(&db.store, &late).await, [ForgeState::Queued, ForgeState::Inactive]);
        assert_eq!(db.store.claim("w", at(99), LEASE).await.unwrap(), None);
    })
    .await;
}
