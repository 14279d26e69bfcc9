//! Shifts of weights: one target, several steps, and one way back to what was live before the first.

use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use the_deployer::deployments::rollouts::{RolloutError, RolloutSteps};
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::{RolloutFailurePolicy, RolloutPlan, RolloutStep};
use the_deployer::rollout::record::RolloutState;

use super::world::{Fleet, approval, deploy, on_both, plan, target, waml};

/// The WAML where `a` has two versions, with that percent for `v2`.
fn versions(percent: u32) -> String {
    let section = format!(
        "  a:
    service: [{{ports: [{{name: http, number: 80}}]}}]
    ingress: [{{hostPrefix: shop}}]
    versions:
    - {{name: v1, tag: \"1.0\", weight: {}}}
    - {{name: v2, weight: {percent}}}
",
        100 - percent
    );
    waml("").replace("  a:\n", &section)
}

/// A step that gives `v2` that percent.
fn shift(percent: u32) -> RolloutStep {
    let weights = [("v1".to_owned(), 100 - percent), ("v2".to_owned(), percent)].into();
    RolloutStep::Deploy { targets: vec![target("a")], parallel: 1, weights }
}

fn shifts(steps: Vec<RolloutStep>) -> RolloutPlan {
    plan(steps, RolloutFailurePolicy::Undo)
}

/// The numbers of the live routes.
fn live_weights(fleet: &Fleet) -> Vec<String> {
    let files = fleet.deployer.manifests().files();
    let live = files.iter().filter(|(path, _)| path.contains("/a/devx/shop/latest/"));
    let lines = live.flat_map(|(_, text)| text.lines());
    let weights = lines.filter_map(|line| line.trim().strip_prefix("weight: "));
    weights.map(str::to_owned).collect()
}

#[tokio::test]
async fn weights_move_step_by_step_and_back_byte_for_byte() {
    on_both(async |fleet| {
        fleet.shop().commit(&versions(0));
        fleet.runs("2.0", &["a"]).await;
        let before = fleet.live("a");
        assert_eq!(live_weights(fleet), ["100", "0"]);
        fleet.shop().commit(&versions(100));
        let steps = vec![shift(10), approval(), shift(50), approval(), shift(100)];
        let id = fleet.begins("2.0", shifts(steps.clone())).await;
        fleet.goes_on().await;
        assert_eq!(live_weights(fleet), ["90", "10"]);
        assert_eq!(fleet.targets(&id).await, "a complete, a pending, a pending");
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(live_weights(fleet), ["50", "50"]);
        let made = fleet.made(&id).await;
        assert!(made[1].request.description.starts_with("weights v1=50 v2=50: "), "{made:#?}");
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Done);
        assert_eq!(live_weights(fleet), ["0", "100"]);
        fleet.acts(&id, RolloutAct::Undo { reason: "checkout fails".into() }).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone);
        assert_eq!(fleet.live("a"), before, "byte for byte");
        assert_eq!(fleet.targets(&id).await, "a undone, a undone, a undone");
        let orders = fleet.orders(&id).await;
        assert_eq!(orders.len(), 4, "one undo for all steps: {orders:?}");
    })
    .await;
}

#[tokio::test]
async fn a_deployment_of_a_person_ends_a_shift() {
    on_both(async |fleet| {
        fleet.shop().commit(&versions(0));
        fleet.runs("2.0", &["a"]).await;
        fleet.shop().commit(&versions(100));
        let id = fleet.begins("2.0", shifts(vec![shift(10), approval(), shift(100)])).await;
        fleet.goes_on().await;
        fleet.runs("2.1", &["a"]).await;
        let live = fleet.live("a");
        fleet.approves(&id).await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.targets(&id).await, "a superseded, a superseded");
        assert_eq!(fleet.live("a"), live, "the person's release stays");
        assert_eq!(fleet.orders(&id).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_shift_that_does_not_fit_the_waml_is_refused() {
    on_both(async |fleet| {
        fleet.shop().commit(&versions(0));
        for (steps, message) in [
            (vec![shift(10), shift(100)], "first `bart traffic set v1=0 v2=100 --target a`"),
            (vec![shift(10), deploy(&["a"], 1)], "the target a twice"),
        ] {
            let request = Fleet::request("2.0", RolloutSteps::Plan(shifts(steps)));
            let error: RolloutError = fleet.asks(request).await.unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        fleet.shop().commit(&waml(""));
        let request = Fleet::request("2.0", RolloutSteps::Plan(shifts(vec![shift(10)])));
        let error = fleet.asks(request).await.unwrap_err();
        assert!(error.to_string().contains("there is no version v1"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_shift_bakes_and_goes_back_where_a_gate_is_not_passed_in_time() {
    on_both(async |fleet| {
        fleet.shop().commit(&versions(0));
        fleet.runs("2.0", &["a"]).await;
        let before = fleet.live("a");
        let rollouts = "rollouts:
  production:
    steps: [{targets: [a]}]
    gates: [{approval: {timeout: 30m}}]
";
        fleet.shop().commit(&format!("{}{rollouts}", versions(100)));
        let weights = |percent: u32| json!({"v1": 100 - percent, "v2": percent});
        let request = json!({
            "repository": "example/shop", "ref": "main", "tag": "2.0", "targets": ["a"], "bake": "5m",
            "weights": [weights(10), weights(100)], "gates": "production", "reason": "the fair",
        });
        let begun = fleet.post("/rollouts", request).await;
        let id = begun["id"].as_str().unwrap().parse().unwrap();
        let shown = fleet.shows(&id).await;
        let steps: Vec<&str> = shown["steps"].as_array().unwrap().iter().map(kind).collect();
        assert_eq!(steps, ["targets", "approval", "bake", "targets", "approval"]);
        fleet.goes_on().await;
        fleet.approves(&id).await.unwrap();
        fleet.deployer.works_for(SignedDuration::from_mins(4)).await;
        assert_eq!(live_weights(fleet), ["90", "10"], "it bakes");
        fleet.deployer.works_for(SignedDuration::from_mins(2)).await;
        assert_eq!(live_weights(fleet), ["0", "100"]);
        fleet.deployer.works_for(SignedDuration::from_mins(31)).await;
        assert_eq!(fleet.state(&id).await, RolloutState::Undone, "{:#?}", fleet.view(&id).await);
        assert_eq!(fleet.live("a"), before, "byte for byte");
        assert_eq!(fleet.orders(&id).await.len(), 3, "{:?}", fleet.orders(&id).await);
    })
    .await;
}

/// What a step of a rollout is, in its answer.
fn kind(step: &Json) -> &str {
    step["gate"]["kind"].as_str().unwrap_or("targets")
}
