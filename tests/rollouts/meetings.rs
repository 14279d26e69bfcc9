//! A rollout meets others: locks, people, other rollouts, edits by hand, and targets that vanish.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use the_deployer::deployments::rollouts::{OverlapPolicy, RolloutError, RolloutSteps};
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::RolloutFailurePolicy;
use the_deployer::rollout::record::{Pause, RolloutState, RolloutTargetStatus};

use super::world::{Fleet, OPEN, STRICT, approval, clusters, deploy, on_both, plan, target};
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
        // It is no pause: the report says for what it waits.
        let view = fleet.view(&id).await;
        assert_eq!(view.record.state, RolloutState::RollingOut, "{view:#?}");
        let [wait] = view.waits.as_slice() else { panic!("{view:#?}") };
        assert_eq!(wait.target, Some(target("a")));
        assert!(wait.waiting.what.ends_with(", which is under way there, to end"), "{wait:?}");
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
async fn a_cancelled_one_keeps_its_targets_until_what_is_under_way_there_has_ended() {
    on_both(async |fleet| {
        let id = fleet.rolls_out("v2", &["a", "b"]).await;
        fleet.app().advance_rollouts().await.unwrap();
        assert_eq!(fleet.under_way(&id).await.len(), 1);
        fleet.acts(&id, RolloutAct::Cancel { reason: "wrong tag".into() }).await.unwrap();
        let cancelled = fleet.view(&id).await;
        assert!(matches!(cancelled.record.state, RolloutState::Cancelled { .. }));
        assert_eq!(
            (cancelled.ended_at, fleet.targets(&id).await),
            (None, "a deploying, b pending".into())
        );
        let again = || Fleet::request("v3", Fleet::selection(&["a"]));
        let refusal = fleet.asks(again()).await.unwrap_err();
        assert!(matches!(refusal, RolloutError::Overlap { .. }), "{refusal:?}");
        fleet.goes_on().await;
        let settled = fleet.view(&id).await;
        assert!(settled.ended_at.is_some(), "{settled:#?}");
        assert_eq!(fleet.targets(&id).await, "a complete, b pending");
        fleet.deployer.clock.advance(Duration::from_secs(1));
        let next = fleet.asks(again()).await.unwrap().record.id;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&next).await, RolloutState::Done);
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
async fn a_rule_that_changes_in_the_middle_holds_from_the_next_step_on_and_for_no_undo() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b"]).await;
        let steps = vec![deploy(&["a"], 1), approval(), deploy(&["b"], 1)];
        let id = fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        fleet.goes_on().await;
        assert_eq!(fleet.targets(&id).await, "a complete, b pending");
        fleet.deployer.dies();
        // From now on both take what is on a branch that the release is not on.
        let strict = ", policies: {branches: [stable]}}";
        fleet.deployer.configure(|config| {
            let of = |name: &str, config: String| {
                let entry =
                    format!("- {{name: {name}, environment: development, domain: example.com}}");
                assert!(config.contains(&entry), "{config}");
                config.replace(&entry, &format!("{}{strict}", entry.trim_end_matches('}')))
            };
            of("b", of("a", config.to_owned()))
        });
        fleet.deployer.starts().await;
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        let record = fleet.view(&id).await.record;
        let b = record.targets.iter().find(|one| one.target.as_str() == "b").unwrap();
        assert!(
            b.failure.as_ref().is_some_and(|why| why.contains("on none of the branches")),
            "{b:?}"
        );
        assert_eq!(record.state, RolloutState::Undone, "the way back is no new release");
        assert_eq!(fleet.targets(&id).await, "a undone, b unchanged");
        assert_eq!(
            fleet.orders(&id).await,
            ["deploy v2 on a", "deploy v2 on b", "roll back to v1 on a"]
        );
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
        // GitHub counts the questions: one in five minutes, and not one in fifteen seconds.
        let asked = || fleet.deployer.github.count("commits/release-2");
        let before = asked();
        fleet.deployer.works_for(SignedDuration::from_hours(1)).await;
        let count = asked() - before;
        assert!(count <= 14, "{count} in an hour");
        fleet.acts(&id, RolloutAct::Cancel { reason: "withdrawn".into() }).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_ref_that_is_moved_meanwhile_changes_no_step_and_is_said() {
    on_both(async |fleet| {
        let first = fleet.shop().commit_on("v2", &[("NOTES", "two")]);
        let steps = vec![deploy(&["a"], 1), approval(), deploy(&["b", "strict"], 1)];
        let mut request =
            Fleet::request("v2", RolloutSteps::Plan(plan(steps, RolloutFailurePolicy::Pause)));
        request.git_ref = "v2".to_owned();
        let id = fleet.asks(request).await.unwrap().record.id;
        fleet.goes_on().await;
        assert_eq!(fleet.view(&id).await.record.moved_to, None);
        // The same name stands for other files now.
        let other = fleet.shop().commit_on("v2", &[(".weave.yaml", "nonsense: true\n")]);
        assert_ne!(other, first);
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        let record = fleet.view(&id).await.record;
        assert_eq!(record.release.commit.as_str(), first);
        assert_eq!(record.moved_to.as_ref().unwrap().as_str(), other);
        let made = fleet.made(&id).await;
        assert_eq!(made.len(), 3);
        assert!(made.iter().all(|one| one.request.release.commit.as_str() == first), "{made:#?}");
        assert_eq!(fleet.targets(&id).await, "a complete, b complete, strict failed");
        let answer = fleet.shows(&id).await;
        assert_eq!((&answer["ref"], &answer["moved_to"]), (&json!("v2"), &json!(other)));
        fleet.acts(&id, RolloutAct::Undo { reason: "no".into() }).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.targets(&id).await, "a undone, b undone, strict unchanged");
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
