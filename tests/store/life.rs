//! Claims, leases and the point of no return.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use the_deployer::model::deployment::{Contact, ForgeState, Stage, StageTime, State};
use the_deployer::model::hand_edit::{EditCommit, EditedFile, HandEdit, HandEditKind};
use the_deployer::model::id::{AppKey, DeployId, Namespace, Slug};
use the_deployer::model::route::RouteClaim;
use the_deployer::store::{Completion, FinalState, Findings, LeaseState, PushTurn};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;
use crate::store::{LEASE, accept, claim, push, succeeded, told};

#[tokio::test]
async fn a_deployment_lives_from_queued_to_succeeded() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let claimed = claim(&db.store, 2).await.unwrap();
        assert_eq!((claimed.deployment.state, claimed.deployment.attempts), (State::Running, 1));
        let known = Findings {
            app: Some(AppKey {
                namespace: Namespace::parse("shop").unwrap(),
                slug: Slug::parse("web").unwrap(),
            }),
            template: Some("backend-default@latest".to_owned()),
            templates_commit: Some("b".repeat(40).parse().unwrap()),
            contact: Some(Contact {
                name: "Web".to_owned(),
                owner: "squad@example.com".to_owned(),
                slack: Some("#squad".to_owned()),
                successes: false,
                links: vec![],
            }),
            address: Some("https://web.example.com/".to_owned()),
            hand_edit: Some(hand_edit()),
            objects: vec![],
            parts: vec![],
            part_pushes: vec![],
            routes: vec![RouteClaim {
                host: "web.example.com".to_owned(),
                path: "/".to_owned(),
                live: false,
            }],
            stages: vec![StageTime { stage: Stage::Fetch, micros: 1200 }],
            planned_at: None,
        };
        assert_eq!(db.store.begin_push(&claimed, &known, at(3)).await.unwrap(), PushTurn::Yes);
        let ending =
            Completion { findings: Findings { app: None, ..known.clone() }, ..succeeded() };
        assert_eq!(db.store.finish(&claimed, &ending, at(4)).await.unwrap(), LeaseState::Held);

        let done = db.store.deployment(&id).await.unwrap().unwrap();
        assert_eq!((done.state, done.finished_at), (State::Succeeded, Some(at(4))));
        assert_eq!((done.app, done.stages), (known.app, known.stages), "what was known stays");
        assert_eq!(done.templates_commit, known.templates_commit);
        assert_eq!(done.hand_edit, known.hand_edit);
        assert_eq!((done.contact, done.address), (known.contact, known.address));
        assert_eq!(FinalState::Succeeded(done.pushed.unwrap()), ending.end);
        let states = [ForgeState::Queued, ForgeState::InProgress, ForgeState::Success];
        assert_eq!(told(&db.store, &id).await, states);
        assert_eq!(db.store.depth().await.unwrap().running, 0);
    })
    .await;
}

/// What somebody had edited, with a NUL that PostgreSQL takes in no text.
fn hand_edit() -> HandEdit {
    HandEdit {
        replaced: true,
        push_failed: false,
        base: Some(DeployId::parse("20261121-054812123-3f9a2c").unwrap()),
        files: vec![EditedFile { name: "a.yaml".to_owned(), how: HandEditKind::Removed }],
        diff: "--- a/a.yaml\n+++ /dev/null\n-é: \"\0\"\n".to_owned(),
        commit: Some(EditCommit {
            id: "c".repeat(40).parse().unwrap(),
            author: "Jo".to_owned(),
            at: at(1),
        }),
    }
}

#[tokio::test]
async fn a_newer_one_stops_one_that_has_not_begun_to_push() {
    run_on_both(async |db| {
        let older = accept(&db.store, "web", 1).await;
        let running = claim(&db.store, 2).await.unwrap();
        let newer = accept(&db.store, "web", 3).await;
        assert_eq!(claim(&db.store, 4).await, None, "the lane is busy");
        let refused = push(&db.store, &running, 5).await;
        assert_eq!(refused, PushTurn::Superseded { by: newer.clone() });
        assert_eq!(told(&db.store, &older).await.last(), Some(&ForgeState::Inactive));
        assert_eq!(claim(&db.store, 6).await.unwrap().deployment.id, newer);
        assert_eq!(db.store.finish(&running, &succeeded(), at(7)).await.unwrap(), LeaseState::Lost);
    })
    .await;
}

#[tokio::test]
async fn after_the_point_of_no_return_a_newer_one_waits() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let pushing = claim(&db.store, 2).await.unwrap();
        assert_eq!(push(&db.store, &pushing, 3).await, PushTurn::Yes);
        let newer = accept(&db.store, "web", 4).await;
        assert_eq!(claim(&db.store, 5).await, None);
        assert_eq!(db.store.finish(&pushing, &succeeded(), at(6)).await.unwrap(), LeaseState::Held);
        assert_eq!(claim(&db.store, 7).await.unwrap().deployment.id, newer);
    })
    .await;
}

#[tokio::test]
async fn an_arrival_and_the_point_of_no_return_at_once_agree() {
    run_on_both(async |db| {
        for n in (10..50).step_by(2) {
            let older = accept(&db.store, &format!("web{n}"), n).await;
            let running = claim(&db.store, 60).await.unwrap();
            let lane = format!("web{n}");
            let (newer, turn) =
                tokio::join!(accept(&db.store, &lane, n + 1), push(&db.store, &running, 61));
            match turn {
                PushTurn::Yes => {
                    let _yes = db.store.finish(&running, &succeeded(), at(62)).await.unwrap();
                    let state = db.store.deployment(&older).await.unwrap().unwrap().state;
                    assert_eq!(state, State::Succeeded);
                }
                PushTurn::Superseded { by } => assert_eq!(by, newer),
                PushTurn::Lost => panic!("nobody else was at it"),
                PushTurn::Locked(_)
                | PushTurn::HeldBack(_)
                | PushTurn::Claimed(_)
                | PushTurn::Busy { .. } => {
                    panic!("nobody stopped anything")
                }
            }
            let next = claim(&db.store, 63).await.unwrap();
            assert_eq!(next.deployment.id, newer);
            let _yes = db.store.finish(&next, &succeeded(), at(64)).await.unwrap();
        }
        assert_eq!(db.store.depth().await.unwrap().oldest, None);
    })
    .await;
}

#[tokio::test]
async fn a_dead_workers_deployment_is_taken_over_and_the_dead_is_fenced_off() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let dead = claim(&db.store, 2).await.unwrap();
        assert_eq!(claim(&db.store, 61).await, None, "its lease still holds");
        let heir = claim(&db.store, 63).await.unwrap();
        assert_eq!((heir.deployment.attempts, heir.failures), (2, 1));
        assert_eq!(push(&db.store, &dead, 64).await, PushTurn::Lost);
        assert_eq!(db.store.extend(&dead, at(64), LEASE).await.unwrap(), LeaseState::Lost);
        assert_eq!(
            db.store.retry_at(&dead, at(65), "later", None).await.unwrap(),
            LeaseState::Lost
        );
        assert_eq!(db.store.release(&dead, at(64)).await.unwrap(), LeaseState::Lost);
        assert_eq!(db.store.finish(&dead, &succeeded(), at(64)).await.unwrap(), LeaseState::Lost);
        assert_eq!(push(&db.store, &heir, 65).await, PushTurn::Yes);
        assert_eq!(db.store.finish(&heir, &succeeded(), at(66)).await.unwrap(), LeaseState::Held);
        let states = [ForgeState::Queued, ForgeState::InProgress, ForgeState::Success];
        assert_eq!(told(&db.store, &id).await, states, "each is told once");
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_extended_is_not_taken_over() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let working = claim(&db.store, 2).await.unwrap();
        assert_eq!(db.store.extend(&working, at(50), LEASE).await.unwrap(), LeaseState::Held);
        assert_eq!(claim(&db.store, 100).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_push_whose_worker_died_is_found_out_before_the_newer_one_runs() {
    run_on_both(async |db| {
        let older = accept(&db.store, "web", 1).await;
        let dead = claim(&db.store, 2).await.unwrap();
        assert_eq!(push(&db.store, &dead, 3).await, PushTurn::Yes);
        let newer = accept(&db.store, "web", 4).await;
        let heir = claim(&db.store, 99).await.unwrap();
        assert_eq!((&heir.deployment.id, heir.deployment.state), (&older, State::Pushing));
        assert_eq!(push(&db.store, &heir, 100).await, PushTurn::Yes);
        assert_eq!(db.store.finish(&heir, &succeeded(), at(101)).await.unwrap(), LeaseState::Held);
        assert_eq!(claim(&db.store, 102).await.unwrap().deployment.id, newer);
    })
    .await;
}

#[tokio::test]
async fn one_whose_worker_died_before_pushing_makes_way_for_a_newer_one() {
    run_on_both(async |db| {
        let older = accept(&db.store, "web", 1).await;
        let _dead = claim(&db.store, 2).await.unwrap();
        let newer = accept(&db.store, "web", 4).await;
        assert_eq!(claim(&db.store, 99).await.unwrap().deployment.id, newer);
        assert_eq!(told(&db.store, &older).await.last(), Some(&ForgeState::Inactive));
    })
    .await;
}

#[tokio::test]
async fn a_retry_waits_for_its_time_and_says_what_for() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let first = claim(&db.store, 2).await.unwrap();
        assert_eq!(
            db.store.retry_at(&first, at(30), "no answer", None).await.unwrap(),
            LeaseState::Held
        );
        let waiting = db.store.deployment(&id).await.unwrap().unwrap();
        assert_eq!((waiting.state, waiting.summary.as_str()), (State::Queued, "no answer"));
        assert_eq!(claim(&db.store, 29).await, None);
        let second = claim(&db.store, 30).await.unwrap();
        assert_eq!((second.deployment.attempts, second.failures), (2, 1));
    })
    .await;
}

#[tokio::test]
async fn a_push_that_is_retried_keeps_its_place() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let first = claim(&db.store, 2).await.unwrap();
        let _yes = push(&db.store, &first, 3).await;
        let _yes = db.store.retry_at(&first, at(30), "no answer", None).await.unwrap();
        accept(&db.store, "web", 4).await;
        assert_eq!(claim(&db.store, 29).await, None);
        let second = claim(&db.store, 30).await.unwrap();
        assert_eq!((second.deployment.id, second.deployment.state), (id, State::Pushing));
    })
    .await;
}

#[tokio::test]
async fn what_is_given_back_is_free_at_once_and_has_not_failed() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let stopped = claim(&db.store, 2).await.unwrap();
        assert_eq!(db.store.release(&stopped, at(3)).await.unwrap(), LeaseState::Held);
        let next = claim(&db.store, 3).await.unwrap();
        assert_eq!((next.deployment.attempts, next.failures), (2, 0));
        assert_eq!(push(&db.store, &stopped, 4).await, PushTurn::Lost);
    })
    .await;
}

#[tokio::test]
async fn a_step_that_is_dropped_in_its_middle_never_was() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let claimed = claim(&db.store, 2).await.unwrap();
        for progress in 0.. {
            let ending = succeeded();
            drop_after(progress, db.store.finish(&claimed, &ending, at(3))).await;
            // A commit that was on its way is through, or rolled back, when this has its turn.
            let _held = db.store.extend(&claimed, at(4), LEASE).await.unwrap();
            let now = db.store.deployment(&id).await.unwrap().unwrap();
            let told = told(&db.store, &id).await;
            if now.state == State::Succeeded {
                assert_eq!(told.len(), 3);
                break;
            }
            assert_eq!((now.state, told.len()), (State::Running, 2));
        }
    })
    .await;
}

/// Lets the step be woken so many times, and drops it.
async fn drop_after(mut wakes: u32, step: impl Future) {
    let mut step = pin!(step);
    poll_fn(|context| {
        let dropped = wakes == 0;
        wakes = wakes.saturating_sub(1);
        if step.as_mut().poll(context).is_ready() || dropped {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[tokio::test]
async fn a_process_that_is_alone_need_not_wait_for_the_leases_of_a_dead_one() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let dead = claim(&db.store, 2).await.unwrap();
        assert_eq!(claim(&db.store, 3).await, None, "the lease holds");
        assert_eq!(db.store.end_leases(at(3)).await.unwrap(), 1);
        let again = claim(&db.store, 4).await.unwrap();
        assert_eq!(
            (again.deployment.id, again.failures),
            (id, dead.failures + 1),
            "it counts as a death"
        );
        assert_eq!(db.store.finish(&dead, &succeeded(), at(5)).await.unwrap(), LeaseState::Lost);
        assert_eq!(db.store.end_leases(at(2)).await.unwrap(), 1, "those that run later than then");
    })
    .await;
}
