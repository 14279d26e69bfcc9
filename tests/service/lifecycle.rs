//! The life of a process: its first start, its end, and what it tells while it runs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value as Json;

use crate::harness::events::Event;
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home};
use crate::service::crash::assert_right;

#[tokio::test]
async fn sigterm_lets_a_push_end() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    process.terminate();
    process.line("the end begins", |line| message(line).starts_with("stopping")).await;
    held.let_go();
    let (status, log) = process.end().await;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("deployment succeeded"), "{log}");
    let process = home.start().await;
    assert_right(&process, &bare, &id, "shop").await;
    assert_eq!(process.deployment(&id).await["attempts"], 1);
}

#[tokio::test]
async fn sigterm_gives_a_push_back_that_does_not_end_in_time() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start_with(&[("THE_DEPLOYER_SERVER_SHUTDOWN_GRACE", "1s")]).await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    process.terminate();
    let (status, log) = process.end().await;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("deployment released"), "{log}");
    assert!(!host.is_idle(), "it did not wait for the push");
    let process = home.start().await;
    assert_right(&process, &bare, &id, "shop").await;
    held.let_go();
    host.idle().await;
    assert_eq!(bare.commits(), 1, "the push that was given up comes too late");
}

#[tokio::test]
async fn a_newer_deployment_takes_the_place_of_one_that_waits() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start().await;
    let event = Event::of_app(&home, 1, "shop");
    let numbered = |number: i64| Event { number, tag: format!("v{number}"), ..event.clone() };
    let first = event.accepted(&process).await;
    held.reached().await;
    let second = numbered(2).accepted(&process).await;
    let third = numbered(3).accepted(&process).await;
    held.let_go();
    assert_right(&process, &bare, &third, "shop").await;
    assert_eq!(process.ended(&first).await["state"], "succeeded", "it had begun to push");
    let second = process.ended(&second).await;
    assert_eq!(second["state"], "superseded");
    let told: Vec<&Json> =
        second["statuses"].as_array().unwrap().iter().map(|status| &status["state"]).collect();
    assert_eq!(told, ["queued", "inactive"]);
    assert_eq!(bare.commits(), 2);
}

#[tokio::test]
async fn it_tells_what_it_does_in_metrics_and_in_lines_that_name_the_deployment() {
    let home = Home::embedded();
    let process = home.start().await;
    let good = Event::of_app(&home, 1, "shop").accepted(&process).await;
    process.ended(&good).await;
    let bad = Event::new(2, "nowhere", &"ab".repeat(20)).accepted(&process).await;
    process.ended(&bad).await;
    let (status, ready) = process.get("/readyz").await;
    assert_eq!(status, 200, "{ready}");
    let ready: Json = serde_json::from_str(&ready).unwrap();
    let names: Vec<&Json> =
        ready["checks"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["database", "disk", "manifest repository manifests", "templates"]);

    let lines = ["fetch", "facts", "merge", "default", "validate", "render", "push", "queue"]
        .map(|stage| format!("the_deployer_stage_duration_seconds_count{{stage=\"{stage}\"}} "));
    let others = [
        "the_deployer_attempts_total{outcome=\"succeeded\"} 1",
        "the_deployer_attempts_total{outcome=\"failed\"} 1",
        "the_deployer_queue_depth{state=\"queued\"} 0",
        "the_deployer_outbox_depth{state=\"unsent\"} 0",
        "the_deployer_manifest_pushes_total{repository=\"manifests\"} 1",
        "the_deployer_manifest_changes_total{repository=\"manifests\"} 1",
        "the_deployer_manifest_changes_waiting{repository=\"manifests\"} 0",
    ];
    let wanted = || lines.iter().map(String::as_str).chain(others);
    process
        .until("the metrics", async || {
            let (_, text) = process.get("/metrics").await;
            wanted().all(|line| text.contains(line)).then_some(())
        })
        .await;
    assert_lines_name(&process.log(), [&good, &bad]);

    // docs/metrics.md has each of them, as what it is.
    let documented = crate::docs::monitoring::documented();
    let (_, text) = process.get("/metrics").await;
    let types: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE the_deployer_")).collect();
    assert!(types.len() >= 20, "{text}");
    for line in types {
        let (name, kind) = line.split_once(' ').unwrap();
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        assert_eq!(documented.get(&name).map(|metric| metric.kind.as_str()), Some(kind), "{name}");
    }
}

fn assert_lines_name(log: &str, ids: [&String; 2]) {
    let mut stages = 0;
    for line in log.lines() {
        let json: Json = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        let words = ["deployment", "begins", "took"];
        if !words.iter().any(|word| message(&json).contains(word)) {
            continue;
        }
        stages += 1;
        let id = json["deployment"].as_str().or(json["span"]["deployment"].as_str());
        assert!(ids.iter().any(|known| id == Some(known.as_str())), "whose is it? {line}");
    }
    assert!(stages >= 18, "two accepted, two ended, and each stage twice: {stages}\n{log}");
}

fn message(line: &Json) -> &str {
    line["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn what_the_first_start_makes_is_for_its_owner_only() {
    let home = Home::embedded();
    let process = home.start().await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut looked_at = 0;
    for name in ["webhook-secret", "state.db", "state.db-wal", "state.db-shm"] {
        let path = home.state(name);
        if path.exists() {
            assert_eq!(mode(&path), 0o600, "{name}");
            looked_at += 1;
        }
    }
    assert!(looked_at >= 2);
    let secret = process.secret.clone();
    assert!(secret.len() >= 64 && !process.log().contains(&secret));
    process.kill();
    assert_eq!(home.start().await.secret, secret, "it stays the same");
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_stops_the_start_at_its_place() {
    let home = Home::configured("server:\n  listne: 127.0.0.1:0\n");
    let refused = home.start_in_vain(&[]).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("config.yaml:2:3") && said.contains("did you mean `listen`"), "{said}");

    let home = Home::embedded();
    let refused = home.start_in_vain(&[("THE_DEPLOYER_SERVER_LISTEN", "0.0.0.0:0")]).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("can be reached from other machines without a token"), "{said}");
    assert!(!home.state("").exists(), "nothing was made");
}
