//! A real Prometheus and a real Alertmanager on loopback, each with a folder of its own. They are gone with this
//! process, however that ends.

use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::harness::folder;

/// A server that runs.
pub(crate) struct Monitor {
    pub(crate) url: String,
    _folder: TempDir,
    /// The shell that runs it ends with this.
    _alive: ChildStdin,
}

/// The first start reads a program of 100 MiB, perhaps where every core is busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts Prometheus, which scrapes this text every second, and waits until it has.
pub(crate) async fn prometheus(metrics: &'static str) -> Monitor {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let router = Router::new().route("/metrics", get(move || async move { metrics }));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let config = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs: [{{job_name: shop, static_configs: [{{targets: ['{target}']}}]}}]\n"
    );
    let start = |port: u16| {
        vec![
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--storage.tsdb.path=data".to_owned(),
        ]
    };
    let monitor = run("prometheus", &config, start).await;
    let query = format!("{}/api/v1/query?query=up", monitor.url);
    until("it has scraped", async || {
        let answer = reqwest::get(&query).await.ok()?.json::<Json>().await.ok()?;
        (answer["data"]["result"][0]["value"][1] == "1").then_some(())
    })
    .await;
    monitor
}

/// Starts Alertmanager. An alert `ClusterDown` inhibits those of the severity `page`.
pub(crate) async fn alertmanager() -> Monitor {
    let config = "route: {receiver: none}\nreceivers: [{name: none}]\n\
                  inhibit_rules: [{source_matchers: ['alertname=\"ClusterDown\"'], target_matchers: ['severity=\"page\"']}]\n";
    let start = |port: u16| {
        vec![
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--storage.path=data".to_owned(),
            "--cluster.listen-address=".to_owned(),
        ]
    };
    let monitor = run(ALERTMANAGER, config, start).await;
    let status = format!("{}/api/v2/status", monitor.url);
    until("it answers", async || {
        reqwest::get(&status).await.ok()?.error_for_status().ok().map(drop)
    })
    .await;
    monitor
}

/// As Debian calls it.
const ALERTMANAGER: &str = "prometheus-alertmanager";

impl Monitor {
    /// Lets an alert fire at Alertmanager, as Prometheus does.
    pub(crate) async fn fire(&self, name: &str, severity: &str) {
        let alert = json!([{"labels": {"alertname": name, "severity": severity, "app": "shop"}}]);
        self.post("alerts", &alert).await;
    }

    /// Silences the alerts of that name for an hour.
    pub(crate) async fn silence(&self, name: &str) {
        let now = jiff::Timestamp::now();
        let matcher =
            json!({"name": "alertname", "value": name, "isRegex": false, "isEqual": true});
        self.post(
            "silences",
            &json!({
                "matchers": [matcher], "startsAt": now.to_string(), "createdBy": "jane", "comment": "known",
                "endsAt": (now + jiff::SignedDuration::from_hours(1)).to_string(),
            }),
        )
        .await;
    }

    async fn post(&self, path: &str, body: &Json) {
        let url = format!("{}/api/v2/{path}", self.url);
        let request = reqwest::Client::new().post(url).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
}

/// Tries until there is something.
pub(crate) async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The shell outlives this process by a moment: its `read` ends when we do, killed or not.
#[expect(clippy::zombie_processes, reason = "the shell is there to outlive this process")]
async fn run(program: &str, config: &str, start: impl Fn(u16) -> Vec<String>) -> Monitor {
    the_deployer::support::http::install_tls_provider();
    let folder = folder::temporary();
    std::fs::write(folder.path().join("config.yaml"), config).unwrap();
    // Neither program tells which port the system chose: another process may take it meanwhile.
    for _ in 0..5 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut shell = Command::new("/bin/sh")
            .args([
                "-c",
                "\"$@\" >log 2>&1 </dev/null & read -r _; kill -KILL $!; wait",
                "sh",
                program,
            ])
            .arg("--config.file=config.yaml")
            .args(start(port))
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let alive = shell.stdin.take().unwrap();
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(
                !log.contains("not found"),
                "{program} is not installed: apt-get install prometheus prometheus-alertmanager"
            );
            if log.contains("address already in use") {
                break;
            }
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                let url = format!("http://127.0.0.1:{port}");
                return Monitor { url, _folder: folder, _alive: alive };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    panic!("{program} does not start:\n{log}");
}
