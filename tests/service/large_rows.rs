//! Deployments with thousands of violations: what is kept of them is bounded, and so is the memory of whoever
//! asks for those that a former version kept whole.

use std::process::Command;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::harness::database::Url;
use crate::harness::events::{Event, waml};
use crate::harness::folder;
use crate::harness::process::{Home, Process};

/// A WAML of 75 KB with a violation for each five bytes.
fn hostile() -> String {
    let entries = "{ }, ".repeat(15_000);
    waml("shop")
        .replace("env: [{name: MY_ENV_NAME, value: some-value}]", &format!("env: [{entries}]"))
}

async fn length(process: &Process, path: &str) -> usize {
    let (status, text) = process.get(path).await;
    assert_eq!(status, 200, "{path}: {text}");
    text.len()
}

#[tokio::test]
async fn of_thousands_of_violations_the_first_are_kept_and_shown_and_all_are_counted() {
    let home = Home::embedded();
    let process = home.start().await;
    let commit = home.commit("example/shop", &hostile());
    let id = Event::new(1, "shop", &commit).accepted(&process).await;
    let one = process.ended(&id).await;
    assert_eq!(one["state"], "failed", "{}", one["summary"]);
    assert_eq!(one["violations"].as_array().unwrap().len(), 200);
    let errors = one["errors"].as_u64().unwrap();
    assert!(errors > 900, "{errors}");
    let left_out = one["violations_left_out"].as_u64().unwrap();
    assert_eq!(left_out, errors + one["warnings"].as_u64().unwrap() - 200);
    let log = process.json(&format!("/api/v1/deployments/{id}/log")).await;
    let lines = log["lines"].as_array().unwrap();
    assert!(lines.len() < 220, "{}", lines.len());
    let more = format!("and {left_out} more violations and warnings, which are not stored");
    assert!(lines.iter().any(|line| line["text"] == more), "{log}");
    for path in ["api/v1/deployments", "deployments"] {
        assert!(length(&process, &format!("/{path}/{id}")).await < 256 * 1024, "{path}");
    }
    let (_, page) = process.get(&format!("/deployments/{id}")).await;
    assert!(page.contains(&format!("and {} more, which are not stored", errors - 200)), "{page}");
    let listed = process.json("/api/v1/deployments").await;
    assert_eq!(listed["deployments"][0]["errors"], errors);
    assert!(length(&process, "/api/v1/deployments").await < 8 * 1024);
    let plan = json!({
        "repository": "example/shop", "target": "prod-cluster-1", "tag": "v1", "waml": hostile(),
    });
    let plan = process.request(Method::POST, "/api/v1/plan").json(&plan).send().await.unwrap();
    let plan: Json = plan.json().await.unwrap();
    assert_eq!(plan["violations"].as_array().unwrap().len(), 200, "{plan}");
    assert!(plan["violations_left_out"].as_u64().unwrap() > 700, "{plan}");
}

#[test]
fn bart_lists_the_first_and_counts_the_rest() {
    let folder = folder::temporary();
    std::fs::write(folder.path().join(".weave.yaml"), hostile()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
    command.current_dir(folder.path()).env_clear().args(["validate", "--output", "json"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["violations"].as_array().unwrap().len(), 200);
    assert!(said["violations_left_out"].as_u64().unwrap() > 700, "{said}");
}

/// As a former version kept them: of each of 200 deployments 15,007 violations, 3.4 MB.
async fn fill(home: &Home) {
    let url = Url::of(format!("sqlite:{}", home.state("state.db").display()));
    let pool = sqlx::AnyPool::connect(&url.for_driver()).await.unwrap();
    let one = |n: usize| {
        json!({
            "rule": "schema", "severity": "error", "path": format!("deploy.prod-cluster-1.env[{n}]"),
            "message": format!("`name` is missing from `deploy.prod-cluster-1.env[{n}]`"),
            "position": {"file": ".weave.yaml", "line": 15, "column": 3 * n, "length": 2},
            "expected": null, "help": "write `name`",
        })
    };
    let violations = Json::Array((0..15_007).map(one).collect()).to_string();
    assert!(violations.len() > 3_300_000, "{}", violations.len());
    let copy = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) \
         INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, \
         actor, description, state, received_at, finished_at, stages, summary, violations, due_at, \
         attempts, failures, place) \
         SELECT '20261101-054812123-' || printf('%06x', i), 'former-' || i, repository, target, 1000 + i, \
         commit_id, tag, git_ref, actor, description, 'failed', received_at, finished_at, stages, \
         '15007 violations', $1, due_at, 1, 1, place FROM deployments, n WHERE forge_id = 1";
    sqlx::query(copy).bind(violations).execute(&pool).await.unwrap();
    pool.close().await;
}

#[tokio::test]
async fn what_a_former_version_kept_whole_is_read_in_little_memory() {
    let home = Home::embedded();
    let process = home.start().await;
    let first = Event::of_app(&home, 1, "shop").accepted(&process).await;
    process.ended(&first).await;
    process.kill();
    fill(&home).await;
    let process = home.start().await;
    let one = "20261101-054812123-000007";
    let paths = [
        "/api/v1/deployments?limit=200".to_owned(),
        "/api/v1/deployments?limit=200&state=failed".to_owned(),
        "/".to_owned(),
        "/deployments?limit=200".to_owned(),
        "/api/v1/apps".to_owned(),
        format!("/api/v1/deployments/{one}"),
        format!("/api/v1/deployments/{one}/log"),
        format!("/deployments/{one}"),
        format!("/api/v1/deployments/{one}/events"),
    ];
    let lengths = join_all(paths.iter().map(|path| length(&process, path))).await;
    assert!(lengths.iter().all(|length| *length < 2 * 1024 * 1024), "{lengths:?}");
    let list = process.json("/api/v1/deployments?limit=200").await;
    let list = list["deployments"].as_array().unwrap().clone();
    assert_eq!(list.len(), 200);
    let failed: Vec<_> = list.iter().filter(|one| one["state"] == "failed").collect();
    assert!(failed.len() >= 199 && failed.iter().all(|one| one["errors"].as_u64() > Some(10)));
    let detail = process.deployment(one).await;
    assert_eq!(detail["violations"].as_array().unwrap().len(), 200);
    let peak = process.peak_memory();
    assert!(peak < 256 * 1024 * 1024, "{peak} bytes");
    process.line("it cuts them", |line| line["deployments"] == 200).await;
    assert_eq!(process.deployment(one).await["violations_left_out"], 14_807);
    let list = process.json("/api/v1/deployments?limit=200&state=failed").await;
    let list = list["deployments"].as_array().unwrap();
    assert!(list.iter().all(|one| one["errors"] == 15_007), "{list:?}");
    let peak = process.peak_memory();
    assert!(peak < 256 * 1024 * 1024, "{peak} bytes");
}
