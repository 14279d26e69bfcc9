//! How a deployment ends.

use the_deployer::controller::inbox::Received;
use the_deployer::controller::job::Did;
use the_deployer::controller::outside::Remedy;
use the_deployer::model::deployment::{ForgeState, Stage, State};
use the_deployer::model::event::{Event, Unused};

use crate::harness::requests::{delivery, request};
use crate::harness::service::run_test;
use crate::harness::world::Point;

const RETRY: Remedy = Remedy::Retry { after: None };

#[tokio::test]
async fn an_event_becomes_manifests() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        service.wait(2);
        assert_eq!(service.step().await, Some(Did::Succeeded));
        service.settle().await;

        let done = service.deployment(&id).await;
        assert_eq!(done.state, State::Succeeded);
        assert_eq!(done.app.unwrap().to_string(), "shop/web");
        assert_eq!(done.template.as_deref(), Some("backend@latest"));
        assert_eq!(done.summary, "v1 is in the manifest repository, commit 00000000");
        assert!(done.pushed.unwrap().changed);
        let stages: Vec<_> = done.stages.iter().map(|time| time.stage).collect();
        assert_eq!(stages, [Stage::Queue, Stage::Fetch, Stage::Render, Stage::Push]);
        assert_eq!(done.stages[0].micros, 2_000_000);
        assert_eq!(service.world.pushes(), [1]);
        let told = [ForgeState::Queued, ForgeState::InProgress, ForgeState::Success];
        assert_eq!(service.world.told(1), told);
    })
    .await;
}

#[tokio::test]
async fn the_same_event_again_changes_nothing() {
    run_test(async |service| {
        let id = service.ask("web", 1).await;
        service.settle().await;
        let event = Event::Deployment(request("web", "prod", 1));
        let again = service.controller.inbox().receive(&delivery(9), &event).await.unwrap();
        assert_eq!(again, Received::Known(id));
        assert_eq!(service.step().await, None);
        assert_eq!(service.world.pushes(), [1]);
    })
    .await;
}

#[tokio::test]
async fn a_ping_and_an_event_of_no_use_are_taken() {
    run_test(async |service| {
        let reason = "event \"push\" is not used".to_owned();
        let ignored = Event::Ignored { why: Unused::Kind, reason };
        for event in [Event::Ping, ignored] {
            let received = service.controller.inbox().receive(&delivery(1), &event).await;
            assert_eq!(received.unwrap(), Received::Nothing);
        }
    })
    .await;
}

#[tokio::test]
async fn a_waml_that_breaks_a_rule_fails_with_its_violations() {
    run_test(async |service| {
        service.world.lock().broken.insert(1);
        let id = service.ask("web", 1).await;
        assert_eq!(service.step().await, Some(Did::Failed));
        let failed = service.deployment(&id).await;
        assert_eq!((failed.state, failed.violations.len()), (State::Failed, 1));
        assert_eq!(failed.app.unwrap().to_string(), "shop/web", "what is known is kept");
        service.settle().await;
        let last = service.world.lock().told.last().cloned().unwrap();
        assert_eq!(last, (1, ForgeState::Failure, "port 80 is not served [ports-map]".to_owned()));
        assert!(service.world.pushes().is_empty());
    })
    .await;
}

#[tokio::test]
async fn while_the_forge_is_down_a_deployment_waits_and_says_so() {
    run_test(async |service| {
        service.world.lock().forge_down = Some(RETRY);
        let id = service.ask("web", 1).await;
        assert_eq!(service.step().await, Some(Did::PutOff));
        assert_eq!(service.step().await, None, "not before its time");
        let waiting = service.deployment(&id).await;
        assert_eq!(waiting.state, State::Queued);
        assert!(waiting.summary.contains("the forge does not answer"), "{}", waiting.summary);
        service.wait(1);
        assert_eq!(service.step().await, Some(Did::PutOff));
        service.world.lock().forge_down = None;
        service.wait(1);
        assert_eq!(service.step().await, None, "the second delay is longer");
        service.wait(1);
        assert_eq!(service.step().await, Some(Did::Succeeded));
        assert_eq!(service.deployment(&id).await.attempts, 3);
    })
    .await;
}

#[tokio::test]
async fn while_one_waits_for_the_forge_others_go_on() {
    run_test(async |service| {
        service.world.lock().forge_down = Some(RETRY);
        service.ask("web", 1).await;
        assert_eq!(service.step().await, Some(Did::PutOff));
        service.world.lock().forge_down = None;
        service.ask("api", 2).await;
        assert_eq!(service.step().await, Some(Did::Succeeded));
        service.wait(1);
        service.settle().await;
        assert_eq!(service.world.pushes(), [2, 1]);
    })
    .await;
}

#[tokio::test]
async fn what_never_gets_better_is_given_up_in_the_end() {
    run_test(async |service| {
        service.world.lock().forge_down = Some(RETRY);
        let id = service.ask("web", 1).await;
        let mut attempts = 0;
        while service.state(&id).await != State::Failed {
            attempts += u32::from(service.step().await.is_some());
            service.wait(60);
        }
        assert_eq!(attempts, 20);
        let reason = "given up after 20 attempts: the forge does not answer";
        assert_eq!(service.deployment(&id).await.summary, reason);
    })
    .await;
}

#[tokio::test]
async fn a_refused_push_fails_at_once_with_its_reason() {
    run_test(async |service| {
        service.world.lock().push_refused = Some(Remedy::GiveUp);
        let id = service.ask("web", 1).await;
        assert_eq!(service.step().await, Some(Did::Failed));
        assert_eq!(service.deployment(&id).await.summary, "the branch is protected");
        service.settle().await;
        assert_eq!(service.world.told(1).last(), Some(&ForgeState::Error));
        service.world.lock().push_refused = None;
        service.ask("web", 2).await;
        assert_eq!(service.step().await, Some(Did::Succeeded), "the lane is free again");
    })
    .await;
}

/// A host says 403 also while it is not itself.
#[tokio::test]
async fn a_refusal_that_may_not_be_meant_is_got_over() {
    run_test(async |service| {
        // What failed for another reason before takes nothing of its time.
        service.world.lock().forge_down = Some(Remedy::Retry { after: None });
        let id = service.ask("web", 1).await;
        for _ in 0..8 {
            assert_eq!(service.step().await, Some(Did::PutOff));
            service.wait(300);
        }
        service.world.lock().forge_down = None;
        service.world.lock().push_refused = Some(Remedy::Doubt);
        for pause in [15, 15, 30] {
            assert_eq!(service.step().await, Some(Did::PutOff));
            let summary = service.deployment(&id).await.summary;
            assert!(summary.contains("refused, and tried again until "), "{summary}");
            assert!(summary.ends_with("UTC: the branch is protected"), "{summary}");
            assert_eq!(service.step().await, None, "not at once");
            service.wait(pause);
        }
        service.world.lock().push_refused = None;
        assert_eq!(service.step().await, Some(Did::Succeeded));
    })
    .await;
}

#[tokio::test]
async fn a_refusal_that_lasts_for_minutes_is_meant() {
    run_test(async |service| {
        service.world.lock().push_refused = Some(Remedy::Doubt);
        let id = service.ask("web", 1).await;
        let mut tries = 1;
        while service.step().await == Some(Did::PutOff) {
            tries += 1;
            service.wait(if tries < 4 { 30 } else { 120 });
        }
        assert_eq!(tries, 5);
        let summary = service.deployment(&id).await.summary;
        assert_eq!(summary, "refused again and again for 4 minutes: the branch is protected");
        service.settle().await;
        assert_eq!(service.world.told(1).last(), Some(&ForgeState::Error));
        service.world.lock().push_refused = None;
    })
    .await;
}

#[tokio::test]
async fn an_unchanged_result_succeeds_without_a_push() {
    run_test(async |service| {
        service.world.lock().alike.extend([1, 2]);
        service.ask("web", 1).await;
        service.settle().await;
        let second = service.ask("web", 2).await;
        service.settle().await;
        let done = service.deployment(&second).await;
        assert_eq!(done.state, State::Succeeded);
        assert!(!done.pushed.unwrap().changed);
        assert!(done.summary.starts_with("nothing to change for v2"), "{}", done.summary);
        assert_eq!(service.world.pushes(), [1]);
    })
    .await;
}

#[tokio::test]
async fn of_those_that_wait_only_the_newest_is_pushed() {
    run_test(async |service| {
        for n in 1..=3 {
            service.ask("web", n).await;
        }
        service.settle().await;
        assert_eq!(service.world.pushes(), [3]);
        assert_eq!(service.world.told(1), [ForgeState::Queued, ForgeState::Inactive]);
    })
    .await;
}

#[tokio::test]
async fn one_that_is_overtaken_while_it_plans_is_not_pushed() {
    run_test(async |service| {
        service.world.hold_at(Point::Plan);
        let older = service.ask("web", 1).await;
        let (did, _newer) = tokio::join!(service.step(), async {
            service.world.reached().await;
            let newer = service.ask("web", 2).await;
            service.world.go_on();
            newer
        });
        assert_eq!(did, Some(Did::Superseded));
        assert_eq!(service.state(&older).await, State::Superseded);
        service.settle().await;
        assert_eq!(service.world.pushes(), [2]);
        assert_eq!(service.world.told(1).last(), Some(&ForgeState::Inactive));
    })
    .await;
}

#[tokio::test]
async fn one_that_has_begun_to_push_is_finished_before_the_newer_one() {
    run_test(async |service| {
        service.world.hold_at(Point::BeforeWrite);
        service.ask("web", 1).await;
        let (did, ()) = tokio::join!(service.step(), async {
            service.world.reached().await;
            service.ask("web", 2).await;
            service.world.go_on();
        });
        assert_eq!(did, Some(Did::Succeeded));
        service.settle().await;
        assert_eq!(service.world.pushes(), [1, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_fault_in_the_planner_fails_that_deployment_and_no_other() {
    run_test(async |service| {
        service.world.lock().cursed.insert(1);
        let cursed = service.ask("web", 1).await;
        service.ask("api", 2).await;
        service.settle().await;
        assert_eq!(service.state(&cursed).await, State::Failed);
        assert_eq!(service.world.pushes(), [2]);
        assert_eq!(service.world.told(1).last(), Some(&ForgeState::Error));
    })
    .await;
}
