//! Previews: the newest head counts, one worker at a time, and nothing shown is forgotten.

use the_deployer::model::event::PullRequest;
use the_deployer::model::id::CommitSha;
use the_deployer::store::{LeaseState, PostedCheck, PreviewClaim, PreviewIntake, Store};

use super::{LEASE, claim, push, succeeded};
use crate::harness::database::run_on_both;
use crate::harness::requests::{at, pull_request};

fn shown(claim: &PreviewClaim, check: i64) -> PostedCheck {
    PostedCheck { head: claim.request.head.clone(), check, digest: "d".to_owned() }
}

async fn note(store: &Store, request: &PullRequest, seconds: i64) -> PreviewIntake {
    store.note_pull_request(request, at(seconds)).await.unwrap()
}

async fn take(store: &Store, seconds: i64) -> Option<PreviewClaim> {
    store.claim_preview("worker", at(seconds), LEASE).await.unwrap()
}

#[tokio::test]
async fn a_newer_head_takes_the_place_of_one_that_has_not_begun() {
    run_on_both(async |db| {
        let store = &db.store;
        assert_eq!(note(store, &pull_request(7, 1), 1).await, PreviewIntake::New);
        assert_eq!(note(store, &pull_request(7, 2), 2).await, PreviewIntake::New);
        let claim = take(store, 3).await.unwrap();
        assert_eq!(claim.request, pull_request(7, 2));
        assert_eq!((claim.attempts, claim.failures, &claim.last_check), (1, 0, &None));
        assert_eq!(take(store, 3).await, None, "one row a pull request");
    })
    .await;
}

#[tokio::test]
async fn the_forges_time_decides_and_a_redelivery_changes_nothing() {
    run_on_both(async |db| {
        let store = &db.store;
        assert_eq!(note(store, &pull_request(7, 2), 1).await, PreviewIntake::New);
        assert_eq!(note(store, &pull_request(7, 2), 2).await, PreviewIntake::Known);
        assert_eq!(
            note(store, &pull_request(7, 1), 3).await,
            PreviewIntake::Known,
            "late and older"
        );
        let claim = take(store, 4).await.unwrap();
        assert_eq!(claim.request, pull_request(7, 2));
        assert_eq!(store.end_preview(&claim, at(5), "shown").await.unwrap(), LeaseState::Held);
        assert_eq!(
            note(store, &pull_request(7, 2), 6).await,
            PreviewIntake::Known,
            "done is known"
        );
        assert_eq!(take(store, 7).await, None);
    })
    .await;
}

#[tokio::test]
async fn whoever_is_at_an_older_head_has_lost_it_and_what_it_showed_is_known() {
    run_on_both(async |db| {
        let store = &db.store;
        note(store, &pull_request(7, 1), 1).await;
        let first = take(store, 2).await.unwrap();
        note(store, &pull_request(7, 2), 3).await;
        assert_eq!(store.extend_preview(&first, at(4), LEASE).await.unwrap(), LeaseState::Lost);
        assert_eq!(store.end_preview(&first, at(4), "shown").await.unwrap(), LeaseState::Lost);
        store.record_shown_preview(&first, &shown(&first, 11)).await.unwrap();
        let second = take(store, 5).await.unwrap();
        assert_eq!(second.last_check, Some(shown(&first, 11)));
        store.record_shown_preview(&second, &shown(&second, 12)).await.unwrap();
        store.record_shown_preview(&first, &shown(&first, 11)).await.unwrap();
        assert_eq!(store.end_preview(&second, at(6), "shown").await.unwrap(), LeaseState::Held);
        note(store, &pull_request(7, 3), 7).await;
        let third = take(store, 8).await.unwrap();
        assert_eq!(third.last_check, Some(shown(&second, 12)), "the older one has not come back");
    })
    .await;
}

#[tokio::test]
async fn when_a_worker_dies_another_takes_over_and_knows() {
    run_on_both(async |db| {
        let store = &db.store;
        note(store, &pull_request(7, 1), 0).await;
        let dead = take(store, 1).await.unwrap();
        assert_eq!(take(store, 60).await, None, "the lease holds");
        let next = take(store, 62).await.unwrap();
        assert_eq!((next.attempts, next.failures), (2, 1));
        assert_eq!(store.retry_preview_at(&dead, at(63), "x").await.unwrap(), LeaseState::Lost);
        assert_eq!(
            store.retry_preview_at(&next, at(90), "GitHub is down").await.unwrap(),
            LeaseState::Held
        );
        let summary = store.preview_summary(&next.request.repository, 7).await.unwrap();
        assert_eq!(summary.as_deref(), Some("GitHub is down"));
        assert_eq!(take(store, 89).await, None);
        let last = take(store, 90).await.unwrap();
        assert_eq!((last.attempts, last.failures), (3, 2));
        assert_eq!(store.release_preview(&last, at(91)).await.unwrap(), LeaseState::Held);
        assert_eq!(take(store, 91).await.unwrap().failures, 2, "given back is no failure");
    })
    .await;
}

#[tokio::test]
async fn deaths_one_after_the_other_are_counted() {
    run_on_both(async |db| {
        let store = &db.store;
        note(store, &pull_request(7, 1), 0).await;
        for (deaths, time) in [(0, 1), (1, 100), (2, 200), (3, 300), (3, 400)] {
            assert_eq!(take(store, time).await.unwrap().deaths, deaths);
        }
        let claim = take(store, 500).await.unwrap();
        assert_eq!(store.release_preview(&claim, at(501)).await.unwrap(), LeaseState::Held);
        let claim = take(store, 501).await.unwrap();
        assert_eq!(claim.deaths, 3, "it was given back, and has not ended");
        assert_eq!(
            store.retry_preview_at(&claim, at(502), "later").await.unwrap(),
            LeaseState::Held
        );
        assert_eq!(take(store, 502).await.unwrap().deaths, 0);
    })
    .await;
}

#[tokio::test]
async fn a_former_process_holds_nothing() {
    run_on_both(async |db| {
        note(&db.store, &pull_request(7, 1), 0).await;
        let _dead = take(&db.store, 1).await.unwrap();
        db.store.end_leases(at(2)).await.unwrap();
        assert_eq!(take(&db.store, 2).await.unwrap().failures, 1);
    })
    .await;
}

#[tokio::test]
async fn a_closed_pull_request_is_forgotten() {
    run_on_both(async |db| {
        let store = &db.store;
        let closed = PullRequest { open: false, ..pull_request(7, 2) };
        note(store, &pull_request(7, 1), 1).await;
        assert_eq!(note(store, &closed, 2).await, PreviewIntake::Forgotten);
        assert_eq!(take(store, 3).await, None);
        assert_eq!(store.preview_summary(&closed.repository, 7).await.unwrap(), None);
        assert_eq!(
            note(store, &closed, 4).await,
            PreviewIntake::Forgotten,
            "nothing to forget is no error"
        );
    })
    .await;
}

#[tokio::test]
async fn what_nobody_touched_for_months_is_dropped() {
    run_on_both(async |db| {
        let store = &db.store;
        note(store, &pull_request(7, 1), 1).await;
        let claim = take(store, 2).await.unwrap();
        assert_eq!(store.end_preview(&claim, at(3), "shown").await.unwrap(), LeaseState::Held);
        note(store, &pull_request(8, 1), 100 * 24 * 3600).await;
        let repository = &claim.request.repository;
        assert_eq!(store.preview_summary(repository, 7).await.unwrap(), None);
        assert!(store.preview_summary(repository, 8).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn the_one_that_has_waited_longest_comes_first() {
    run_on_both(async |db| {
        let store = &db.store;
        for (number, second) in [(9, 1), (7, 2), (8, 3)] {
            note(store, &pull_request(number, 1), second).await;
        }
        assert_eq!(store.previews_waiting().await.unwrap(), 3);
        let mut order = Vec::new();
        while let Some(claim) = take(store, 4).await {
            order.push(claim.request.number);
        }
        assert_eq!(order, [9, 7, 8]);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_that_succeeded_makes_what_is_shown_out_of_date() {
    run_on_both(async |db| {
        let store = &db.store;
        note(store, &pull_request(7, 1), 1).await;
        note(store, &pull_request(8, 1), 1).await;
        for check in [Some(11), None] {
            let claim = take(store, 2).await.unwrap();
            if let Some(check) = check {
                store.record_shown_preview(&claim, &shown(&claim, check)).await.unwrap();
            }
            assert_eq!(store.end_preview(&claim, at(3), "x").await.unwrap(), LeaseState::Held);
        }
        assert_eq!(store.renew_previews(at(4), 10).await.unwrap(), 0);
        super::accept(store, "web", 5).await;
        let deployment = claim(store, 6).await.unwrap();
        let _turn = push(store, &deployment, 7).await;
        assert_eq!(store.renew_previews(at(8), 10).await.unwrap(), 0, "it has no end yet");
        assert_eq!(store.finish(&deployment, &succeeded(), at(9)).await.unwrap(), LeaseState::Held);
        assert_eq!(store.renew_previews(at(10), 10).await.unwrap(), 1, "what shows nothing stays");
        let again = take(store, 11).await.unwrap();
        assert_eq!((again.request.number, again.attempts), (7, 1));
        assert_eq!(again.last_check.as_ref().map(|shown| shown.check), Some(11));
        assert_eq!(store.end_preview(&again, at(12), "x").await.unwrap(), LeaseState::Held);
        assert_eq!(store.renew_previews(at(13), 10).await.unwrap(), 0, "once is enough");
    })
    .await;
}

#[tokio::test]
async fn what_is_stored_is_what_comes_back() {
    run_on_both(async |db| {
        let head = CommitSha::parse("c".repeat(64)).unwrap();
        let odd = PullRequest {
            head,
            head_repository: None,
            base: "feature/ü'\"; DROP".to_owned(),
            draft: true,
            ..pull_request(i64::MAX, 1)
        };
        note(&db.store, &odd, 1).await;
        assert_eq!(take(&db.store, 2).await.unwrap().request, odd);
    })
    .await;
}
