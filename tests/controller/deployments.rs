//! Tests how a deployment ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use the_deployer::model::deployment::{Stage, State};

use crate::controller::acts::{
    PLANS, TARGET, WELL, app, asks_for_branches, locks, meanwhile, pushes, unlocks,
};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::fault::Bug;
use crate::harness::git_host::Access;
use crate::harness::github::Fault;

#[tokio::test]
async fn an_event_becomes_manifests() {
    let deployer = Deployer::start().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.clock.advance(Duration::from_secs(2));
    deployer.settle().await;

    let done = deployer.deployment(id).await;
    assert_eq!(done.state, State::Succeeded);
    assert_eq!(done.app.unwrap().to_string(), "devx/shop");
    assert_eq!(done.template.as_deref(), Some("backend-default@latest"));
    let pushed = done.pushed.unwrap();
    assert!(pushed.changed);
    let commit = pushed.commit.short();
    assert_eq!(commit, &deployer.manifests().tip()[..commit.len()]);
    let summary = format!("v1 is in the manifest repository, commit {commit}");
    assert!(done.summary.starts_with(&summary), "{}", done.summary);
    let stages: Vec<_> = done.stages.iter().map(|time| time.stage).collect();
    let planning = [Stage::Facts, Stage::Merge, Stage::Default, Stage::Validate, Stage::Render];
    assert_eq!(stages, [&[Stage::Queue, Stage::Fetch], &planning[..], &[Stage::Push]].concat());
    assert_eq!(done.stages[0].micros, 2_000_000);
    assert_eq!(pushes(&deployer).await, [id]);
    assert_eq!(deployer.github.told(id), WELL);
    deployer.settled().await;
}

#[tokio::test]
async fn a_waml_that_breaks_a_rule_fails_with_its_violations() {
    let deployer = Deployer::start().await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop").replace("number: 8000", "number: 80000"));
    let id = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let failed = deployer.deployment(id).await;
    assert_eq!(failed.state, State::Failed);
    assert!(!failed.violations.is_empty());
    let (state, description, _) = deployer.github.statuses(id).pop().unwrap();
    assert_eq!(state, "failure");
    let first = failed.violations[0].to_string();
    assert!(first.contains("must be a whole number from 1 to 65535"), "{first}");
    assert_eq!(description[..100], first[..100]);
    assert_eq!(pushes(&deployer).await, [0; 0]);
    // One that a rule of the platform refuses is known by its app.
    let lock = locks(&deployer, "an incident").await;
    let locked = app(&deployer, "shop").deploys(TARGET, "v2").await;
    deployer.settle().await;
    let locked = deployer.deployment(locked).await;
    assert_eq!((locked.state, locked.violations.len()), (State::Failed, 1));
    assert_eq!(locked.app.unwrap().to_string(), "devx/shop", "what is known is kept");
    unlocks(&deployer, &lock).await;
    deployer.settled().await;
}

#[tokio::test]
async fn while_the_forge_is_down_a_deployment_waits_and_says_so() {
    let deployer = Deployer::start().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.github.down_for(Duration::from_secs(3));
    let step = async || deployer.stepped().step().await.unwrap();
    assert!(step().await);
    assert!(!step().await, "not before its time");
    let waiting = deployer.deployment(id).await;
    assert_eq!(waiting.state, State::Queued);
    assert!(waiting.summary.starts_with("attempt 2 at "), "{}", waiting.summary);
    assert!(waiting.summary.contains("502"), "{}", waiting.summary);
    deployer.clock.advance(Duration::from_secs(1));
    assert!(step().await);
    deployer.clock.advance(Duration::from_secs(1));
    assert!(!step().await, "the second delay is longer");
    deployer.clock.advance(Duration::from_secs(1));
    assert!(step().await);
    let done = deployer.deployment(id).await;
    assert_eq!((done.state, done.attempts), (State::Succeeded, 3));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn while_one_waits_for_the_forge_others_go_on() {
    let deployer = Deployer::start().await;
    let first = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.github.fails(1, "GET example/shop/contents", Fault::BadGateway);
    deployer.works().await;
    assert_eq!(deployer.deployment(first).await.state, State::Queued);
    let second = app(&deployer, "cart").deploys(TARGET, "v1").await;
    deployer.works().await;
    assert_eq!(deployer.deployment(second).await.state, State::Succeeded);
    deployer.settle().await;
    assert_eq!(pushes(&deployer).await, [second, first]);
    deployer.settled().await;
}

#[tokio::test]
async fn what_never_gets_better_is_given_up_in_the_end() {
    let deployer = Deployer::start().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.github.down_for(Duration::from_hours(6));
    deployer.settle().await;
    let given_up = deployer.deployment(id).await;
    assert_eq!((given_up.state, given_up.attempts), (State::Failed, 20));
    let summary = &given_up.summary;
    assert!(summary.starts_with("given up after 20 attempts: "), "{summary}");
    assert!(summary.contains("502"), "{summary}");
    assert_eq!(deployer.github.told(id), ["error"]);
    deployer.settled().await;
}

#[tokio::test]
async fn a_refused_push_fails_at_once_with_its_reason() {
    let mut deployer = Deployer::prepared().await;
    deployer.pushes_to_host().await;
    deployer.starts().await;
    let hook = deployer.manifests().0.join("hooks/update");
    deployer.manifests().hook("update", "echo 'main is frozen until Monday' >&2; exit 1");
    let shop = app(&deployer, "shop");
    let id = shop.deploys(TARGET, "v1").await;
    deployer.works().await;
    let failed = deployer.deployment(id).await;
    assert_eq!((failed.state, failed.attempts), (State::Failed, 1));
    assert!(failed.summary.contains("main is frozen until Monday"), "{}", failed.summary);
    deployer.settle().await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "error");
    std::fs::remove_file(hook).unwrap();
    let next = shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    assert_eq!(deployer.deployment(next).await.state, State::Succeeded, "the lane is free again");
    assert_eq!(pushes(&deployer).await, [next]);
    deployer.settled().await;
}

/// A program whose git host lets nobody push while this is set.
async fn on_a_host_that_may_refuse() -> (Deployer, Arc<AtomicBool>) {
    let mut deployer = Deployer::prepared().await;
    deployer.pushes_to_host().await;
    deployer.starts().await;
    let closed = Arc::new(AtomicBool::new(true));
    let shared = Arc::clone(&closed);
    deployer.host().guarded_by(move |_, _, access| {
        let refused = access == Access::Push && shared.load(Ordering::SeqCst);
        if refused { 403 } else { 200 }
    });
    (deployer, closed)
}

/// A host says 403 also while it is not itself.
#[tokio::test]
async fn a_refusal_that_may_not_be_meant_is_got_over() {
    let (deployer, closed) = on_a_host_that_may_refuse().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    // What failed for another reason before takes nothing of its time.
    deployer.github.down_for(Duration::from_mins(8 * 5));
    let step = async || deployer.stepped().step().await.unwrap();
    for _ in 0..8 {
        assert!(step().await);
        deployer.clock.advance(Duration::from_mins(5));
    }
    for pause in [15, 15, 30] {
        assert!(step().await);
        let summary = deployer.deployment(id).await.summary;
        assert!(summary.contains("refused, and tried again until "), "{summary}");
        assert!(summary.contains("403"), "{summary}");
        assert!(!step().await, "not at once");
        deployer.clock.advance(Duration::from_secs(pause));
    }
    closed.store(false, Ordering::SeqCst);
    assert!(step().await);
    assert_eq!(deployer.deployment(id).await.state, State::Succeeded);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_refusal_that_lasts_for_minutes_is_meant() {
    let (deployer, _closed) = on_a_host_that_may_refuse().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    let mut tries = 0;
    while deployer.stepped().step().await.unwrap() {
        tries += 1;
        deployer.clock.advance(Duration::from_secs(if tries < 3 { 30 } else { 120 }));
    }
    assert_eq!(tries, 5);
    let failed = deployer.deployment(id).await;
    assert_eq!(failed.state, State::Failed);
    let summary = failed.summary;
    assert!(summary.starts_with("refused again and again for 4 minutes: "), "{summary}");
    deployer.settle().await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "error");
    deployer.settled().await;
}

#[tokio::test]
async fn an_unchanged_result_succeeds_without_a_push() {
    let deployer = Deployer::start().await;
    let shop = app(&deployer, "shop");
    let first = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let second = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let done = deployer.deployment(second).await;
    assert_eq!(done.state, State::Succeeded);
    assert!(!done.pushed.unwrap().changed);
    assert!(done.summary.starts_with("nothing to change for v1"), "{}", done.summary);
    assert_eq!(pushes(&deployer).await, [first]);
    deployer.settled().await;
}

#[tokio::test]
async fn one_that_is_overtaken_while_it_plans_is_not_pushed() {
    let mut deployer = Deployer::prepared().await;
    asks_for_branches(&mut deployer);
    deployer.starts().await;
    let shop = app(&deployer, "shop");
    let older = shop.deploys(TARGET, "v1").await;
    let mut newer = 0;
    meanwhile(&deployer, PLANS, async || newer = shop.deploys(TARGET, "v2").await).await;
    assert_eq!(deployer.deployment(older).await.state, State::Superseded);
    deployer.settle().await;
    assert_eq!(pushes(&deployer).await, [newer]);
    assert_eq!(deployer.github.told(older).last().unwrap(), "inactive");
    deployer.settled().await;
}

#[tokio::test]
async fn a_fault_in_the_planner_fails_that_deployment_and_no_other() {
    let deployer = Deployer::start().await;
    let cursed = app(&deployer, "shop").deploys(TARGET, "v1").await;
    let other = app(&deployer, "cart").deploys(TARGET, "v1").await;
    let bug = Bug::at("facts begins");
    deployer.works().await;
    assert!(bug.happened());
    drop(bug);
    let failed = deployer.deployment(cursed).await;
    assert_eq!((failed.state, failed.attempts), (State::Failed, 1));
    assert_eq!(failed.summary, "a fault in the-deployer itself; its log has the details");
    deployer.settle().await;
    assert_eq!(deployer.github.told(cursed).last().unwrap(), "error");
    assert_eq!(pushes(&deployer).await, [other]);
    deployer.settled().await;
}

#[tokio::test]
async fn an_attempt_that_never_ends_is_stopped_and_made_again() {
    let mut deployer = Deployer::prepared().await;
    deployer.end_attempts_after(Duration::from_millis(300));
    deployer.starts().await;
    let shop = app(&deployer, "shop");
    let id = shop.deploys(TARGET, "v1").await;
    deployer.github.fails(1, "GET contents", Fault::Held);
    assert!(deployer.stepped().step().await.unwrap());
    let stopped = deployer.deployment(id).await;
    assert_eq!(stopped.state, State::Queued);
    assert!(stopped.summary.contains("and was stopped"), "{}", stopped.summary);
    deployer.github.lets_go();
    deployer.settle().await;
    assert_eq!(deployer.deployment(id).await.state, State::Succeeded);
    deployer.settled().await;
}
