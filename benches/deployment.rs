//! One deployment end to end: a signed event over HTTP until its record says `succeeded`.
//!
//! `cargo bench --profile fast --bench deployment`. Beside it, in the same run: what a script would do, which is
//! a clone, a copy of the same files, a commit and a push with git's own command line, on a
//! manifest repository of the same content. Prints medians and their ratio.

#![allow(
    missing_docs,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and may fail loudly"
)]

#[path = "support/git.rs"]
mod git;
#[path = "support/service.rs"]
mod service;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use the_deployer::forge::github::webhook::signature;

use crate::git::{git, service_repository};
use crate::service::RunningService;

const WAML: &str = include_str!("../tests/pipeline/example/waml.yaml");
const RUNS: usize = 30;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let home = std::env::temp_dir().join(format!("the-deployer-bench-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    runtime.block_on(bench(&home));
    std::fs::remove_dir_all(&home).expect("the folder is ours");
}

async fn bench(home: &Path) {
    let service = RunningService::start(&home.join("service"), &[]).await;
    let address = service.address;
    let commit = service_repository(&home.join("service/repos/o/my-app.git"), WAML);
    let secret = std::fs::read_to_string(home.join("service/webhook-secret")).expect("a secret");
    let client = reqwest::Client::new();
    let (mut ours, mut answers, mut scripts) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let begun = Instant::now();
        let id = send(&client, address, secret.trim(), run, &commit).await;
        let answered = begun.elapsed();
        until_succeeded(&client, address, &id).await;
        let pushed = begun.elapsed();
        let script = by_script(&home.join("service/manifests.git"), &home.join("clone"), run);
        // The first run warms up what is made once.
        if run > 0 {
            answers.push(answered);
            ours.push(pushed);
            scripts.push(script);
        }
    }
    service.end().await;
    let (answer, ours, script) = (median(answers), median(ours), median(scripts));
    println!("event answered                  {answer:>10.2?}  median of {RUNS}");
    println!("event received → succeeded      {ours:>10.2?}  median of {RUNS}");
    println!("peer: clone, copy, commit, push {script:>10.2?}  median of {RUNS}");
    println!(
        "peer / ours                     {:>9.1} ×",
        script.as_secs_f64() / ours.as_secs_f64()
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn send(
    client: &reqwest::Client,
    address: SocketAddr,
    secret: &str,
    run: usize,
    commit: &str,
) -> String {
    let body = serde_json::json!({
        "action": "created",
        "deployment": {
            "id": run + 1, "sha": commit, "ref": "main", "task": "deploy", "environment": "prod-cluster-1",
            "payload": {"tag": format!("1.{run}")}, "creator": {"login": "b"},
        },
        "repository": {"full_name": "o/my-app"},
        "sender": {"login": "b"},
    });
    let body = body.to_string();
    let answer = client
        .post(format!("http://{address}/webhooks/github"))
        .header("content-type", "application/json")
        .header("x-github-event", "deployment")
        .header("x-github-delivery", format!("bench-{run}"))
        .header(signature::HEADER, signature::sign(&secret.into(), body.as_bytes()))
        .body(body)
        .send();
    let answer: serde_json::Value = answer.await.expect("an answer").json().await.expect("JSON");
    answer["id"].as_str().unwrap_or_else(|| panic!("not accepted: {answer}")).to_owned()
}

async fn until_succeeded(client: &reqwest::Client, address: SocketAddr, id: &str) {
    loop {
        let answer = client.get(format!("http://{address}/api/v1/deployments/{id}")).send();
        let answer: serde_json::Value =
            answer.await.expect("an answer").json().await.expect("JSON");
        match answer["state"].as_str() {
            Some("succeeded") => return,
            Some("failed") | None => panic!("{answer}"),
            Some(_) => tokio::time::sleep(Duration::from_micros(500)).await,
        }
    }
}

/// The same files once more under another app, so that both repositories grow alike.
fn by_script(remote: &Path, clone: &Path, run: usize) -> Duration {
    let begun = Instant::now();
    let parent = clone.parent().expect("a folder");
    let (from, to) = (remote.display().to_string(), clone.display().to_string());
    git(parent, &["clone", "-q", "--depth=1", &format!("file://{from}"), &to]);
    let app = clone.join("manifests/prod-cluster-1/devx");
    let copy = app.join(format!("script/{run}"));
    std::fs::create_dir_all(&copy).expect("a folder");
    for file in std::fs::read_dir(app.join("my-app/latest")).expect("files") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), copy.join(file.file_name())).expect("a copy");
    }
    std::fs::write(copy.join("run"), run.to_string()).expect("a file");
    git(clone, &["add", "."]);
    git(clone, &["commit", "-q", "-m", "script"]);
    git(clone, &["push", "-q", "origin", "HEAD:main"]);
    let took = begun.elapsed();
    std::fs::remove_dir_all(clone).expect("the clone is ours");
    took
}
