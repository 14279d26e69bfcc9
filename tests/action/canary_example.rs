//! `deploy/examples/canary/`: the service answers as it is asked, the monitor ends as the deployment does, and WAML and
//! workflow are of a piece with them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Path as Part;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::get;
use serde_json::{Value as Json, json};
use the_deployer::model::platform::Platform;

use crate::harness::folder;
use crate::harness::is_missing;
use crate::pipeline::planned_on_platform;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples/canary")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// The service on a port of its own; it ends with this.
struct App {
    process: Child,
    url: String,
}

impl App {
    fn start() -> Self {
        let mut command = Command::new("python3");
        command.arg(folder().join("app.py")).env("PORT", "0").env("VERSION", "v7");
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("v7 listens on port ").unwrap();
        Self { process, url: format!("http://127.0.0.1:{port}") }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let client = crate::harness::process::client();
        let answer = client.get(format!("{}{path}", self.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

#[tokio::test]
async fn the_service_fails_and_dawdles_as_it_is_asked() {
    if is_missing("python3", "the example's service") {
        return;
    }
    let app = App::start();
    assert_eq!(app.get("/health").await, (200, "v7: up\n".to_owned()));
    for _ in 0..20 {
        assert_eq!(app.get("/error/0").await.0, 200);
        assert_eq!(app.get("/error/100").await.0, 500);
    }
    assert_eq!(app.get("/sleep/20").await, (200, "v7: slept 20 ms\n".to_owned()));
    for path in [
        "/error/101",
        "/error/-1",
        "/error/",
        "/error/x",
        "/sleep/60001",
        "/sleep/1e3",
        "/a",
        "/error/1/2",
    ] {
        assert_eq!(app.get(path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn the_service_answers_what_it_has_begun_before_it_goes() {
    if is_missing("python3", "the example's service") {
        return;
    }
    let mut app = App::start();
    let url = app.url.clone();
    let slow = tokio::spawn(async move {
        crate::harness::process::client()
            .get(format!("{url}/sleep/1000"))
            .send()
            .await
            .unwrap()
            .status()
    });
    // The request is under way once another one that came later is answered.
    assert_eq!(app.get("/sleep/100").await.0, 200);
    let told = Command::new("kill").arg(app.process.id().to_string()).status().unwrap();
    assert!(told.success());
    assert_eq!(slow.await.unwrap(), 200);
    let status = tokio::task::spawn_blocking(move || app.process.wait().unwrap()).await.unwrap();
    assert!(status.success());
}

/// GitHub, the app and the time, as the monitor sees them.
#[derive(Default)]
struct Town {
    /// Seconds since the beginning.
    now: f64,
    /// The states of the deployment, each from that second on.
    states: Vec<(f64, &'static str, &'static str)>,
    /// Requests to the app: the host and the path.
    traffic: Vec<(String, String)>,
    polls: usize,
}

struct Monitored {
    code: i32,
    out: String,
    town: Town,
}

/// Runs the monitor with these variables while the deployment has these states.
async fn monitor(
    states: &[(f64, &'static str, &'static str)],
    variables: &[(&str, &str)],
) -> Monitored {
    let town = Arc::new(Mutex::new(Town { states: states.to_vec(), ..Town::default() }));
    let statuses = {
        let town = Arc::clone(&town);
        async move |Part(number): Part<u64>, headers: HeaderMap| {
            assert_eq!(headers["authorization"], "Bearer a-token");
            if number != 7 {
                return StatusCode::NOT_FOUND.into_response();
            }
            let mut town = town.lock().unwrap();
            town.polls += 1;
            let newest = town.states.iter().rev().find(|(from, ..)| *from <= town.now);
            let list: Vec<Json> = newest
                .map(|(_, state, text)| json!({"state": state, "description": text}))
                .into_iter()
                .collect();
            let text = json!(list).to_string();
            let tag = format!("\"{}\"", text.len());
            if headers.get("if-none-match").is_some_and(|one| *one == tag.as_str()) {
                return StatusCode::NOT_MODIFIED.into_response();
            }
            ([("etag", tag)], text).into_response()
        }
    };
    let traffic = {
        let town = Arc::clone(&town);
        async move |Part(path): Part<String>, headers: HeaderMap| {
            let host = headers["host"].to_str().unwrap().to_owned();
            town.lock().unwrap().traffic.push((host, path));
        }
    };
    let sleep = {
        let town = Arc::clone(&town);
        async move |Part(seconds): Part<f64>| {
            // Traffic goes on meanwhile.
            tokio::time::sleep(Duration::from_millis(20)).await;
            town.lock().unwrap().now += seconds;
        }
    };
    let date = {
        let town = Arc::clone(&town);
        async move || format!("{:.0}", 1_000_000.0 + town.lock().unwrap().now.floor())
    };
    let router = Router::new()
        .route("/repos/acme/demo/deployments/{number}/statuses", get(statuses))
        .route("/app/{*path}", get(traffic))
        .route("/clock/sleep/{seconds}", get(sleep))
        .route("/clock/date", get(date));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let place = folder::temporary();
    let mut command = command(place.path(), &address, variables);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let out = text(&output.stdout) + &text(&output.stderr);
    let town = std::mem::take(&mut *town.lock().unwrap());
    assert!(!out.contains("a-token"), "{out}");
    Monitored { code: output.status.code().unwrap(), out, town }
}

/// The monitor with a `sleep` and a `date` that go by the test's clock.
fn command(place: &Path, address: &str, variables: &[(&str, &str)]) -> Command {
    use std::os::unix::fs::PermissionsExt as _;

    let fetch =
        format!("#!/bin/sh\nexec curl --disable --silent --fail --noproxy '*' {address}/clock");
    for (name, rest) in [("sleep", "/sleep/$1"), ("date", "/date")] {
        let path = place.join(name);
        std::fs::write(&path, format!("{fetch}{rest}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(place.to_owned()).chain(std::env::split_paths(&inherited));
    let mut command = Command::new("bash");
    command.arg(folder().join("monitor.sh")).env_clear();
    command.env("PATH", std::env::join_paths(path).unwrap());
    let app = format!("{address}/app");
    let usual = [
        ("TOKEN", "a-token"),
        ("DEPLOYMENT", "7"),
        ("APPLICATION_URL", app.as_str()),
        ("APPLICATION_HOST", "demo.example.com"),
        ("GITHUB_REPOSITORY", "acme/demo"),
        ("GITHUB_API_URL", address),
    ];
    command.envs(usual).envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

fn can_monitor() -> bool {
    !["bash", "curl", "jq"].iter().any(|program| is_missing(program, "the example's monitor"))
}

#[tokio::test]
async fn the_monitor_sends_traffic_and_ends_with_the_deployment() {
    if !can_monitor() {
        return;
    }
    let states = [
        (0.0, "queued", "waiting"),
        (6.0, "in_progress", "20 % of the traffic"),
        (200.0, "success", "all pods are there and serve"),
    ];
    let run = monitor(&states, &[("METRIC_TYPE", "sleep"), ("AMOUNT", "500")]).await;
    assert_eq!(run.code, 0, "{}", run.out);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines[0], "0 s  queued  waiting");
    assert!(lines[1].ends_with("s  in_progress  20 % of the traffic"), "{}", run.out);
    assert!(lines[2].ends_with("s  success  all pods are there and serve"), "{}", run.out);
    assert!(!run.town.traffic.is_empty());
    let all = |(host, path): &(String, String)| host == "demo.example.com" && path == "sleep/500";
    assert!(run.town.traffic.iter().all(all), "{:?}", run.town.traffic.first());
    // Every 1.5 seconds.
    assert!((130..140).contains(&run.town.polls), "{}", run.town.polls);
}

#[tokio::test]
async fn the_monitor_fails_with_the_deployment() {
    if !can_monitor() {
        return;
    }
    for state in ["failure", "error", "inactive"] {
        let run = monitor(&[(0.0, "in_progress", "a"), (9.0, state, "why")], &[]).await;
        assert_eq!(run.code, 1, "{state}: {}", run.out);
        assert!(run.out.contains(&format!("s  {state}  why")), "{}", run.out);
    }
    let missing = monitor(&[], &[("DEPLOYMENT", "8")]).await;
    assert_eq!(missing.code, 1);
    assert!(missing.out.contains("there is no deployment 8"), "{}", missing.out);
}

#[tokio::test]
async fn the_monitor_waits_no_longer_than_it_may() {
    if !can_monitor() {
        return;
    }
    // Neither for the beginning nor for the end.
    for states in [&[][..], &[(0.0, "in_progress", "halted")]] {
        let run = monitor(states, &[("POLL", "15")]).await;
        assert_eq!(run.code, 1, "{}", run.out);
        assert!(run.out.contains("has no end after 300 s"), "{}", run.out);
        assert!((300.0..303.0).contains(&run.town.now), "{}", run.town.now);
    }
    for variables in [
        [("METRIC_TYPE", "other"), ("AMOUNT", "0")],
        [("METRIC_TYPE", "error"), ("AMOUNT", "101")],
        [("METRIC_TYPE", "sleep"), ("AMOUNT", "1; reboot")],
        [("DEPLOYMENT", "../7"), ("AMOUNT", "0")],
    ] {
        let run = monitor(&[], &variables).await;
        assert_eq!((run.code, run.town.polls), (1, 0), "{variables:?}: {}", run.out);
    }
}

#[test]
fn the_waml_is_rendered_for_every_provider() {
    for platform in [
        "{}",
        "{ingress: {kind: kubernetes}}",
        "{ingress: {kind: gateway}, canary: {prometheus: 'http://p:9090'}}",
        "{ingress: {kind: gateway}, canary: {provider: istio}}",
    ] {
        let platform: Platform = serde_yaml::from_str(platform).unwrap();
        let rendered = planned_on_platform(read(".weave.yaml").as_bytes(), platform).unwrap();
        assert_eq!(rendered.warnings, []);
        let forecast = rendered.canary.unwrap();
        assert_eq!((forecast.minimum_seconds, forecast.rollback_seconds), (180, 180));
        let names: Vec<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
        assert!(names.contains(&"canary.yaml") && !names.contains(&"service.yaml"), "{names:?}");
    }
}

#[test]
fn the_workflow_runs_on_a_push_and_by_hand_and_hands_inputs_over_as_data() {
    let text = read(".github/workflows/canary.yaml");
    let workflow: Json = serde_yaml::from_str(&text).unwrap();
    assert_eq!(workflow["on"]["push"]["branches"], json!(["main"]));
    let inputs = &workflow["on"]["workflow_dispatch"]["inputs"];
    assert_eq!(inputs["metric_type"]["options"], json!(["error", "sleep"]));
    assert_eq!(inputs["amount"]["default"], "0");
    let jobs = &workflow["jobs"];
    assert_eq!(jobs["deploy"]["needs"], "build");
    let steps = jobs["deploy"]["steps"].as_array().unwrap();
    let action = std::fs::read_to_string(folder().join("../../action/action.yml")).unwrap();
    let action: Json = serde_yaml::from_str(&action).unwrap();
    let with =
        steps.iter().find(|step| step["id"] == "deploy").unwrap()["with"].as_object().unwrap();
    assert!(with.keys().all(|key| action["inputs"].get(key).is_some()), "{with:?}");
    let monitor = steps.last().unwrap();
    assert_eq!(monitor["run"], "./monitor.sh");
    let script = read("monitor.sh");
    let variables: BTreeMap<String, Json> = serde_json::from_value(monitor["env"].clone()).unwrap();
    for name in variables.keys() {
        assert!(script.contains(name.as_str()), "{name}");
    }
    // What people type is a variable, and never a part of a script.
    let scripts =
        jobs.as_object().unwrap().values().flat_map(|job| job["steps"].as_array().unwrap());
    for run in scripts.filter_map(|step| step["run"].as_str()) {
        assert!(!run.contains("${{"), "{run}");
    }
}

#[test]
fn the_guide_shows_what_bart_prints() {
    let forecast = the_deployer::waml::canary_plan::forecast(
        &serde_yaml::from_str("{interval: 1m, threshold: 3, maxWeight: 60, stepWeight: 20}")
            .unwrap(),
    );
    assert_eq!(forecast.unwrap().minimum_seconds, 180);
    let guide = read("README.md");
    let shown = guide.split_once("```text\ncanary: ").unwrap().1.split_once("```").unwrap().0;
    let page = std::fs::read_to_string(folder().join("../../../docs/canary.md")).unwrap();
    assert!(page.contains(&format!("```text\ncanary: {shown}```")), "{shown}");
}
