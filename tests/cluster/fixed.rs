//! A broken release, and the release that fixes it: the pods of the first do not fail the second, however late each
//! watch is.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use the_deployer::cluster::expected::{ExpectedRevision, ExpectedWorkload};
use the_deployer::cluster::object::{ObjectKey, WatchedKind};
use the_deployer::cluster::summary::DeploymentState;
use the_deployer::cluster::watched::WatchedObject;

use super::recorded::Event;
use super::world::{Workload, World, key, revision};

/// A broken release of a workload, and the one that fixes it.
pub(super) struct Story {
    pub(super) kind: WatchedKind,
    before: Vec<Change>,
    after: Vec<Change>,
}

/// What is told of each broken release, where its pods are seen before the fix comes.
const TOLD: [&str; 3] = ["started v2", "failing invalid-image v2", "failed invalid-image v2"];

/// A change of the cluster, in the order of its server.
#[derive(Clone)]
enum Change {
    State(WatchedKind, Json),
    Gone(ObjectKey),
}

impl Change {
    fn kind(&self) -> WatchedKind {
        match self {
            Self::State(kind, _) => *kind,
            Self::Gone(key) => key.kind,
        }
    }

    fn bring(&self, world: &mut World) {
        match self {
            Self::State(kind, json) => world.apply(*kind, json),
            Self::Gone(key) if world.present.contains_key(key) => world.delete_key(key),
            Self::Gone(_) => {}
        }
    }
}

/// The status of a pod whose image has no legal name, which cannot heal.
fn broken() -> Json {
    json!({"phase": "Pending", "containerStatuses": [
        {"name": "web", "image": "Web:v2", "state": {"waiting": {"reason": "InvalidImageName", "message": "no"}}},
    ]})
}

fn ready() -> Json {
    json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "web", "ready": true, "state": {"running": {}}}],
    })
}

fn expect(world: &mut World, kind: WatchedKind, n: u32, tag: &str) {
    let workload = ExpectedWorkload { key: key(kind, "web"), replicas: None, has_canary: false };
    world.expect(ExpectedRevision { workloads: vec![workload], ..revision(n, tag, &[]) });
}

/// All stories, one a kind.
pub(super) fn stories() -> [Story; 4] {
    [deployment(), stateful_set(), daemon_set(), job()]
}

impl Story {
    /// A process that knows of both releases, and has listed the cluster after so many events that it missed.
    pub(super) fn late_world(&self, missed: usize) -> World {
        let mut world = World::unlisted();
        for (n, tag) in [(2, "v2"), (3, "v3")] {
            expect(&mut world, self.kind, n, tag);
        }
        for event in &self.events()[..missed] {
            event.miss(&mut world);
        }
        world.list_everything();
        world
    }

    /// All that happens, from the broken release on.
    pub(super) fn events(&self) -> Vec<Event> {
        let mut present: HashMap<ObjectKey, WatchedObject> = HashMap::new();
        let mut event = |change: &Change| match change {
            Change::State(kind, json) => {
                let object = WatchedObject::read(*kind, json).unwrap();
                present.insert(object.key(), object.clone());
                Event::new(object, false)
            }
            Change::Gone(key) => Event::new(present[key].clone(), true),
        };
        self.before.iter().chain(&self.after).map(&mut event).collect()
    }
}

/// Brings the broken release, and then the fix with each watch so many changes late, and restarts after every change.
fn check(Story { kind, before, after }: &Story) {
    let kind = *kind;
    for delays in delays(kind) {
        for restarts in [false, true] {
            let mut world = World::new();
            expect(&mut world, kind, 2, "v2");
            for change in before {
                change.bring(&mut world);
            }
            assert_eq!(world.told(), TOLD, "{kind}, broken");
            expect(&mut world, kind, 3, "v3");
            let delay = |change: &Change| {
                delays.iter().find(|(of, _)| *of == change.kind()).map_or(0, |(_, late)| *late)
            };
            let mut changes: Vec<(usize, &Change)> =
                after.iter().enumerate().map(|(at, one)| (at + delay(one), one)).collect();
            changes.sort_by_key(|(at, _)| *at);
            for (_, change) in changes {
                change.bring(&mut world);
                if restarts {
                    world.restart();
                }
                world.pass(1);
            }
            let told = world.told();
            let ends: Vec<&String> =
                told.iter().filter(|one| one.starts_with('f') && one.ends_with("v3")).collect();
            assert_eq!(ends, ["finished v3"], "{kind}, {delays:?}: {told:?}");
            assert!(matches!(world.summary(3).state, DeploymentState::Finished { .. }));
        }
    }
}

fn delays(kind: WatchedKind) -> Vec<[(WatchedKind, usize); 3]> {
    let late = [0, 2, 100];
    let mut delays = Vec::new();
    for workload in late {
        for sets in late {
            for pods in late {
                delays.push([
                    (kind, workload),
                    (WatchedKind::ReplicaSet, sets),
                    (WatchedKind::Pod, pods),
                ]);
            }
        }
    }
    delays
}

#[test]
fn a_deployment_that_is_fixed() {
    check(&deployment());
}

fn deployment() -> Story {
    let (deployments, sets, pods) =
        (WatchedKind::Deployment, WatchedKind::ReplicaSet, WatchedKind::Pod);
    let image = |tag: &str| format!("registry.local/web:{tag}");
    let mut web = Workload::finished("v2");
    let mut before = vec![
        Change::State(sets, web.replica_set(&image("v2"), 1, 3)),
        Change::State(deployments, web.counted([3, 3, 0]).json()),
    ];
    let bad = web.pod(&image("v2"), "a", &broken());
    before.push(Change::State(pods, bad.clone()));
    // The controller raises the revision number with the counters, and not before.
    let mut after = vec![Change::State(deployments, web.release("v3").json())];
    after.push(Change::State(sets, web.replica_set(&image("v3"), 2, 3)));
    web.revision = 2;
    after.push(Change::State(deployments, web.counted([4, 1, 0]).json()));
    after.push(Change::State(pods, web.pod(&image("v3"), "b", &ready())));
    after.push(Change::State(deployments, web.counted([4, 3, 3]).json()));
    after.push(Change::State(sets, web.replica_set(&image("v2"), 1, 0)));
    let gone = WatchedObject::read(pods, &bad).unwrap().key();
    after.push(Change::Gone(gone));
    after.push(Change::State(deployments, web.counted([3, 3, 3]).json()));
    Story { kind: deployments, before, after }
}

/// An object of ours of the n-th generation and version, in its cluster.
fn object(tag: &str, uid: &str, n: i64, version: i64, status: &Json) -> Json {
    json!({
        "metadata": {
            "name": "web", "namespace": "devx", "uid": uid, "generation": n,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-11-21T00:59:00Z",
            "labels": {"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": "web"},
            "annotations": {
                "the-deployer.dev/digest": format!("sha256:{tag}"),
                "deprecated.daemonset.template.generation": n.to_string(),
            },
        },
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "web", "image": tag}]}}},
        "status": status,
    })
}

fn pod(
    kind: WatchedKind,
    owner: &str,
    name: &str,
    version: i64,
    labels: &Json,
    status: &Json,
) -> Change {
    let owner = json!({"kind": kind.as_str(), "name": "web", "uid": owner, "controller": true});
    let json = json!({
        "metadata": {
            "name": name, "namespace": "devx", "uid": format!("uid-{name}-{labels}"),
            "resourceVersion": version.to_string(), "labels": labels, "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "web", "image": "web"}]}, "status": status,
    });
    Change::State(WatchedKind::Pod, json)
}

#[test]
fn a_stateful_set_that_is_fixed() {
    check(&stateful_set());
}

fn stateful_set() -> Story {
    let kind = WatchedKind::StatefulSet;
    let status = |observed: i64, updated: u32, available: u32, current: &str, update: &str| {
        json!({
            "observedGeneration": observed, "replicas": 1, "updatedReplicas": updated,
            "availableReplicas": available, "currentRevision": current, "updateRevision": update,
        })
    };
    let set = |tag: &str, n: i64, version: i64, status: &Json| {
        Change::State(kind, object(tag, "uid-web", n, version, status))
    };
    let labels = |revision: &str| json!({"controller-revision-hash": revision});
    let before = vec![
        set("v2", 1, 1, &status(1, 1, 0, "two", "two")),
        pod(kind, "uid-web", "web-0", 2, &labels("two"), &broken()),
    ];
    let after = vec![
        set("v3", 2, 3, &status(1, 1, 0, "two", "two")),
        set("v3", 2, 4, &status(2, 0, 0, "two", "three")),
        Change::Gone(key(WatchedKind::Pod, "web-0")),
        pod(kind, "uid-web", "web-0", 6, &labels("three"), &ready()),
        set("v3", 2, 7, &status(2, 1, 1, "three", "three")),
    ];
    Story { kind, before, after }
}

#[test]
fn a_daemon_set_that_is_fixed() {
    check(&daemon_set());
}

fn daemon_set() -> Story {
    let kind = WatchedKind::DaemonSet;
    let status = |observed: i64, updated: u32, available: u32| {
        json!({
            "observedGeneration": observed, "desiredNumberScheduled": 1,
            "updatedNumberScheduled": updated, "numberAvailable": available,
        })
    };
    let set = |tag: &str, n: i64, version: i64, status: &Json| {
        Change::State(kind, object(tag, "uid-web", n, version, status))
    };
    let numbered = |generation: &str| json!({"controller-revision-hash": "any", "pod-template-generation": generation});
    let before = vec![
        set("v2", 1, 1, &status(1, 1, 0)),
        pod(kind, "uid-web", "web-a", 2, &numbered("1"), &broken()),
    ];
    let after = vec![
        set("v3", 2, 3, &status(1, 1, 0)),
        // The controller has looked, and not replaced the pod yet.
        set("v3", 2, 4, &status(2, 0, 0)),
        Change::Gone(key(WatchedKind::Pod, "web-a")),
        pod(kind, "uid-web", "web-b", 6, &numbered("2"), &ready()),
        set("v3", 2, 7, &status(2, 1, 1)),
    ];
    Story { kind, before, after }
}

#[test]
fn a_job_that_is_fixed() {
    check(&job());
}

fn job() -> Story {
    let kind = WatchedKind::Job;
    let failed = json!({"conditions": [
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"},
    ]});
    let complete = json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]});
    let before = vec![
        Change::State(kind, object("v2", "uid-2", 1, 1, &json!({"active": 1}))),
        pod(kind, "uid-2", "web-a", 2, &json!({}), &broken()),
        Change::State(kind, object("v2", "uid-2", 1, 3, &failed)),
    ];
    // Argo CD deletes the Job and makes it again: a template of a Job cannot be changed.
    let after = vec![
        Change::Gone(key(kind, "web")),
        Change::State(kind, object("v3", "uid-3", 1, 5, &json!({"active": 1}))),
        Change::Gone(key(WatchedKind::Pod, "web-a")),
        pod(kind, "uid-3", "web-b", 7, &json!({}), &ready()),
        Change::State(kind, object("v3", "uid-3", 1, 8, &complete)),
    ];
    Story { kind, before, after }
}
