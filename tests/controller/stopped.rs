//! A person stops what is under way: by a lock, or by cancelling it.

use std::time::Duration;

use the_deployer::model::deployment::{Deployment, State};

use crate::controller::acts::{
    PLANS, TARGET, app, asks_for_branches, cancels, locks, meanwhile, now, pushes, rolls_back,
    unlocks,
};
use crate::harness::deployer::Deployer;
use crate::harness::process::Held;

/// It asks GitHub something while it plans.
async fn planning_on_both() -> Vec<Deployer> {
    let mut both = Deployer::prepared_on_both().await;
    for deployer in &mut both {
        asks_for_branches(deployer);
        deployer.starts().await;
    }
    both
}

/// How often a plan may see the lock already, which it reads while GitHub is asked.
const TRIES: u32 = 20;

#[tokio::test]
async fn a_lock_that_is_placed_while_it_is_planned_keeps_it_back() {
    for deployer in planning_on_both().await {
        let shop = app(&deployer, "shop");
        let mut tried = 0;
        let (id, lock) = loop {
            tried += 1;
            let id = shop.deploys(TARGET, &format!("v{tried}")).await;
            let mut lock = String::new();
            meanwhile(&deployer, PLANS, async || lock = locks(&deployer, "an incident").await)
                .await;
            assert_eq!(pushes(&deployer).await, [0; 0], "nothing is pushed over a lock");
            let stopped = deployer.deployment(id).await;
            if stopped.state == State::Queued {
                let summary = stopped.summary;
                let why = " locked it while it was planned: an incident";
                assert!(summary.contains(why), "{summary}");
                break (id, lock);
            }
            assert_eq!((stopped.state, stopped.violations.len()), (State::Failed, 1));
            assert_eq!(stopped.violations[0].rule, "locks", "the plan had read it already");
            assert!(tried < TRIES, "each plan has read it already");
            unlocks(&deployer, &lock).await;
            deployer.settle().await;
        };
        unlocks(&deployer, &lock).await;
        deployer.clock.advance(Duration::from_mins(1));
        assert!(deployer.stepped().step().await.unwrap());
        assert_eq!(deployer.deployment(id).await.state, State::Succeeded);
        assert_eq!(pushes(&deployer).await, [id]);
        deployer.settle().await;
        deployer.settled().await;
    }
}

#[tokio::test]
async fn one_that_is_cancelled_while_it_is_planned_is_not_pushed() {
    for deployer in planning_on_both().await {
        let shop = app(&deployer, "shop");
        for words in ["GET contents", PLANS] {
            let id = shop.deploys(TARGET, "v1").await;
            let record = deployer.deployment(id).await;
            meanwhile(&deployer, words, async || {
                let (status, said) = cancels(&deployer, &record, "the wrong tag").await;
                assert_eq!(status, 200, "{said}");
            })
            .await;
            assert_eq!(deployer.deployment(id).await.state, State::Cancelled, "{words}");
            deployer.settle().await;
            assert_eq!(deployer.github.told(id), ["queued", "in_progress", "inactive"]);
        }
        assert_eq!(pushes(&deployer).await, [0; 0]);
        let next = shop.deploys(TARGET, "v2").await;
        assert!(deployer.stepped().step().await.unwrap());
        let state = deployer.deployment(next).await.state;
        assert_eq!(state, State::Succeeded, "the next has its turn");
        deployer.settle().await;
        deployer.settled().await;
    }
}

#[tokio::test]
async fn one_that_is_being_pushed_is_not_cancelled() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.pushes_to_host().await;
        deployer.starts().await;
        let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
        let held = Held::first_push(&deployer.manifests(), "pre-receive");
        let (step, ()) = tokio::join!(deployer.stepped().step(), async {
            held.reached().await;
            let record = deployer.deployment(id).await;
            let (status, said) = cancels(&deployer, &record, "too late").await;
            assert_eq!(status, 409, "{said}");
            let detail = said["detail"].as_str().unwrap();
            assert!(
                detail.contains("has begun, and may have arrived: roll back instead"),
                "{detail}"
            );
            held.let_go();
        });
        assert!(step.unwrap());
        assert_eq!(deployer.deployment(id).await.state, State::Succeeded);
        assert_eq!(pushes(&deployer).await, [id]);
        deployer.settle().await;
        deployer.settled().await;
    }
}

/// Two deployments are live one after the other, and somebody asks for the first again.
async fn rollbacks_on_both() -> Vec<(Deployer, Deployment)> {
    let mut both = Vec::new();
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.starts().await;
        for tag in ["v1", "v2"] {
            app(&deployer, "shop").deploys(TARGET, tag).await;
            deployer.settle().await;
            deployer.clock.advance(Duration::from_secs(1));
        }
        let back = rolls_back(&deployer, "shop", "broken").await;
        assert_eq!(back.state, State::Queued);
        both.push((deployer, back));
    }
    both
}

#[tokio::test]
async fn a_rollback_that_waits_is_kept_back_by_a_lock_with_its_words() {
    for (deployer, back) in rollbacks_on_both().await {
        locks(&deployer, "an incident").await;
        assert!(deployer.stepped().step().await.unwrap());
        let ended = now(&deployer, &back).await;
        assert_eq!(ended.state, State::Failed);
        let summary = ended.summary;
        assert!(summary.contains(&format!("everything on {TARGET} is locked by ")), "{summary}");
        assert!(summary.contains(": an incident"), "{summary}");
        assert_eq!(
            deployer.stepped().store().holds(None).await.unwrap(),
            [],
            "nothing was rolled back"
        );
        assert_eq!(deployer.manifests().commits(), 2);
        deployer.settle().await;
        deployer.settled().await;
    }
}

#[tokio::test]
async fn a_rollback_that_is_cancelled_takes_no_hold() {
    for (deployer, back) in rollbacks_on_both().await {
        let (status, said) = cancels(&deployer, &back, "not needed").await;
        assert_eq!(status, 200, "{said}");
        assert!(!deployer.stepped().step().await.unwrap());
        assert_eq!(now(&deployer, &back).await.state, State::Cancelled);
        assert_eq!(deployer.stepped().store().holds(None).await.unwrap(), []);
        assert_eq!(deployer.manifests().commits(), 2);
        deployer.settle().await;
        deployer.settled().await;
    }
}
