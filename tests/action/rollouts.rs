//! A rollout: one deployment that starts it, whose statuses are those of the whole.

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
        ("rollout", "true", "none of `targets`, `match` and `labels`"),
        ("match", "prod-.*", "set `rollout: true`"),
        ("parallel", "2", "set `rollout: true`"),
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

#[tokio::test]
async fn a_rollout_over_targets_is_described_in_the_payload() {
    if !can_run() {
        return;
    }
    let job = Job::new("canary-1, prod-*\nprod-*", "v1")
        .await
        .with("rollout", "true")
        .with("match", "(canary|prod)-\\d+ \"$(id)\"")
        .with("labels", "region=eu,tier=a=b")
        .with("parallel", "2")
        .with("bake", "10m")
        .with("on-failure", "pause")
        .with("max-failures", "1")
        .with("target-timeout", "20m")
        .with("wait", "true")
        .tells(5, "rollout/targets", "success", "done");
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    let deployments = job.deployments().await;
    let [one] = deployments.as_slice() else { panic!("{deployments:?}") };
    assert_eq!((&one["task"], &one["environment"]), (&json!("rollout"), &json!("rollout/targets")));
    assert_eq!(
        one["payload"]["rollout"],
        json!({
            "targets": ["canary-1", "prod-*"], "labels": {"region": "eu", "tier": "a=b"},
            "match": "(canary|prod)-\\d+ \"$(id)\"", "parallel": 2, "bake": "10m", "on_failure": "pause",
            "max_failures": 1, "timeout": "20m",
        })
    );
    assert_eq!(run.output("states"), json!({"rollout/targets": "success"}));
    job.github.settled();
}

#[tokio::test]
async fn what_a_rollout_over_targets_cannot_have_is_refused_before_anything_is_created() {
    if !can_run() {
        return;
    }
    for (input, value, message) in [
        ("parallel", "two", "`parallel` is no number"),
        ("max-failures", "-1", "`max-failures` is no number"),
        ("on-failure", "explode", "`on-failure` is none of"),
        ("labels", "region", "not `KEY=VALUE`"),
        ("task", "deploy", "both `task` and `rollout`"),
    ] {
        let job = Job::new("prod-*", "v1").await.with("rollout", "true").with(input, value);
        let run = job.run().await;
        assert_eq!(run.code, 2, "{input}: {}", run.log);
        assert!(run.log.contains(message), "{}", run.log);
        assert!(job.deployments().await.is_empty());
        job.github.settled();
    }
}
