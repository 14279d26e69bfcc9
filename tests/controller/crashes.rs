//! A worker dies, another finishes, nothing is lost and nothing is doubled.

use the_deployer::controller::Settings;
use the_deployer::controller::job::Did;
use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::store::RollbackTurn;

use crate::harness::requests::id;
use crate::harness::rollbacks;
use crate::harness::service::{Service, run_test};
use crate::harness::world::Point;

/// The process dies when it comes to the point, in the middle of a step or of a report.
async fn die_at(service: &Service, point: Point) {
    service.world.hold_at(point);
    let doomed = service.another(Settings::default());
    let life = tokio::spawn(async move {
        doomed.step().await.unwrap();
        doomed.send().await.unwrap();
    });
    service.world.reached().await;
    life.abort();
    assert!(life.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_worker_dies_anywhere_and_another_finishes_without_doubling() {
    for point in [Point::Fetch, Point::Plan, Point::BeforeWrite, Point::AfterWrite] {
        run_test(async |service| {
            let id = service.ask("web", 1).await;
            die_at(service, point).await;
            assert_eq!(service.step().await, None, "its lease holds for a while ({point:?})");
            service.wait(61);
            assert_eq!(service.step().await, Some(Did::Succeeded), "after {point:?}");
            service.settle().await;
            assert_eq!(service.state(&id).await, State::Succeeded);
            assert_eq!(service.world.pushes(), [1], "after {point:?}");
            let last = [ForgeState::Success];
            assert_eq!(service.world.told(1), last, "what was over a minute ago is left out");
        })
        .await;
    }
}

#[tokio::test]
async fn a_worker_dies_in_a_rollback_and_another_finishes_it() {
    for point in [Point::BeforeWrite, Point::AfterWrite] {
        run_test(async |service| {
            service.ask("web", 1).await;
            service.settle().await;
            let (new, entry) = (rollbacks::new(30, 1), rollbacks::entry(30, "rollback", "broken"));
            let turn = service.controller.inbox().roll_back(&new, (&entry, None)).await.unwrap();
            assert_eq!(turn, RollbackTurn::Yes);
            die_at(service, point).await;
            assert_eq!(service.step().await, None, "its lease holds for a while ({point:?})");
            // What comes meanwhile waits behind it.
            service.ask("web", 2).await;
            service.wait(61);
            service.settle().await;
            assert_eq!(service.state(&id(30)).await, State::Succeeded, "after {point:?}");
            assert_eq!(service.world.pushes(), [1, new.request.forge_id, 2], "after {point:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_worker_that_comes_back_after_its_heir_has_pushed_pushes_nothing() {
    run_test(async |service| {
        service.world.hold_at(Point::BeforeWrite);
        let id = service.ask("web", 1).await;
        let slow = service.another(Settings::default());
        let slow = tokio::spawn(async move { slow.step().await.unwrap() });
        service.world.reached().await;
        service.wait(61);
        assert_eq!(service.step().await, Some(Did::Succeeded));
        service.world.go_on();
        assert_eq!(slow.await.unwrap(), Some(Did::Lost));
        assert_eq!(service.state(&id).await, State::Succeeded);
        assert_eq!(service.world.pushes(), [1]);
    })
    .await;
}

#[tokio::test]
async fn what_was_pushed_counts_even_if_it_could_not_be_planned_again() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        die_at(service, Point::AfterWrite).await;
        service.world.lock().broken.insert(1);
        service.wait(61);
        assert_eq!(service.step().await, Some(Did::Succeeded));
        let done = service.deployment(&id).await;
        assert_eq!(done.pushed.unwrap().files, ["deployment.yaml"]);
        assert_eq!(done.app.unwrap().to_string(), "shop/web");
    })
    .await;
}

#[tokio::test]
async fn a_dead_workers_push_comes_before_a_newer_deployment() {
    run_test(async |service| {
        service.ask("web", 1).await;
        die_at(service, Point::BeforeWrite).await;
        service.ask("web", 2).await;
        assert_eq!(service.step().await, None);
        service.wait(61);
        service.settle().await;
        assert_eq!(service.world.pushes(), [1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_sender_dies_before_it_told_and_another_tells() {
    run_test(async |service| {
        service.ask("web", 1).await;
        die_at(service, Point::BeforeReport).await;
        service.settle().await;
        assert_eq!(service.world.told(1), [], "its lease holds for a while");
        service.wait(61);
        service.settle().await;
        assert_eq!(service.world.told(1), [ForgeState::Success], "the others are over by now");
    })
    .await;
}

#[tokio::test]
async fn a_sender_that_dies_between_telling_and_recording_has_told_it_once() {
    run_test(async |service| {
        service.ask("web", 1).await;
        die_at(service, Point::AfterReport).await;
        service.db.store.end_leases(service.clock.now()).await.unwrap();
        service.settle().await;
        let told = [ForgeState::Queued, ForgeState::InProgress, ForgeState::Success];
        assert_eq!(service.world.told(1), told);
    })
    .await;
}

/// Another has told what came after by the time that it goes on.
#[tokio::test]
async fn a_sender_that_stood_still_tells_nothing_of_the_past() {
    run_test(async |service| {
        service.ask("web", 1).await;
        service.world.hold_at(Point::BeforeReport);
        let slow = service.another(Settings::default());
        let slow = tokio::spawn(async move { slow.send().await.unwrap() });
        service.world.reached().await;
        service.wait(61);
        service.settle().await;
        let told = service.world.told(1);
        assert_eq!(told.last(), Some(&ForgeState::Success), "{told:?}");
        service.world.go_on();
        slow.await.unwrap();
        assert_eq!(service.world.told(1), told);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_that_kills_every_worker_is_given_up() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        for _ in 0..20 {
            die_at(service, Point::Fetch).await;
            service.wait(61);
        }
        assert_eq!(service.step().await, Some(Did::Failed));
        let summary = service.deployment(&id).await.summary;
        assert_eq!(summary, "given up: 20 attempts failed or died on the way");
        assert!(service.world.pushes().is_empty());
    })
    .await;
}

#[tokio::test]
async fn one_whose_planning_kills_the_process_is_given_up_soon() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        for _ in 0..3 {
            die_at(service, Point::Plan).await;
            service.wait(61);
        }
        assert_eq!(service.step().await, Some(Did::Failed));
        let summary = service.deployment(&id).await.summary;
        assert!(
            summary.starts_with("given up: the service died at the last 3 attempts"),
            "{summary}"
        );
        assert!(service.world.pushes().is_empty());
    })
    .await;
}

#[tokio::test]
async fn kills_that_have_nothing_to_do_with_it_do_not_end_a_deployment() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        for point in [Point::Plan, Point::Plan, Point::Fetch, Point::Fetch, Point::BeforeWrite] {
            die_at(service, point).await;
            service.wait(61);
        }
        die_at(service, Point::AfterWrite).await;
        service.wait(61);
        assert_eq!(service.step().await, Some(Did::Succeeded));
        assert_eq!(service.state(&id).await, State::Succeeded);
        assert_eq!(service.world.pushes(), [1]);
    })
    .await;
}

#[tokio::test]
async fn of_those_whose_attempt_died_one_is_tried_at_a_time() {
    run_test(async |service| {
        let all = [service.ask("web", 1).await, service.ask("cart", 2).await];
        for _ in &all {
            die_at(service, Point::Fetch).await;
        }
        service.wait(61);
        service.world.hold_at(Point::Plan);
        let slow = service.controller.clone();
        let slow = tokio::spawn(async move { slow.step().await.unwrap() });
        service.world.reached().await;
        assert_eq!(service.step().await, Some(Did::GaveBack), "the other is being tried");
        service.world.go_on();
        assert_eq!(slow.await.unwrap(), Some(Did::Succeeded));
        service.wait(6);
        assert_eq!(service.step().await, Some(Did::Succeeded));
        for id in &all {
            assert_eq!(service.state(id).await, State::Succeeded);
        }
    })
    .await;
}
