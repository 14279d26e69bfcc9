//! Tests that the index keeps the workloads that are followed and all that belongs to them, in whatever order it comes,
//! and of all others no more than the newest.

use serde_json::{Value as Json, json};
use the_deployer::cluster::index::ClusterIndex;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::watched::WatchedObject;

use super::world::{Workload, World, key, revision};

const IMAGE: &str = "registry.local/web:v1";
const NOBODYS: usize = 1000;

/// A pod of somebody else's `ReplicaSet`.
fn foreign_pod(n: usize) -> WatchedObject {
    let owner =
        json!({"kind": "ReplicaSet", "name": "other", "uid": "uid-other", "controller": true});
    let json = json!({"metadata": {
        "name": format!("other-{n}"), "namespace": "devx", "uid": format!("uid-{n}"), "resourceVersion": "1",
        "ownerReferences": [owner],
    }});
    WatchedObject::read(WatchedKind::Pod, &json).unwrap()
}

fn is_there(index: &ClusterIndex, kind: WatchedKind, name: &str) -> bool {
    index.get(&key(kind, name)).is_some()
}

#[test]
fn pods_of_nobody_are_forgotten_once_their_owners_could_be_known() {
    let mut web = Workload::finished("v1");
    let deployment = WatchedObject::read(WatchedKind::Deployment, &web.json()).unwrap();
    let set = WatchedObject::read(WatchedKind::ReplicaSet, &web.replica_set(IMAGE, 1, 3)).unwrap();
    let former = web.replica_set("registry.local/web:v0", 0, 0);
    let former = WatchedObject::read(WatchedKind::ReplicaSet, &former).unwrap();
    let pod = WatchedObject::read(WatchedKind::Pod, &web.pod(IMAGE, "a", &json!({}))).unwrap();
    let mut index = ClusterIndex::new();
    index.begin_list(WatchedKind::Pod);
    index.apply(pod);
    for n in 0..3 * NOBODYS {
        index.apply(foreign_pod(n));
    }
    index.end_list(WatchedKind::Pod);
    assert_eq!(index.len(), 1 + 3 * NOBODYS, "their owners may be in a list that comes");
    for (kind, object) in [(WatchedKind::ReplicaSet, &set), (WatchedKind::Deployment, &deployment)]
    {
        index.begin_list(kind);
        index.apply(object.clone());
        if kind == WatchedKind::ReplicaSet {
            index.apply(former.clone());
        }
        index.end_list(kind);
    }
    assert_eq!(index.len(), 4 + NOBODYS);
    for n in 0..3 * NOBODYS {
        index.apply(foreign_pod(3 * NOBODYS + n));
    }
    assert_eq!(index.len(), 4 + NOBODYS, "the newest stay");
    assert!(is_there(&index, WatchedKind::Pod, &format!("other-{}", 6 * NOBODYS - 1)));
    assert_eq!(index.pods_of(&deployment).len(), 1);
    assert!(is_there(&index, WatchedKind::ReplicaSet, "web-v0"), "a rollback may use it");
}

#[test]
fn a_workload_that_comes_after_its_pods_has_them() {
    let mut world = World::new();
    let mut web = Workload::finished("v1");
    let broken = json!({"phase": "Pending", "containerStatuses": [
        {"name": "web", "image": IMAGE, "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}},
    ]});
    let pod = web.pod(IMAGE, "a", &broken);
    world.apply(WatchedKind::Pod, &pod);
    for n in 0..NOBODYS / 2 {
        world.bring(foreign_pod(n));
    }
    let set = web.replica_set(IMAGE, 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.expect(revision(1, "v1", &["web"]));
    world.apply(WatchedKind::Deployment, &web.counted([3, 3, 0]).json());
    for n in 0..3 * NOBODYS {
        world.bring(foreign_pod(n));
    }
    assert_eq!(world.told(), ["started v1", "failing image-pull v1"]);
    let deployment = world.index.get(&key(WatchedKind::Deployment, "web")).unwrap();
    assert_eq!(world.index.pods_of(deployment).len(), 1);
}

fn without_marks(mut json: Json) -> Json {
    json["metadata"]["labels"] = json!({});
    json
}

#[test]
fn a_workload_of_somebody_that_becomes_ours_with_the_same_pods() {
    for replicas in [3, 0] {
        let mut world = World::new();
        let mut web = Workload::finished("v1");
        web.replicas = json!(replicas);
        web.counted([replicas, replicas, replicas]);
        world.apply(WatchedKind::Deployment, &without_marks(web.json()));
        let set = web.replica_set(IMAGE, 1, replicas);
        world.apply(WatchedKind::ReplicaSet, &set);
        for n in 0..3 * NOBODYS {
            world.bring(foreign_pod(n));
        }
        let kept = is_there(&world.index, WatchedKind::ReplicaSet, "web-v1");
        assert_eq!(kept, replicas > 0, "one without pods says nothing");
        assert!(!is_there(&world.index, WatchedKind::Deployment, "web"));
        world.expect(revision(1, "v1", &["web"]));
        world.apply(WatchedKind::Deployment, &web.json());
        assert_eq!(world.told(), ["started v1", "finished v1"], "{replicas} replicas");
    }
}

#[test]
fn jobs_of_a_cron_job_of_ours_and_flaggers_copies_are_followed() {
    let mut index = ClusterIndex::new();
    for kind in WatchedKind::ALL {
        index.begin_list(kind);
        index.end_list(kind);
    }
    let object = |kind: WatchedKind, name: &str, owner: Option<(&str, &str)>, is_ours: bool| {
        let owners: Vec<Json> = owner
            .map(|(kind, name)| json!({"kind": kind, "name": name, "uid": format!("{kind}-{name}"), "controller": true}))
            .into_iter()
            .collect();
        let mut meta = json!({
            "name": name, "namespace": "devx", "uid": format!("{kind}-{name}"), "resourceVersion": "1",
            "ownerReferences": owners,
        });
        if is_ours {
            meta["labels"] = json!({"app.kubernetes.io/managed-by": "the-deployer"});
            meta["annotations"] = json!({"the-deployer.dev/digest": "sha256:v1"});
        }
        WatchedObject::read(kind, &json!({ "metadata": meta })).unwrap()
    };
    let of_ours = [
        object(WatchedKind::CronJob, "nightly", None, true),
        object(WatchedKind::Job, "nightly-1", Some(("CronJob", "nightly")), false),
        object(WatchedKind::Pod, "nightly-1-a", Some(("Job", "nightly-1")), false),
        object(WatchedKind::Deployment, "web-primary", Some(("Canary", "web")), false),
        object(
            WatchedKind::ReplicaSet,
            "web-primary-1",
            Some(("Deployment", "web-primary")),
            false,
        ),
        object(WatchedKind::Pod, "web-primary-1-a", Some(("ReplicaSet", "web-primary-1")), false),
        object(WatchedKind::Application, "other", None, false),
        object(WatchedKind::Canary, "other", None, false),
    ];
    let of_nobody = [
        object(WatchedKind::CronJob, "backup", None, false),
        object(WatchedKind::Job, "backup-1", Some(("CronJob", "backup")), false),
        object(WatchedKind::Pod, "backup-1-a", Some(("Job", "backup-1")), false),
        object(WatchedKind::Pod, "alone", None, false),
        object(WatchedKind::Pod, "of-a-node", Some(("Node", "one")), false),
    ];
    for object in of_ours.iter().chain(&of_nobody) {
        assert!(index.apply(object.clone()).is_some());
    }
    for n in 0..NOBODYS {
        index.apply(foreign_pod(n));
    }
    assert!(of_ours.iter().all(|object| index.get(&object.key()) == Some(object)));
    assert!(of_nobody.iter().all(|object| index.get(&object.key()).is_none()));
}
