//! The logs of many containers of an app, and what one caller may ask of a cluster that all share.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::cluster::{Watched, pod, pod_name};
use super::live::{crashing, path, recovers};
use crate::cli::program;
use crate::harness::api_server::{Fault, FaultRule, Verb};
use crate::harness::deployer::Deployer;
use crate::harness::folder;
use crate::harness::process::client;

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(1);

fn log_key(pod: &str) -> (String, String, String) {
    ("devx".to_owned(), pod.to_owned(), "shop".to_owned())
}

/// The lines that a program prints, as they come.
pub(super) fn lines_of(
    output: impl std::io::Read + Send + 'static,
) -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            let _gone = sender.send(line);
        }
    });
    lines
}

/// Waits for a line that has this in it.
pub(super) async fn until_line(lines: &mut mpsc::UnboundedReceiver<String>, expected: &str) {
    let search = async {
        while let Some(line) = lines.recv().await {
            if line.contains(expected) {
                return;
            }
        }
        panic!("{expected} is never printed");
    };
    tokio::time::timeout(PATIENCE, search).await.expect("it comes");
}

#[tokio::test]
async fn bart_follows_the_logs_of_pods_that_start_later_and_ends_with_the_last_one() {
    let (world, id) = crashing("").await;
    let folder = folder::temporary();
    let mut command = program("bart", folder.path());
    command.env("BART_SERVER", world.deployer.url());
    command.args(["logs", "--pods", "--follow", "--lines", "1", "--app", "devx/shop"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bart = command.spawn().unwrap();
    let mut lines = lines_of(bart.stdout.take().unwrap());
    let mut notes = lines_of(bart.stderr.take().unwrap());
    until_line(&mut lines, "shop-1-abc shop no such table: users").await;

    let mut later = pod("shop", 1, &json!({"ready": true, "restartCount": 0}));
    later["metadata"]["name"] = json!("shop-1-def");
    later["metadata"]["uid"] = json!("shop-1-def-uid");
    world
        .server
        .edit(|cluster| cluster.logs.insert(log_key("shop-1-def"), "one\ntwo\n".to_owned()));
    world.server.apply(later);
    until_line(&mut notes, "shop-1-def shop is followed from now on, too").await;
    until_line(&mut lines, "shop-1-def shop one").await;
    until_line(&mut lines, "shop-1-def shop two").await;

    // A container that ends and starts again has another log.
    world.server.edit(|cluster| cluster.logs.remove(&log_key("shop-1-def")));
    let mut again = pod("shop", 1, &json!({"ready": true, "restartCount": 1}));
    again["metadata"]["name"] = json!("shop-1-def");
    again["metadata"]["uid"] = json!("shop-1-def-uid");
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.server.edit(|cluster| cluster.logs.insert(log_key("shop-1-def"), "three\n".to_owned()));
    world.server.apply(again);
    until_line(&mut lines, "shop-1-def shop three").await;

    for name in ["shop-1-def", "shop-1-abc"] {
        world.server.delete("Pod", "devx", name);
        world.server.edit(|cluster| cluster.logs.remove(&log_key(name)));
    }
    let ended = tokio::task::spawn_blocking(move || bart.wait().unwrap());
    let status = tokio::time::timeout(PATIENCE, ended).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    recovers(world, id).await;
}

#[tokio::test]
async fn a_log_that_says_nothing_is_open_within_seconds() {
    let (world, id) = crashing("").await;
    world.server.fail(FaultRule::always(Fault::Silent).of(Verb::Log, "pods"));
    let begun = Instant::now();
    let url = path(&world, &format!("shop/pods/{}/log?follow=true", pod_name("shop", 1)));
    let answer = client().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    drop(answer);
    world.server.recover();
    recovers(world, id).await;
}

#[tokio::test]
async fn the_copy_of_another_apps_workload_by_flagger_is_not_of_the_app() {
    let (world, id) = crashing("").await;
    let labels =
        json!({"app.kubernetes.io/name": "shop", "app.kubernetes.io/managed-by": "the-deployer"});
    let owned = |kind: &str, name: &str, uid: &str| json!([{"kind": kind, "name": name, "uid": uid, "controller": true, "apiVersion": "x/v1"}]);
    world.server.apply(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "devx", "name": "payments-primary", "uid": "payments-uid", "labels": labels,
            "ownerReferences": owned("Canary", "payments", "canary-uid"),
        },
        "spec": {"replicas": 1},
    }));
    world.server.apply(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "devx", "name": "payments-primary-1", "uid": "payments-1-uid", "labels": labels,
            "ownerReferences": owned("Deployment", "payments-primary", "payments-uid"),
        },
        "spec": {"replicas": 1},
    }));
    let mut foreign = pod("shop", 7, &json!({"ready": true, "restartCount": 0}));
    foreign["metadata"]["name"] = json!("payments-primary-1-abc");
    foreign["metadata"]["uid"] = json!("payments-pod-uid");
    foreign["metadata"]["ownerReferences"] =
        owned("ReplicaSet", "payments-primary-1", "payments-1-uid");
    world.server.apply(foreign);
    let key = log_key("payments-primary-1-abc");
    world.server.edit(|cluster| cluster.logs.insert(key, "card 4111\n".to_owned()));
    let answer = client().get(path(&world, "shop/pods/payments-primary-1-abc/log")).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 404, "{}", answer.text().await.unwrap());
    let pods = client().get(path(&world, "shop/pods")).send().await.unwrap().text().await.unwrap();
    assert!(!pods.contains("payments"), "{pods}");
    recovers(world, id).await;
}

/// A service with two callers, whose app crashes.
async fn with_callers() -> (Watched, i64) {
    let mut deployer = Deployer::prepared().await;
    deployer.limit(the_deployer::server::ServerLimits {
        streams_of_one: 2,
        ..the_deployer::server::ServerLimits::default()
    });
    let token = |name: &str| {
        let digest = hex::encode(Sha256::digest(name));
        format!("  - {{name: {name}, sha256: {digest}, scope: read}}\n")
    };
    let tokens = [token("one"), token("two")].concat();
    deployer.configure(|config| format!("{config}auth:\n  tokens:\n{tokens}"));
    let world = Watched::start(deployer, "").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.crashes(id, "shop").await;
    (world, id)
}

async fn ask(world: &Watched, token: &str, rest: &str) -> reqwest::Response {
    client().get(path(world, rest)).bearer_auth(token).send().await.unwrap()
}

#[tokio::test]
async fn one_caller_keeps_no_other_from_the_pods_of_a_cluster() {
    let (world, id) = Box::pin(with_callers()).await;
    // Each asks for the pods of the app and for those of its jobs.
    world.server.fail(FaultRule::always(Fault::Silent).of(Verb::List, "pods").times(4));
    let patient = async || ask(&world, "one", "shop/pods").await.status();
    let hasty = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let refused = ask(&world, "one", "shop/pods").await;
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("retry-after"));
        assert!(refused.text().await.unwrap().contains("wait for the answers"));
        ask(&world, "two", "shop/pods").await.status()
    };
    let (first, second, other) = tokio::join!(patient(), patient(), hasty);
    assert_eq!((first.as_u16(), second.as_u16(), other.as_u16()), (200, 200, 200));
    world.server.recover();
    assert_eq!(ask(&world, "one", "shop/pods").await.status(), 200);
    recovers(world, id).await;
}

#[tokio::test]
async fn logs_take_no_place_from_the_streams_of_deployments() {
    let (world, id) = Box::pin(with_callers()).await;
    let log = format!("shop/pods/{}/log?follow=true", pod_name("shop", 1));
    let first = ask(&world, "one", &log).await;
    let second = ask(&world, "one", &log).await;
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    let third = ask(&world, "one", &log).await;
    assert_eq!(third.status(), 429);
    assert!(third.text().await.unwrap().contains("follows 2 logs already"));
    assert_eq!(ask(&world, "two", &log).await.status(), 200);
    let deployment = world.deployer.deployment(id).await.id;
    let events = format!("{}/api/v1/deployments/{deployment}/events", world.deployer.url());
    let events = client().get(events).bearer_auth("one").send().await.unwrap();
    assert_eq!(events.status(), 200);
    drop((first, second, events));
    recovers(world, id).await;
}
