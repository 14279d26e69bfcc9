//! Measures the memory of the index of a cluster: 1,500 workloads with their `ReplicaSet` objects and 10,000 pods, and
//! ten thousand pods beside them that belong to no workload that is followed.
//!
//! `cargo bench --profile fast --bench cluster_memory`. The bytes are those that the allocator holds for the index.

#![allow(missing_docs, clippy::panic, clippy::print_stdout, reason = "a benchmark may fail loudly")]

use serde_json::{Value as Json, json};
use the_deployer::cluster::index::ClusterIndex;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::watched::WatchedObject;

const WORKLOADS: usize = 1_500;
const PODS: usize = 10_000;
/// As many as a Deployment keeps beside the present one, in an app that is deployed now and then.
const FORMER_REPLICA_SETS: usize = 3;

fn main() {
    let mut index = ClusterIndex::new();
    let owned = measure(&mut index, |index| {
        for kind in WatchedKind::ALL {
            index.begin_list(kind);
        }
        for n in 0..WORKLOADS {
            add_workload(index, n);
        }
        for n in 0..PODS {
            add(index, WatchedKind::Pod, &pod(n, &replica_set_name(n % WORKLOADS, 0)));
        }
        for kind in WatchedKind::ALL {
            let gone = index.end_list(kind);
            assert!(gone.is_empty(), "{gone:?}");
        }
    });
    let objects = index.len();
    print("1,500 workloads, 10,000 pods", objects, owned);
    let of_nobody = measure(&mut index, |index| {
        for n in 0..PODS {
            add(index, WatchedKind::Pod, &pod(PODS + n, "somebody-7d4b9c6f5"));
        }
    });
    print("10,000 pods of nobody beside them", index.len() - objects, of_nobody);
}

fn print(name: &str, objects: usize, bytes: i64) {
    let each = bytes / i64::try_from(objects).unwrap_or(i64::MAX).max(1);
    println!("{name:<36} {objects:>7} objects {:>8} KiB {each:>6} bytes each", bytes / 1024);
}

fn measure(index: &mut ClusterIndex, fill: impl FnOnce(&mut ClusterIndex)) -> i64 {
    allocation_counter::measure(|| fill(index)).bytes_current
}

fn add(index: &mut ClusterIndex, kind: WatchedKind, json: &Json) {
    let object = WatchedObject::read(kind, json).expect("it has a name");
    index.apply(object).expect("it is new");
}

fn app(n: usize) -> String {
    format!("customer-facing-app-{n}")
}

fn replica_set_name(app_number: usize, age: usize) -> String {
    format!("{}-7d4b9c6f5{age}", app(app_number))
}

fn add_workload(index: &mut ClusterIndex, n: usize) {
    add(index, WatchedKind::Deployment, &deployment(n));
    for age in 0..=FORMER_REPLICA_SETS {
        add(index, WatchedKind::ReplicaSet, &replica_set(n, age));
    }
}

fn uid(name: &str) -> String {
    format!("0f4e1c52-6a7b-4c8d-9e0f-{:0>12}", name.len()) + name
}

fn deployment(n: usize) -> Json {
    let name = app(n);
    json!({
        "metadata": {
            "namespace": "team-payments", "name": name, "uid": uid(&name), "generation": 7, "resourceVersion": "123456789",
            "creationTimestamp": "2026-11-21T00:59:00Z",
            "labels": {"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": name},
            "annotations": {
                "the-deployer.dev/digest": format!("sha256:{:0>64}", n),
                "deployment.kubernetes.io/revision": "7",
            },
        },
        "spec": {"replicas": 6, "template": template(n, 0)},
        "status": {
            "observedGeneration": 7, "replicas": 6, "updatedReplicas": 6, "availableReplicas": 6,
            "conditions": [{
                "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "message": format!("ReplicaSet \"{}\" has successfully progressed.", replica_set_name(n, 0)),
                "lastUpdateTime": "2026-11-21T01:00:00Z",
            }],
        },
    })
}

fn template(n: usize, age: usize) -> Json {
    let container = json!({
        "name": "app", "image": format!("registry.example.com/payments/{}:1.4.{age}", app(n)),
        "env": [{"name": "PORT", "value": "8080"}],
    });
    json!({"metadata": {"labels": {"app.kubernetes.io/name": app(n)}}, "spec": {"containers": [container]}})
}

fn replica_set(n: usize, age: usize) -> Json {
    let name = replica_set_name(n, age);
    let pods = if age == 0 { 6 } else { 0 };
    json!({
        "metadata": {
            "namespace": "team-payments", "name": name, "uid": uid(&name), "generation": 1, "resourceVersion": "123456789",
            "creationTimestamp": "2026-11-21T00:59:00Z",
            "annotations": {"deployment.kubernetes.io/revision": (7 - age).to_string()},
            "ownerReferences": [
                {"kind": "Deployment", "name": app(n), "uid": uid(&app(n)), "controller": true},
            ],
        },
        "spec": {"replicas": pods, "template": template(n, age)},
        "status": {"replicas": pods},
    })
}

fn pod(n: usize, owner: &str) -> Json {
    let name = format!("{owner}-{n:05}");
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/payments/{name}:1.4.0"), "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-11-21T01:00:00Z"}},
        })
    };
    json!({
        "metadata": {
            "namespace": "team-payments", "name": name, "uid": uid(&name), "resourceVersion": "123456789",
            "creationTimestamp": "2026-11-21T00:59:00Z", "labels": {"pod-template-hash": "7d4b9c6f5"},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": owner, "uid": uid(owner), "controller": true},
            ],
        },
        "spec": {"containers": [{"name": "app"}, {"name": "istio-proxy"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container("app"), container("istio-proxy")],
        },
    })
}
