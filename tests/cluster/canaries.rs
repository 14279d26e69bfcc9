//! Workloads that Flagger takes over: each phase, each kind of target, and Canaries that may not be seen.

use serde_json::{Value as Json, json};
use the_deployer::cluster::expected::{ExpectedRevision, ExpectedWorkload};
use the_deployer::cluster::object::WatchedKind;

use super::world::{Workload, World, key, revision};

const DEPLOYMENT: WatchedKind = WatchedKind::Deployment;

fn canary(target: WatchedKind, n: u32, phase: &str, applied: &str) -> Json {
    json!({
        "metadata": {"name": "web", "namespace": "devx", "uid": "uid-canary", "resourceVersion": n.to_string()},
        "spec": {"targetRef": {"kind": target.as_str(), "name": "web"}},
        "status": {"phase": phase, "canaryWeight": 20, "lastAppliedSpec": applied, "failedChecks": 5},
    })
}

#[test]
fn each_phase_is_waited_for_or_ends_the_release() {
    let cases: [(&str, &[&str]); 13] = [
        ("Initializing", &[]),
        ("Initialized", &["finished v2"]),
        ("Waiting", &[]),
        ("Progressing", &[]),
        ("WaitingPromotion", &[]),
        ("Promoting", &[]),
        ("Finalising", &[]),
        ("Succeeded", &["finished v2"]),
        ("Failed", &["failed canary-failed v2"]),
        ("Terminating", &[]),
        ("Terminated", &[]),
        ("", &[]),
        ("AwordOfALaterVersion", &[]),
    ];
    for (phase, told) in cases {
        let mut world = World::new();
        let mut web = Workload::finished("v1");
        world.expect(revision(1, "v1", &["web"]));
        world.apply(WatchedKind::Canary, &canary(DEPLOYMENT, 1, "Succeeded", "one"));
        world.apply(DEPLOYMENT, &web.json());
        world.expect(revision(2, "v2", &["web"]));
        world.apply(DEPLOYMENT, &web.release("v2").json());
        assert_eq!(world.told(), ["started v1", "finished v1", "started v2"], "{phase}");
        // The controller has seen it, and Flagger has not.
        world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
        assert!(world.told().is_empty(), "{phase}: the phase of the run before");
        world.apply(WatchedKind::Canary, &canary(DEPLOYMENT, 2, phase, "two"));
        assert_eq!(world.told(), told, "{phase}");
        // Flagger ends its runs by itself, however long they take.
        world.pass(10_000);
        world.restart();
        assert!(world.told().is_empty(), "{phase}");
    }
}

/// A `DaemonSet` of ours; `off` as Flagger takes its pods away.
fn daemon_set(tag: &str, n: i64, pods: u32, off: bool) -> Json {
    let mut template = json!({"spec": {"containers": [{"name": "web", "image": tag}]}});
    if off {
        template["spec"]["nodeSelector"] = json!({"flagger.app/scale-to-zero": "true"});
    }
    json!({
        "metadata": {
            "name": "web", "namespace": "devx", "uid": "uid-web", "generation": n, "resourceVersion": n.to_string(),
            "labels": {"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": "web"},
            "annotations": {"the-deployer.dev/digest": format!("sha256:{tag}")},
        },
        "spec": {"template": template},
        "status": {
            "observedGeneration": n, "desiredNumberScheduled": pods, "updatedNumberScheduled": pods,
            "numberAvailable": pods,
        },
    })
}

#[test]
fn a_daemon_set_that_flagger_takes_over() {
    let kind = WatchedKind::DaemonSet;
    let mut world = World::new();
    let expect = |world: &mut World, n: u32, tag: &str| {
        let workload =
            ExpectedWorkload { key: key(kind, "web"), replicas: None, has_canary: false };
        world.expect(ExpectedRevision { workloads: vec![workload], ..revision(n, tag, &[]) });
    };
    expect(&mut world, 1, "v1");
    world.apply(WatchedKind::Canary, &canary(kind, 1, "Initializing", ""));
    world.apply(kind, &daemon_set("v1", 1, 2, false));
    assert_eq!(world.told(), ["started v1"], "all pods are there; Flagger is not done");
    world.apply(WatchedKind::Canary, &canary(kind, 2, "Initialized", "one"));
    world.apply(kind, &daemon_set("v1", 2, 0, true));
    assert_eq!(world.told(), ["finished v1"], "its pods are taken away, which is no edit");
    expect(&mut world, 2, "v2");
    world.apply(kind, &daemon_set("v2", 3, 0, true));
    assert_eq!(world.told(), ["started v2"]);
    world.apply(WatchedKind::Canary, &canary(kind, 3, "Progressing", "two"));
    world.apply(kind, &daemon_set("v2", 4, 2, false));
    world.restart();
    assert!(world.told().is_empty(), "all its pods are there; the run has not ended");
    world.apply(WatchedKind::Canary, &canary(kind, 4, "Succeeded", "two"));
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn a_canary_that_may_not_be_seen_is_no_finish() {
    let mut world = World::unlisted();
    world.hidden = vec![WatchedKind::Canary];
    world.list_everything();
    let mut web = Workload::finished("v1");
    world.expect(revision(1, "v1", &["web"]));
    web.replicas = json!(0);
    world.apply(DEPLOYMENT, &web.counted([0, 0, 0]).json());
    let set = web.replica_set("registry.local/web:v1", 1, 0);
    world.apply(WatchedKind::ReplicaSet, &set);
    assert_eq!(world.told(), ["started v1"], "the copy serves, and cannot be seen");
    let waiting = world.summary(1).waiting.unwrap();
    assert_eq!(waiting.what, "the right to see the Canary of Deployment devx/web");
    assert_eq!(waiting.gives_up_at, None);
    // The run of the next release has pods, which are no finish either.
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    web.replicas = json!(3);
    web.revision = 2;
    let set = web.replica_set("registry.local/web:v2", 2, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.restart();
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    world.pass(10_000);
    world.pass(10_000);
    assert_eq!(world.told(), ["superseded v1", "started v2"]);
    // The right comes.
    world.hidden.clear();
    let run = |n: u32, phase: &str| canary(DEPLOYMENT, n, phase, "two");
    world.apply(WatchedKind::Canary, &run(1, "Progressing"));
    world.list(WatchedKind::Canary);
    world.apply(DEPLOYMENT, &web.json());
    assert!(world.told().is_empty());
    world.apply(WatchedKind::Canary, &run(2, "Succeeded"));
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn the_copy_that_serves_is_a_sign_of_flagger() {
    let mut world = World::unlisted();
    world.hidden = vec![WatchedKind::Canary];
    world.list_everything();
    let mut primary = Workload::finished("v0").named("web-primary");
    let mut json = primary.json();
    json["metadata"]["ownerReferences"] =
        json!([{"kind": "Canary", "name": "web", "uid": "uid-canary", "controller": true}]);
    world.apply(DEPLOYMENT, &json);
    let mut web = Workload::finished("v1");
    world.expect(revision(1, "v1", &["web"]));
    let set = web.replica_set("registry.local/web:v1", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.told(), ["started v1"]);
    // A cluster without Flagger has no Canaries that could be hidden.
    world.hidden.clear();
    world.unavailable = vec![WatchedKind::Canary];
    world.list(WatchedKind::Canary);
    assert_eq!(world.told(), ["finished v1"]);
}

#[test]
fn a_workload_that_is_to_have_no_pods_is_not_suspected() {
    let mut world = World::unlisted();
    world.hidden = vec![WatchedKind::Canary];
    world.list_everything();
    let mut web = Workload::finished("v1");
    let mut expected = revision(1, "v1", &["web"]);
    expected.workloads[0].replicas = Some(0);
    world.expect(expected);
    web.replicas = json!(0);
    let set = web.replica_set("registry.local/web:v1", 1, 0);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.counted([0, 0, 0]).json());
    assert_eq!(world.told(), ["started v1", "finished v1"]);
}
