//! The commit of a rollout has one status with the whole, and each of its deployments at GitHub names the rollout.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::model::id::RolloutId;
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::{RolloutFailurePolicy, RolloutPlan};
use the_deployer::rollout::record::RolloutState;

use super::world::{Fleet, STRICT, approval, deploy, on_both, plan};
use crate::harness::deployer::Deployer;
use crate::harness::github::Fault;

/// Nothing is deployed before a person approves it.
fn guarded(targets: &[&str]) -> RolloutPlan {
    plan(vec![approval(), deploy(targets, 1)], RolloutFailurePolicy::Undo)
}

impl Fleet {
    /// State and description of each status of the rollout, oldest first.
    pub(super) fn shown(&self, id: &RolloutId) -> Vec<String> {
        let short = id.as_str().rsplit('-').next().unwrap();
        let context = format!("rollout/{short}");
        let statuses = self.shop().commit_statuses(&self.shop().tip("main"));
        let of_it = statuses.into_iter().filter(|(name, ..)| *name == context);
        of_it.map(|(_, state, description)| format!("{state}: {description}")).collect()
    }
}

fn assert_each_once(shown: &[String]) {
    assert!(shown.windows(2).all(|two| two[0] != two[1]), "{shown:#?}");
}

#[tokio::test]
async fn the_commit_shows_how_far_a_rollout_is_and_that_it_is_done() {
    on_both(async |fleet| {
        let id = fleet.begins("v2", guarded(&["a", "b"])).await;
        fleet.goes_on().await;
        assert_eq!(fleet.shown(&id), ["pending: 0 of 2 targets, waits for an approval"]);
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        let shown = fleet.shown(&id);
        assert_each_once(&shown);
        assert_eq!(shown.last().unwrap(), "success: 2 of 2 targets");
        assert!(shown.contains(&"pending: 1 of 2 targets, now b".to_owned()), "{shown:#?}");
        assert!(shown.len() <= 6, "{shown:#?}");
    })
    .await;
}

#[tokio::test]
async fn each_deployment_at_github_has_the_rollouts_id() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a"]).await;
        let id = fleet.rolls_out("v2", &["a", STRICT]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        let undo_id = fleet.view(&id).await.record.undo_id;
        let payloads = fleet.shop().payloads();
        let of = |id: &RolloutId, task: &str| {
            let is_of = |(one, payload): &&(String, serde_json::Value)| {
                one == task && payload["rollout"] == id.as_str()
            };
            payloads.iter().filter(is_of).count()
        };
        assert_eq!(of(&id, "rollout-target"), 2, "{payloads:#?}");
        assert_eq!(of(&undo_id, "rollback"), 1, "{payloads:#?}");
    })
    .await;
}

#[tokio::test]
async fn a_failure_ends_as_one_and_a_pause_is_an_error() {
    on_both(async |fleet| {
        let undone = fleet.rolls_out("v2", &["a", STRICT]).await;
        fleet.goes_on().await;
        let shown = fleet.shown(&undone);
        assert_each_once(&shown);
        assert!(shown.last().unwrap().starts_with("failure: undone: strict: "), "{shown:#?}");
        let steps = vec![deploy(&["a", STRICT], 1)];
        let paused = fleet.begins("v3", plan(steps, RolloutFailurePolicy::Pause)).await;
        fleet.goes_on().await;
        let shown = fleet.shown(&paused);
        let start = "error: 1 of 2 targets, 1 failed, a person must decide: strict: ";
        assert!(shown.last().unwrap().starts_with(start), "{shown:#?}");
        let reason = "wrong tag".to_owned();
        fleet.acts(&paused, RolloutAct::Cancel { reason }).await.unwrap();
        fleet.goes_on().await;
        let end = "failure: cancelled after 1 of 2 targets, 1 failed: wrong tag";
        assert_eq!(fleet.shown(&paused).last().unwrap(), end);
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_sends_leaves_the_status_to_the_next() {
    for fault in [Fault::SilentAfter, Fault::SilentBefore, Fault::CutAfter] {
        for deployer in Deployer::prepared_on_both().await {
            let mut fleet = Fleet::start(deployer).await;
            let id = fleet.begins("v2", guarded(&["a"])).await;
            let commit = fleet.shop().tip("main");
            let words = format!("POST statuses/{commit}");
            fleet.deployer.github.fails(1, &words, fault);
            let met = fleet.deployer.github.met(&words);
            fleet.deployer.dies_when(met).await;
            fleet.deployer.clock.advance(Duration::from_mins(3));
            fleet.deployer.starts().await;
            fleet.goes_on().await;
            let waits = ["pending: 0 of 1 target, waits for an approval"];
            assert_eq!(fleet.shown(&id), waits, "{fault:?}");
            fleet.approves(&id).await.unwrap();
            fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
            let shown = fleet.shown(&id);
            assert_eq!(shown.last().unwrap(), "success: 1 of 1 target", "{fault:?}: {shown:#?}");
            fleet.deployer.settled().await;
        }
    }
}

#[tokio::test]
async fn two_replicas_tell_each_state_once() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.shares_database();
        let fleet = Fleet::start(deployer).await;
        let other = fleet.deployer.another().await;
        let id = fleet.rolls_out("v2", &["a", "b", "c"]).await;
        for _ in 0..200 {
            let (one, two) = tokio::join!(fleet.app().run_once(), other.run_once());
            one.unwrap();
            two.unwrap();
            fleet.deployer.clock.advance(Duration::from_secs(5));
            if fleet.view(&id).await.ended_at.is_some() {
                break;
            }
        }
        fleet.goes_on().await;
        let shown = fleet.shown(&id);
        assert_each_once(&shown);
        assert_eq!(shown.last().unwrap(), "success: 3 of 3 targets", "{shown:#?}");
        let counts: Vec<usize> = shown
            .iter()
            .filter_map(|text| text.split(": ").nth(1)?.split(' ').next()?.parse().ok())
            .collect();
        assert!(counts.is_sorted(), "nothing overtakes: {shown:#?}");
        drop(other);
        fleet.deployer.settled().await;
    }
}

#[tokio::test]
async fn where_github_takes_no_statuses_the_rollout_goes_on_and_the_end_is_told_later() {
    on_both(async |fleet| {
        let commit = fleet.shop().tip("main");
        let id = fleet.begins("v2", guarded(&["a"])).await;
        fleet.deployer.github.fails(3, &format!("POST statuses/{commit}"), Fault::Status(503));
        fleet.goes_on().await;
        fleet.approves(&id).await.unwrap();
        fleet.deployer.works_for(SignedDuration::from_mins(30)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        let shown = fleet.shown(&id);
        assert_each_once(&shown);
        assert_eq!(shown.last().unwrap(), "success: 1 of 1 target", "{shown:#?}");
    })
    .await;
}
