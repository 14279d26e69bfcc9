//! Time in which the service does not look: it was stopped, held up, or had no sight of the cluster. It counts for no
//! deadline, and there is the whole patience after it.

use serde_json::json;
use the_deployer::cluster::failure::CauseKind;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::summary::DeploymentState;

use super::world::{Workload, World, revision, time};

const DEPLOYMENT: WatchedKind = WatchedKind::Deployment;
const HOUR: i64 = 3600;

/// A world in which a pod of `web` is missing: its deadline passes after a minute, and the patience is two more.
fn waiting() -> (World, Workload) {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    world.apply(DEPLOYMENT, &web.counted([3, 3, 2]).json());
    assert_eq!(world.told(), ["started v1"]);
    (world, web)
}

/// Two minutes are left from now on, and no more.
fn has_the_patience(world: &mut World) {
    assert!(world.told().is_empty(), "it fails at the first look");
    world.pass(115);
    assert!(world.told().is_empty(), "there are two minutes");
    world.pass(10);
    assert_eq!(world.told(), ["failed no-progress v1"]);
}

#[test]
fn a_process_that_is_held_up_has_the_patience_after_it() {
    let (mut world, _) = waiting();
    world.pass(170);
    world.pause(HOUR);
    has_the_patience(&mut world);
}

#[test]
fn an_event_that_comes_before_the_clock_is_looked_at_fails_nothing() {
    let (mut world, mut web) = waiting();
    world.pass(170);
    world.now = time(HOUR);
    world.apply(DEPLOYMENT, &web.json());
    has_the_patience(&mut world);
}

#[test]
fn the_deadline_moves_by_the_time_that_was_not_seen() {
    let (mut world, _) = waiting();
    world.pass(30);
    world.pause(HOUR);
    world.pass(1);
    let gives_up_at = world.record("web").gives_up_at;
    assert_eq!(gives_up_at, Some(time(HOUR + 180)), "30 s of the deadline are left");
}

#[test]
fn a_cluster_that_is_lost_during_the_patience_begins_it_anew() {
    let (mut world, mut web) = waiting();
    world.pass(170);
    world.index.interrupt(WatchedKind::Pod);
    world.pass(HOUR);
    // Events of another watch say nothing of the pods.
    world.apply(DEPLOYMENT, &web.json());
    world.pass(HOUR);
    world.index.resume(WatchedKind::Pod);
    world.pass(1);
    has_the_patience(&mut world);
}

#[test]
fn a_process_that_is_started_anew_has_the_patience() {
    let (mut world, _) = waiting();
    world.pass(170);
    world.now = time(HOUR);
    world.restart();
    has_the_patience(&mut world);
}

#[test]
fn a_release_that_somebody_edited_is_not_given_up_at_the_first_look_either() {
    for is_restart in [false, true] {
        let (mut world, mut web) = waiting();
        web.image = "registry.local/web:mine".to_owned();
        world.apply(DEPLOYMENT, &web.json());
        assert_eq!(world.told(), ["edited v1"]);
        world.pass(700);
        if is_restart {
            world.now += jiff::SignedDuration::from_secs(HOUR);
            world.restart();
        } else {
            world.pause(HOUR);
        }
        has_the_patience(&mut world);
    }
}

#[test]
fn a_digest_without_a_deployment_has_its_minute_after_a_pause() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    let set = web.replica_set("registry.local/web:v1", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.told(), ["started v1", "finished v1"]);
    world.apply(DEPLOYMENT, &web.release("v2").json());
    world.pass(50);
    world.pause(HOUR);
    assert!(world.told().is_empty(), "word of its deployment may still come");
    world.pass(11);
    assert_eq!(world.told(), ["put back to v2 v1"]);
}

#[test]
fn argo_cd_has_the_patience_after_a_pause() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    world.pass(31 * 60);
    world.pause(HOUR);
    world.pass(115);
    assert_eq!(world.summary(1).state, DeploymentState::Syncing);
    world.pass(10);
    let DeploymentState::Failed { cause, .. } = world.summary(1).state else { panic!() };
    assert_eq!(cause.kind, CauseKind::NotSynced);
}

#[test]
fn a_pod_has_the_time_of_its_probe_after_a_pause() {
    let (mut world, mut web) = waiting();
    let status = json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "web", "ready": false, "state": {"running": {}}}],
    });
    let image = "registry.local/web:v1";
    let set = web.replica_set(image, 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    let pod = web.pod(image, "a", &status);
    world.apply(WatchedKind::Pod, &pod);
    world.pass(5);
    world.pause(HOUR);
    assert!(world.told().is_empty(), "it has run for five seconds that were seen");
}
