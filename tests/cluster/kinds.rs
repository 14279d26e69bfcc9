//! The kinds beside Deployments: each has its own way of being finished.

use serde_json::{Value as Json, json};
use the_deployer::cluster::expected::{ExpectedRevision, ExpectedWorkload};
use the_deployer::cluster::object::{ObjectKey, WatchedKind};
use the_deployer::cluster::summary::DeploymentState;

use super::world::{Workload, World, key, revision};

/// An object of ours with that digest, in its n-th version.
fn object(kind: WatchedKind, tag: &str, n: i64, spec: &Json, status: &Json) -> Json {
    json!({
        "kind": kind.as_str(),
        "metadata": {
            "name": "web", "namespace": "devx", "uid": "uid-web", "resourceVersion": n.to_string(), "generation": n,
            "creationTimestamp": "2026-11-21T00:59:00Z",
            "labels": {"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": "web"},
            "annotations": {"the-deployer.dev/digest": format!("sha256:{tag}")},
        },
        "spec": spec, "status": status,
    })
}

fn expect(world: &mut World, kind: WatchedKind, n: u32, tag: &str) {
    let workload = ExpectedWorkload { key: key(kind, "web"), replicas: None, has_canary: false };
    world.expect(ExpectedRevision { workloads: vec![workload], ..revision(n, tag, &[]) });
}

/// Brings these states of one object, and what was told after each.
fn told(kind: WatchedKind, states: &[(Json, Json, &[&str])]) {
    let mut world = World::new();
    expect(&mut world, kind, 1, "v1");
    for (n, (spec, status, told)) in (1..).zip(states) {
        world.apply(kind, &object(kind, "v1", n, spec, status));
        assert_eq!(world.told(), *told, "state {n} of {kind}");
        world.restart();
        assert!(world.told().is_empty(), "restarted after state {n} of {kind}");
    }
}

#[test]
fn a_stateful_set_is_finished_with_one_revision() {
    let spec = json!({"replicas": 3});
    let status = |observed: i64, updated: u32, available: u32, current: &str| {
        json!({
            "observedGeneration": observed, "replicas": 3, "updatedReplicas": updated,
            "availableReplicas": available, "currentRevision": current, "updateRevision": "b",
        })
    };
    told(
        WatchedKind::StatefulSet,
        &[
            (spec.clone(), status(0, 3, 3, "b"), &["started v1"]),
            (spec.clone(), status(2, 1, 2, "a"), &[]),
            (spec.clone(), status(3, 3, 2, "a"), &[]),
            (spec.clone(), status(4, 3, 3, "a"), &[]),
            (spec.clone(), status(5, 3, 3, "b"), &["finished v1"]),
            (spec, status(6, 3, 2, "b"), &[]),
        ],
    );
}

#[test]
fn a_partition_is_kept() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    let spec = json!({"replicas": 3, "updateStrategy": strategy});
    let status = |observed: i64, updated: u32| {
        json!({
            "observedGeneration": observed, "replicas": 3, "updatedReplicas": updated,
            "readyReplicas": 3, "currentRevision": "a", "updateRevision": "b",
        })
    };
    told(
        WatchedKind::StatefulSet,
        &[(spec.clone(), status(1, 0), &["started v1"]), (spec, status(2, 1), &["finished v1"])],
    );
}

#[test]
fn the_strategy_on_delete_waits_for_a_person() {
    let spec = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    let of_stateful_set = |observed: i64, updated: u32, available: u32| {
        json!({
            "observedGeneration": observed, "replicas": 3, "updatedReplicas": updated,
            "availableReplicas": available, "currentRevision": "a", "updateRevision": "b",
        })
    };
    let of_daemon_set = |observed: i64, updated: u32, available: u32| {
        json!({
            "observedGeneration": observed, "desiredNumberScheduled": 3,
            "updatedNumberScheduled": updated, "numberAvailable": available,
        })
    };
    for kind in [WatchedKind::StatefulSet, WatchedKind::DaemonSet] {
        let status = |observed: i64, updated: u32, available: u32| {
            if kind == WatchedKind::StatefulSet {
                of_stateful_set(observed, updated, available)
            } else {
                of_daemon_set(observed, updated, available)
            }
        };
        let mut world = World::new();
        expect(&mut world, kind, 1, "v1");
        let apply = |world: &mut World, n: i64, updated: u32, available: u32| {
            let status = status(n, updated, available);
            world.apply(kind, &object(kind, "v1", n, &spec, &status));
        };
        apply(&mut world, 1, 0, 3);
        assert_eq!(world.told(), ["started v1"], "{kind}");
        let waiting = world.summary(1).waiting.unwrap();
        let what = format!("a person to delete the former pods of {kind} devx/web");
        assert_eq!((waiting.what, waiting.gives_up_at), (what, None));
        world.pass(100_000);
        apply(&mut world, 2, 2, 3);
        world.pass(100_000);
        apply(&mut world, 3, 3, 2);
        assert!(world.told().is_empty(), "{kind}: the last pod starts");
        assert!(world.summary(1).waiting.unwrap().gives_up_at.is_some());
        apply(&mut world, 4, 3, 3);
        assert_eq!(world.told(), ["finished v1"], "{kind}");
    }
}

#[test]
fn a_daemon_set_is_finished_on_every_node() {
    let status = |observed: i64, updated: u32, available: u32| {
        json!({
            "observedGeneration": observed, "desiredNumberScheduled": 3,
            "updatedNumberScheduled": updated, "numberAvailable": available,
        })
    };
    told(
        WatchedKind::DaemonSet,
        &[
            (json!({}), json!({}), &["started v1"]),
            (json!({}), status(2, 2, 3), &[]),
            (json!({}), status(3, 3, 2), &[]),
            (json!({}), status(4, 3, 3), &["finished v1"]),
            // A node comes.
            (json!({}), status(5, 3, 3), &[]),
        ],
    );
}

#[test]
fn the_pods_of_a_daemon_set_and_a_stateful_set_tell_why_they_do_not_run() {
    let broken = |reason: &str| {
        json!({"phase": "Pending", "containerStatuses": [
            {"name": "web", "image": "web:v1", "state": {"waiting": {"reason": reason, "message": "no"}}},
        ]})
    };
    let pod = |kind: WatchedKind, name: &str, labels: Json, status: &Json| {
        let owner =
            json!({"kind": kind.as_str(), "name": "web", "uid": "uid-web", "controller": true});
        json!({
            "metadata": {
                "name": name, "namespace": "devx", "uid": format!("uid-{name}"), "resourceVersion": "1",
                "labels": labels, "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "web", "image": "web"}]}, "status": status,
        })
    };
    let numbered =
        |n: &str| json!({"controller-revision-hash": "any", "pod-template-generation": n});
    let of_revision = |revision: &str| json!({"controller-revision-hash": revision});
    let cases = [
        (
            WatchedKind::DaemonSet,
            json!({
                "observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1,
                "numberAvailable": 1,
            }),
            [numbered("1"), numbered("2")],
        ),
        (
            WatchedKind::StatefulSet,
            json!({
                "observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1,
                "currentRevision": "a", "updateRevision": "b",
            }),
            [of_revision("a"), of_revision("b")],
        ),
    ];
    for (kind, status, [former, present]) in cases {
        let mut world = World::new();
        expect(&mut world, kind, 1, "v1");
        let mut set = object(kind, "v1", 2, &json!({"replicas": 2}), &status);
        set["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = json!("2");
        world.apply(kind, &set);
        assert_eq!(world.told(), ["started v1"], "{kind}");
        world.apply(WatchedKind::Pod, &pod(kind, "web-0", former, &broken("CreateContainerError")));
        assert!(world.told().is_empty(), "{kind}: a pod of the release before");
        world.apply(WatchedKind::Pod, &pod(kind, "web-1", present, &broken("ErrImagePull")));
        assert_eq!(world.told(), ["failing image-pull v1"], "{kind}");
        world.pass(601);
        world.pass(121);
        assert_eq!(world.told(), ["failed image-pull v1"], "{kind}");
    }
    // Without the number that both carry, pods count once all of them are of the present template.
    let mut world = World::new();
    expect(&mut world, WatchedKind::DaemonSet, 1, "v1");
    let status = |updated: u32| {
        json!({
            "observedGeneration": 1, "desiredNumberScheduled": 1, "updatedNumberScheduled": updated,
            "numberAvailable": 0,
        })
    };
    let kind = WatchedKind::DaemonSet;
    let lone = pod(kind, "web-0", of_revision("any"), &broken("ErrImagePull"));
    world.apply(WatchedKind::Pod, &lone);
    world.apply(kind, &object(kind, "v1", 1, &json!({}), &status(0)));
    assert_eq!(world.told(), ["started v1"]);
    let mut set = object(kind, "v1", 1, &json!({}), &status(1));
    set["metadata"]["resourceVersion"] = json!("2");
    world.apply(kind, &set);
    assert_eq!(world.told(), ["failing image-pull v1"]);
}

#[test]
fn a_job_ends_by_itself() {
    let condition = |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]});
    told(
        WatchedKind::Job,
        &[
            (json!({"suspend": true}), json!({}), &["started v1"]),
            (json!({}), json!({"active": 1}), &[]),
            (json!({}), condition("Complete"), &["finished v1"]),
        ],
    );
    told(
        WatchedKind::Job,
        &[
            (json!({}), json!({"active": 1}), &["started v1"]),
            (json!({}), condition("Failed"), &["failed job-failed v1"]),
        ],
    );
    // However long it runs.
    let mut world = World::new();
    expect(&mut world, WatchedKind::Job, 1, "v1");
    world.apply(
        WatchedKind::Job,
        &object(WatchedKind::Job, "v1", 1, &json!({}), &json!({"active": 1})),
    );
    for _ in 0..10 {
        world.pass(10_000);
    }
    assert_eq!(world.told(), ["started v1"]);
}

#[test]
fn a_cron_job_is_finished_when_it_is_there() {
    told(
        WatchedKind::CronJob,
        &[(json!({"schedule": "0 * * * *"}), json!({}), &["started v1", "finished v1"])],
    );
}

fn application(n: u32, sync: &str, revision: &str, operation: &Json) -> Json {
    json!({
        "metadata": {
            "name": "devx.web", "namespace": "argocd", "uid": "uid-app", "resourceVersion": n.to_string(),
        },
        "status": {"sync": {"status": sync, "revision": revision}, "operationState": operation},
    })
}

#[test]
fn a_revision_without_workloads_is_finished_when_it_is_synced() {
    let kind = WatchedKind::Application;
    let mut world = World::new();
    let expected = ExpectedRevision { workloads: Vec::new(), ..revision(1, "v1", &[]) };
    world.apply(kind, &application(1, "Synced", "commit-0", &json!({})));
    world.expect(expected.clone());
    assert!(world.told().is_empty(), "synced to the commit before");
    assert_eq!(world.summary(1).state, DeploymentState::Syncing);
    world.apply(kind, &application(2, "OutOfSync", "commit-1", &json!({})));
    assert_eq!(world.told(), ["started v1 on devx.web"]);
    let operation = |phase: &str| json!({"phase": phase, "message": "one or more objects failed", "syncResult": {"revision": "commit-1"}});
    world.apply(kind, &application(3, "OutOfSync", "commit-1", &operation("Failed")));
    world.restart();
    assert_eq!(world.told(), ["failing sync-failed v1 on devx.web"]);
    // Another app's commit came on top.
    world.expect(ExpectedRevision {
        commits: vec!["commit-1".to_owned(), "commit-2".to_owned()],
        ..expected
    });
    world.apply(kind, &application(4, "Synced", "commit-2", &operation("Succeeded")));
    assert_eq!(world.told(), ["finished v1 on devx.web"]);
    assert!(matches!(world.summary(1).state, DeploymentState::Finished { .. }));
    world.apply(kind, &application(5, "Synced", "commit-3", &json!({})));
    world.list_everything();
    world.restart();
    assert!(world.told().is_empty());
}

/// The Canary of `web`, in its n-th version.
fn canary(n: u32, phase: &str, applied: &str) -> Json {
    json!({
        "metadata": {"name": "web", "namespace": "devx", "uid": "uid-canary", "resourceVersion": n.to_string()},
        "spec": {"targetRef": {"kind": "Deployment", "name": "web"}},
        "status": {
            "phase": phase, "canaryWeight": 20, "lastAppliedSpec": applied, "failedChecks": 5,
            "conditions": [{"type": "Promoted", "status": "False", "message": "success rate 61 % below 99 %"}],
        },
    })
}

#[test]
fn a_canary_ends_with_the_run_of_its_own_template() {
    let (deployments, canaries) = (WatchedKind::Deployment, WatchedKind::Canary);
    let mut world = World::new();
    let mut web = Workload::finished("v1");
    world.expect(revision(1, "v1", &["web"]));
    world.apply(canaries, &canary(1, "Initializing", ""));
    world.apply(deployments, &web.json());
    assert_eq!(world.told(), ["started v1"]);
    world.apply(canaries, &canary(2, "Initialized", "one"));
    assert_eq!(world.told(), ["finished v1"]);

    // Succeeded, of the run before; Flagger has scaled the workload to 0 and not seen the new template.
    world.expect(revision(2, "v2", &["web"]));
    web.replicas = json!(0);
    world.apply(canaries, &canary(3, "Succeeded", "one"));
    world.apply(deployments, &web.release("v2").counted([0, 0, 0]).json());
    world.restart();
    assert_eq!(world.told(), ["started v2"]);
    world.apply(canaries, &canary(4, "Progressing", "two"));
    assert!(world.summary(2).sentence.contains("Progressing, 20 % of the traffic"));
    world.pass(100_000);
    world.apply(canaries, &canary(5, "Succeeded", "two"));
    assert_eq!(world.told(), ["finished v2"]);

    // It fails, and the release before is deployed again: Flagger has promoted that and says nothing more.
    world.expect(revision(3, "v3", &["web"]));
    world.apply(deployments, &web.release("v3").counted([0, 0, 0]).json());
    world.apply(canaries, &canary(6, "Progressing", "three"));
    world.apply(canaries, &canary(7, "Failed", "three"));
    assert_eq!(world.told(), ["started v3", "failed canary-failed v3"]);
    assert!(world.summary(3).sentence.contains("success rate 61 % below 99 %"));
    world.expect(revision(4, "v2", &["web"]));
    world.apply(deployments, &web.release("v2").counted([0, 0, 0]).json());
    assert_eq!(world.told(), ["started v2", "finished v2"]);
}

#[test]
fn flaggers_own_copy_is_no_workload_of_ours() {
    let mut world = World::new();
    world.apply(WatchedKind::Canary, &canary(1, "Initialized", "one"));
    let mut primary = Workload::finished("v1").named("web-primary");
    let mut json = primary.json();
    json["metadata"]["ownerReferences"] =
        json!([{"kind": "Canary", "name": "web", "uid": "uid-canary", "controller": true}]);
    world.apply(WatchedKind::Deployment, &json);
    world.pass(1000);
    assert!(world.told().is_empty() && world.store.is_empty());
}

#[test]
fn a_workload_of_anybody_names_a_commit() {
    let mut world = World::new();
    let mut web = Workload::finished("v1");
    let mut apply = |world: &mut World, commit: &str, counts: [u32; 3]| {
        let mut json = web.counted(counts).json();
        json["metadata"]["labels"] = json!({});
        json["metadata"]["annotations"] = json!({
            "the-deployer.dev/repository": "wantedly/web", "the-deployer.dev/commit": commit,
            "the-deployer.dev/pull-request": "12", "deployment.kubernetes.io/revision": "1",
        });
        let set = web.replica_set("registry.local/web:v1", 1, 3);
        world.apply(WatchedKind::ReplicaSet, &set);
        world.apply(WatchedKind::Deployment, &json);
    };
    apply(&mut world, "abc", [3, 3, 1]);
    assert_eq!(world.told(), ["started abc"]);
    apply(&mut world, "abc", [3, 3, 3]);
    assert_eq!(world.told(), ["finished abc"]);
    // The same pods of another commit.
    apply(&mut world, "def", [3, 3, 3]);
    assert_eq!(world.told(), ["started def", "finished def"]);
    let record = world.record("web");
    assert_eq!(record.commit.unwrap().pull_request.as_deref(), Some("12"));
    assert_eq!(world.index.workloads_of_app("devx", "web").len(), 0);
    // It comes back: nothing of it is ours, so it is told again.
    apply(&mut world, "abc", [3, 3, 3]);
    assert_eq!(world.told(), ["started abc", "finished abc"]);
    world.delete_key(&ObjectKey::new(WatchedKind::Deployment, "devx", "web"));
    assert!(world.told().is_empty());
}
