//! A rollout of the WAML: one deployment that starts it, whose statuses are those of the whole.

use serde_json::json;

use crate::action::job::{Job, can_run};

async fn rollout(name: &str) -> Job {
    Job::new("", "v1").await.with("rollout", name)
}

#[tokio::test]
async fn a_rollout_is_one_deployment_with_its_name() {
    if !can_run() {
        return;
    }
    let job = rollout("production").await;
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    let deployments = job.deployments().await;
    let [one] = deployments.as_slice() else { panic!("{deployments:?}") };
    assert_eq!(one["task"], "rollout");
    assert_eq!(one["environment"], "rollout/production");
    assert_eq!(one["payload"]["rollout"], "production");
    assert_eq!(
        (&one["payload"]["tag"], &one["payload"]["actor"]),
        (&json!("v1"), &json!("octocat"))
    );
    assert_eq!(run.output("ids"), json!({"rollout/production": one["id"]}));
    job.github.settled();
}

#[tokio::test]
async fn its_end_is_waited_for() {
    if !can_run() {
        return;
    }
    for (state, code) in [("success", 0), ("failure", 1)] {
        let job = rollout("production")
            .await
            .with("wait", "true")
            .with("timeout", "3h")
            .tells(5, "rollout/production", "in_progress", "1 of 3 targets: prod-1 is under way")
            .tells(3_600, "rollout/production", state, "it has ended");
        let run = job.run().await;
        assert_eq!(run.code, code, "{}", run.log);
        assert_eq!(run.output("states"), json!({"rollout/production": state}));
        assert!(
            run.log.contains("- rollout/production  in_progress  1 of 3 targets"),
            "{}",
            run.log
        );
        job.github.settled();
    }
}

#[tokio::test]
async fn a_rollout_has_its_own_targets_and_its_own_task() {
    if !can_run() {
        return;
    }
    for (input, value, message) in [
        ("targets", "prod-1", "both `targets` and `rollout`"),
        ("task", "deploy", "both `task` and `rollout`"),
        ("rollout", "Prod/$(id)", "is no name of a rollout"),
    ] {
        let job = rollout("production").await.with(input, value);
        let run = job.run().await;
        assert_eq!(run.code, 2, "{}", run.log);
        assert!(run.log.contains(message), "{}", run.log);
        assert!(job.deployments().await.is_empty());
        job.github.settled();
    }
    let job = Job::new("", "v1").await;
    let run = job.run().await;
    job.github.settled();
    assert!(run.code == 2 && run.log.contains("or a `rollout`"), "{}", run.log);
}
