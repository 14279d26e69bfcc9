//! Tests what `bart` shows of the service: status, history, logs, and what it opens.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::folder;

/// A service repository on this machine, and the service that deploys it.
struct Place {
    deployer: Deployer,
    folder: TempDir,
}

impl Place {
    async fn new() -> Self {
        let deployer = Deployer::start().await;
        deployer.github.repository("example/shop").commit(&waml("shop"));
        let folder = folder::temporary();
        let text = waml("shop").replace("https://…", "https://wiki.example.com/shop");
        assert!(text.contains("wiki.example.com"));
        std::fs::write(folder.path().join(".weave.yaml"), text).unwrap();
        let repository = git2::Repository::init(folder.path()).unwrap();
        repository.remote("origin", "git@github.example.com:example/shop.git").unwrap();
        Self { deployer, folder }
    }

    async fn deploys(&self, tag: &str) -> String {
        self.asks(tag).await;
        self.deployer.settle().await;
        self.deployer.deployments().await.pop().unwrap().id.to_string()
    }

    async fn asks(&self, tag: &str) {
        self.deployer.clock.advance(Duration::from_secs(1));
        self.deployer.github.repository("example/shop").deploys("prod-cluster-1", tag).await;
        self.deployer.github.delivered().await;
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
        command.current_dir(self.folder.path()).env_clear().args(arguments).stdin(Stdio::null());
        let server = format!("http://{}", self.deployer.stepped().address());
        command.env("BART_SERVER", server).env("NO_COLOR", "1").env("HOME", self.folder.path());
        command
    }

    /// Every test ends with this.
    async fn settled(&self) {
        self.deployer.settle().await;
        self.deployer.settled().await;
    }

    async fn bart(&self, arguments: &[&str]) -> (i32, String) {
        run(self.command(arguments)).await
    }

    async fn data(&self, arguments: &[&str]) -> Json {
        let (code, said) = self.bart(&[arguments, &["--output", "json"]].concat()).await;
        assert_eq!(code, 0, "{said}");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }
}

async fn run(mut command: Command) -> (i32, String) {
    let output: Output =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (output.status.code().unwrap(), texts.concat())
}

#[tokio::test]
async fn status_shows_what_is_live_what_goes_on_and_what_never_was() {
    let place = Place::new().await;
    let (code, before) = place.bart(&["status"]).await;
    assert_eq!(code, 0, "{before}");
    assert!(before.contains("prod-cluster-1") && before.contains("never deployed"), "{before}");
    let id = place.deploys("v1").await;
    place.asks("v2").await;
    let (code, now) = place.bart(&["status"]).await;
    assert_eq!(code, 0, "{now}");
    assert!(now.starts_with("devx/shop  example/shop  squad@example.com\n"), "{now}");
    assert!(now.contains("prod-cluster-1  v1"), "{now}");
    assert!(now.contains("live, v2 queued") && now.contains("under way"), "{now}");
    let data = place.data(&["status"]).await;
    assert_eq!(data["targets"][0]["state"]["live"]["tag"], "v1");
    assert_eq!((&data["app"], &data["service"]["ready"]), (&"devx/shop".into(), &true.into()));
    let (_, yaml) = place.bart(&["status", "--output", "yaml"]).await;
    let yaml: Json = serde_yaml::from_str(&yaml).unwrap();
    assert_eq!(yaml, data);
    let (code, all) = place.bart(&["status", "--all", "--times", "absolute"]).await;
    assert_eq!(code, 0);
    let line = all.lines().nth(1).unwrap().split("  ").map(str::trim);
    let cells: Vec<_> = line.filter(|cell| !cell.is_empty()).collect();
    let [app, target, tag, when, owner, state] = cells[..] else { panic!("{all}") };
    assert_eq!((app, target, tag), ("devx/shop", "prod-cluster-1", "v1"), "{all}");
    assert_eq!((owner, state), ("squad@example.com", "live"), "{all}");
    // The moment that the service says, to the minute: how long ago it was goes by the machine's clock.
    let data = place.data(&["status", "--all"]).await;
    let at = data["apps"][0]["at"].as_str().unwrap();
    assert_eq!(when, at.get(..16).unwrap().replace('T', " "), "{all}");
    assert!(all.contains("v2 to prod-cluster-1"), "{all}");
    let (code, locked) = place.bart(&["status", "--state", "locked"]).await;
    assert_eq!(
        (code, locked.contains("there is no such app on any target")),
        (0, true),
        "{locked}"
    );
    let (code, of_owner) = place.bart(&["status", "--owner", "SQUAD@example.com"]).await;
    assert_eq!((code, of_owner.contains("v2 to prod-cluster-1")), (0, true), "{of_owner}");
    let (code, absolute) = place.bart(&["status", "--all", "--times", "absolute"]).await;
    assert_eq!((code, absolute.contains("WHEN (UTC)")), (0, true), "{absolute}");
    let (code, one) = place.bart(&["status", &id]).await;
    assert_eq!(code, 0);
    for part in ["changes\n", "+ Deployment shop", "statuses", "https://deploy.example.com/"] {
        assert!(one.contains(part), "no {part:?} in {one}");
    }
    let (code, other) =
        place.bart(&["status", "--app", "devx/other", "-t", "prod-cluster-1"]).await;
    assert_eq!((code, other.contains("never deployed")), (0, true), "{other}");
    place.settled().await;
}

#[tokio::test]
async fn history_shows_deployments_and_the_revisions_to_go_back_to() {
    let place = Place::new().await;
    let (code, none) = place.bart(&["history", "prod-cluster-1"]).await;
    assert_eq!(code, 1, "{none}");
    assert!(none.contains("devx/shop was never deployed to prod-cluster-1"), "{none}");
    let first = place.deploys("v1").await;
    let second = place.deploys("v2").await;
    let (code, text) = place.bart(&["history"]).await;
    assert_eq!(code, 0, "{text}");
    let newest = text.lines().nth(1).unwrap();
    assert!(newest.starts_with(&second) && newest.contains("succeeded"), "{text}");
    for only in ["--target", "-t", "--to"] {
        let (code, none) = place.bart(&["history", only, "dev"]).await;
        assert_eq!((code, none.as_str()), (0, "no such deployments\n"), "{only}");
    }
    let (_, paged) = place.bart(&["history", "--limit", "1"]).await;
    assert!(paged.contains(&format!("add --cursor {second}")), "{paged}");
    let (_, older) = place.bart(&["history", "--limit", "1", "--cursor", &second]).await;
    assert!(older.contains(&first) && !older.contains(&second), "{older}");
    let tagged = place.data(&["history", "--tag", "v1", "--state", "succeeded"]).await;
    assert_eq!(tagged["deployments"][0]["id"], first.as_str());
    assert_eq!(tagged["deployments"].as_array().unwrap().len(), 1);
    let (code, revisions) = place.bart(&["history", "prod-cluster-1"]).await;
    assert_eq!(code, 0, "{revisions}");
    let line = |id: &str| revisions.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(line(&second).contains("live  v2"), "{revisions}");
    assert!(!line(&first).contains("live") && line(&first).contains("v1"), "{revisions}");
    let data = place.data(&["history", "prod-cluster-1"]).await;
    assert_eq!(data["revisions"][1]["id"], first.as_str());
    let (code, wrong) = place.bart(&["history", "--state", "dancing"]).await;
    assert_eq!((code, wrong.contains("use one of queued")), (2, true), "{wrong}");
    place.settled().await;
}

#[tokio::test]
async fn logs_are_printed_and_followed_to_the_end() {
    let place = Place::new().await;
    let (code, none) = place.bart(&["logs"]).await;
    assert_eq!((code, none.contains("there is no such deployment yet")), (1, true), "{none}");
    place.asks("v1").await;
    let following = tokio::spawn(run(place.command(&["logs", "--follow"])));
    place.deployer.settle().await;
    let (code, text) = following.await.unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("requested `v1`") && text.contains("pushed with commit"), "{text}");
    assert_eq!(text.matches("requested `v1`").count(), 1, "each line once: {text}");
    let id = place.deployer.deployments().await.pop().unwrap().id.to_string();
    assert!(text.ends_with(&format!("succeeded {id}\n")), "{text}");
    let (code, once) = place.bart(&["logs", "--target", "prod-cluster-1"]).await;
    assert_eq!((code, once.contains("succeeded")), (0, true), "{once}");
    let data = place.data(&["logs", &id]).await;
    assert!(data["lines"].as_array().unwrap().len() > 3, "{data}");
    let (code, lines) = place.bart(&["logs", &id, "--follow", "--output", "json"]).await;
    assert_eq!(code, 0, "{lines}");
    for line in lines.lines() {
        assert!(serde_json::from_str::<Json>(line).unwrap()["at"].is_string(), "{line}");
    }
    let (code, yaml) = place.bart(&["logs", &id, "--follow", "--output", "yaml"]).await;
    assert_eq!((code, yaml.contains("--output json")), (2, true), "{yaml}");
    place.deployer.github.repository("example/shop").commit("schema: \"2\"\n");
    let refused = place.deploys("v2").await;
    let (code, text) = place.bart(&["logs", "--follow"]).await;
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("violation: ") && text.ends_with(&format!("failed {refused}\n")),
        "{text}"
    );
    place.settled().await;
}

#[tokio::test]
async fn pages_and_links_are_opened() {
    let place = Place::new().await;
    let id = place.deploys("v1").await;
    let browser = place.folder.path().join("browser");
    std::fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened\n").unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let page = format!("https://deploy.example.com/deployments/{id}");
    for (what, url) in [
        ("page", page.as_str()),
        (id.as_str(), page.as_str()),
        ("app", "https://shop.prod-cluster-1.internal/"),
        ("runbook", "https://wiki.example.com/shop"),
    ] {
        let mut command = place.command(&["open", what]);
        let (code, said) = run({
            command.env("BROWSER", &browser);
            command
        })
        .await;
        assert_eq!((code, said.as_str()), (0, format!("{url}\n").as_str()));
        let opened = std::fs::read_to_string(place.folder.path().join("opened")).unwrap();
        assert_eq!(opened.trim(), url);
        let mut command = place.command(&["open", what, "--output", "json"]);
        let (_, data) = run({
            command.env("BROWSER", &browser);
            command
        })
        .await;
        let data: Json = serde_json::from_str(&data).unwrap();
        assert_eq!(data["url"], url);
        assert_eq!(data["name"].as_str().unwrap().to_lowercase(), what);
        let (_, printed) = place.bart(&["open", what, "--print"]).await;
        assert_eq!(printed.trim(), url);
    }
    let list = place.data(&["open", "--list"]).await;
    let names: Vec<_> =
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["service", "page", "app", "Runbook"]);
    let (code, unknown) = place.bart(&["open", "nothing"]).await;
    assert_eq!((code, unknown.contains("a link of the WAML: Runbook")), (2, true), "{unknown}");
    let mut command = place.command(&["open"]);
    let (code, failed) = run({
        command.env("BROWSER", "/nonexistent/browser");
        command
    })
    .await;
    assert_eq!((code, failed.contains("open it by hand: https://deploy.")), (2, true), "{failed}");
    place.settled().await;
}

/// What is live hides no failure of what came after it.
#[tokio::test]
async fn status_of_all_apps_says_that_the_newest_deployment_failed() {
    let place = Place::new().await;
    place.deploys("v1").await;
    let lock = ["lock", "prod-cluster-1", "--reason", "the database moves"];
    let (code, said) = place.bart(&lock).await;
    assert_eq!(code, 0, "{said}");
    let id = place.deploys("v2").await;
    let (code, all) = place.bart(&["status", "--all"]).await;
    assert_eq!(code, 0, "{all}");
    assert!(all.contains("v1") && all.contains("live, v2 failed, locked"), "{all}");
    let data = place.data(&["status", "--all"]).await;
    assert_eq!(
        (&data["apps"][0]["failed"]["id"], &data["apps"][0]["tag"]),
        (&id.into(), &"v1".into())
    );
    let long = ["lock", "prod-cluster-1", "--reason", "x", "--for", "1000000d"];
    let (code, said) = place.bart(&long).await;
    assert_eq!((code, said.contains("a year at most")), (1, true), "{said}");
    place.settled().await;
}
