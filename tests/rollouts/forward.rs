//! One target after the other; gates between them; what people do meanwhile.

use jiff::SignedDuration;
use the_deployer::deployments::rollouts::{RolloutError, RolloutFilter, RolloutSteps};
use the_deployer::model::lock::Window;
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::facts::GateOutcome;
use the_deployer::rollout::plan::{Gate, RolloutFailurePolicy, RolloutStep};
use the_deployer::rollout::record::{Pause, RolloutState};

use super::world::{Fleet, STRICT, deploy, on_both, plan, target};

fn gate(gate: Gate) -> RolloutStep {
    RolloutStep::Gate { gate, timeout: None }
}

fn reason(text: &str) -> String {
    text.to_owned()
}

#[tokio::test]
async fn targets_follow_each_other_and_the_rollout_is_done() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a", "b", "c"]).await;
        let before = fleet.lives(&["a", "b", "c"]);
        let id = fleet.rolls_out("v2", &["a", "b", "c"]).await;
        fleet.app().advance_rollouts().await.unwrap();
        assert_eq!(fleet.orders(&id).await, ["deploy v2 on a"], "the others wait");
        assert_eq!(fleet.targets(&id).await, "a deploying, b pending, c pending");
        let waits = fleet.view(&id).await.waits;
        assert_eq!(waits[0].target, Some(target("a")));
        assert!(waits[0].waiting.gives_up_at.is_some(), "{waits:?}");
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        let all = ["deploy v2 on a", "deploy v2 on b", "deploy v2 on c"];
        assert_eq!(fleet.orders(&id).await, all);
        let after = fleet.lives(&["a", "b", "c"]);
        assert!(before.iter().zip(&after).all(|(before, after)| before != after));
        let view = fleet.view(&id).await;
        assert!(view.ended_at.is_some() && view.created_by == "ann" && view.waits.is_empty());
        let audited = fleet.audited().await;
        assert_eq!(audited.iter().filter(|act| *act == "rollout").count(), 1, "{audited:?}");
        assert_eq!(audited.iter().filter(|act| *act == "deploy").count(), 3, "{audited:?}");
        for one in fleet.made(&id).await {
            let number = one.request.number().expect("GitHub has it");
            assert_eq!(fleet.deployer.github.told(number).last().unwrap(), "success");
        }
        let filter = RolloutFilter { target: Some(target("b")), ..RolloutFilter::default() };
        let page = fleet.app().deployments().rollouts(&filter, None, 10).await.unwrap();
        assert_eq!(page.rollouts.len(), 1);
        let filter = RolloutFilter { unfinished: true, ..RolloutFilter::default() };
        let page = fleet.app().deployments().rollouts(&filter, None, 10).await.unwrap();
        assert!(page.rollouts.is_empty() && page.next.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_preview_shows_the_sequence_and_changes_nothing() {
    on_both(async |fleet| {
        fleet.runs("v1", &["a"]).await;
        let request = Fleet::request("v2", Fleet::selection(&["b", "a"]));
        let prepared = fleet.prepares(request).await.unwrap();
        let preview = fleet.app().deployments().preview_rollout(&prepared).await.unwrap();
        let targets: Vec<String> = preview
            .targets
            .iter()
            .map(|one| {
                let tag = one.tag.as_ref().map_or("nothing", |tag| tag.as_str());
                format!("{} {tag}", one.target)
            })
            .collect();
        assert_eq!(targets, ["b nothing", "a v1"]);
        assert_eq!(preview.overlap, None);
        assert_eq!(preview.duration.shortest, SignedDuration::ZERO);
        let commits = fleet.deployer.manifests().commits();
        fleet.goes_on().await;
        assert_eq!(fleet.deployer.manifests().commits(), commits);
    })
    .await;
}

#[tokio::test]
async fn a_target_that_the_waml_does_not_deploy_to_is_refused_with_the_list() {
    on_both(async |fleet| {
        let plan = plan(vec![deploy(&["a", "moon"], 1)], RolloutFailurePolicy::Undo);
        let request = Fleet::request("v2", RolloutSteps::Plan(plan));
        let error = fleet.asks(request).await.unwrap_err();
        assert!(matches!(error, RolloutError::NotDeployed { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("moon") && text.contains("a, b, c, d, strict"), "{text}");
        let mut request = Fleet::request("v2", Fleet::selection(&["a"]));
        request.git_ref = "nowhere".to_owned();
        let error = fleet.asks(request).await.unwrap_err();
        assert!(matches!(error, RolloutError::Unknown(_)), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn it_waits_for_the_bake_time_and_for_an_approval() {
    on_both(async |fleet| {
        let length = SignedDuration::from_mins(30);
        let steps = vec![
            deploy(&["a"], 1),
            gate(Gate::Bake { length }),
            gate(Gate::Approval { team: None }),
            deploy(&["b", "c"], 2),
        ];
        let id = fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        fleet.goes_on().await;
        assert_eq!(fleet.view(&id).await.record.index, 1);
        let waits = fleet.view(&id).await.waits;
        assert!(waits[0].waiting.what.contains("bake time"), "{waits:?}");
        assert!(fleet.approves(&id).await.is_err(), "no gate waits for it");
        fleet.deployer.works_for(SignedDuration::from_mins(30)).await;
        assert_eq!(fleet.view(&id).await.record.index, 2, "it waits for the approval");
        assert_eq!(fleet.orders(&id).await, ["deploy v2 on a"]);
        fleet.approves(&id).await.unwrap();
        fleet.app().advance_rollouts().await.unwrap();
        assert_eq!(fleet.under_way(&id).await.len(), 2, "both at a time");
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        let record = fleet.view(&id).await.record;
        assert_eq!(record.gates[&2].approval.as_ref().unwrap().reason, "it looks well");
        assert!(fleet.audited().await.contains(&"rollout-approve".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn every_answer_of_a_gate_is_on_record_and_those_that_are_the_same_are_one() {
    on_both(async |fleet| {
        // The clock begins at 05:48 UTC.
        let window = Window {
            days: "*".to_owned(),
            from: "06:00".to_owned(),
            to: "17:00".to_owned(),
            time_zone: Some("UTC".to_owned()),
            closed: false,
            reason: None,
        };
        let calendar = gate(Gate::Calendar { windows: vec![window] });
        let steps = vec![deploy(&["a"], 1), calendar, deploy(&["b"], 1)];
        let id = fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
        fleet.acts(&id, RolloutAct::Pause { reason: reason("lunch") }).await.unwrap();
        fleet.deployer.works_for(SignedDuration::from_mins(2)).await;
        fleet.acts(&id, RolloutAct::Resume { reason: reason("on") }).await.unwrap();
        fleet.deployer.works_for(SignedDuration::from_mins(10)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        let answers = fleet.app().deployments().gate_answers(&id).await.unwrap();
        let [closed, open] = answers.as_slice() else { panic!("{answers:?}") };
        assert_eq!((closed.step, closed.result), (1, GateOutcome::NotPassed));
        assert!(closed.value.starts_with("the calendar is closed until"), "{closed:?}");
        assert!(closed.asked > 10 && closed.last_at > closed.first_at, "{closed:?}");
        assert_eq!((open.step, open.result, open.asked), (1, GateOutcome::Passed, 1));
        assert!(open.first_at > closed.last_at, "{answers:?}");
        let shown = &fleet.shows(&id).await["steps"][1]["gate"];
        assert_eq!(shown["answers"].as_array().map(Vec::len), Some(2), "{shown}");
        assert_eq!(shown["answers"][1]["result"], "passed");
        assert!(shown["passed_at"].is_string(), "{shown}");
        let record = fleet.view(&id).await.record;
        assert_eq!(record.gates[&1].answer.as_ref().map(|one| one.at), Some(open.first_at));
    })
    .await;
}

#[tokio::test]
async fn a_person_pauses_resumes_and_cancels() {
    on_both(async |fleet| {
        let id = fleet.rolls_out("v2", &["a", "b", "c"]).await;
        fleet.app().advance_rollouts().await.unwrap();
        fleet.acts(&id, RolloutAct::Pause { reason: reason("lunch") }).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Paused(Pause::Person(reason("lunch"))));
        assert_eq!(fleet.targets(&id).await, "a complete, b pending, c pending");
        fleet.acts(&id, RolloutAct::Resume { reason: reason("go on") }).await.unwrap();
        fleet.app().advance_rollouts().await.unwrap();
        fleet.acts(&id, RolloutAct::Cancel { reason: reason("enough") }).await.unwrap();
        fleet.goes_on().await;
        let RolloutState::Cancelled { .. } = fleet.state(&id).await else { panic!("it goes on") };
        assert_eq!(fleet.orders(&id).await, ["deploy v2 on a", "deploy v2 on b"]);
        assert!(fleet.under_way(&id).await.is_empty(), "what was under way came to its end");
        assert_eq!(fleet.targets(&id).await, "a complete, b complete, c pending");
        let error = fleet
            .acts(&id, RolloutAct::Resume { reason: reason("go on") })
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("cancelled"), "{error}");
        // Its targets are free again.
        let next = fleet.rolls_out("v3", &["c"]).await;
        fleet.goes_on().await;
        assert_eq!(fleet.state(&next).await, RolloutState::Done);
    })
    .await;
}

#[tokio::test]
async fn a_failure_pauses_where_the_plan_says_so_and_is_tried_again() {
    on_both(async |fleet| {
        let id = fleet
            .begins("v2", plan(vec![deploy(&[STRICT, "a"], 1)], RolloutFailurePolicy::Pause))
            .await;
        fleet.goes_on().await;
        let RolloutState::Paused(Pause::Failure(why)) = fleet.state(&id).await else {
            panic!("{:?}", fleet.view(&id).await)
        };
        assert!(why.starts_with("strict: "), "{why}");
        fleet.acts(&id, RolloutAct::Retry { reason: reason("once more") }).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.orders(&id).await.len(), 2, "once more");
        fleet.acts(&id, RolloutAct::Resume { reason: reason("go on") }).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        assert_eq!(fleet.targets(&id).await, "strict failed, a complete");
    })
    .await;
}
