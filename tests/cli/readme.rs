//! Tests that the commands of README print what it shows.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{cloned, path, program};

use crate::harness::folder;

const README: &str = include_str!("../../README.md");

/// The blocks of one language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// A folder with README's WAML, and the broken one that it speaks of.
fn folder() -> tempfile::TempDir {
    let folder = folder::temporary();
    cloned(folder.path(), "example/my-app");
    let waml = blocks("yaml").into_iter().find(|block| block.starts_with("schema:")).unwrap();
    std::fs::write(folder.path().join(".weave.yaml"), waml).unwrap();
    let broken =
        waml.replace("servicePort: 8000", "servicePort: 8080").replace("minReplicas", "minReplica");
    std::fs::write(folder.path().join("broken.yaml"), broken).unwrap();
    folder
}

fn shell(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path())
        .env("NO_COLOR", "1")
        .env("HOME", folder);
    for (key, value) in [("AUTHOR", "a"), ("COMMITTER", "c")] {
        command
            .env(format!("GIT_{key}_NAME"), value)
            .env(format!("GIT_{key}_EMAIL"), "x@example.com");
    }
    command
}

/// The digest depends on the templates; everything else is compared to the letter.
fn without_digests(text: &str) -> String {
    let mask =
        |word: &str| if word.starts_with("sha256:") { "sha256:DIGEST" } else { word }.to_owned();
    let line = |line: &str| line.split(' ').map(mask).collect::<Vec<_>>().join(" ");
    text.lines().map(|l| line(l) + "\n").collect()
}

#[test]
fn the_commands_print_what_is_shown() {
    let folder = folder();
    let shown = blocks("console");
    assert!(shown.len() >= 4);
    for block in shown {
        let (command, expected) = block.split_once('\n').unwrap();
        let command = command.strip_prefix("$ ").unwrap();
        let output = shell(folder.path(), &format!("{command} 2>&1")).output().unwrap();
        let printed = without_digests(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(printed, without_digests(expected), "{command}");
    }
}

#[test]
fn the_example_configuration_is_accepted() {
    let folder = folder::temporary();
    let yaml = blocks("yaml").into_iter().find(|block| block.starts_with("server:")).unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    let names =
        ["github-token", "webhook-secret", "templates-token", "manifests-token", "api-token"];
    for name in names {
        std::fs::write(secrets.join(name), "a-secret-of-the-tests").unwrap();
    }
    let yaml = yaml.replace("/run/secrets", secrets.to_str().unwrap());
    std::fs::write(folder.path().join("config.yaml"), yaml).unwrap();
    let output = program("the-deployer", folder.path())
        .args(["config", "check", "--config", "config.yaml"])
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", super::said(&output));
    assert!(!super::said(&output).contains("a-secret-of-the-tests"));
}

/// Whether the shell's part can be run; CI demands it.
fn has_programs() -> bool {
    let missing: Vec<&str> = ["curl", "openssl"]
        .into_iter()
        .filter(|name| {
            Command::new(name)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_err()
        })
        .collect();
    let required = std::env::var_os("THE_DEPLOYER_TEST_REQUIRE_ALL").is_some();
    assert!(missing.is_empty() || !required, "{missing:?} must be there");
    if !missing.is_empty() {
        eprintln!("SKIPPED: README's service example needs {missing:?}");
    }
    missing.is_empty()
}

#[test]
fn the_service_takes_the_event_of_the_example() {
    if !has_programs() {
        return;
    }
    let script =
        blocks("sh").into_iter().find(|block| block.contains("the-deployer serve")).unwrap();
    let folder = folder();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Only what ends the service in the end, and a bound for the waiting, are not README's.
    let script = script
        .replacen(
            "serve &\n",
            "serve 2>log &\npid=$!\n(sleep 60; kill $pid) >/dev/null 2>&1 &\n",
            1,
        )
        .replace("until curl", "until ! kill -0 $pid || curl")
        .replace("until bart", "until ! kill -0 $pid || bart")
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
    let output = shell(folder.path(), &format!("set -e\n{script}\nkill $pid\nwait $pid"))
        .env("THE_DEPLOYER_SERVER_LISTEN", format!("127.0.0.1:{port}"))
        .env("BART_SERVER", format!("http://127.0.0.1:{port}"))
        .output()
        .unwrap();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let said = super::said(&output);
    assert!(output.status.success(), "{said}\n{log}");
    for part in [
        "\"duplicate\":false",
        "succeeded",
        "deploy devx/my-app 1.0 to dev",
        "latest/deployment.yaml",
    ] {
        assert!(said.contains(part), "{part}: {said}\n{log}");
    }
}
