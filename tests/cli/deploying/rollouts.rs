//! `bart rollout`: one release to several targets, where the service keeps the repositories itself.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{place_with, three_targets};
use crate::harness::developer::{Developer, Said};
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};
use crate::harness::terminal::{on_a_terminal, screen, text};

/// Deploys to three targets; a rollout of that name waits for a person after `dev`.
fn with_rollout() -> String {
    let rollouts = "rollouts:\n  production:\n    steps:\n    - targets: [dev]\n    - approval: {}\n    \
                    - targets: [\"prod-*\"]\n      parallel: 2\n";
    three_targets() + rollouts
}

async fn place() -> (Home, Process, Developer) {
    place_with(Home::embedded(), &with_rollout()).await
}

/// The newest rollout.
async fn newest(process: &Process) -> Value {
    let id = process.json("/api/v1/rollouts?limit=1").await["rollouts"][0]["id"].clone();
    process.json(&format!("/api/v1/rollouts/{}", id.as_str().unwrap())).await
}

#[tokio::test]
async fn a_release_goes_to_all_targets_and_each_has_its_lines() {
    let (home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let start = ["rollout", "start", "1.0", "--targets", "dev,prod-*", "--reason", "the sale"];
    let plan = developer.runs(&server, &[&start[..], &["--dry-run"]].concat()).await;
    plan.ended(0, &["dev", "prod-1", "prod-2", "Nothing was started"]);
    let said = developer.runs(&server, &start).await;
    let lines =
        ["rolling out, 0 of 3 targets", "dev: complete in ", "prod-1: complete", "done, 3 of 3"];
    said.ended(0, &lines);
    assert_eq!(said.out, "", "there is no result for programs");
    let files = home.manifests().files();
    for target in ["dev", "prod-1", "prod-2"] {
        let prefix = format!("manifests/{target}/devx/shop/latest/");
        assert!(files.keys().any(|path| path.starts_with(&prefix)), "{target}: {files:?}");
    }
    let status = developer.runs(&server, &["rollout", "status"]).await;
    status.ended(0, &["done", "3 of 3", "why   the sale", "bart rollout undo r-"]);
    let list = developer.runs(&server, &["rollout", "list"]).await;
    list.ended(0, &["ROLLOUT", "devx/shop", "3/3"]);
    let list = developer.runs(&server, &["rollout", "list", "--all", "--state", "paused"]).await;
    assert!(!list.ended(0, &[]).out.contains("devx/shop"));
    developer
        .runs(&server, &["rollout", "list", "--state", "x"])
        .await
        .ended(2, &["use created, "]);
}

#[tokio::test]
async fn a_person_approves_pauses_and_turns_back() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let started = developer.runs(&server, &["rollout", "start", "1.0", "production", "--no-wait"]);
    started.await.ended(0, &["started r-", "to 3 targets", "--watch"]);
    let id = newest(&process).await["id"].as_str().unwrap().to_owned();
    process
        .until("it waits for an approval", async || {
            (newest(&process).await["index"] == 1).then_some(())
        })
        .await;
    let status = developer.runs(&server, &["rollout", "status", &id]).await;
    status.ended(0, &["[approval]", "waiting", "dev", "complete", "bart rollout approve"]);
    let act = async |act: &str| {
        developer.runs(&server, &["rollout", act, &id, "--reason", "it looks well"]).await
    };
    act("pause").await.ended(0, &["paused"]);
    act("pause").await.ended(1, &["it is paused already"]);
    act("resume").await.ended(0, &["rolling out"]);
    act("approve").await.ended(0, &["rolling out"]);
    let watched = developer.runs(&server, &["rollout", "status", &id, "--watch"]).await;
    watched.ended(0, &["[approval]: passed: approved by", "done, 3 of 3"]);
    act("retry").await.ended(1, &["nothing is tried again"]);
    act("undo").await.ended(0, &["undoing"]);
    let watched =
        developer.runs(&server, &["rollout", "status", &id, "--watch", "-o", "json"]).await;
    assert_eq!(watched.ended(1, &[]).json()["state"], "undone");
    act("cancel").await.ended(1, &["it has ended"]);
    let no_reason = developer.runs(&server, &["rollout", "undo", &id]).await;
    no_reason.ended(2, &["--reason"]);
}

#[tokio::test]
async fn what_fails_is_undone_and_the_exit_code_says_so() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &[]);
    let broken = with_rollout().replacen("  prod-1:\n", "  prod-1:\n    template: none\n", 1);
    developer.commits(&broken);
    developer.pushes();
    let start = ["rollout", "start", "2.0", "--targets", "dev,prod-1", "-o", "json"];
    let said = developer.runs(&server, &start).await;
    let rollout = said.ended(1, &[]).json();
    assert_eq!(
        (&rollout["state"], &rollout["targets"][0]["state"]),
        (&json!("undone"), &json!("undone"))
    );
    assert!(rollout["targets"][1]["failure"].is_string(), "{rollout:#}");
    let unknown = developer.runs(&server, &["rollout", "start", "2.0", "--targets", "moon"]).await;
    unknown.ended(1, &["moon"]);
    let none = developer.runs(&server, &["rollout", "status", "r-20261121-054812123-3f9a2c"]).await;
    none.ended(1, &["there is no rollout"]);
}

#[tokio::test]
async fn ctrl_c_ends_the_display_and_not_the_rollout() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let (_home, process, developer) = place_with(home, &with_rollout()).await;
    let held = Held::first_push(&bare, "pre-receive");
    let server = [("BART_SERVER", process.address())];
    let start = ["rollout", "start", "2.0", "--targets", "dev,prod-1"];
    let child = developer.bart(&server, &start).spawn().unwrap();
    held.reached().await;
    let killed =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let said = Said::until_the_end_of(child).await;
    said.ended(
        130,
        &["continues without this command", "bart rollout status r-", "bart rollout pause r-"],
    );
    held.let_go();
    process
        .until("it ends by itself", async || {
            (newest(&process).await["state"] == "done").then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_terminal_of_80_columns_shows_a_line_for_each_target() {
    let (_home, process, developer) = place().await;
    let command = format!(
        "{} rollout start 1.0 --targets 'dev,prod-*' --server {}",
        env!("CARGO_BIN_EXE_bart"),
        process.address()
    );
    let mut terminal = on_a_terminal(&command, 80);
    let plain = developer.bart(&[], &[]);
    let variables = plain.get_envs().filter_map(|(key, value)| Some((key, value?)));
    terminal.env_clear().envs(variables).env("TERM", "xterm-256color");
    terminal.current_dir(developer.work()).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || terminal.output().unwrap()).await.unwrap();
    let shown = text(&screen(&output.stdout, 80));
    assert!(output.status.success(), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("✓ r-") && lines[0].contains("devx/shop 1.0  done  3 of 3"),
        "{shown}"
    );
    for (line, target) in [(1, "dev"), (2, "prod-1"), (3, "prod-2")] {
        let start = format!("✓ {target:<6}  complete");
        assert!(lines[line].starts_with(&start), "{shown}");
    }
    assert!(lines[4].starts_with("help: `bart rollout undo r-"), "{shown}");
}

#[tokio::test]
async fn a_shell_completes_ids_and_targets() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let start = ["rollout", "start", "1.0", "--targets", "dev"];
    developer.runs(&server, &start).await.ended(0, &[]);
    let id = newest(&process).await["id"].as_str().unwrap().to_owned();
    let address = process.address().to_owned();
    let variables = [("BART_SERVER", address.as_str()), ("BART_COMPLETE", "fish")];
    let completes = async |words: &[&str]| {
        developer.runs(&variables, &[&["--"], words].concat()).await.ended(0, &[]).out.clone()
    };
    let ids = completes(&["bart", "rollout", "undo", ""]).await;
    assert!(ids.contains(&id), "{ids}");
    let targets = completes(&["bart", "rollout", "start", "1.0", "--targets", ""]).await;
    assert!(targets.contains("prod-2"), "{targets}");
    process.kill();
    let ids = completes(&["bart", "rollout", "undo", ""]).await;
    assert!(!ids.contains("r-2"), "nobody waits for a service that is not there: {ids}");
}
