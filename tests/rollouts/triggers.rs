//! A GitHub Deployment with the task `rollout` starts a rollout that the WAML names or the payload describes, once.

use serde_json::json;
use the_deployer::deployments::rollouts::{RolloutFilter, RolloutView};
use the_deployer::rollout::record::RolloutState;

use super::world::{Fleet, on_both, waml};
use crate::harness::github::{Ask, Webhooks};

const ROLLOUTS: &str =
    "rollouts:\n  production: {steps: [{targets: [a]}, {targets: [\"b\", c], parallel: 2}]}\n";

fn ask(tag: &str, name: &str) -> Ask {
    Ask {
        task: "rollout".to_owned(),
        payload: json!({"tag": tag, "rollout": name}),
        ..Ask::new("production", tag)
    }
}

impl Fleet {
    async fn all(&self) -> Vec<RolloutView> {
        let page = self.app().deployments().rollouts(&RolloutFilter::default(), None, 100).await;
        page.unwrap().rollouts
    }
}

#[tokio::test]
async fn the_named_rollout_of_that_commit_begins_and_github_is_told() {
    on_both(async |fleet| {
        fleet.shop().commit(&waml(ROLLOUTS));
        let number = fleet.shop().asks(ask("v2", "production")).await;
        fleet.goes_on().await;
        let all = fleet.all().await;
        assert_eq!(all.len(), 1);
        let view = &all[0];
        assert_eq!(view.name.as_ref().unwrap().as_str(), "production");
        assert_eq!((view.created_by.as_str(), view.origin.event), ("octocat", Some(number)));
        assert_eq!(view.record.state, RolloutState::Done);
        let id = &view.record.id;
        assert_eq!(fleet.targets(id).await, "a complete, b complete, c complete");
        assert_eq!(fleet.deployer.github.told(number), ["in_progress", "success"]);
        let last = fleet.deployer.github.statuses(number).pop().unwrap();
        assert!(last.1.contains(id.as_str()), "{last:?}");
    })
    .await;
}

#[tokio::test]
async fn targets_and_options_in_the_payload_start_a_rollout_that_the_waml_does_not_name() {
    on_both(async |fleet| {
        let rollout =
            json!({"targets": ["c", "*"], "match": "[abc]", "parallel": 2, "bake": "10m"});
        let described = Ask { payload: json!({"tag": "v2", "rollout": rollout}), ..ask("v2", "") };
        let number = fleet.shop().asks(described).await;
        fleet.goes_on().await;
        let all = fleet.all().await;
        let [view] = all.as_slice() else { panic!("{all:#?}") };
        assert_eq!((&view.name, view.record.index), (&None, 1), "it bakes");
        let id = &view.record.id;
        assert_eq!(fleet.targets(id).await, "c complete, a complete, b pending");
        fleet.deployer.works_for(jiff::SignedDuration::from_mins(11)).await;
        assert_eq!(fleet.targets(id).await, "c complete, a complete, b complete");
        assert_eq!(fleet.deployer.github.told(number), ["in_progress", "success"]);
        // One that nothing matches.
        let rollout = json!({"targets": ["nowhere-*"]});
        let described = Ask { payload: json!({"tag": "v3", "rollout": rollout}), ..ask("v3", "") };
        let number = fleet.shop().asks(described).await;
        fleet.goes_on().await;
        let last = fleet.deployer.github.statuses(number).pop().unwrap();
        assert!(last.0 == "error" && last.1.contains("nowhere-*"), "{last:?}");
    })
    .await;
}

#[tokio::test]
async fn a_redelivery_starts_nothing_twice() {
    on_both(async |fleet| {
        fleet.shop().commit(&waml(ROLLOUTS));
        fleet.deployer.github.webhooks(Webhooks::Doubled);
        fleet.shop().asks(ask("v2", "production")).await;
        fleet.goes_on().await;
        assert_eq!(fleet.all().await.len(), 1);
        // Another deployment is another request, which waits for its turn.
        fleet.shop().asks(ask("v3", "production")).await;
        fleet.goes_on().await;
        let all = fleet.all().await;
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|one| one.record.state == RolloutState::Done), "{all:#?}");
    })
    .await;
}

#[tokio::test]
async fn an_event_that_is_lost_is_recovered_once() {
    on_both(async |fleet| {
        fleet.shop().commit(&waml(ROLLOUTS));
        fleet.runs("v1", &["a"]).await;
        fleet.app().sweep().await.unwrap();
        fleet.deployer.clock.advance(std::time::Duration::from_mins(1));
        fleet.deployer.github.webhooks(Webhooks::Lost);
        let number = fleet.shop().asks(ask("v2", "production")).await;
        fleet.deployer.clock.advance(std::time::Duration::from_mins(5));
        fleet.app().sweep().await.unwrap();
        fleet.goes_on().await;
        fleet.app().sweep().await.unwrap();
        fleet.goes_on().await;
        assert_eq!(fleet.all().await.len(), 1);
        assert_eq!(fleet.deployer.github.told(number), ["in_progress", "success"]);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_started_is_told_with_the_reason() {
    on_both(async |fleet| {
        fleet.shop().commit(&waml(ROLLOUTS));
        let unknown = fleet.shop().asks(ask("v2", "produktion")).await;
        fleet.goes_on().await;
        let last = fleet.deployer.github.statuses(unknown).pop().unwrap();
        assert_eq!(last.0, "error");
        assert!(last.1.contains("produktion") && last.1.contains("production"), "{last:?}");
        fleet.shop().commit("schema: \"2\"\nslug: shop\nnonsense: true\n");
        let broken = fleet.shop().asks(ask("v2", "production")).await;
        fleet.goes_on().await;
        let last = fleet.deployer.github.statuses(broken).pop().unwrap();
        assert_eq!(last.0, "error");
        assert!(last.1.contains(".weave.yaml"), "{last:?}");
        assert!(fleet.all().await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn the_task_alone_is_another_tools() {
    on_both(async |fleet| {
        let foreign = Ask { payload: json!({"tag": "v2"}), ..ask("v2", "x") };
        let number = fleet.shop().asks(foreign).await;
        fleet.goes_on().await;
        assert!(fleet.deployer.github.told(number).is_empty());
        assert!(fleet.all().await.is_empty() && fleet.deployer.deployments().await.is_empty());
        fleet.deployer.github.left_open(number);
    })
    .await;
}
