//! The program `the-deployer agent`: its arguments, its ways through TLS, and its end.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use the_deployer::model::deployment::State;

use crate::cli::{program, said};
use crate::harness::api_server::{TOKEN, kubeconfig};
use crate::harness::deployer::Deployer;
use crate::harness::folder;
use crate::harness::tls::{CA, over_tls};
use crate::progress::agent::{AGENT_TOKEN, Reported};
use crate::progress::cluster::{Pods, TARGET};

const ALL: Pods = Pods { updated: 2, available: 2 };

/// A folder with everything that an agent needs.
struct AgentFolder(tempfile::TempDir);

impl AgentFolder {
    fn new(api_server: &str) -> Self {
        let folder = folder::temporary();
        kubeconfig(folder.path(), api_server, &format!("{{token: {TOKEN}}}"));
        std::fs::write(folder.path().join("token"), format!("{AGENT_TOKEN}\n")).unwrap();
        std::fs::write(folder.path().join("ca.pem"), CA).unwrap();
        Self(folder)
    }

    fn command(&self, server: &str, arguments: &[&str]) -> Command {
        let mut command = program("the-deployer", self.0.path());
        command.args(["agent", "--cluster", TARGET, "--server", server, "--token-file", "token"]);
        command.args(["--log-format", "json"]).args(arguments);
        command
    }

    fn start(&self, server: &str, arguments: &[&str]) -> Child {
        let mut command = self.command(server, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Sends SIGTERM, and waits for the end.
async fn terminate(child: Child) -> Output {
    let kill = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
    tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reports_over_tls_and_ends_in_order_so_that_the_next_one_goes_on_at_once() {
    let reported = Reported::start_silent(Deployer::prepared().await, "").await;
    let world = &reported.world;
    let folder = AgentFolder::new(&world.server.url());
    let server = over_tls(&world.deployer.url()).await;
    let arguments = ["--ca", "ca.pem", "--kubeconfig", "kubeconfig", "--context", "test"];
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    let agent = folder.start(&server, &arguments);
    world.sync(id, "shop", 1).await;
    world.reaches(id, State::Progressing).await;
    let begun = Instant::now();
    let output = terminate(agent).await;
    let text = said(&output);
    assert!(output.status.success() && begun.elapsed() < Duration::from_secs(20), "{text}");
    for expected in
        ["agent started", "reports are taken", "stopping: the service is told", "stopped"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    for secret in [AGENT_TOKEN, TOKEN] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(text.lines().all(|line| line.starts_with('{')), "{text}");
    // The clock of the service stands still.
    let agent = folder.start(&server, &arguments);
    world.bring(id, "shop", 1, ALL).await;
    world.reaches(id, State::Succeeded).await;
    terminate(agent).await;
    reported.world.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_the_service_refuses_says_why_and_goes_on_when_its_token_is_right() {
    let reported = Reported::start_silent(Deployer::prepared().await, "").await;
    let world = &reported.world;
    let folder = AgentFolder::new(&world.server.url());
    std::fs::write(folder.0.path().join("token"), "wrong-0123456789-0123456789").unwrap();
    let agent = folder.start(&world.deployer.url(), &["--kubeconfig", "kubeconfig"]);
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.server.watched(9).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::write(folder.0.path().join("token"), AGENT_TOKEN).unwrap();
    world.sync(id, "shop", 1).await;
    world.bring(id, "shop", 1, ALL).await;
    world.reaches(id, State::Succeeded).await;
    let text = said(&terminate(agent).await);
    assert!(text.contains("the service answers 401: the token is not that of an agent"), "{text}");
    assert!(!text.contains("wrong-") && !text.contains(AGENT_TOKEN), "{text}");
    reported.world.ends().await;
}

#[test]
fn what_cannot_be_meant_is_told_at_the_start() {
    let folder = AgentFolder::new("http://127.0.0.1:1");
    let service = "https://deploy.example.com";
    let inside: &Path = folder.0.path();
    std::fs::write(inside.join("empty"), "").unwrap();
    for (server, arguments, expected) in [
        (service, &[][..], "KUBERNETES_SERVICE_HOST is not set"),
        (service, &["--kubeconfig", "none"], "cannot read none"),
        (service, &["--context", "test"], "--kubeconfig"),
        (service, &["--kubeconfig", "kubeconfig", "--ca", "token"], "no whole certificate"),
        (service, &["--kubeconfig", "kubeconfig", "--ca", "none"], "cannot read none"),
        ("http://deploy.example.com", &["--kubeconfig", "kubeconfig"], "in the clear"),
        ("deploy", &["--kubeconfig", "kubeconfig"], "is not the address of a service"),
        ("https://me:s3cret@d.example.com", &["--kubeconfig", "kubeconfig"], "a user name or"),
    ] {
        let output = folder.command(server, arguments).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected) && !text.contains("s3cret"), "{arguments:?}: {text}");
    }
    for (name, token_file, expected) in [
        ("no/name", "token", "--cluster: "),
        (TARGET, "none", "none cannot be read"),
        (TARGET, "empty", "the secret in empty is empty"),
    ] {
        let mut command = program("the-deployer", inside);
        command.args(["agent", "--cluster", name, "--server", service, "--token-file", token_file]);
        let output = command.args(["--kubeconfig", "kubeconfig"]).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{name} {token_file}: {text}");
        assert!(text.contains(expected), "{name} {token_file}: {text}");
    }
}
