//! Programs are told of rollouts: each change once, in order, over crashes and outages of the receiver.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use the_deployer::model::id::RolloutId;
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::RolloutFailurePolicy;
use the_deployer::rollout::record::RolloutState;

use super::world::{Fleet, STRICT, approval, deploy, plan};
use crate::harness::deployer::Deployer;
use crate::harness::receiver::{Came, Does, Receiver, SECRET};
use crate::notify::schema::assert_conforms;

/// A service whose events go to a receiver that wants those about rollouts.
async fn told(mut deployer: Deployer, wants: &str) -> (Fleet, Receiver) {
    let receiver = Receiver::start(&deployer.clock).await;
    let webhooks = format!(
        "notify:\n  webhooks:\n  - {{name: warehouse, url: \"{}\", secret: {{env: SIGNING}}, events: [{wants}]}}\n",
        receiver.url()
    );
    deployer.configure(|config| format!("{config}{webhooks}"));
    deployer.variable("SIGNING", SECRET);
    (Fleet::start(deployer).await, receiver)
}

const ALL: &str =
    "rollout.started, rollout.step, rollout.paused, rollout.undoing, rollout.finished";

/// What an event says: its last word, and the state.
fn word(came: &Came) -> String {
    let json = came.json();
    let kind = json["type"].as_str().unwrap();
    let kind = kind.trim_start_matches("dev.cdeventsx.thedeployer-rollout.");
    let kind = kind.trim_end_matches(".0.1.0");
    let outcome = json["data"]["subject"]["content"]["outcome"].as_str();
    outcome.map_or_else(|| kind.to_owned(), |outcome| format!("{kind} {outcome}"))
}

fn words(receiver: &Receiver) -> Vec<String> {
    receiver.knows().iter().map(word).collect()
}

async fn settled(fleet: &Fleet, receiver: &Receiver) {
    fleet.deployer.settled().await;
    receiver.settled();
    for came in receiver.came() {
        assert_conforms(&came.json());
    }
}

/// A rollout that waits for a person in the middle, and fails after that.
async fn begins(fleet: &Fleet) -> RolloutId {
    let steps = vec![deploy(&["a"], 1), approval(), deploy(&[STRICT], 1)];
    fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await
}

#[tokio::test]
async fn a_rollout_leaves_a_record_of_its_whole_life() {
    for deployer in Deployer::prepared_on_both().await {
        let (fleet, receiver) = Box::pin(told(deployer, ALL)).await;
        fleet.runs("v1", &["a"]).await;
        let id = begins(&fleet).await;
        fleet.goes_on().await;
        fleet.acts(&id, RolloutAct::Pause { reason: "lunch".into() }).await.unwrap();
        fleet.goes_on().await;
        let paused = receiver.knows().pop().unwrap().json();
        assert_eq!(paused["data"]["subject"]["content"]["reason"], "lunch");
        fleet.acts(&id, RolloutAct::Resume { reason: "on".into() }).await.unwrap();
        fleet.approves(&id).await.unwrap();
        fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        let told = words(&receiver);
        assert_eq!(
            told,
            ["started", "step", "paused", "step", "undoing", "finished failure"],
            "each once, in order"
        );
        let end = receiver.knows().pop().unwrap().json();
        assert_eq!(end["subject"], json!(id));
        let record = &end["data"]["customData"];
        assert_eq!((&record["state"], &record["tag"]), (&json!("undone"), &json!("v2")));
        assert_eq!((&record["step"], &record["steps"]), (&json!(2), &json!(3)));
        assert_eq!(record["targets"][0]["target"], "a");
        assert_eq!(record["targets"][0]["progress"], "undone");
        assert!(record["targets"][1]["reason"].is_string(), "{record:#}");
        settled(&fleet, &receiver).await;
    }
}

#[tokio::test]
async fn over_crashes_each_event_is_one() {
    for deployer in Deployer::prepared_on_both().await {
        let (mut fleet, receiver) = Box::pin(told(deployer, ALL)).await;
        // It takes some of them, and nobody hears of that.
        receiver.will([Does::TakesAndDies, Does::Takes, Does::TakesAndDies]);
        let id = begins(&fleet).await;
        for _ in 0..40 {
            // After a turn, or in the middle of the sending.
            let _turn = fleet.app().advance_rollouts().await.unwrap();
            fleet.deployer.dies();
            fleet.deployer.clock.advance(Duration::from_mins(3));
            fleet.deployer.starts().await;
            let _approved = fleet.approves(&id).await;
            fleet.deployer.works().await;
            if fleet.state(&id).await == RolloutState::Undone {
                break;
            }
        }
        fleet.deployer.works_for(SignedDuration::from_mins(10)).await;
        let told = words(&receiver);
        assert_eq!(told, ["started", "step", "step", "undoing", "finished failure"]);
        let events = fleet.app().store().rollout_events(&id, "warehouse").await.unwrap();
        assert!(events.iter().all(|(_, word)| word == "sent"), "{events:?}");
        settled(&fleet, &receiver).await;
    }
}

#[tokio::test]
async fn an_outage_of_the_receiver_is_made_good_in_order_and_what_it_does_not_want_is_skipped() {
    let wants = "rollout.started, rollout.finished";
    let (fleet, receiver) = Box::pin(told(Deployer::prepared().await, wants)).await;
    receiver.down(true);
    let id = fleet.rolls_out("v2", &["a", "b"]).await;
    fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
    assert_eq!(fleet.state(&id).await, RolloutState::Done, "it waits for nobody");
    assert!(receiver.knows().is_empty());
    receiver.down(false);
    // It wants no such thing: the next one has its turn.
    receiver.will([Does::Answers(422, "")]);
    fleet.deployer.works_for(SignedDuration::from_mins(10)).await;
    assert_eq!(words(&receiver), ["finished success"]);
    let events = fleet.app().store().rollout_events(&id, "warehouse").await.unwrap();
    let events: Vec<_> = events.iter().map(|(kind, word)| (kind.as_str(), word.as_str())).collect();
    assert_eq!(
        events,
        [("rollout.started", "parked"), ("rollout.step", "skipped"), ("rollout.finished", "sent")]
    );
    settled(&fleet, &receiver).await;
}
