//! Clusters that cannot be seen in full, and objects that are not as they should be: what can be said is said.

use serde_json::{Value as Json, json};
use the_deployer::cluster::index::ClusterIndex;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::pod::PodRow;
use the_deployer::cluster::watched::WatchedObject;

use super::recorded::{Owner, recordings};
use super::sight::of_anybody;
use super::world::{Workload, World, key, revision};

const IMAGE: &str = "registry.local/web:v1";

/// Values that no field should have.
fn absurd() -> [Json; 9] {
    [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!("three"),
        json!([]),
        json!({}),
        json!([null, {"type": 7}]),
        json!("x".repeat(1_000_000)),
    ]
}

/// Puts a value in the place of every value of an object in turn, and takes it away.
fn for_each_broken(json: &Json, test: &mut impl FnMut(Json)) {
    for pointer in pointers(json, "") {
        for value in absurd() {
            let mut broken = json.clone();
            *broken.pointer_mut(&pointer).unwrap() = value;
            test(broken);
        }
    }
}

fn pointers(json: &Json, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    let children: Vec<(String, &Json)> = match json {
        Json::Object(map) => map
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Json::Array(list) => {
            list.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (key, value) in children {
        let pointer = format!("{prefix}/{key}");
        found.extend(pointers(value, &pointer));
        found.push(pointer);
    }
    found
}

#[test]
fn absurd_fields_break_nothing() {
    let mut web = Workload::finished("v1");
    let (deployment, set) = (web.json(), web.replica_set(IMAGE, 1, 3));
    let status = json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{
            "name": "web", "image": IMAGE, "ready": false, "restartCount": 2,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
        }],
    });
    let pod = web.pod(IMAGE, "a", &status);
    let objects = [
        (WatchedKind::Deployment, deployment),
        (WatchedKind::ReplicaSet, set),
        (WatchedKind::Pod, pod),
    ];
    for (kind, json) in &objects {
        for_each_broken(json, &mut |broken| {
            let Ok(object) = WatchedObject::read(*kind, &broken) else { return };
            let mut world = World::new();
            world.expect(revision(1, "v1", &["web"]));
            for (other, json) in &objects {
                if other != kind {
                    world.apply(*other, json);
                }
            }
            world.bring(object);
            world.pass(1000);
            world.pass(1000);
            assert!(world.told_count() <= 6);
        });
    }
    for kind in WatchedKind::ALL {
        for json in absurd() {
            assert!(WatchedObject::read(kind, &json).is_err());
            assert!(WatchedObject::read(kind, &json!({ "metadata": json })).is_err());
        }
        let nothing_else = json!({"metadata": {"name": "x"}});
        assert!(WatchedObject::read(kind, &nothing_else).is_ok());
    }
}

#[test]
fn an_annotation_of_a_megabyte_is_not_kept() {
    let mut web = Workload::finished("v1");
    let mut json = web.json();
    json["metadata"]["annotations"]["example.com/blob"] = json!("x".repeat(1 << 20));
    json["metadata"]["annotations"]["the-deployer.dev/digest"] = json!("x".repeat(1 << 20));
    let object = WatchedObject::read(WatchedKind::Deployment, &json).unwrap();
    assert!(format!("{object:?}").len() < 4096);
    let mut pod = web.pod(
        IMAGE,
        "a",
        &json!({"containerStatuses": vec![json!({"name": "n".repeat(9999)}); 9999]}),
    );
    pod["metadata"]["labels"] = json!({"pod-template-hash": "x".repeat(1 << 20)});
    assert!(format!("{:?}", PodRow::read(&pod)).len() < 64 * 1024);
}

#[test]
fn a_cluster_whose_clock_is_a_day_off() {
    let all = recordings(Owner::Us);
    for days in [-1, 1] {
        let mut world = all[1].world(Owner::Us);
        for event in &all[1].events {
            world.now = event.at + jiff::SignedDuration::from_hours(24 * days);
            if event.is_deletion {
                world.delete(&event.object);
            } else {
                world.bring(event.object.clone());
            }
        }
        assert_eq!(world.told(), all[1].told);
        world.pass(1_000_000);
        assert!(world.told().is_empty());
    }
}

#[test]
fn pods_and_replica_sets_that_may_not_be_seen() {
    let mut world = World::unlisted();
    world.unavailable = vec![
        WatchedKind::Pod,
        WatchedKind::ReplicaSet,
        WatchedKind::Application,
        WatchedKind::Canary,
    ];
    world.list_everything();
    let mut web = Workload::finished("v1");
    world.expect(revision(1, "v1", &["web"]));
    world.apply(WatchedKind::Deployment, &web.counted([3, 2, 2]).json());
    assert_eq!(world.told(), ["started v1"]);
    world.apply(WatchedKind::Deployment, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v1"]);
}

#[test]
fn a_right_that_is_taken_away_removes_nothing() {
    let mut world = World::new();
    let mut web = Workload::finished("v1");
    world.expect(revision(1, "v1", &["web"]));
    let set = web.replica_set(IMAGE, 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(WatchedKind::Deployment, &web.counted([3, 3, 2]).json());
    assert_eq!(world.told(), ["started v1"]);
    world.unavailable = vec![WatchedKind::Deployment];
    world.list(WatchedKind::Deployment);
    world.pass(10_000);
    assert!(world.told().is_empty());
    world.unavailable.clear();
    world.list(WatchedKind::Deployment);
    world.apply(WatchedKind::Deployment, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v1"]);
}

#[test]
fn nothing_is_said_before_every_kind_was_listed() {
    let mut world = World::unlisted();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    world.apply(WatchedKind::Deployment, &web.json());
    for kind in WatchedKind::ALL.into_iter().filter(|kind| *kind != WatchedKind::ReplicaSet) {
        world.list(kind);
        world.pass(10);
    }
    assert!(world.told().is_empty());
    let set = web.replica_set(IMAGE, 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.list(WatchedKind::ReplicaSet);
    assert_eq!(world.told(), ["started v1", "finished v1"]);
}

#[test]
fn the_index_knows_owners_in_whatever_order_they_come() {
    let mut web = Workload::finished("v1");
    let deployment = WatchedObject::read(WatchedKind::Deployment, &web.json()).unwrap();
    let set = WatchedObject::read(WatchedKind::ReplicaSet, &web.replica_set(IMAGE, 1, 3)).unwrap();
    let pod = WatchedObject::read(WatchedKind::Pod, &web.pod(IMAGE, "a", &json!({}))).unwrap();
    let objects = [&deployment, &set, &pod];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut index = ClusterIndex::new();
        for at in order {
            assert!(index.apply(objects[at].clone()).is_some());
            assert_eq!(index.apply(objects[at].clone()), None, "the same again");
        }
        assert_eq!(index.pods_of(&deployment).len(), 1);
        assert_eq!(index.workloads(), [key(WatchedKind::Deployment, "web")]);
        assert_eq!(index.workloads_of_app("devx", "web"), [&deployment]);
        let change = index.delete(&pod.key()).unwrap();
        assert_eq!(change.workload, Some(deployment.key()));
        // A list without the ReplicaSet: it is gone.
        index.begin_list(WatchedKind::ReplicaSet);
        let gone = index.end_list(WatchedKind::ReplicaSet);
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].workload, Some(deployment.key()));
        assert_eq!(index.len(), 1);
    }
}

#[test]
fn a_deletion_of_the_former_object_does_not_take_the_present_one() {
    let mut web = Workload::finished("v1");
    let former = WatchedObject::read(WatchedKind::Deployment, &web.json()).unwrap();
    web.uid = "uid-again".to_owned();
    let present = WatchedObject::read(WatchedKind::Deployment, &web.json()).unwrap();
    let mut index = ClusterIndex::new();
    assert!(index.apply(former.clone()).is_some());
    assert!(index.apply(present.clone()).is_some());
    assert_eq!(index.delete_object(&former), None);
    assert_eq!(index.apply(former), None, "an older state");
    assert_eq!(index.get(&present.key()), Some(&present));
}

#[test]
fn a_workload_that_was_made_again_is_the_newest_after_a_restart() {
    let mut world = World::new();
    let mut web = Workload::finished("v1").named("preview");
    web.counted([3, 3, 2]);
    for n in 1..=9 {
        world.pass(1);
        world.apply(WatchedKind::Deployment, &of_anybody(&mut web, &format!("c{n}")));
    }
    world.pass(1);
    world.delete_key(&key(WatchedKind::Deployment, "preview"));
    assert_eq!(world.told().last().unwrap(), "removed c9 on preview");
    world.pass(1);
    web.uid = "another-uid".to_owned();
    world.apply(WatchedKind::Deployment, &of_anybody(&mut web, "c9"));
    assert_eq!(world.told(), ["started c9 on preview"]);
    for _ in 0..2 {
        world.restart();
        assert!(world.told().is_empty(), "it is known");
        assert_eq!(&*world.record("preview").key.uid, "another-uid");
    }
    world.pass(1);
    world.apply(WatchedKind::Deployment, &of_anybody(&mut web, "c10"));
    assert_eq!(world.told(), ["superseded c9 on preview", "started c10 on preview"]);
    assert_eq!(world.record("preview").key.sequence, 10);
}
