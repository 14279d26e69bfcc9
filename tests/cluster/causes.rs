//! Tests the causes of failure, from objects as clusters show them: reported within seconds, with what to do.

use serde_json::{Value as Json, json};
use the_deployer::cluster::failure::{CauseKind, FailureCause, LOG_LINES, LogTail, pod_cause};
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::pod::PodRow;
use the_deployer::cluster::record::RecordState;
use the_deployer::cluster::summary::DeploymentState;

use super::world::{Workload, World, revision};

const IMAGE: &str = "registry.local/web:v2";

/// A release whose only new pod shows that status.
fn rolling(status: &Json) -> (World, Workload) {
    let mut world = World::new();
    let mut web = Workload::finished("v1");
    world.expect(revision(1, "v1", &["web"]));
    let set = web.replica_set("registry.local/web:v1", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(WatchedKind::Deployment, &web.json());
    world.expect(revision(2, "v2", &["web"]));
    world.apply(WatchedKind::Deployment, &web.release("v2").json());
    web.revision = 2;
    let set = web.replica_set(IMAGE, 2, 1);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(WatchedKind::Deployment, &web.counted([4, 1, 3]).json());
    assert_eq!(world.told(), ["started v1", "finished v1", "started v2"]);
    let pod = web.pod(IMAGE, "a", status);
    world.apply(WatchedKind::Pod, &pod);
    (world, web)
}

fn container(state: &Json, rest: &Json) -> Json {
    let mut container = json!({
        "name": "web", "image": IMAGE, "ready": false, "restartCount": 0, "state": state,
    });
    for (key, value) in rest.as_object().unwrap() {
        container[key] = value.clone();
    }
    json!({"phase": "Running", "containerStatuses": [container]})
}

fn waiting(reason: &str, message: &str) -> Json {
    container(&json!({"waiting": {"reason": reason, "message": message}}), &json!({}))
}

fn ended(reason: &str, exit_code: i64) -> Json {
    json!({"terminated": {"reason": reason, "exitCode": exit_code, "message": ""}})
}

fn row(status: &Json) -> PodRow {
    PodRow::read(&json!({"metadata": {"name": "my-app-7c9"}, "status": status})).unwrap()
}

fn cause(status: &Json) -> Option<FailureCause> {
    pod_cause(&row(status), false)
}

#[test]
fn each_cause_is_told_once_and_at_once() {
    let crash = container(
        &json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}),
        &json!({"restartCount": 3, "lastState": ended("Error", 1)}),
    );
    let killed = container(
        &json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}),
        &json!({"restartCount": 1, "lastState": ended("OOMKilled", 137)}),
    );
    let unschedulable = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }]});
    let cases = [
        (waiting("ErrImagePull", "not found"), "image-pull"),
        (waiting("ImagePullBackOff", "Back-off pulling image"), "image-pull"),
        (waiting("CreateContainerConfigError", "secret \"db\" not found"), "config-error"),
        (crash, "crash-loop"),
        (killed, "out-of-memory"),
        (unschedulable, "unschedulable"),
    ];
    for (status, kind) in cases {
        let (mut world, mut web) = rolling(&status);
        assert_eq!(world.told(), [format!("failing {kind} v2")]);
        // The pod is replaced by another one that shows the same; everything is listed again; the process starts anew.
        let other = web.pod(IMAGE, "b", &status);
        world.apply(WatchedKind::Pod, &other);
        world.list_everything();
        world.restart();
        world.pass(50);
        assert!(world.told().is_empty(), "{kind}");
        let progress = world.summary(2);
        assert_eq!(progress.state, DeploymentState::Progressing);
        assert!(
            progress.sentence.starts_with("1 of 3 updated, 3 available; "),
            "{}",
            progress.sentence
        );
        // It fails two minutes after the deadline of a minute: of what is seen of it, which is every tick.
        world.pass(20);
        world.pass(121);
        assert_eq!(world.told(), [format!("failed {kind} v2")]);
        assert!(matches!(world.summary(2).state, DeploymentState::Failed { .. }));
    }
}

#[test]
fn a_cause_that_comes_and_goes_is_told_once() {
    let (mut world, mut web) = rolling(&waiting("ErrImagePull", "not found"));
    assert_eq!(world.told(), ["failing image-pull v2"]);
    let running = container(&json!({"running": {}}), &json!({}));
    for status in [&running, &waiting("ImagePullBackOff", "not found"), &running] {
        let pod = web.pod(IMAGE, "a", status);
        world.apply(WatchedKind::Pod, &pod);
        world.pass(2);
        world.restart();
        assert!(world.told().is_empty());
    }
}

#[test]
fn what_cannot_heal_fails_at_once() {
    let start_error = container(
        &json!({"waiting": {"reason": "RunContainerError", "message":
            "exec: \"/app/serve\": stat /app/serve: no such file or directory: unknown"}}),
        &json!({}),
    );
    let cases = [
        (waiting("InvalidImageName", "couldn't parse image name"), "invalid-image"),
        (start_error, "cannot-start"),
    ];
    for (status, kind) in cases {
        let (mut world, _) = rolling(&status);
        assert_eq!(world.told(), [format!("failing {kind} v2"), format!("failed {kind} v2")]);
        world.restart();
        world.pass(10_000);
        assert!(world.told().is_empty());
    }
}

#[test]
fn a_cause_that_passes_is_no_failure() {
    let (mut world, mut web) = rolling(&waiting("ErrImagePull", "connection refused"));
    assert_eq!(world.told(), ["failing image-pull v2"]);
    assert!(world.record("web").failing.is_some());
    let ready = json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "web", "ready": true, "state": {"running": {}}}],
    });
    let pod = web.pod(IMAGE, "a", &ready);
    world.apply(WatchedKind::Pod, &pod);
    assert_eq!(world.record("web").failing, None);
    for (image, revision, pods) in [("registry.local/web:v1", 1, 0), (IMAGE, 2, 3)] {
        let set = web.replica_set(image, revision, pods);
        world.apply(WatchedKind::ReplicaSet, &set);
    }
    world.apply(WatchedKind::Deployment, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn pods_of_the_release_before_do_not_count() {
    let crash = container(
        &json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        &json!({"restartCount": 9, "lastState": ended("Error", 1)}),
    );
    let creating = waiting("ContainerCreating", "");
    let (mut world, mut web) = rolling(&creating);
    let mut old = web.pod("registry.local/web:v1", "old", &crash);
    world.apply(WatchedKind::Pod, &old);
    old = web.pod(IMAGE, "going", &crash);
    old["metadata"]["deletionTimestamp"] = json!("2026-11-21T01:00:00Z");
    world.apply(WatchedKind::Pod, &old);
    world.pass(30);
    assert!(world.told().is_empty());
}

#[test]
fn a_pod_that_runs_and_does_not_become_ready_is_overdue_by_its_probe() {
    let running = container(&json!({"running": {}}), &json!({}));
    let (mut world, mut web) = rolling(&running);
    world.pass(29);
    assert!(world.told().is_empty());
    world.pass(1);
    assert_eq!(world.told(), ["failing readiness v2"]);

    // A slow one says so itself. The cluster's clock does not matter.
    let (mut slow, _) = rolling(&waiting("ContainerCreating", ""));
    let mut pod = web.pod(IMAGE, "slow", &running);
    pod["spec"]["containers"][0]["startupProbe"] =
        json!({"periodSeconds": 5, "failureThreshold": 6});
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"initialDelaySeconds": 10});
    pod["status"]["startTime"] = json!("2020-01-01T00:00:00Z");
    slow.apply(WatchedKind::Pod, &pod);
    slow.pass(59);
    assert!(slow.told().is_empty(), "30 s to start, 10 s of delay, three times 10 s");
}

#[test]
fn the_quota_and_what_the_cluster_refuses() {
    for (message, kind, ends) in [
        ("pods \"web-x\" is forbidden: exceeded quota: compute, requested: cpu=1", "quota", false),
        (
            "pods \"web-x\" is forbidden: violates PodSecurity \"restricted:latest\"",
            "refused",
            true,
        ),
        ("admission webhook \"policy\" denied the request: no latest tag", "refused", false),
    ] {
        let (mut world, mut web) = rolling(&waiting("ContainerCreating", ""));
        let mut set = web.replica_set(IMAGE, 2, 1);
        set["status"]["conditions"] = json!([
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message},
        ]);
        world.apply(WatchedKind::ReplicaSet, &set);
        let mut told = vec![format!("failing {kind} v2")];
        told.extend(ends.then(|| format!("failed {kind} v2")));
        assert_eq!(world.told(), told);
    }
}

#[test]
fn sentences_say_what_is_wrong_and_help_says_what_to_do() {
    let crash = container(
        &json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}),
        &json!({"restartCount": 4, "lastState": ended("Error", 2)}),
    );
    let killed = container(&ended("OOMKilled", 137), &json!({}));
    let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let secret = waiting("ErrImagePull", &format!("denied for {token}\nretry"));
    let cases = [
        (
            waiting("ErrImagePull", "manifest unknown"),
            "my-app-7c9 cannot pull the image registry.local/web:v2: manifest unknown",
        ),
        (crash, "my-app-7c9: the container web ended with exit code 2 (4 restarts)"),
        (killed, "my-app-7c9: the container web used more memory than its limit and was killed"),
        (
            waiting("CreateContainerConfigError", "secret \"db\" not found"),
            "my-app-7c9 lacks a part of its configuration: secret \"db\" not found",
        ),
    ];
    for (status, sentence) in cases {
        let cause = cause(&status).unwrap();
        assert_eq!(cause.sentence(), sentence);
    }
    let masked = cause(&secret).unwrap().sentence();
    assert!(!masked.contains("0123456789") && masked.ends_with(" retry"), "{masked}");
    for kind in CauseKind::ALL {
        let cause = FailureCause::new(kind, "");
        assert!(!cause.help().is_empty() && !cause.sentence().is_empty());
    }
}

#[test]
fn init_containers_that_are_done_are_no_failure() {
    let done = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "migrate", "ready": true, "state": ended("Completed", 0)},
    ]});
    assert_eq!(cause(&done), None);
    let broken = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "migrate", "ready": false, "state": ended("Error", 3)},
    ]});
    let broken = cause(&broken).unwrap();
    assert_eq!((broken.kind, broken.container.as_deref()), (CauseKind::CrashLoop, Some("migrate")));
    // A program that ends well and should have gone on.
    let over = container(&ended("Completed", 0), &json!({}));
    assert_eq!(cause(&over).unwrap().exit_code, Some(0));
}

#[test]
fn a_crash_stays_the_cause_while_the_container_tries_again() {
    let again = container(
        &json!({"running": {}}),
        &json!({"restartCount": 1, "lastState": ended("Error", 1)}),
    );
    assert_eq!(cause(&again).unwrap().kind, CauseKind::CrashLoop);
    let well = container(
        &json!({"running": {}}),
        &json!({"restartCount": 1, "lastState": ended("Error", 1), "ready": true}),
    );
    assert_eq!(cause(&well), None);
}

#[test]
fn the_first_cause_is_the_one_that_explains_the_others() {
    let both = json!({"phase": "Pending", "containerStatuses": [
        {"name": "sidecar", "state": ended("Error", 1)},
        {"name": "web", "image": IMAGE, "state": {"waiting": {"reason": "ImagePullBackOff"}}},
    ]});
    assert_eq!(cause(&both).unwrap().kind, CauseKind::ImagePull);
}

#[test]
fn the_end_of_a_log_is_short_and_without_secrets() {
    let mut log: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    log.push_str("\x1b[31mconnecting with password=hunter2hunter2\x1b[0m\n\n");
    log.push_str("token ghp_0123456789abcdefghijklmnopqrstuvwxyz\n");
    log.push_str(&"x".repeat(100_000));
    let tail = LogTail::of_lines(&log, LOG_LINES);
    assert_eq!(tail.lines().len(), 20);
    let text = tail.lines().join("\n");
    assert!(text.starts_with("line 983\n"), "{text}");
    assert!(!text.contains("0123456789") && !text.contains('\x1b'), "{text}");
    assert!(tail.lines().iter().all(|line| line.chars().count() <= 400));
    assert!(LogTail::of_lines("", LOG_LINES).lines().is_empty());
}

#[test]
fn a_failure_keeps_its_cause() {
    let (world, _) = rolling(&waiting("InvalidImageName", "couldn't parse"));
    let RecordState::Failed { cause, .. } = world.record("web").state else { panic!() };
    assert_eq!(cause.pod.as_deref(), Some("web-v2-a"));
    assert!(!cause.can_heal());
    let DeploymentState::Failed { workload, .. } = world.summary(2).state else { panic!() };
    assert_eq!(workload.to_string(), "Deployment devx/web");
}
