//! Rollouts in the whole service: one of 100 targets, one target after the other, beside as many single deployments; and
//! 200 rollouts at once, beside as many single deployments at once.
//!
//! `cargo bench --profile fast --bench rollouts`. Both ways write the same files in one run of one service, with the
//! embedded database and repository. What a rollout takes more than its deployments is its own time.

#![allow(
    missing_docs,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark measures real time, and may fail loudly"
)]

#[path = "support/git.rs"]
mod git;
#[path = "support/service.rs"]
mod service;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::git::service_repository;
use crate::service::RunningService;

const WAML: &str = include_str!("../tests/pipeline/example/waml.yaml");
/// The targets of the one long rollout.
const TARGETS: usize = 100;
/// The rollouts at once, and the targets of each.
const ROLLOUTS: usize = 200;
const TARGETS_OF_EACH: usize = 3;
const POLL: Duration = Duration::from_millis(2);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let home = std::env::temp_dir().join(format!("the-deployer-rollouts-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    runtime.block_on(bench(&home));
    std::fs::remove_dir_all(&home).expect("the folder is ours");
}

async fn bench(home: &Path) {
    let running = RunningService::start(&home.join("service"), &[]).await;
    let url = format!("http://{}/api/v1", running.address);
    let service = Service { client: reqwest::Client::new(), url };

    app_repository(home, "long", TARGETS);
    // The first round makes what is made once: the clone, the targets' folders.
    service.deploy_each("long", "0.0").await;
    let single = service.deploy_each("long", "1.0").await;
    let rollout = service.roll_out("long", "2.0").await;
    let (single, rollout) = (per(single, TARGETS), per(rollout, TARGETS));
    println!("one deployment, alone            {single:>10.2?}  mean of {TARGETS}");
    println!("one step of a rollout            {rollout:>10.2?}  mean of {TARGETS}");
    println!(
        "the rollout's own time per step  {:>10.2?}  at most 20 ms are allowed",
        rollout.saturating_sub(single)
    );
    println!(
        "step / deployment                {:>9.2} ×",
        rollout.as_secs_f64() / single.as_secs_f64()
    );

    let apps: Vec<String> = (0..ROLLOUTS).map(|number| format!("app-{number}")).collect();
    for app in &apps {
        app_repository(home, app, TARGETS_OF_EACH);
    }
    let begun = Instant::now();
    join_all(apps.iter().map(|app| service.deploy_all(app, "1.0"))).await;
    let single = begun.elapsed();
    let begun = Instant::now();
    join_all(apps.iter().map(|app| service.roll_out(app, "2.0"))).await;
    let rollouts = begun.elapsed();
    let deployments = ROLLOUTS * TARGETS_OF_EACH;
    println!(
        "{deployments} deployments at once          {single:>10.2?}  {:>6.0} a second",
        deployments as f64 / single.as_secs_f64()
    );
    println!(
        "{ROLLOUTS} rollouts of {TARGETS_OF_EACH} targets at once {rollouts:>10.2?}  {:>6.0} a second",
        deployments as f64 / rollouts.as_secs_f64()
    );
    println!(
        "rollouts / deployments           {:>9.2} ×",
        rollouts.as_secs_f64() / single.as_secs_f64()
    );
    running.end().await;
}

fn per(time: Duration, count: usize) -> Duration {
    time / u32::try_from(count).expect("a small number")
}

struct Service {
    client: reqwest::Client,
    url: String,
}

impl Service {
    /// Deploys to one target after the other.
    async fn deploy_each(&self, app: &str, tag: &str) -> Duration {
        let begun = Instant::now();
        for target in 0..TARGETS {
            let id = self.create(app, target, tag).await;
            self.until("deployments", &id, "succeeded").await;
        }
        begun.elapsed()
    }

    /// Deploys to all targets at once.
    async fn deploy_all(&self, app: &str, tag: &str) {
        let ids = join_all((0..TARGETS_OF_EACH).map(|target| self.create(app, target, tag))).await;
        for id in ids {
            self.until("deployments", &id, "succeeded").await;
        }
    }

    async fn create(&self, app: &str, target: usize, tag: &str) -> String {
        let body = json!({
            "repository": format!("o/{app}"), "ref": "main", "tag": tag, "target": format!("t{target:03}"),
        });
        self.post("deployments", &body).await
    }

    /// Rolls a release out to all targets, one after the other.
    async fn roll_out(&self, app: &str, tag: &str) -> Duration {
        let begun = Instant::now();
        let body =
            json!({"repository": format!("o/{app}"), "ref": "main", "tag": tag, "targets": ["t*"]});
        let id = self.post("rollouts", &body).await;
        self.until("rollouts", &id, "done").await;
        begun.elapsed()
    }

    async fn post(&self, kind: &str, body: &Value) -> String {
        let answer = self.ask(self.client.post(format!("{}/{kind}", self.url)).json(body)).await;
        answer["id"].as_str().unwrap_or_else(|| panic!("not accepted: {answer}")).to_owned()
    }

    /// Asks until the service takes the request, as clients do: it refuses what is too much at once.
    async fn ask(&self, request: reqwest::RequestBuilder) -> Value {
        loop {
            let request = request.try_clone().expect("its body is text");
            let answer = request.send().await.expect("an answer");
            if answer.status().as_u16() != 503 {
                return answer.json().await.expect("JSON");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn until(&self, kind: &str, id: &str, end: &str) {
        loop {
            let answer = self.ask(self.client.get(format!("{}/{kind}/{id}", self.url))).await;
            match answer["state"].as_str() {
                Some(state) if state == end => return,
                Some("failed" | "undone" | "undo_failed" | "paused" | "cancelled") | None => {
                    panic!("{answer}")
                }
                Some(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

/// The repository of an app with so many targets.
fn app_repository(home: &Path, app: &str, targets: usize) {
    let (head, _) = WAML.split_once("deploy:\n").expect("the example deploys");
    let mut waml = format!("{}deploy:\n", head.replace("my-app", app));
    for target in 0..targets {
        writeln!(waml, "  t{target:03}: {{}}").expect("text");
    }
    service_repository(&home.join(format!("service/repos/o/{app}.git")), &waml);
}
