//! The way back: each changed target has its former bytes again, in reverse order, once.

use jiff::SignedDuration;
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::RolloutFailurePolicy;
use the_deployer::rollout::record::{RolloutState, RolloutTargetStatus};

use super::world::{OPEN, STRICT, deploy, on_both, plan};

#[tokio::test]
async fn a_failure_is_undone_in_reverse_byte_for_byte() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b", "c"]).await;
        let before = fleet.lives(&["a", "b", "c"]);
        let id = fleet.rolls_out("v2", &["a", "b", "c", STRICT]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        let orders = fleet.orders(&id).await;
        let back = ["roll back to v1 on c", "roll back to v1 on b", "roll back to v1 on a"];
        assert_eq!(orders[4..], back, "{orders:?}");
        assert_eq!(fleet.lives(&["a", "b", "c"]), before, "byte for byte");
        assert_eq!(fleet.targets(&id).await, "a undone, b undone, c undone, strict unchanged");
        assert!(fleet.is_held("a").await && fleet.is_held("b").await && fleet.is_held("c").await);
        let made = fleet.made(&id).await;
        let record = fleet.view(&id).await.record;
        assert!(made[4..].iter().all(|one| one.rollout.as_ref() == Some(&record.undo_id)));
        assert!(made[4].request.description.contains("undo of rollout"), "{:?}", made[4].request);
        // A person's rollout of another release ends the holds.
        let next = fleet.rolls_out("v3", &["a", "b", "c"]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&next).await, RolloutState::Done);
        assert!(!fleet.is_held("a").await);
    })
    .await;
}

#[tokio::test]
async fn an_app_that_was_not_there_is_removed_again() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a"]).await;
        let before = fleet.live("a");
        let id = fleet.rolls_out("v2", &["a", "b", STRICT]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone, "{:#?}", fleet.view(&id).await);
        assert_eq!(fleet.live("b"), None);
        assert_eq!(fleet.live("a"), before);
        let files = fleet.deployer.manifests().files();
        assert!(!files.keys().any(|path| path.contains("/b/devx/shop")), "{files:?}");
        assert!(fleet.audited().await.contains(&"remove".to_owned()));
        assert_eq!(fleet.removals(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_person_turns_back_a_rollout_that_is_done() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b"]).await;
        let before = fleet.lives(&["a", "b"]);
        let id = fleet.rolls_out("v2", &["a", "b"]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        fleet.acts(&id, RolloutAct::Undo { reason: "checkout fails".into() }).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        assert_eq!(fleet.lives(&["a", "b"]), before);
        let retry = RolloutAct::Retry { reason: "once more".into() };
        assert!(fleet.acts(&id, retry).await.is_err(), "nothing failed");
    })
    .await;
}

#[tokio::test]
async fn a_release_that_changed_nothing_is_undone_without_a_trace() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b"]).await;
        let before = fleet.lives(&["a", "b"]);
        let id = fleet.rolls_out("v1", &["a", "b", STRICT]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone, "{:#?}", fleet.view(&id).await);
        assert_eq!(fleet.lives(&["a", "b"]), before);
    })
    .await;
}

#[tokio::test]
async fn what_was_edited_by_hand_meanwhile_is_left_to_a_person() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b"]).await;
        let before = fleet.live("a");
        let id = fleet.rolls_out("v2", &["a", "b"]).await;
        fleet.goes_on().await;
        let path = "manifests/b/devx/shop/latest/extra.yaml";
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: devx}\n";
        fleet.deployer.manifests().somebody_writes(path, text);
        let edited = fleet.live("b");
        fleet.acts(&id, RolloutAct::Undo { reason: "checkout fails".into() }).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.live("a"), before);
        assert_eq!(fleet.live("b"), edited, "nobody's work is overwritten");
        let record = fleet.view(&id).await.record;
        assert_eq!(record.state, RolloutState::Undone);
        let b = &record.targets[1];
        assert_eq!(b.state, RolloutTargetStatus::Superseded);
        assert!(b.note.as_ref().unwrap().contains("edited by hand"), "{b:?}");
    })
    .await;
}

#[tokio::test]
async fn with_accepted_failures_it_goes_on() {
    on_both(async |fleet| {
        let mut plan = plan(vec![deploy(&["a", STRICT, "b"], 1)], RolloutFailurePolicy::Undo);
        plan.max_failures = 1;
        let id = fleet.begins("v2", plan).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        assert_eq!(fleet.targets(&id).await, "a complete, strict failed, b complete");
    })
    .await;
}

#[tokio::test]
async fn an_undo_of_more_targets_than_a_turn_looks_at_leaves_none_out() {
    on_both(async |fleet| {
        fleet.runs("v1", &OPEN).await;
        let before = fleet.lives(&OPEN);
        let steps = vec![deploy(&OPEN, 4), deploy(&[STRICT], 1)];
        let id = fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        fleet.deployer.works_for(SignedDuration::from_mins(10)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        assert_eq!(
            fleet.targets(&id).await,
            "a undone, b undone, c undone, d undone, strict unchanged"
        );
        assert_eq!(fleet.lives(&OPEN), before, "byte for byte");
        let orders = fleet.orders(&id).await;
        let back: Vec<_> = orders.iter().filter(|one| one.starts_with("roll back")).collect();
        assert_eq!(
            back,
            [
                "roll back to v1 on d",
                "roll back to v1 on c",
                "roll back to v1 on b",
                "roll back to v1 on a"
            ]
        );
        fleet.did_nothing_twice(&id).await;
    })
    .await;
}
