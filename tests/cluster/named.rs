//! Tests what looks like a start or a finish and is none, and what is one and does not look like it.

use serde_json::json;
use the_deployer::cluster::object::{ObjectKey, WatchedKind};
use the_deployer::cluster::record::{ClockSource, RecordState};
use the_deployer::cluster::summary::DeploymentState;

use super::world::{Workload, World, deploy_id, key, revision};

const DEPLOYMENT: WatchedKind = WatchedKind::Deployment;
const REPLICA_SET: WatchedKind = WatchedKind::ReplicaSet;

fn image(tag: &str) -> String {
    format!("registry.local/web:{tag}")
}

/// `web` runs `v1`, which deployment 1 brought long ago.
fn running() -> (World, Workload) {
    let mut world = World::new();
    let mut web = Workload::finished("v1");
    world.expect(revision(1, "v1", &["web"]));
    let set = web.replica_set(&image("v1"), 1, 3);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.told(), ["started v1", "finished v1"]);
    (world, web)
}

/// The controller moves all pods from one template to another.
fn roll(world: &mut World, web: &mut Workload, from: &str, to: &str) {
    let revision = web.revision + 1;
    web.revision = revision;
    let set = web.replica_set(&image(to), revision, 1);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 0, 3]).json());
    world.apply(DEPLOYMENT, &web.counted([4, 1, 3]).json());
    for (old, new) in [(2, 2), (1, 3), (0, 3)] {
        let set = web.replica_set(&image(to), revision, new);
        world.apply(REPLICA_SET, &set);
        let set = web.replica_set(&image(from), revision - 1, old);
        world.apply(REPLICA_SET, &set);
        world.apply(DEPLOYMENT, &web.counted([old + new, new, 3]).json());
    }
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
}

#[test]
fn a_deployment_starts_and_finishes_once() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    assert_eq!(world.summary(2).state, DeploymentState::Syncing);
    assert_eq!(world.summary(2).waiting.unwrap().what, "Argo CD to sync Deployment devx/web");
    // The counters of the release before, all as wanted.
    world.apply(DEPLOYMENT, &web.release("v2").json());
    assert_eq!(world.told(), ["started v2"]);
    assert_eq!(world.summary(2).state, DeploymentState::Progressing);
    roll(&mut world, &mut web, "v1", "v2");
    assert_eq!(world.told(), ["finished v2"]);
    let DeploymentState::Finished { at } = world.summary(2).state else { panic!() };
    assert_eq!(at.clock, ClockSource::Service);
    world.pass(100_000);
    assert!(world.told().is_empty());
}

#[test]
fn scaling_by_an_autoscaler_is_no_finish() {
    let (mut world, mut web) = running();
    for wanted in [6, 2, 4] {
        web.generation += 1;
        web.replicas = json!(wanted);
        world.apply(DEPLOYMENT, &web.json());
        let set = web.replica_set(&image("v1"), 1, wanted);
        world.apply(REPLICA_SET, &set);
        world.apply(DEPLOYMENT, &web.counted([wanted, wanted, 1]).json());
        world.restart();
        world.apply(DEPLOYMENT, &web.counted([wanted, wanted, wanted]).json());
    }
    assert!(world.told().is_empty());
}

#[test]
fn resync_of_the_cache_is_no_finish() {
    let (mut world, mut web) = running();
    for _ in 0..3 {
        world.list_everything();
        // Also when something of no account has changed meanwhile.
        world.apply(DEPLOYMENT, &web.json());
        world.pass(36_000);
    }
    assert!(world.told().is_empty());
}

#[test]
fn start_of_the_controller_is_no_start() {
    let (mut world, _) = running();
    world.restart();
    assert!(world.told().is_empty(), "known and finished");

    // Nothing is stored: unknown and finished.
    world.store.clear();
    world.expected[0].awaiting = false;
    world.restart();
    assert!(world.told().is_empty());
    let silent: Vec<_> = world.store.values().collect();
    assert_eq!(silent.len(), 1);
    assert!(silent[0].is_finished() && !silent[0].announced);

    // And when it is started again while a pod is being replaced.
    let mut web = Workload::finished("v1");
    web.version = 500;
    world.apply(DEPLOYMENT, &web.counted([3, 3, 2]).json());
    world.restart();
    assert!(world.told().is_empty());
}

#[test]
fn a_start_that_was_missed_has_its_true_time() {
    let mut world = World::unlisted();
    let mut web = Workload::finished("v2");
    let set = web.replica_set(&image("v2"), 1, 3);
    world.expect(revision(2, "v2", &["web"]));
    for (kind, json) in [(REPLICA_SET, set), (DEPLOYMENT, web.counted([3, 3, 1]).json())] {
        world.apply(kind, &json);
    }
    world.list_everything();
    assert_eq!(world.told(), ["started v2"]);
    let started = world.record("web").started;
    assert_eq!(started.clock, ClockSource::Cluster);
    assert_eq!(started.at, "2026-11-21T00:59:30Z".parse().unwrap());
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn a_rollback_that_reuses_a_replica_set_is_a_start_and_a_finish() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    roll(&mut world, &mut web, "v1", "v2");
    assert_eq!(world.told(), ["started v2", "finished v2"]);
    // The digest of the first deployment comes back under a new deploy id; no ReplicaSet is made.
    world.expect(revision(3, "v1", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v1").json());
    assert_eq!(world.told(), ["started v1"]);
    assert_eq!(world.record("web").key.deploy_id, Some(deploy_id(3)));
    assert_eq!(world.record("web").started.clock, ClockSource::Service);
    roll(&mut world, &mut web, "v2", "v1");
    assert_eq!(world.told(), ["finished v1"]);
}

#[test]
fn a_change_of_metadata_is_nothing() {
    let (mut world, mut web) = running();
    // An annotation raises the generation.
    web.generation += 1;
    world.apply(DEPLOYMENT, &web.json());
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert!(world.told().is_empty());
}

#[test]
fn a_release_that_restarts_no_pod_finishes_when_the_controller_has_seen_it() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    web.release("v2").image = image("v1");
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.told(), ["started v2"]);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn pause_and_resume() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    web.paused = true;
    world.apply(DEPLOYMENT, &web.release("v2").json());
    world.apply(DEPLOYMENT, &web.counted([3, 0, 3]).json());
    assert_eq!(world.told(), ["started v2"]);
    // Somebody who pauses a release has all the time there is.
    world.pass(100_000);
    assert!(world.told().is_empty());
    let waiting = world.summary(2).waiting.unwrap();
    assert_eq!(waiting.what, "a person to resume Deployment devx/web");
    assert_eq!(waiting.gives_up_at, None);
    web.paused = false;
    web.generation += 1;
    world.apply(DEPLOYMENT, &web.json());
    roll(&mut world, &mut web, "v1", "v2");
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn a_superseding_deployment_in_the_middle() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    let set = web.replica_set(&image("v2"), 2, 1);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.counted([4, 1, 3]).json());
    world.expect(revision(3, "v3", &["web"]));
    assert_eq!(world.told(), ["started v2"]);
    world.apply(DEPLOYMENT, &web.release("v3").json());
    assert_eq!(world.told(), ["superseded v2", "started v3"]);
    assert_eq!(world.summary(2).state, DeploymentState::Superseded);
    // All of the first release are gone; one pod of the second is left.
    web.revision = 3;
    let sets = [("v1", 1, 0), ("v2", 2, 1), ("v3", 3, 3)];
    for (tag, number, pods) in sets {
        let set = web.replica_set(&image(tag), number, pods);
        world.apply(REPLICA_SET, &set);
    }
    world.apply(DEPLOYMENT, &web.counted([4, 3, 4]).json());
    assert!(world.told().is_empty());
    let set = web.replica_set(&image("v2"), 2, 0);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v3"]);
}

#[test]
fn the_progress_deadline_comes_and_goes() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    web.revision = 2;
    let set = web.replica_set(&image("v2"), 2, 1);
    world.apply(REPLICA_SET, &set);
    web.progressing = Some((false, "ProgressDeadlineExceeded".into(), "has timed out".into()));
    world.apply(DEPLOYMENT, &web.counted([4, 1, 3]).json());
    world.pass(100);
    assert!(world.record("web").stalled_since.is_some());
    assert_eq!(world.told(), ["started v2"]);
    // A minute before it is given up there is progress again.
    web.progressing = Some((true, "ReplicaSetUpdated".into(), "is progressing".into()));
    world.apply(DEPLOYMENT, &web.counted([4, 1, 4]).json());
    assert_eq!(world.record("web").stalled_since, None);
    world.pass(50);
    assert!(world.told().is_empty());
    roll(&mut world, &mut web, "v1", "v2");
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn a_release_without_progress_is_given_up_after_the_deadline_and_patience() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    world.apply(DEPLOYMENT, &web.counted([4, 1, 3]).json());
    assert_eq!(world.told(), ["started v2"]);
    let gives_up_at = world.summary(2).waiting.unwrap().gives_up_at;
    assert_eq!(gives_up_at, Some(super::world::time(180)), "60 s, and 2 min");
    world.pass(179);
    assert!(world.told().is_empty());
    // A restart does not begin the wait anew.
    world.restart();
    world.pass(2);
    assert!(world.told().is_empty(), "that it stands still was seen two seconds ago");
    world.pass(120);
    assert_eq!(world.told(), ["failed no-progress v2"]);
    let RecordState::Failed { cause, .. } = world.record("web").state else { panic!() };
    assert_eq!(cause.sentence(), "nothing has changed for longer than the deadline");
    // What has failed is not told again when it comes to run.
    roll(&mut world, &mut web, "v1", "v2");
    assert!(world.told().is_empty());
}

#[test]
fn no_replicas_are_a_finish() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    web.replicas = json!(0);
    world.apply(DEPLOYMENT, &web.release("v2").json());
    web.revision = 2;
    let sets = [("v1", 1, 0), ("v2", 2, 0)];
    for (tag, number, pods) in sets {
        let set = web.replica_set(&image(tag), number, pods);
        world.apply(REPLICA_SET, &set);
    }
    assert_eq!(world.told(), ["started v2"]);
    world.apply(DEPLOYMENT, &web.counted([0, 0, 0]).json());
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn recreate_takes_all_pods_away_first() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    let set = web.replica_set(&image("v1"), 1, 0);
    world.apply(REPLICA_SET, &set);
    // The moment in which there are no pods at all, and no ReplicaSet for the new ones.
    world.apply(DEPLOYMENT, &web.counted([0, 0, 0]).json());
    web.revision = 2;
    let set = web.replica_set(&image("v2"), 2, 3);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 0]).json());
    assert_eq!(world.told(), ["started v2"]);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn an_autoscaler_that_goes_on_scaling_does_not_hold_the_finish_up() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    web.revision = 2;
    for (tag, number, pods) in [("v1", 1, 0), ("v2", 2, 9)] {
        let set = web.replica_set(&image(tag), number, pods);
        world.apply(REPLICA_SET, &set);
    }
    web.replicas = json!(9);
    world.apply(DEPLOYMENT, &web.counted([9, 9, 5]).json());
    assert_eq!(world.told(), ["started v2"]);
    // The controller has seen all pods of this ReplicaSet available, when there were fewer.
    let message = "ReplicaSet \"web-v2\" has successfully progressed.".to_owned();
    web.progressing = Some((true, "NewReplicaSetAvailable".into(), message));
    world.apply(DEPLOYMENT, &web.counted([9, 9, 8]).json());
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn kubectl_scale_is_drift() {
    let (mut world, mut web) = running();
    let mut with_replicas = revision(1, "v1", &["web"]);
    with_replicas.workloads[0].replicas = Some(3);
    world.expect(with_replicas);
    web.replicas = json!(5);
    web.generation += 1;
    world.apply(DEPLOYMENT, &web.json());
    world.apply(DEPLOYMENT, &web.counted([5, 5, 5]).json());
    assert_eq!(world.told(), ["scaled 3 to 5 v1"]);
    world.restart();
    world.list_everything();
    assert!(world.told().is_empty());
    web.replicas = json!(3);
    web.generation += 1;
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["repaired v1"]);
}

#[test]
fn kubectl_edit_is_drift_and_its_rollout_no_finish_of_ours() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    let set = web.replica_set(&image("v2"), 2, 1);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.counted([4, 1, 3]).json());
    assert_eq!(world.told(), ["started v2"]);
    // In the middle of it somebody sets another image; the digest stays.
    web.generation += 1;
    web.image = image("hotfix");
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.told(), ["edited v2"]);
    let set = web.replica_set(&image("v2"), 2, 0);
    world.apply(REPLICA_SET, &set);
    web.revision = 2;
    roll(&mut world, &mut web, "v1", "hotfix");
    assert!(world.told().is_empty());
    assert!(world.record("web").is_open());
    // Argo CD repairs it.
    web.generation += 1;
    web.image = image("v2");
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.told(), ["repaired v2"]);
    roll(&mut world, &mut web, "hotfix", "v2");
    assert_eq!(world.told(), ["finished v2"]);
}

#[test]
fn kubectl_rollout_undo_is_drift() {
    let (mut world, mut web) = running();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    roll(&mut world, &mut web, "v1", "v2");
    assert_eq!(world.told(), ["started v2", "finished v2"]);
    // It restores the annotations of the former ReplicaSet, the digest among them.
    world.apply(DEPLOYMENT, &web.release("v1").json());
    roll(&mut world, &mut web, "v2", "v1");
    assert!(world.told().is_empty());
    world.pass(30);
    assert!(world.told().is_empty(), "word of a rollback of ours could still come");
    world.pass(31);
    assert_eq!(world.told(), ["put back to v1 v2"]);
    world.pass(1000);
    world.restart();
    world.pass(1000);
    assert!(world.told().is_empty());
    world.apply(DEPLOYMENT, &web.release("v2").json());
    assert_eq!(world.told(), ["repaired v2"]);
}

#[test]
fn kubectl_rollout_restart_is_nothing() {
    let (mut world, mut web) = running();
    let mut restarted = web.json();
    restarted["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] =
        json!("2026-11-21T05:48:12Z");
    world.apply(DEPLOYMENT, &restarted);
    assert!(world.told().is_empty());
}

#[test]
fn two_workloads_in_one_app() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web", "worker"]));
    let mut web = Workload::finished("v1");
    let mut worker = Workload::finished("v1").named("worker");
    for one in [&mut web, &mut worker] {
        let set = one.replica_set(&image("v1"), 1, 3);
        world.apply(REPLICA_SET, &set);
        world.apply(DEPLOYMENT, &one.counted([3, 3, 1]).json());
    }
    assert_eq!(world.told(), ["started v1", "started v1 on worker"]);
    let progress = world.summary(1);
    assert_eq!((progress.counts.desired, progress.counts.available), (6, 2));
    assert_eq!(
        progress.sentence,
        "6 of 6 updated, 2 available; waiting for the new pods of Deployment devx/web to become available"
    );
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v1"]);
    assert_eq!(world.summary(1).state, DeploymentState::Progressing);
    world.apply(DEPLOYMENT, &worker.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v1 on worker"]);
    assert!(matches!(world.summary(1).state, DeploymentState::Finished { .. }));
}

#[test]
fn an_app_that_moved_namespaces() {
    let (mut world, mut web) = running();
    let mut moved = revision(2, "v2", &["web"]);
    moved.app.namespace = "shop".parse().unwrap();
    moved.workloads[0].key = ObjectKey::new(DEPLOYMENT, "shop", "web");
    world.expect(moved);
    // First the new one, then the old one goes.
    web.release("v2").uid = "uid-moved".to_owned();
    let mut set = web.replica_set(&image("v2"), 1, 3);
    set["metadata"]["namespace"] = json!("shop");
    world.apply(REPLICA_SET, &set);
    for counts in [[3, 3, 0], [3, 3, 3]] {
        let mut json = web.counted(counts).json();
        json["metadata"]["namespace"] = json!("shop");
        world.apply(DEPLOYMENT, &json);
    }
    assert_eq!(world.told(), ["started v2", "finished v2"]);
    world.delete_key(&key(DEPLOYMENT, "web"));
    assert!(world.told().is_empty());
    world.restart();
    assert!(world.told().is_empty());
}

#[test]
fn a_workload_that_is_deleted_and_made_again() {
    let (mut world, mut web) = running();
    world.delete_key(&key(DEPLOYMENT, "web"));
    web.uid = "uid-again".to_owned();
    web.counted([3, 3, 0]);
    world.apply(DEPLOYMENT, &web.json());
    let set = web.replica_set(&image("v1"), 1, 3);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert!(world.told().is_empty(), "its release had ended");

    // In the middle of a release it is another thing: the deployment waits for its end.
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").json());
    web.uid = "uid-third".to_owned();
    web.generation = 1;
    world.apply(DEPLOYMENT, &web.counted([0, 0, 0]).json());
    assert_eq!(world.told(), ["started v2", "removed v2", "started v2"]);
    web.revision = 1;
    let set = web.replica_set(&image("v2"), 1, 3);
    world.apply(REPLICA_SET, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v2"]);
    assert!(matches!(world.summary(2).state, DeploymentState::Finished { .. }));
}

#[test]
fn word_of_a_deployment_that_comes_after_its_release() {
    let (mut world, mut web) = running();
    world.apply(DEPLOYMENT, &web.release("v2").json());
    roll(&mut world, &mut web, "v1", "v2");
    assert!(world.told().is_empty(), "nobody is known to have deployed it");
    world.pass(30);
    world.expect(revision(2, "v2", &["web"]));
    assert_eq!(world.told(), ["started v2", "finished v2"]);
    world.pass(1000);
    assert!(world.told().is_empty());
}

#[test]
fn the_same_result_of_a_later_deployment() {
    let (mut world, _) = running();
    // The files are the same, so nothing changes in the cluster; its deployment wants an end all the same.
    world.expect(revision(2, "v1", &["web"]));
    assert_eq!(world.told(), ["started v1", "finished v1"]);
    assert_eq!(world.record("web").key.deploy_id, Some(deploy_id(2)));
}
