//! SIGKILL at any moment, and a start after it: nothing is lost and nothing is doubled.

use futures::future::join_all;
use serde_json::Value as Json;

use crate::harness::events::Event;
use crate::harness::git::Bare;
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};

/// Everything that is right after a deployment has succeeded, however often its worker died.
pub(crate) async fn assert_right(process: &Process, bare: &Bare, id: &str, app: &str) {
    let one = process.ended(id).await;
    assert_eq!(one["state"], "succeeded", "{one}\n{}", process.log());
    let states: Vec<&Json> =
        one["statuses"].as_array().unwrap().iter().map(|status| &status["state"]).collect();
    assert_eq!(states, ["queued", "in_progress", "success"], "{id}");
    let commits = commits_of(bare, id);
    assert_eq!(commits, [one["pushed"]["commit"].as_str().unwrap()], "one commit of {id}");
    let folder = format!("manifests/prod-cluster-1/devx/{app}");
    assert_eq!(bare.object(&format!("{folder}/latest")), bare.object(&format!("{folder}/{id}")));
    bare.assert_sound();
    let open = process.json("/api/v1/deployments").await;
    let open = open["deployments"].as_array().unwrap().clone();
    assert!(open.iter().all(|one| !one["finished_at"].is_null()), "{open:?}");
}

/// The commits on the branch that carry a deploy id, as git itself reads trailers.
fn commits_of(bare: &Bare, id: &str) -> Vec<String> {
    let log = bare.run(&[
        "log",
        "--format=%H %(trailers:key=Deploy-Id,valueonly,separator=%x20)",
        "main",
    ]);
    let lines = log.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(_, of)| *of == id).map(|(commit, _)| commit.to_owned()).collect()
}

/// How often a process may be faster than its killer. A stage takes a millisecond.
const TRIES: usize = 40;

/// Deploys, kills the process when it says the words and before it says more, and starts it again.
async fn killed_at(point: &str) {
    for tries in 1.. {
        let home = Home::embedded();
        let event = Event::of_app(&home, 1, "shop");
        let process = home.start_doomed(&format!("\"{point}")).await;
        let id = event.asked(&process).await;
        let last = process.dead().await;
        if !is_at(point, &last) {
            assert!(tries < TRIES, "{point}: the process was faster each time");
            continue;
        }
        let process = home.start().await;
        let id = id.unwrap_or(process.deployments().await[0]["id"].as_str().unwrap().to_owned());
        assert_right(&process, &home.manifests(), &id, "shop").await;
        assert_eq!(home.manifests().commits(), 1);
        return;
    }
}

/// Between the end of a stage of planning and the begin of the next nothing happens.
fn is_at(point: &str, last: &str) -> bool {
    let next = match point {
        "merge took" => "default begins",
        "default took" => "validate begins",
        "validate took" => "render begins",
        "queue took" => "fetch begins",
        "fetch took" => "facts begins",
        "facts took" => "merge begins",
        other => other,
    };
    last.starts_with(point) || last.starts_with(next)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_when_a_stage_begins() {
    join_all(["fetch", "facts", "merge", "default", "validate", "render", "push"].map(
        async |stage| {
            killed_at(&format!("{stage} begins")).await;
        },
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_when_a_stage_has_ended() {
    let stages = ["queue", "fetch", "facts", "merge", "default", "validate", "render", "push"];
    join_all(stages.map(async |stage| killed_at(&format!("{stage} took")).await)).await;
}

#[tokio::test]
async fn killed_when_it_has_stored_the_event_or_recorded_the_end() {
    tokio::join!(killed_at("deployment accepted"), killed_at("deployment succeeded"));
}

#[tokio::test]
async fn killed_right_after_the_answer() {
    let home = Home::embedded();
    let process = home.start().await;
    let event = Event::of_app(&home, 1, "shop");
    let id = event.accepted(&process).await;
    process.kill();
    let process = home.start().await;
    assert_right(&process, &home.manifests(), &id, "shop").await;
}

#[tokio::test]
async fn killed_while_the_server_takes_the_push_which_then_lands() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    process.kill();
    held.let_go();
    host.idle().await;
    assert_eq!(bare.commits(), 1, "it landed while nobody was there");
    let process = home.start().await;
    assert_right(&process, &bare, &id, "shop").await;
    assert_eq!(bare.commits(), 1);
}

#[tokio::test]
async fn killed_while_the_server_takes_the_push_which_comes_too_late() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "pre-receive");
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    process.kill();
    let process = home.start().await;
    assert_right(&process, &bare, &id, "shop").await;
    held.let_go();
    host.idle().await;
    assert_right(&process, &bare, &id, "shop").await;
    assert_eq!(bare.commits(), 1, "the first push finds the branch moved");
}

#[tokio::test]
async fn killed_after_the_push_landed_and_before_the_answer() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let held = Held::first_push(&bare, "post-receive");
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    held.reached().await;
    process.kill();
    assert_eq!(bare.commits(), 1);
    let process = home.start().await;
    assert_right(&process, &bare, &id, "shop").await;
    held.let_go();
    host.idle().await;
    assert_eq!(bare.commits(), 1);
}

#[tokio::test]
async fn killed_while_it_holds_the_branch() {
    let home = Home::embedded();
    home.start().await.kill();
    // What SIGKILL leaves between git's lock and its rename.
    std::fs::write(home.manifests().0.join("refs/heads/main.lock"), "").unwrap();
    std::fs::write(home.manifests().0.join("packed-refs.lock"), "").unwrap();
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_right(&process, &home.manifests(), &id, "shop").await;
    assert_eq!(process.deployment(&id).await["attempts"], 1, "it waits, and does not fail");
}

#[tokio::test]
async fn a_second_process_in_the_same_home_does_not_start() {
    let home = Home::embedded();
    let first = home.start().await;
    let refused = home.start_in_vain(&[]).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("is in use by another the-deployer (process "), "{said}");
    assert!(said.contains("storage.folder"), "{said}");
    let id = Event::of_app(&home, 1, "shop").accepted(&first).await;
    assert_right(&first, &home.manifests(), &id, "shop").await;
    first.kill();
    home.start().await;
}
