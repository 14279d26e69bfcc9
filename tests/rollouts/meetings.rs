//! A rollout meets others: locks, people, other rollouts, edits by hand, and targets that vanish.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::deployments::rollouts::{OverlapPolicy, RolloutError, RolloutSteps};
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::RolloutFailurePolicy;
use the_deployer::rollout::record::{Pause, RolloutState, RolloutTargetStatus};

use super::world::{Fleet, OPEN, STRICT, approval, clusters, deploy, on_both, plan};
use crate::harness::deployer::Deployer;
use crate::harness::git_host::Behaviour;

#[tokio::test]
async fn a_lock_pauses_it_with_the_reason_until_it_is_gone() {
    on_both(async |fleet| {
        let lock = fleet.locks("b", "the database moves").await;
        let id = fleet.rolls_out("v2", &["a", "b", "c"]).await;
        fleet.goes_on().await;
        let RolloutState::Paused(Pause::Blocked(why)) = fleet.state(&id).await else {
            panic!("{:#?}", fleet.view(&id).await)
        };
        assert!(why.contains("b: ") && why.contains("the database moves"), "{why}");
        assert_eq!(fleet.targets(&id).await, "a complete, b pending, c pending", "c waits, too");
        fleet.unlocks(&lock).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        fleet.did_nothing_twice(&id).await;
    })
    .await;
}

#[tokio::test]
async fn a_lock_on_the_way_back_is_waited_for() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b"]).await;
        let before = fleet.lives(&["a", "b"]);
        let id = fleet.rolls_out("v2", &["a", "b"]).await;
        fleet.goes_on().await;
        let lock = fleet.locks("b", "the database moves").await;
        fleet.acts(&id, RolloutAct::Undo { reason: "checkout fails".into() }).await.unwrap();
        fleet.goes_on().await;
        let view = fleet.view(&id).await;
        assert!(matches!(view.record.state, RolloutState::Undoing { .. }), "{view:#?}");
        assert!(view.waits[0].waiting.what.contains("the database moves"), "{view:#?}");
        fleet.unlocks(&lock).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        assert_eq!(fleet.lives(&["a", "b"]), before);
    })
    .await;
}

#[tokio::test]
async fn what_a_person_deploys_meanwhile_is_theirs() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b"]).await;
        let before = fleet.live("b");
        let steps = vec![deploy(&["b", "a"], 1), approval(), deploy(&[STRICT], 1)];
        let id = fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        fleet.goes_on().await;
        assert_eq!(fleet.targets(&id).await, "b complete, a complete, strict pending");
        fleet.runs("v3", &["a"]).await;
        let theirs = fleet.live("a");
        fleet.deployer.works_for(SignedDuration::from_mins(6)).await;
        assert!(fleet.targets(&id).await.contains("a superseded"), "it is reported");
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        assert_eq!(fleet.live("a"), theirs, "and not fought");
        assert_eq!(fleet.live("b"), before);
    })
    .await;
}

#[tokio::test]
async fn a_persons_deployment_that_waits_is_not_superseded() {
    on_both(async |fleet| {
        let person = fleet.shop().deploys("a", "v3").await;
        let id = fleet.rolls_out("v2", &["a"]).await;
        fleet.app().advance_rollouts().await.unwrap();
        assert!(fleet.orders(&id).await.is_empty(), "theirs comes first");
        let RolloutState::Paused(Pause::Blocked(why)) = fleet.state(&id).await else {
            panic!("{:#?}", fleet.view(&id).await)
        };
        assert!(why.contains("is under way there"), "{why}");
        fleet.goes_on().await;
        assert_eq!(
            fleet.deployer.github.told(person),
            ["queued", "in_progress", "success", "inactive"]
        );
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
    })
    .await;
}

#[tokio::test]
async fn a_second_rollout_on_the_same_targets_is_refused_or_queued() {
    on_both(async |fleet| {
        let first = fleet.begins(
            "v2",
            plan(vec![approval(), deploy(&["a", "b"], 1)], RolloutFailurePolicy::Undo),
        );
        let first = first.await;
        let overlapping = || plan(vec![deploy(&["b", "c"], 1)], RolloutFailurePolicy::Undo);
        let request = Fleet::request("v3", RolloutSteps::Plan(overlapping()));
        let error = fleet.asks(request).await.unwrap_err();
        let RolloutError::Overlap { other, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*other, first);
        let mut request = Fleet::request("v3", RolloutSteps::Plan(overlapping()));
        request.on_overlap = OverlapPolicy::Queue;
        let queued = fleet.asks(request).await.unwrap();
        assert!(queued.is_queued);
        let queued = queued.record.id;
        fleet.goes_on().await;
        let view = fleet.view(&queued).await;
        assert!(view.is_queued && view.waits[0].waiting.what.contains(first.as_str()), "{view:#?}");
        // One that overlaps with the queued one alone comes after it.
        let third = plan(vec![deploy(&["c"], 1)], RolloutFailurePolicy::Undo);
        let request = Fleet::request("v4", RolloutSteps::Plan(third));
        let error = fleet.asks(request).await.unwrap_err();
        assert!(
            matches!(&error, RolloutError::Overlap { other, .. } if *other == queued),
            "{error:?}"
        );
        // One that overlaps with none begins at once.
        let other = fleet.rolls_out("v4", &["d"]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&other).await, RolloutState::Done);
        fleet.approves(&first).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&first).await, RolloutState::Done);
        fleet.goes_on().await;
        assert_eq!(
            fleet.state(&queued).await,
            RolloutState::Done,
            "{:#?}",
            fleet.view(&queued).await
        );
        assert!(!fleet.view(&queued).await.is_queued);
    })
    .await;
}

#[tokio::test]
async fn one_that_has_ended_is_not_opened_again_while_another_has_its_targets() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a"]).await;
        let done = fleet.rolls_out("v2", &["a"]).await;
        fleet.goes_on().await;
        let open = fleet
            .begins("v3", plan(vec![approval(), deploy(&["a"], 1)], RolloutFailurePolicy::Undo));
        let open = open.await;
        let undo = || RolloutAct::Undo { reason: "x".into() };
        let error = fleet.acts(&done, undo()).await.unwrap_err().to_string();
        assert!(error.contains(open.as_str()), "{error}");
        assert_eq!(fleet.state(&done).await, RolloutState::Done);
        fleet.acts(&open, RolloutAct::Cancel { reason: "x".into() }).await.unwrap();
        fleet.acts(&done, undo()).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&done).await, RolloutState::Undone);
    })
    .await;
}

#[tokio::test]
async fn a_target_that_vanishes_is_skipped_before_its_turn_and_left_to_a_person_after_it() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b"]).await;
        let steps = vec![
            deploy(&["a", "b"], 1),
            approval(),
            deploy(&["c", "d"], 1),
            approval(),
            deploy(&[STRICT], 1),
        ];
        let id = fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        fleet.goes_on().await;
        fleet.deployer.dies();
        let all: Vec<&str> = OPEN.into_iter().chain([STRICT]).collect();
        fleet
            .deployer
            .configure(|config| config.replace(&clusters(&all), &clusters(&["a", "d", STRICT])));
        fleet.deployer.starts().await;
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        assert!(
            fleet.targets(&id).await.contains("c skipped, d complete"),
            "{}",
            fleet.targets(&id).await
        );
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        let record = fleet.view(&id).await.record;
        assert_eq!(record.state, RolloutState::UndoFailed);
        let b = record.targets.iter().find(|one| one.target.as_str() == "b").unwrap();
        assert_eq!(b.state, RolloutTargetStatus::UndoFailed);
        let note = b.note.as_ref().unwrap();
        assert!(
            note.contains("no target of the service any more") && note.contains("bart rollback b"),
            "{note}"
        );
        let a = record.targets.iter().find(|one| one.target.as_str() == "a").unwrap();
        assert_eq!(a.state, RolloutTargetStatus::Undone, "the others went on");
    })
    .await;
}

#[tokio::test]
async fn an_edit_by_hand_before_its_turn_pauses_it() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a"]).await;
        let path = "manifests/a/devx/shop/latest/extra.yaml";
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: devx}\n";
        fleet.deployer.manifests().somebody_writes(path, text);
        let id = fleet.rolls_out("v2", &["a"]).await;
        fleet.goes_on().await;
        let RolloutState::Paused(Pause::Blocked(why)) = fleet.state(&id).await else {
            panic!("{:#?}", fleet.view(&id).await)
        };
        assert!(why.contains("edited by hand"), "{why}");
        fleet.runs("v1", &["a"]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
    })
    .await;
}

#[tokio::test]
async fn a_release_whose_branch_is_gone_goes_no_further() {
    on_both(async |fleet| {
        fleet.shop().commit_on("release-2", &[("NOTES", "two")]);
        let steps = vec![deploy(&["a"], 1), approval(), deploy(&["b"], 1)];
        let mut request =
            Fleet::request("v2", RolloutSteps::Plan(plan(steps, RolloutFailurePolicy::Undo)));
        request.git_ref = "release-2".to_owned();
        let id = fleet.asks(request).await.unwrap().record.id;
        fleet.goes_on().await;
        fleet.shop().deletes_branch("release-2");
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        let RolloutState::Paused(Pause::Blocked(why)) = fleet.state(&id).await else {
            panic!("{:#?}", fleet.view(&id).await)
        };
        assert!(why.contains("withdrawn"), "{why}");
        fleet.acts(&id, RolloutAct::Cancel { reason: "withdrawn".into() }).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn while_the_manifest_host_is_silent_nothing_fails_and_it_goes_on_after_it() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.pushes_to_host().await;
        let fleet = Fleet::start(deployer).await;
        fleet.runs("v1", &["a"]).await;
        fleet.deployer.host().behave(Behaviour::Status(503, None));
        // What was read of it before is too old.
        fleet.deployer.clock.advance(Duration::from_mins(1));
        let id = fleet.rolls_out("v2", &["a", "b"]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::RollingOut, "it waits for the host");
        assert_eq!(fleet.orders(&id).await, ["deploy v2 on a"]);
        assert_eq!(fleet.targets(&id).await, "a deploying, b pending");
        fleet.deployer.host().behave(Behaviour::Good);
        fleet.deployer.clock.advance(Duration::from_mins(1));
        fleet.deployer.works_for(SignedDuration::from_mins(20)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done, "{:#?}", fleet.view(&id).await);
        fleet.deployer.settled().await;
    }
}
