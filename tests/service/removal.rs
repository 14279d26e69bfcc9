//! Removing an app, end to end: on purpose, guarded, once, and whatever happens to the process.

use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::harness::events::{Event, waml};
use crate::harness::git::Bare;
use crate::harness::git_host::GitHost;
use crate::harness::process::{Held, Home, Process};
use crate::service::crash::assert_right;

const FOLDER: &str = "manifests/prod-cluster-1/devx/shop";

/// The status and the answer to a request to remove `devx/shop`.
async fn ask(process: &Process, ask: Json) -> (u16, Json) {
    let path = "/api/v1/apps/prod-cluster-1/devx/shop/remove";
    let answer = process.request(Method::POST, path).json(&ask).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn bart(process: &Process, home: &Home, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
    command.current_dir(home.path("")).env_clear().args(arguments);
    command.env("BART_SERVER", process.address()).env("NO_COLOR", "1");
    command.stdin(std::process::Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn printed(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    texts.concat()
}

fn of_app(bare: &Bare) -> Vec<String> {
    bare.files().into_keys().filter(|path| path.contains("shop")).collect()
}

#[tokio::test]
async fn an_app_is_removed_with_a_reason_and_a_later_deployment_brings_it_back() {
    let home = Home::embedded();
    let process = home.start().await;
    let event = Event::of_app(&home, 1, "shop");
    let id = event.accepted(&process).await;
    let before = process.ended(&id).await;
    let bare = home.manifests();
    let paths = of_app(&bare);

    let arguments = ["remove", "prod-cluster-1", "devx/shop", "--reason", "moved away"];
    let unasked = bart(&process, &home, &arguments).await;
    assert_eq!(unasked.status.code(), Some(2), "{}", printed(&unasked));
    assert!(printed(&unasked).contains("add --yes"), "{}", printed(&unasked));
    let dry = ["remove", "prod-cluster-1", "--app", "devx/shop", "--reason", "x", "--dry-run"];
    let dry = bart(&process, &home, &dry).await;
    assert!(dry.status.success() && printed(&dry).contains("would remove"), "{}", printed(&dry));
    assert!(printed(&dry).contains("Deployment shop"), "{}", printed(&dry));
    assert_eq!(bare.commits(), 1);

    let json = ["--yes", "--output", "json"];
    let removed = bart(&process, &home, &[&arguments[..], &json].concat()).await;
    let said: Json =
        serde_json::from_slice(&removed.stdout).unwrap_or_else(|_| panic!("{}", printed(&removed)));
    assert_eq!((&said["outcome"], &said["commit"]), (&json!("removed"), &json!(bare.tip())));
    assert_eq!(said["digest"], before["pushed"]["digest"]);
    assert_eq!(serde_json::from_value::<Vec<String>>(said["files"].clone()).unwrap(), paths);
    assert_eq!(of_app(&bare), Vec::<String>::new());
    assert!(bare.files().contains_key("apps/prod-cluster-1.yaml"));
    assert!(bare.files().contains_key("apps/prod-cluster-1/project.yaml"));
    assert_eq!(bare.trailer("Reason"), ["moved away"]);
    assert_eq!(bare.trailer("Actor"), ["unknown, on this machine"]);
    assert_eq!(bare.trailer("Removal-Id"), [said["id"].as_str().unwrap()]);
    assert_eq!(bare.trailer("Tree-Digest"), [said["digest"].as_str().unwrap()]);

    let again = bart(&process, &home, &[&arguments[..], &["--yes"]].concat()).await;
    assert!(
        again.status.success() && printed(&again).contains("was removed"),
        "{}",
        printed(&again)
    );
    let unknown =
        bart(&process, &home, &["remove", "prod-cluster-1", "devx/shoe", "--yes", "--reason", "x"]);
    let unknown = unknown.await;
    assert_eq!(unknown.status.code(), Some(1), "{}", printed(&unknown));
    assert!(printed(&unknown).contains("there is no devx/shoe"), "{}", printed(&unknown));
    assert_eq!(bare.commits(), 2);
    let mut after = process.ended(&id).await;
    let told = after["statuses"].as_array_mut().unwrap().pop().unwrap();
    assert_eq!(told["state"], "inactive", "the forge shows it as gone: {told}");
    assert_eq!(after, before, "and nothing else has changed");

    let back = Event { number: 2, ..event }.accepted(&process).await;
    assert_right(&process, &bare, &back, "shop").await;
    assert_eq!(bare.commits(), 3);
}

#[tokio::test]
async fn the_namespace_may_come_from_the_waml_that_is_here() {
    let home = Home::embedded();
    std::fs::write(home.path(".weave.yaml"), waml("shop")).unwrap();
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    process.ended(&id).await;
    let remove = async |slug| {
        bart(&process, &home, &["remove", "prod-cluster-1", slug, "--yes", "--reason", "x"]).await
    };
    let other = remove("shoe").await;
    assert_eq!(other.status.code(), Some(2));
    assert!(printed(&other).contains("write NAMESPACE/shoe"), "{}", printed(&other));
    let removed = remove("shop").await;
    assert!(removed.status.success(), "{}", printed(&removed));
    assert_eq!(of_app(&home.manifests()), Vec::<String>::new());
}

#[tokio::test]
async fn what_keeps_data_and_what_is_somebody_elses_stop_it() {
    let home = Home::embedded();
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    process.ended(&id).await;
    let bare = home.manifests();
    bare.somebody_writes(
        &format!("{FOLDER}/latest/claim.yaml"),
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: orders}\n",
    );
    let (status, said) = ask(&process, json!({"reason": "x"})).await;
    assert_eq!((status, &said["type"]), (409, &json!("urn:the-deployer:problem:would-lose-data")));
    assert!(said["detail"].as_str().unwrap().contains("PersistentVolumeClaim orders"), "{said}");
    bare.somebody_writes(&format!("{FOLDER}/OWNERS"), "theirs");
    let (status, said) = ask(&process, json!({"reason": "x", "with_data": true})).await;
    assert_eq!(status, 409);
    assert!(said["detail"].as_str().unwrap().contains(&format!("{FOLDER}/OWNERS")), "{said}");
    assert_eq!(bare.commits(), 3);
    let (status, _) = ask(&process, json!({"reason": " ", "with_data": true})).await;
    assert_eq!(status, 422);

    let event = Event::of_app(&home, 2, "safe");
    process.ended(&event.accepted(&process).await).await;
    bare.somebody_writes(
        "manifests/prod-cluster-1/devx/safe/latest/claim.yaml",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: orders}\n",
    );
    let arguments =
        ["remove", "prod-cluster-1", "devx/safe", "--yes", "--reason", "x", "--with-data"];
    let removed = bart(&process, &home, &arguments).await;
    assert!(removed.status.success(), "{}", printed(&removed));
    assert!(printed(&removed).contains("orders  with its data"), "{}", printed(&removed));
    assert_eq!(bare.files()[&format!("{FOLDER}/OWNERS")], "theirs");
}

#[tokio::test]
async fn while_a_deployment_is_under_way_nothing_is_removed() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start().await;
    let event = Event::of_app(&home, 1, "shop");
    let first = event.accepted(&process).await;
    assert_right(&process, &bare, &first, "shop").await;
    let held = Held::first_push(&bare, "pre-receive");
    let second = Event { number: 2, tag: "v2".into(), ..event }.accepted(&process).await;
    held.reached().await;
    for dry_run in [false, true] {
        let (status, said) = ask(&process, json!({"reason": "x", "dry_run": dry_run})).await;
        assert_eq!((status, &said["type"]), (409, &json!("urn:the-deployer:problem:conflict")));
        assert!(said["detail"].as_str().unwrap().contains(&second), "{said}");
    }
    held.let_go();
    assert_right(&process, &bare, &second, "shop").await;
    let (status, said) = ask(&process, json!({"reason": "x"})).await;
    assert_eq!((status, &said["outcome"]), (200, &json!("removed")), "{said}");
    assert_eq!(of_app(&bare), Vec::<String>::new());
}

/// How often a process may be faster than its killer.
const TRIES: usize = 40;

/// Asks for a removal, kills the process when it says the words and before it says more, starts it
/// again, and waits until it knows what became of the removal.
async fn killed_at(word: &str) -> (Home, Process) {
    for _ in 0..TRIES {
        let home = Home::embedded();
        let process = home.start().await;
        let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
        process.ended(&id).await;
        process.kill();
        let process = home.start_doomed(&format!("\"{word}")).await;
        let path = "/api/v1/apps/prod-cluster-1/devx/shop/remove";
        let request = process.request(Method::POST, path).json(&json!({"reason": "not used"}));
        let _cut = request.send().await;
        if process.dead().await != word {
            continue;
        }
        let process = home.start().await;
        process
            .line("what became of it", |line| {
                line["message"].as_str().is_some_and(|text| text.starts_with("removal recorded"))
            })
            .await;
        return (home, process);
    }
    panic!("{word}: the process was faster each time");
}

#[tokio::test]
async fn killed_after_the_push_the_removal_is_recorded_all_the_same() {
    let (home, process) = killed_at("removal pushed").await;
    let bare = home.manifests();
    assert_eq!(of_app(&bare), Vec::<String>::new());
    let (status, said) = ask(&process, json!({"reason": "again"})).await;
    assert_eq!((status, &said["outcome"]), (200, &json!("already-removed")), "{said}");
    assert_eq!((&said["reason"], &said["commit"]), (&json!("not used"), &json!(bare.tip())));
    assert_eq!(bare.commits(), 2);
}

#[tokio::test]
async fn killed_before_the_push_nothing_was_done_and_it_can_be_asked_again() {
    let (home, process) = killed_at("removal begins").await;
    let bare = home.manifests();
    let (status, said) = ask(&process, json!({"reason": "again"})).await;
    // The push may have got through before the line about it.
    let before = said["reason"] == "not used";
    let expected = if before { "already-removed" } else { "removed" };
    assert_eq!((status, &said["outcome"]), (200, &json!(expected)), "{said}");
    assert_eq!(of_app(&bare), Vec::<String>::new());
    assert_eq!(bare.commits(), 2);
    bare.assert_sound();
}

#[tokio::test]
async fn a_refusal_of_the_repository_is_told_and_the_next_try_gets_through() {
    let host = GitHost::start().await;
    let (home, bare) = Home::on(&host);
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_right(&process, &bare, &id, "shop").await;
    bare.hook("pre-receive", "echo 'error: GH006: Protected branch update failed.' >&2; exit 1");
    let (status, said) = ask(&process, json!({"reason": "x"})).await;
    assert_eq!(status, 503, "{said}");
    assert!(said["detail"].as_str().unwrap().contains("GH006: Protected branch"), "{said}");
    std::fs::remove_file(bare.0.join("hooks/pre-receive")).unwrap();
    let (status, said) = ask(&process, json!({"reason": "x"})).await;
    assert_eq!((status, &said["outcome"]), (200, &json!("removed")), "{said}");
    assert_eq!(bare.commits(), 2);
}

#[tokio::test]
async fn a_target_that_is_dropped_from_a_waml_keeps_its_app() {
    let home = Home::embedded();
    let process = home.start().await;
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    process.ended(&id).await;
    let bare = home.manifests();
    let paths = of_app(&bare);
    let without = waml("shop").replace("prod-cluster-1:", "elsewhere:");
    let commit = home.commit("example/shop", &without);
    let event = Event::new(2, "shop", &commit);
    let refused = process.ended(&event.accepted(&process).await).await;
    assert_eq!(refused["state"], "failed", "{refused}");
    let event = Event { number: 3, target: "elsewhere".to_owned(), ..event };
    let done = process.ended(&event.accepted(&process).await).await;
    assert_eq!(done["state"], "succeeded", "{done}");
    let left: Vec<String> =
        of_app(&bare).into_iter().filter(|path| path.contains("prod-cluster-1")).collect();
    assert_eq!(left, paths, "only `remove` removes");
}
