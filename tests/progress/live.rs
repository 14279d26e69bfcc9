//! The pods of an app as its cluster has them, and the logs of their containers, asked of the whole service.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::cluster::{Pods, TARGET, Watched, crashing_pod, pod, pod_name};
use crate::cli::{program, said};
use crate::harness::api_server::{Fault, FaultRule, Verb};
use crate::harness::deployer::Deployer;
use crate::harness::folder;
use crate::harness::process::client;
use crate::harness::sse::EventReader;

pub(super) fn path(world: &Watched, rest: &str) -> String {
    format!("{}/api/v1/apps/{TARGET}/devx/{rest}", world.deployer.url())
}

async fn ask(world: &Watched, rest: &str) -> (u16, Json) {
    let answer = client().get(path(world, rest)).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

async fn pods_of(world: &Watched, app: &str) -> Json {
    let (status, answer) = ask(world, &format!("{app}/pods")).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn problem(world: &Watched, rest: &str, status: u16) -> String {
    let (answered, answer) = ask(world, rest).await;
    assert_eq!(answered, status, "{answer}");
    answer["detail"].as_str().unwrap().to_owned()
}

/// A service whose app crashes in its cluster.
pub(super) async fn crashing(api: &str) -> (Watched, i64) {
    let world = Watched::start_with(Deployer::prepared().await, api, "").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.crashes(id, "shop").await;
    (world, id)
}

/// The end of a world whose app crashes.
pub(super) async fn recovers(world: Watched, id: i64) {
    Box::pin(world.recovers(id, "shop")).await;
    Box::pin(world.ends()).await;
}

/// A log as a client reads it.
pub(super) struct LogReader(EventReader);

impl LogReader {
    pub(super) async fn open(world: &Watched, rest: &str) -> Self {
        let response = client().get(path(world, rest)).send().await.unwrap();
        assert_eq!(response.status(), 200, "{rest}");
        Self(EventReader::new(response))
    }

    /// The name and the data of the next event; `None` when the stream has ended.
    pub(super) async fn next(&mut self) -> Option<(String, Json)> {
        let event = self.0.next().await?;
        let data = serde_json::from_str(event.field("data")).unwrap();
        Some((event.field("event").to_owned(), data))
    }

    pub(super) async fn line(&mut self) -> String {
        let (name, data) = self.next().await.expect("the log goes on");
        assert_eq!((name.as_str(), &data["container"]), ("line", &json!("shop")));
        data["line"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn the_workloads_and_pods_of_an_app_are_asked_of_its_cluster() {
    let (world, id) = crashing("").await;
    let answer = pods_of(&world, "shop").await;
    assert_eq!(answer["workloads"].as_array().unwrap().len(), 1, "{answer}");
    let workload = &answer["workloads"][0];
    assert_eq!(
        *workload,
        json!({
            "kind": "Deployment", "name": "shop", "wanted": 2, "updated": 1, "available": 0,
            "state": "updating", "live": true,
        })
    );
    let pod = &answer["pods"][0];
    assert_eq!(pod["name"], json!(pod_name("shop", 1)));
    assert_eq!(pod["phase"], "Pending");
    assert_eq!((&pod["ready"], &pod["restarts"]), (&json!(false), &json!(4)));
    assert_eq!((&pod["reason"], &pod["exit_code"]), (&json!("CrashLoopBackOff"), &json!(1)));
    assert_eq!(pod["containers"][0]["image"], "registry.example.com/shop:1");
    assert_eq!(answer["truncated"], false);
    assert_eq!(answer["missing"], json!([]));
    Box::pin(recovers(world, id)).await;
}

/// Its pods have another name label, so that no Service finds them.
#[tokio::test]
async fn the_pods_of_a_job_before_a_release_are_of_the_app() {
    let (world, id) = crashing("").await;
    let digest = format!("sha256:{}", "a".repeat(64));
    world.server.apply(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "namespace": "devx", "name": "shop-migrate", "uid": "shop-migrate-uid",
            "labels": {"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": "shop"},
            "annotations": {"the-deployer.dev/digest": digest},
        },
        "spec": {"template": {}},
        "status": {"active": 1},
    }));
    let mut migrating = pod("shop", 1, &json!({"ready": false, "restartCount": 0}));
    migrating["metadata"]["name"] = json!("shop-migrate-x1");
    migrating["metadata"]["uid"] = json!("shop-migrate-x1-uid");
    migrating["metadata"]["labels"] =
        json!({"app.kubernetes.io/name": "shop.migrate", "the-deployer.dev/app": "shop"});
    migrating["metadata"]["ownerReferences"] = json!([{
        "kind": "Job", "name": "shop-migrate", "uid": "shop-migrate-uid", "controller": true,
        "apiVersion": "batch/v1",
    }]);
    world.server.apply(migrating);
    let key = ("devx".to_owned(), "shop-migrate-x1".to_owned(), "shop".to_owned());
    world.server.edit(|cluster| cluster.logs.insert(key, "2 of 3 tables\n".to_owned()));
    let answer = pods_of(&world, "shop").await;
    let names: Vec<&Json> =
        answer["pods"].as_array().unwrap().iter().map(|pod| &pod["name"]).collect();
    assert!(names.contains(&&json!("shop-migrate-x1")), "{answer}");
    let mut log = LogReader::open(&world, "shop/pods/shop-migrate-x1/log").await;
    assert_eq!(log.line().await, "2 of 3 tables");
    Box::pin(recovers(world, id)).await;
}

/// Their pods and `ReplicaSet` objects have another name label, as those of jobs.
#[tokio::test]
async fn the_pods_of_a_process_are_of_the_app() {
    let (world, id) = crashing("").await;
    let digest = format!("sha256:{}", "a".repeat(64));
    let labels = json!({"app.kubernetes.io/name": "shop.worker", "the-deployer.dev/app": "shop"});
    let owned = |kind: &str, name: &str, by: (&str, &str)| {
        json!({"namespace": "devx", "name": name, "uid": format!("{name}-uid"), "labels": labels,
            "annotations": {"the-deployer.dev/digest": digest},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": by.0, "name": by.1,
                "uid": format!("{}-uid", by.1), "controller": true, "blockOwnerDeletion": kind == "Pod"}]})
    };
    world.server.apply(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "devx", "name": "shop-worker", "uid": "shop-worker-uid", "generation": 1,
            "labels": {"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": "shop"},
            "annotations": {"the-deployer.dev/digest": digest, "deployment.kubernetes.io/revision": "1"},
        },
        "spec": {"replicas": 1, "template": {"metadata": {"annotations": {"the-deployer.dev/digest": digest}}}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1},
    }));
    let mut set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": owned("ReplicaSet", "shop-worker-abc", ("Deployment", "shop-worker")),
        "spec": {"replicas": 1, "template": {"metadata": {"annotations": {"the-deployer.dev/digest": digest}}}},
        "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("1");
    world.server.apply(set);
    let mut worker = pod("shop", 1, &json!({"ready": true, "restartCount": 0}));
    worker["metadata"] = owned("Pod", "shop-worker-abc-x1", ("ReplicaSet", "shop-worker-abc"));
    world.server.apply(worker);
    let key = ("devx".to_owned(), "shop-worker-abc-x1".to_owned(), "shop".to_owned());
    world.server.edit(|cluster| cluster.logs.insert(key, "took an order\n".to_owned()));
    let answer = pods_of(&world, "shop").await;
    let names: Vec<&Json> =
        answer["pods"].as_array().unwrap().iter().map(|pod| &pod["name"]).collect();
    assert!(names.contains(&&json!("shop-worker-abc-x1")), "{answer}");
    let mut log = LogReader::open(&world, "shop/pods/shop-worker-abc-x1/log").await;
    assert_eq!(log.line().await, "took an order");
    Box::pin(recovers(world, id)).await;
}

#[tokio::test]
async fn a_pod_with_the_label_of_an_app_and_another_owner_is_not_of_the_app() {
    let (world, id) = crashing("").await;
    let mut foreign = pod("shop", 7, &json!({"ready": true, "restartCount": 0}));
    foreign["metadata"]["name"] = json!("payments-0");
    foreign["metadata"]["uid"] = json!("payments-0-uid");
    for owner in [
        json!([]),
        json!([{"kind": "StatefulSet", "name": "payments", "uid": "x", "controller": true}]),
        // The name of the app's own set, and another object.
        json!([{"kind": "ReplicaSet", "name": "shop-1", "uid": "x", "controller": true}]),
    ] {
        foreign["metadata"]["ownerReferences"] = owner;
        world.server.apply(foreign.clone());
        let key = ("devx".to_owned(), "payments-0".to_owned(), "shop".to_owned());
        world.server.edit(|cluster| cluster.logs.insert(key, "card 4111\n".to_owned()));
        let answer = pods_of(&world, "shop").await;
        assert_eq!(answer["pods"].as_array().unwrap().len(), 1, "{answer}");
        let detail = problem(&world, "shop/pods/payments-0/log", 404).await;
        assert!(detail.contains("has no pod of that name"), "{detail}");
    }
    // A pod of the app, asked for as one of another app.
    let other = format!("cart/pods/{}/log", pod_name("shop", 1));
    problem(&world, &other, 404).await;
    for wrong in ["..%2F..%2Fsecrets", "A", "-a"] {
        problem(&world, &format!("shop/pods/{wrong}/log"), 400).await;
    }
    Box::pin(recovers(world, id)).await;
}

#[tokio::test]
async fn a_log_is_followed_until_its_reader_leaves() {
    let (world, id) = crashing("").await;
    let name = pod_name("shop", 1);
    let mut log =
        LogReader::open(&world, &format!("shop/pods/{name}/log?lines=2&follow=true")).await;
    let first = log.line().await;
    assert!(first.starts_with("login with token ") && !first.contains("aB3dE5"), "{first}");
    assert_eq!(log.line().await, "no such table: users");
    let key = ("devx".to_owned(), name.clone(), "shop".to_owned());
    world.server.edit(|cluster| {
        cluster.logs.get_mut(&key).unwrap().push_str("\x1b[31mred\x1b[0m again\n");
    });
    assert_eq!(log.line().await, "red again");
    assert_eq!(world.server.world().log_readers, 1);
    drop(log);
    for _ in 0..600 {
        world.server.edit(|cluster| cluster.logs.get_mut(&key).unwrap().push_str("more\n"));
        if world.server.world().log_readers == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.server.world().log_readers, 0, "the connection is still open");

    // Without `follow` it ends, also that of the container before.
    let before = key.clone();
    world.server.edit(|cluster| cluster.previous_logs.insert(before, "before\n".to_owned()));
    let previous = format!("shop/pods/{name}/log?container=shop&previous=true");
    let mut log = LogReader::open(&world, &previous).await;
    assert_eq!(log.line().await, "before");
    let (event, data) = log.next().await.unwrap();
    assert_eq!((event.as_str(), &data["error"]), ("end", &Json::Null));
    assert!(log.next().await.is_none());
    let detail = problem(&world, &format!("shop/pods/{name}/log?container=none"), 404).await;
    assert!(detail.ends_with("it has shop"), "{detail}");
    for wrong in ["lines=-1", "follow=maybe", "since=1h"] {
        problem(&world, &format!("shop/pods/{name}/log?{wrong}"), 400).await;
    }
    Box::pin(recovers(world, id)).await;
}

#[tokio::test]
async fn a_configuration_refuses_logs_and_still_shows_pods() {
    let (world, id) = crashing(", pod_logs: false").await;
    let detail = problem(&world, &format!("shop/pods/{}/log", pod_name("shop", 1)), 403).await;
    assert!(detail.contains("pod_logs: false"), "{detail}");
    assert_eq!(pods_of(&world, "shop").await["pods"].as_array().unwrap().len(), 1);
    Box::pin(recovers(world, id)).await;
}

#[tokio::test]
async fn a_cluster_that_is_away_or_forbids_to_look_is_a_problem_that_says_so() {
    let (world, id) = crashing("").await;
    world.server.edit(|cluster| cluster.forbidden.insert(("list", "pods")));
    let answer = pods_of(&world, "shop").await;
    assert_eq!(answer["workloads"][0]["name"], "shop");
    assert_eq!(answer["missing"][0]["kind"], "pods");
    let why = answer["missing"][0]["why"].as_str().unwrap();
    assert!(why.contains("403") && why.contains("grant the service `list`"), "{why}");
    let detail = problem(&world, &format!("shop/pods/{}/log", pod_name("shop", 1)), 503).await;
    assert!(detail.contains("does not let the service look"), "{detail}");
    world.server.edit(|cluster| cluster.forbidden.clear());

    world.server.fail(FaultRule::always(Fault::Silent).of(Verb::List, "pods").times(1));
    let answer = pods_of(&world, "shop").await;
    assert!(answer["missing"][0]["why"].as_str().unwrap().contains("in time"), "{answer}");
    world.server.fail(FaultRule::always(Fault::Status(500)));
    let detail = problem(&world, "shop/pods", 503).await;
    assert!(detail.contains("cannot be reached") && detail.contains("500"), "{detail}");
    world.server.recover();

    let elsewhere = path(&world, "").replace(TARGET, "elsewhere") + "shop/pods";
    let answer = client().get(elsewhere).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("does not watch the cluster"));
    Box::pin(recovers(world, id)).await;
}

#[tokio::test]
async fn of_two_thousand_pods_five_hundred_are_shown() {
    let (world, id) = crashing("").await;
    world.server.edit(|cluster| {
        for n in 0..2000 {
            let mut one = crashing_pod("shop", 1);
            one["metadata"]["name"] = json!(format!("shop-1-{n:04}"));
            one["metadata"]["uid"] = json!(format!("uid-{n}"));
            cluster.apply(one);
        }
    });
    let answer = pods_of(&world, "shop").await;
    assert_eq!(answer["pods"].as_array().unwrap().len(), 500);
    assert_eq!(answer["truncated"], true);
    world.server.edit(|cluster| {
        for n in 0..2000 {
            cluster.delete("Pod", "devx", &format!("shop-1-{n:04}"));
        }
    });
    Box::pin(recovers(world, id)).await;
}

#[tokio::test]
async fn pods_of_a_megabyte_with_texts_for_a_terminal_are_read() {
    let (world, id) = crashing("").await;
    let reason =
        "\x1b]0;owned\x07\x1b[2JBad\u{202e}\nReason ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5";
    world.server.edit(|cluster| {
        for n in 0..4 {
            let mut one = crashing_pod("shop", 1);
            one["metadata"]["name"] = json!(format!("shop-1-{n:02}"));
            one["metadata"]["uid"] = json!(format!("uid-{n}"));
            one["metadata"]["annotations"] = json!({"big": "x".repeat(1 << 20)});
            one["status"]["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": reason, "message": "m".repeat(100_000)}});
            cluster.apply(one);
        }
    });
    let answer = pods_of(&world, "shop").await;
    let pods = answer["pods"].as_array().unwrap();
    assert_eq!((pods.len(), &answer["truncated"]), (5, &json!(false)));
    let shown = pods[0]["reason"].as_str().unwrap();
    assert!(shown.starts_with("Bad") && !shown.contains("aB3dE5"), "{shown:?}");
    assert!(shown.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{shown:?}");
    assert!(pods[0]["message"].as_str().unwrap().len() <= 512);
    world.server.edit(|cluster| {
        for n in 0..4 {
            cluster.delete("Pod", "devx", &format!("shop-1-{n:02}"));
        }
    });
    Box::pin(recovers(world, id)).await;
}

#[tokio::test]
async fn a_second_release_is_told_from_the_first() {
    let world = Watched::start(Deployer::prepared().await, "").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.sync(id, "shop", 1).await;
    world.recovers(id, "shop").await;
    let second = world.push(&shop, "v2").await;
    // Argo CD has not applied it.
    let answer = pods_of(&world, "shop").await;
    assert_eq!(answer["workloads"][0]["live"], false, "{answer}");
    world.sync(second, "shop", 2).await;
    world.bring(second, "shop", 2, Pods { updated: 2, available: 2 }).await;
    assert_eq!(pods_of(&world, "shop").await["workloads"][0]["live"], true);
    world.reaches(second, the_deployer::model::deployment::State::Succeeded).await;
    world.ends().await;
}

/// `bart` on the service of that world: the exit code, and what it printed.
async fn bart(world: &Watched, arguments: &[&str]) -> (i32, String) {
    let folder = folder::temporary();
    let mut command = program("bart", folder.path());
    command.env("BART_SERVER", world.deployer.url()).args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (output.status.code().unwrap(), said(&output))
}

#[tokio::test]
async fn bart_shows_the_pods_and_prints_their_logs() {
    let (world, id) = crashing("").await;
    let (code, text) = bart(&world, &["status", "--app", "devx/shop"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("running on prod-cluster-1"), "{text}");
    assert!(text.contains("Deployment shop: 1 of 2 updated, 0 available, updating"), "{text}");
    assert!(text.contains("shop-1-abc") && text.contains("CrashLoopBackOff"), "{text}");

    let (code, text) = bart(&world, &["logs", "--pods", "--app", "devx/shop"]).await;
    assert_eq!(code, 0, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[2], "shop-1-abc shop no such table: users");
    let json = ["logs", "--pods", "--app", "devx/shop", "-t", TARGET, "--lines", "1", "-o", "json"];
    let (code, text) = bart(&world, &json).await;
    assert_eq!(code, 0, "{text}");
    let line: Json = serde_json::from_str(&text).unwrap();
    let expected =
        json!({"pod": "shop-1-abc", "container": "shop", "line": "no such table: users"});
    assert_eq!(line, expected);

    let wrong = ["logs", "--pods", "--app", "devx/shop", "--container", "none"];
    let (code, text) = bart(&world, &wrong).await;
    assert!(code != 0 && text.contains("no such container; it has shop"), "{text}");
    let elsewhere = ["logs", "--pods", "--app", "devx/shop", "-t", "elsewhere"];
    let (code, text) = bart(&world, &elsewhere).await;
    assert!(code != 0 && !text.is_empty(), "{text}");
    Box::pin(recovers(world, id)).await;
}
