//! A worker dies, another finishes, nothing is lost and nothing is doubled.

use std::time::Duration;

use the_deployer::model::deployment::State;

use crate::controller::acts::{
    PLANS, TARGET, app, asks_for_branches, locks, now, pushed, pushes, rolls_back, unlocks,
};
use crate::harness::deployer::Deployer;
use crate::harness::github::Fault;
use crate::harness::process::Held;

/// Where a worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Fetch,
    Plan,
    /// The git host has the push, and has written nothing of it.
    BeforeWrite,
    /// It is written, and the answer is not here yet.
    AfterWrite,
}

/// A program whose leases outlast it, on each database.
async fn mortal_on_both() -> Vec<Deployer> {
    let mut both = Deployer::prepared_on_both().await;
    for deployer in &mut both {
        deployer.shares_database();
        deployer.pushes_to_host().await;
        asks_for_branches(deployer);
        deployer.starts().await;
    }
    both
}

/// Works until it comes to the point, dies, and is started again; a push that the host still has.
async fn dies_at(deployer: &mut Deployer, point: Point) -> Option<Held> {
    let request = if point == Point::Fetch { "GET contents" } else { PLANS };
    let held = match point {
        Point::Fetch | Point::Plan => {
            deployer.github.fails(1, request, Fault::SilentBefore);
            let met = deployer.github.met(request);
            deployer.dies_when(met).await;
            None
        }
        Point::BeforeWrite => Some(Held::first_push(&deployer.manifests(), "pre-receive")),
        Point::AfterWrite => Some(Held::first_push(&deployer.manifests(), "post-receive")),
    };
    if let Some(held) = &held {
        deployer.dies_when(held.reached()).await;
    }
    deployer.starts().await;
    held
}

/// What the host still has of a dead worker's push comes to its end.
async fn comes_late(deployer: &Deployer, push: Option<Held>) {
    if let Some(push) = push {
        push.let_go();
        deployer.host().idle().await;
    }
}

async fn step(deployer: &Deployer) -> bool {
    deployer.stepped().step().await.unwrap()
}

fn lease_ends(deployer: &Deployer) {
    deployer.clock.advance(Duration::from_secs(61));
}

#[tokio::test]
async fn a_worker_dies_anywhere_and_another_finishes_without_doubling() {
    for point in [Point::Fetch, Point::Plan, Point::BeforeWrite, Point::AfterWrite] {
        for mut deployer in mortal_on_both().await {
            let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
            let push = dies_at(&mut deployer, point).await;
            assert!(!step(&deployer).await, "its lease holds for a while ({point:?})");
            lease_ends(&deployer);
            assert!(step(&deployer).await, "after {point:?}");
            deployer.settle().await;
            assert_eq!(deployer.deployment(id).await.state, State::Succeeded);
            comes_late(&deployer, push).await;
            assert_eq!(pushes(&deployer).await, [id], "after {point:?}");
            let told = deployer.github.told(id);
            assert_eq!(told, ["success"], "what was over a minute ago is left out");
            deployer.settled().await;
        }
    }
}

#[tokio::test]
async fn a_worker_dies_in_a_rollback_and_another_finishes_it() {
    for point in [Point::BeforeWrite, Point::AfterWrite] {
        for mut deployer in mortal_on_both().await {
            let mut numbers = Vec::new();
            for tag in ["v1", "v2"] {
                numbers.push(app(&deployer, "shop").deploys(TARGET, tag).await);
                deployer.settle().await;
                deployer.clock.advance(Duration::from_secs(1));
            }
            let back = rolls_back(&deployer, "shop", "broken").await;
            let push = dies_at(&mut deployer, point).await;
            assert!(!step(&deployer).await, "its lease holds for a while ({point:?})");
            // What comes meanwhile waits behind it.
            numbers.push(app(&deployer, "shop").deploys(TARGET, "v3").await);
            lease_ends(&deployer);
            deployer.settle().await;
            let ended = now(&deployer, &back).await;
            assert_eq!(ended.state, State::Succeeded, "after {point:?}");
            numbers.insert(2, ended.request.forge_id);
            comes_late(&deployer, push).await;
            assert_eq!(pushes(&deployer).await, numbers, "after {point:?}");
            deployer.settled().await;
        }
    }
}

#[tokio::test]
async fn what_was_pushed_counts_even_if_it_could_not_be_planned_again() {
    for mut deployer in mortal_on_both().await {
        let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
        let push = dies_at(&mut deployer, Point::AfterWrite).await;
        let lock = locks(&deployer, "an incident").await;
        let plans = deployer.github.count(PLANS);
        lease_ends(&deployer);
        assert!(step(&deployer).await);
        let done = deployer.deployment(id).await;
        assert_eq!(done.state, State::Succeeded);
        assert!(done.pushed.unwrap().files.contains(&"deployment.yaml".to_owned()));
        assert_eq!(done.app.unwrap().to_string(), "devx/shop");
        assert_eq!(deployer.github.count(PLANS), plans, "it is not planned again");
        comes_late(&deployer, push).await;
        unlocks(&deployer, &lock).await;
        deployer.settle().await;
        deployer.settled().await;
    }
}

#[tokio::test]
async fn a_dead_workers_push_comes_before_a_newer_deployment() {
    for mut deployer in mortal_on_both().await {
        let older = app(&deployer, "shop").deploys(TARGET, "v1").await;
        let push = dies_at(&mut deployer, Point::BeforeWrite).await;
        let newer = app(&deployer, "shop").deploys(TARGET, "v2").await;
        assert!(!step(&deployer).await);
        lease_ends(&deployer);
        deployer.settle().await;
        comes_late(&deployer, push).await;
        assert_eq!(pushes(&deployer).await, [older, newer]);
        deployer.settled().await;
    }
}

/// Another has told what came after by the time that it goes on.
#[tokio::test]
async fn a_sender_that_stood_still_tells_nothing_of_the_past() {
    for deployer in mortal_on_both().await {
        let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
        assert!(step(&deployer).await);
        // Nobody knows whether the first status arrived: it is looked for before it is told again.
        deployer.github.fails(1, "POST deployments statuses", Fault::CutBefore);
        deployer.works().await;
        deployer.clock.advance(Duration::from_secs(2));
        let look = "GET deployments statuses";
        deployer.github.fails(1, look, Fault::Held);
        let met = deployer.github.met(look);
        let heir = deployer.another().await;
        let mut told = Vec::new();
        tokio::join!(deployer.works(), async {
            met.await;
            lease_ends(&deployer);
            while heir.run_once().await.unwrap() > 0 {}
            told = deployer.github.told(id);
            assert_eq!(told.last().unwrap(), "success", "{told:?}");
            deployer.github.lets_go();
        });
        assert_eq!(deployer.github.told(id), told);
        deployer.settle().await;
        assert_eq!(deployer.github.told(id), told);
        deployer.settled().await;
    }
}

#[tokio::test]
async fn a_deployment_that_kills_every_worker_is_given_up() {
    for mut deployer in mortal_on_both().await {
        let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
        deployer.github.down_for(Duration::from_mins(18 * 5));
        for _ in 0..18 {
            assert!(step(&deployer).await);
            deployer.clock.advance(Duration::from_mins(5));
        }
        for _ in 0..2 {
            assert!(dies_at(&mut deployer, Point::Fetch).await.is_none());
            lease_ends(&deployer);
        }
        assert!(step(&deployer).await);
        let given_up = deployer.deployment(id).await;
        assert_eq!(given_up.state, State::Failed);
        assert_eq!(given_up.summary, "given up: 20 attempts failed or died on the way");
        assert_eq!(pushed(&deployer), [""; 0]);
        deployer.settle().await;
        deployer.settled().await;
    }
}

#[tokio::test]
async fn one_whose_planning_kills_the_process_is_given_up_soon() {
    for mut deployer in mortal_on_both().await {
        let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
        for _ in 0..3 {
            assert!(dies_at(&mut deployer, Point::Plan).await.is_none());
            lease_ends(&deployer);
        }
        assert!(step(&deployer).await);
        let given_up = deployer.deployment(id).await;
        assert_eq!(given_up.state, State::Failed);
        let summary = given_up.summary;
        assert!(
            summary.starts_with("given up: the service died during each of the last 3 attempts"),
            "{summary}"
        );
        assert_eq!(pushed(&deployer), [""; 0]);
        deployer.settle().await;
        deployer.settled().await;
    }
}

#[tokio::test]
async fn kills_that_have_nothing_to_do_with_it_do_not_end_a_deployment() {
    for mut deployer in mortal_on_both().await {
        let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
        let points = [Point::Plan, Point::Plan, Point::Fetch, Point::Fetch, Point::AfterWrite];
        for point in points {
            let push = dies_at(&mut deployer, point).await;
            comes_late(&deployer, push).await;
            lease_ends(&deployer);
        }
        assert!(step(&deployer).await);
        let done = deployer.deployment(id).await;
        assert_eq!((done.state, done.attempts), (State::Succeeded, 6));
        assert_eq!(pushes(&deployer).await, [id]);
        deployer.settle().await;
        deployer.settled().await;
    }
}

#[tokio::test]
async fn of_those_whose_attempt_died_one_is_tried_at_a_time() {
    for mut deployer in mortal_on_both().await {
        let mut all = Vec::new();
        for name in ["shop", "cart"] {
            all.push(app(&deployer, name).deploys(TARGET, "v1").await);
        }
        for _ in &all {
            assert!(dies_at(&mut deployer, Point::Fetch).await.is_none());
        }
        lease_ends(&deployer);
        deployer.github.fails(1, PLANS, Fault::Held);
        let met = deployer.github.met(PLANS);
        let (slow, ()) = tokio::join!(step(&deployer), async {
            met.await;
            assert!(step(&deployer).await);
            assert_eq!(deployer.deployment(all[1]).await.state, State::Queued, "it was given back");
            assert!(!step(&deployer).await, "the other is being tried");
            deployer.github.lets_go();
        });
        assert!(slow);
        assert_eq!(deployer.deployment(all[0]).await.state, State::Succeeded);
        deployer.clock.advance(Duration::from_secs(6));
        assert!(step(&deployer).await);
        assert_eq!(deployer.deployment(all[1]).await.state, State::Succeeded);
        assert_eq!(pushes(&deployer).await, all);
        deployer.settle().await;
        deployer.settled().await;
    }
}
