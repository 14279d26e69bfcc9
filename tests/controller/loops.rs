//! Workers side by side, and their end.

use std::collections::BTreeMap;
use std::time::Duration;

use the_deployer::controller::job::Did;
use the_deployer::controller::{Controller, Settings};
use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::event::Event;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::requests::{at, delivery, request};
use crate::harness::service::{Service, run_test};
use crate::harness::world::{Point, World};

fn run(controller: Controller<World>) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(stop).await }
    });
    (stop, running)
}

/// Until the condition holds; a test that waits for ever is stopped here.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect(what);
}

async fn nothing_to_do(service: &Service) -> bool {
    let depth = service.db.store.depth().await.unwrap();
    depth.queued + depth.running + depth.unsent == 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_deployments_over_ten_lanes_keep_their_order_with_two_processes() {
    run_test(async |service| {
        let (stop, first) = run(service.controller.clone());
        let (other_stop, second) =
            run(service.another(Settings { name: "other".to_owned(), ..Settings::default() }));
        for n in 0..100 {
            service.ask(&format!("app{}", n % 10), n).await;
        }
        until("all are done", async || nothing_to_do(service).await).await;
        stop.cancel();
        other_stop.cancel();
        first.await.unwrap();
        second.await.unwrap();

        let mut lanes: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for (_, lane, forge_id) in service.world.lock().pushed.clone() {
            lanes.entry(lane).or_default().push(forge_id);
        }
        assert_eq!(lanes.len(), 10);
        for (lane, pushes) in lanes {
            assert!(pushes.is_sorted_by(|a, b| a < b), "{lane}: {pushes:?}");
            assert!(*pushes.last().unwrap() >= 90, "{lane}: the newest is live");
        }
        for n in 0..100 {
            let told = service.world.told(n);
            let end = told.last().unwrap();
            assert!(matches!(end, ForgeState::Success | ForgeState::Inactive), "{n}: {told:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_event_is_worked_on_without_waiting_for_the_timer() {
    run_test(async |service| {
        let patient = Settings { poll: Duration::from_hours(1), ..Settings::default() };
        let controller = service.another(patient);
        let (stop, running) = run(controller.clone());
        let event = Event::Deployment(request("web", "prod", 1));
        controller.inbox().receive(&delivery(1), &event).await.unwrap();
        until("it is done", async || nothing_to_do(service).await).await;
        stop.cancel();
        running.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_lets_a_running_deployment_end() {
    run_test(async |service| {
        service.world.hold_at(Point::BeforeWrite);
        let id = service.ask("web", 1).await;
        let (stop, running) = run(service.controller.clone());
        service.world.reached().await;
        stop.cancel();
        service.world.go_on();
        running.await.unwrap();
        assert_eq!(service.state(&id).await, State::Succeeded);
        assert_eq!(service.world.told(1).last(), Some(&ForgeState::Success), "told at once");
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_gives_back_what_does_not_end_in_time() {
    run_test(async |service| {
        service.world.hold_at(Point::Fetch);
        let id = service.ask("web", 1).await;
        let hasty = Settings { grace: Duration::ZERO, ..Settings::default() };
        let (stop, running) = run(service.another(hasty));
        service.world.reached().await;
        stop.cancel();
        running.await.unwrap();
        assert_eq!(service.state(&id).await, State::Queued);
        service.settle().await;
        assert_eq!(service.state(&id).await, State::Succeeded, "another takes it at once");
        // A status that was on its way is told by another sender when its lease has ended.
        service.wait(61);
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_begins_nothing_new() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        let (stop, running) = (CancellationToken::new(), service.controller.clone());
        stop.cancel();
        running.run(stop).await;
        assert_eq!(service.state(&id).await, State::Queued);
    })
    .await;
}

#[tokio::test]
async fn an_attempt_that_never_ends_is_stopped_and_made_again() {
    run_test(async |service| {
        service.world.hold_at(Point::Fetch);
        let id = service.ask("web", 1).await;
        let hasty = Settings { longest_job: Duration::from_millis(1), ..Settings::default() };
        service.another(hasty).step().await.unwrap();
        let waiting = service.deployment(&id).await;
        assert_eq!(waiting.state, State::Queued);
        assert!(waiting.summary.contains("took longer"), "{}", waiting.summary);
        service.wait(1);
        service.settle().await;
        assert_eq!(service.state(&id).await, State::Succeeded);
    })
    .await;
}

/// A third of it is enough for a statement on a busy machine, and short enough to wait for.
const LIVELY: Duration = Duration::from_millis(900);

#[tokio::test]
async fn a_lease_is_kept_while_an_attempt_goes_on() {
    run_test(async |service| {
        service.world.hold_at(Point::Fetch);
        let id = service.ask("web", 1).await;
        let lively = Settings { lease: LIVELY, ..Settings::default() };
        let lively = service.another(lively);
        let working = tokio::spawn(async move { lively.step().await.unwrap() });
        service.world.reached().await;
        let first_end = service.db.lease_end(&id).await;
        service.clock.advance(Duration::from_millis(20));
        until("it is renewed", async || service.db.lease_end(&id).await > first_end).await;
        service.world.go_on();
        assert_eq!(working.await.unwrap(), Some(Did::Succeeded));
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_was_taken_for_dead_stops() {
    run_test(async |service| {
        service.world.hold_at(Point::Fetch);
        service.ask("web", 1).await;
        let lively = Settings { lease: LIVELY, ..Settings::default() };
        let lively = service.another(lively);
        let working = tokio::spawn(async move { lively.step().await.unwrap() });
        service.world.reached().await;
        // However often it renews its lease: by the heir's clock it ended long ago.
        let heir = service.db.store.claim("heir", at(3600), Duration::ZERO).await.unwrap();
        assert_eq!(working.await.unwrap(), Some(Did::Lost));
        assert_eq!(heir.unwrap().deployment.attempts, 2);
        service.wait(3600);
    })
    .await;
}
