//! A job of a runner that uses the action: its `action.yml` is read, its inputs become variables,
//! its script runs.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Path as Part;
use axum::routing::get;
use serde_json::{Value as Json, json};
use the_deployer::support::clock::Clock;

use crate::harness::folder;
use crate::harness::github::World;
use crate::harness::requests::at;

pub(super) const REPOSITORY: &str = "acme/web";

/// The folder of the action.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/action")
}

pub(super) fn action() -> Json {
    let text = std::fs::read_to_string(folder().join("action.yml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

/// Whether the script can be run here; CI demands it.
pub(super) fn can_run() -> bool {
    let gone = |name: &&str| {
        let found = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        found.is_err()
    };
    let missing: Vec<&str> = ["bash", "curl", "jq"].into_iter().filter(gone).collect();
    let required = std::env::var_os("THE_DEPLOYER_TEST_REQUIRE_ALL").is_some();
    assert!(missing.is_empty() || !required, "{missing:?} must be there");
    if !missing.is_empty() {
        eprintln!("SKIPPED: the action needs {missing:?}");
    }
    missing.is_empty()
}

/// Something that the-deployer tells GitHub, so many seconds after the job began.
#[derive(Debug, Clone)]
struct Told {
    after: u64,
    target: String,
    state: String,
    description: String,
}

/// A repository with one commit, and a job about to run in it.
pub(super) struct Job {
    pub(super) github: World,
    pub(super) clock: Clock,
    pub(super) commit: String,
    inputs: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
    told: Vec<Told>,
}

/// What became of it.
pub(super) struct Run {
    pub(super) code: i32,
    pub(super) log: String,
    pub(super) outputs: BTreeMap<String, String>,
    pub(super) summary: String,
    /// By the moved clock, in seconds.
    pub(super) took: i64,
}

impl Run {
    pub(super) fn output(&self, name: &str) -> Json {
        serde_json::from_str(&self.outputs[name]).unwrap()
    }

    /// The annotations, in order.
    pub(super) fn annotations(&self) -> Vec<&str> {
        self.log.lines().filter(|line| line.starts_with("::")).collect()
    }
}

impl Job {
    /// With the inputs that must be given: a target or more, and a tag.
    pub(super) async fn new(targets: &str, tag: &str) -> Self {
        let clock = Clock::manual(at(0));
        let github = World::start(&clock).await;
        let commit = github.repository(REPOSITORY).commit("slug: web\n");
        let job = Self {
            github,
            clock,
            commit,
            inputs: BTreeMap::new(),
            variables: BTreeMap::new(),
            told: Vec::new(),
        };
        job.with("targets", targets).with("tag", tag)
    }

    pub(super) fn with(mut self, input: &str, value: &str) -> Self {
        self.inputs.insert(input.to_owned(), value.to_owned());
        self
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// GitHub is told that of the target's deployment, that long after the beginning.
    pub(super) fn tells(mut self, after: u64, target: &str, state: &str, text: &str) -> Self {
        let (target, state) = (target.to_owned(), state.to_owned());
        self.told.push(Told { after, target, state, description: text.to_owned() });
        self
    }

    /// Runs the action to its end.
    pub(super) async fn run(&self) -> Run {
        let begun = self.clock.now();
        let town = Town::open(self).await;
        let place = folder::temporary();
        let mut command = self.command(place.path(), &town);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let read = |name| std::fs::read_to_string(place.path().join(name)).unwrap();
        let log =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        assert!(!log.contains(self.github.token()), "the token is in the log:\n{log}");
        let outputs = read("output");
        let outputs = outputs.lines().map(|line| line.split_once('=').unwrap());
        Run {
            code: output.status.code().unwrap(),
            outputs: outputs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            summary: read("summary"),
            took: self.clock.now().duration_since(begun).as_secs(),
            log,
        }
    }

    fn command(&self, place: &Path, town: &Town) -> Command {
        for (name, script) in town.programs() {
            std::fs::create_dir_all(place.join("bin")).unwrap();
            let path = place.join("bin").join(name);
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(place.join("bin")).chain(std::env::split_paths(&inherited));
        let step = &action()["runs"]["steps"][0];
        std::fs::write(place.join("step.sh"), step["run"].as_str().unwrap()).unwrap();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(place.join("step.sh"));
        command.current_dir(place).env_clear().env("PATH", std::env::join_paths(path).unwrap());
        command.env("GITHUB_ACTION_PATH", folder()).env("GITHUB_REPOSITORY", REPOSITORY);
        command.env("GITHUB_API_URL", self.github.api_url()).env("GITHUB_SHA", &self.commit);
        command.env("GITHUB_SERVER_URL", "https://github.com").env("GITHUB_ACTOR", "octocat");
        command.env("GITHUB_WORKFLOW", "release").env("GITHUB_RUN_NUMBER", "7");
        for (variable, name) in [("GITHUB_OUTPUT", "output"), ("GITHUB_STEP_SUMMARY", "summary")] {
            std::fs::write(place.join(name), "").unwrap();
            command.env(variable, place.join(name));
        }
        command.envs(self.inputs_as_variables(step)).envs(&self.variables);
        command.stdin(Stdio::null());
        command
    }

    /// As the runner does it: the step's `env`, with the given inputs and the defaults of the others.
    fn inputs_as_variables(&self, step: &Json) -> BTreeMap<String, String> {
        let inputs = action()["inputs"].clone();
        let known = |name: &String| assert!(inputs.get(name).is_some(), "no input {name}");
        self.inputs.keys().for_each(known);
        let value = |expression: &str| {
            let name = expression.strip_prefix("${{ inputs.").unwrap().strip_suffix(" }}").unwrap();
            let default = inputs[name]["default"].as_str().unwrap_or_default();
            let default = default.replace("${{ github.token }}", self.github.token());
            self.inputs.get(name).cloned().unwrap_or(default)
        };
        let env = step["env"].as_object().unwrap().iter();
        env.map(|(name, expression)| (name.clone(), value(expression.as_str().unwrap()))).collect()
    }

    /// The deployments of the repository, newest first, as GitHub lists them.
    pub(super) async fn deployments(&self) -> Vec<Json> {
        Teller::of(self).deployments("").await
    }
}

/// Where the time is asked for and waited for.
struct Town(String);

impl Town {
    async fn open(job: &Job) -> Self {
        let (clock, begun) = (job.clock.clone(), job.clock.now());
        let teller = Teller::of(job);
        let told = Arc::new(Mutex::new(job.told.clone()));
        let sleep = {
            let clock = clock.clone();
            async move |Part(seconds): Part<u64>| {
                clock.advance(Duration::from_secs(seconds));
                let passed = clock.now().duration_since(begun).as_secs();
                let due = |one: &mut Told| one.after <= u64::try_from(passed).unwrap();
                let due: Vec<Told> = told.lock().unwrap().extract_if(.., due).collect();
                for one in due {
                    teller.tell(&one).await;
                }
            }
        };
        let now = async move || clock.now().as_second().to_string();
        let router = Router::new().route("/sleep/{seconds}", get(sleep)).route("/now", get(now));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self(address)
    }

    fn programs(&self) -> [(&str, String); 2] {
        let ask =
            format!("#!/bin/sh\nexec curl --disable --silent --fail --noproxy '*' {}", self.0);
        [("sleep", format!("{ask}/sleep/$1\n")), ("date", format!("{ask}/now\n"))]
    }
}

/// Tells GitHub what the-deployer would.
#[derive(Clone)]
struct Teller {
    client: reqwest::Client,
    base: String,
    token: &'static str,
}

impl Teller {
    fn of(job: &Job) -> Self {
        let base = format!("{}/repos/{REPOSITORY}/deployments", job.github.api_url());
        let client = crate::harness::process::client();
        Self { client, base, token: job.github.token() }
    }

    async fn deployments(&self, query: &str) -> Vec<Json> {
        let request = self.client.get(format!("{}?{query}", self.base));
        self.send(request).await.as_array().unwrap().clone()
    }

    async fn tell(&self, told: &Told) {
        let Told { target, state, description, after: _ } = told;
        let newest = self.deployments(&format!("environment={target}")).await.remove(0);
        let number = newest["id"].as_i64().unwrap();
        let log = format!("https://deployer.example.com/deployments/{number}");
        let body = json!({
            "state": state, "description": description, "log_url": log, "auto_inactive": false,
        });
        let request = self.client.post(format!("{}/{number}/statuses", self.base));
        self.send(request.json(&body)).await;
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Json {
        let request = request.bearer_auth(self.token).header("user-agent", "the-deployer");
        request.send().await.unwrap().error_for_status().unwrap().json().await.unwrap()
    }
}
