//! Deployments that Argo CD brings late, badly, never, or jumps over: each has an end.

use serde_json::{Value as Json, json};
use the_deployer::cluster::failure::CauseKind;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::summary::DeploymentState;

use super::world::{Workload, World, key, revision, time};

const DEPLOYMENT: WatchedKind = WatchedKind::Deployment;
const APPLICATION: WatchedKind = WatchedKind::Application;

/// The Application in its n-th version, with the state of its last sync.
fn application(n: u32, sync: &str, revision: &str, operation: &Json) -> Json {
    json!({
        "metadata": {
            "name": "devx.web", "namespace": "argocd", "uid": "uid-app", "resourceVersion": n.to_string(),
        },
        "status": {"sync": {"status": sync, "revision": revision}, "operationState": operation},
    })
}

fn operation(phase: &str) -> Json {
    json!({
        "phase": phase, "message": "one or more objects failed to apply",
        "syncResult": {"revision": "commit-1"},
    })
}

fn cause(world: &World, n: u32) -> CauseKind {
    let DeploymentState::Failed { cause, .. } = world.summary(n).state else {
        panic!("{:?}", world.summary(n))
    };
    cause.kind
}

/// Time goes by in minutes, as it does for the service in seconds.
fn pass_minutes(world: &mut World, minutes: u32) {
    for _ in 0..minutes {
        world.pass(60);
    }
}

#[test]
fn a_deployment_that_the_cluster_jumped_over_is_superseded() {
    let mut world = World::new();
    let mut web = Workload::finished("v3");
    for (n, tag) in [(1, "v1"), (2, "v2"), (3, "v3")] {
        world.expect(revision(n, tag, &["web"]));
    }
    let set = web.replica_set("registry.local/web:v3", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.told(), ["started v3", "finished v3"]);
    for n in [1, 2] {
        assert_eq!(world.summary(n).state, DeploymentState::Superseded);
        assert_eq!(world.summary(n).waiting, None);
    }
    world.restart();
    assert_eq!(world.summary(1).state, DeploymentState::Superseded);
    assert!(matches!(world.summary(3).state, DeploymentState::Finished { .. }));
}

#[test]
fn one_of_two_workloads_that_was_jumped_over_is_enough() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["gone", "web"]));
    world.expect(revision(2, "v2", &["web"]));
    let mut web = Workload::finished("v2");
    world.apply(DEPLOYMENT, &web.json());
    assert_eq!(world.summary(1).state, DeploymentState::Superseded);
}

#[test]
fn a_sync_that_fails_is_a_cause_at_once_and_a_failure_after_the_deadline() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    world.apply(APPLICATION, &application(1, "OutOfSync", "commit-1", &json!({})));
    assert_eq!(world.summary(1).sentence, "waiting for Argo CD to sync Deployment devx/web");
    // The sync may have taken long before it failed.
    pass_minutes(&mut world, 20);
    world.apply(APPLICATION, &application(2, "OutOfSync", "commit-1", &operation("Failed")));
    let sentence = "Argo CD cannot sync the commit: one or more objects failed to apply";
    let progress = world.summary(1);
    assert_eq!(
        (progress.state, progress.sentence),
        (DeploymentState::Syncing, sentence.to_owned())
    );
    let waiting = progress.waiting.unwrap();
    assert_eq!(waiting.gives_up_at, Some(time(20 * 60 + 720)));
    assert_eq!(waiting.last_event.unwrap().text, sentence);
    // Argo CD tries again: until that succeeds it has failed.
    world.apply(APPLICATION, &application(3, "OutOfSync", "commit-1", &operation("Running")));
    assert_eq!(world.summary(1).sentence, sentence);
    world.restart();
    pass_minutes(&mut world, 10);
    assert_eq!(world.summary(1).state, DeploymentState::Syncing);
    pass_minutes(&mut world, 2);
    assert_eq!(cause(&world, 1), CauseKind::SyncFailed);
    assert!(world.told().is_empty(), "the deployment tells it, not the Application");
}

#[test]
fn a_sync_that_fails_for_a_part_is_shown_beside_the_pods() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web", "worker"]));
    let mut web = Workload::finished("v1");
    world.apply(DEPLOYMENT, &web.counted([3, 3, 1]).json());
    world.apply(APPLICATION, &application(1, "OutOfSync", "commit-1", &operation("Failed")));
    let sentence = world.summary(1).sentence;
    assert!(sentence.contains("Argo CD cannot sync the commit"), "{sentence}");
    // It succeeds in the end.
    world.apply(APPLICATION, &application(2, "Synced", "commit-1", &operation("Succeeded")));
    let sentence = world.summary(1).sentence;
    assert!(!sentence.contains("cannot sync"), "{sentence}");
}

#[test]
fn manifests_that_argo_cd_cannot_read_are_a_cause() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    let mut json = application(1, "Unknown", "", &json!({}));
    json["status"]["conditions"] =
        json!([{"type": "ComparisonError", "message": "failed to load target state"}]);
    world.apply(APPLICATION, &json);
    let sentence = world.summary(1).sentence;
    assert_eq!(sentence, "Argo CD cannot sync the commit: failed to load target state");
    // An error about another commit is none of this one.
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    json["status"]["sync"]["revision"] = json!("commit-0");
    world.apply(APPLICATION, &json);
    assert!(world.summary(1).sentence.starts_with("waiting for"));
}

#[test]
fn a_deployment_that_is_never_synced_is_given_up() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    assert_eq!(world.summary(1).waiting.unwrap().gives_up_at, Some(time(32 * 60)));
    pass_minutes(&mut world, 31);
    assert_eq!(world.summary(1).state, DeploymentState::Syncing);
    pass_minutes(&mut world, 1);
    assert_eq!(cause(&world, 1), CauseKind::NotSynced);
    // So is one of an Application alone, and one that only one of two workloads carries.
    let mut world = World::new();
    let mut alone = revision(1, "v1", &[]);
    alone.pushed_at = time(-60);
    world.expect(alone);
    world.expect(revision(2, "v2", &["web", "worker"]));
    let mut web = Workload::finished("v2");
    let set = web.replica_set("registry.local/web:v2", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.json());
    pass_minutes(&mut world, 33);
    assert_eq!((cause(&world, 1), cause(&world, 2)), (CauseKind::NotSynced, CauseKind::NotSynced));
}

#[test]
fn argo_cd_may_take_its_time_while_another_workload_is_under_way() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web", "worker"]));
    let mut web = Workload::finished("v1");
    let set = web.replica_set("registry.local/web:v1", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    web.paused = true;
    world.apply(DEPLOYMENT, &web.counted([3, 3, 1]).json());
    pass_minutes(&mut world, 45);
    assert_eq!(world.summary(1).state, DeploymentState::Progressing);
    // The next wave has the whole time, counted from the end of the one before.
    web.paused = false;
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["started v1", "finished v1"]);
    let waiting = world.summary(1).waiting.unwrap();
    assert_eq!(waiting.what, "Argo CD to sync Deployment devx/worker");
    let times = (waiting.since, waiting.gives_up_at);
    assert_eq!(times, (time(45 * 60), Some(time((45 + 32) * 60))));
    let last = waiting.last_event.unwrap();
    assert_eq!((last.at, last.text.as_str()), (time(45 * 60), "Deployment devx/web is finished"));
    pass_minutes(&mut world, 31);
    assert_eq!(world.summary(1).state, DeploymentState::Progressing);
    pass_minutes(&mut world, 1);
    assert_eq!(cause(&world, 1), CauseKind::NotSynced);
}

#[test]
fn a_workload_that_comes_late_ends_the_wait_for_argo_cd_at_once() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web", "worker", "cron"]));
    pass_minutes(&mut world, 31);
    let mut web = Workload::finished("v1");
    let set = web.replica_set("registry.local/web:v1", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 1]).json());
    assert!(world.summary(1).sentence.contains("to become available"));
    pass_minutes(&mut world, 1);
    assert_eq!(world.summary(1).state, DeploymentState::Progressing);
}

#[test]
fn a_cluster_that_cannot_be_seen_lets_no_sync_run_late() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    world.index.interrupt(DEPLOYMENT);
    pass_minutes(&mut world, 120);
    assert_eq!(world.summary(1).state, DeploymentState::Syncing);
    world.index.resume(DEPLOYMENT);
    pass_minutes(&mut world, 2);
    assert_eq!(world.summary(1).state, DeploymentState::Syncing, "two minutes of sight");
    pass_minutes(&mut world, 1);
    assert_eq!(cause(&world, 1), CauseKind::NotSynced);
}

#[test]
fn a_workload_that_is_deleted_and_not_made_again_ends_its_deployment() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    world.apply(DEPLOYMENT, &web.counted([3, 1, 1]).json());
    world.delete_key(&key(DEPLOYMENT, "web"));
    assert_eq!(world.told(), ["started v1", "removed v1"]);
    pass_minutes(&mut world, 29);
    assert_eq!(world.summary(1).state, DeploymentState::Syncing);
    pass_minutes(&mut world, 3);
    assert_eq!(cause(&world, 1), CauseKind::NotSynced);
}

#[test]
fn pods_that_come_and_go_are_no_progress() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    world.apply(DEPLOYMENT, &web.counted([3, 3, 0]).json());
    let progressed_at = world.record("web").progressed_at;
    world.pass(10);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 1]).json());
    let further = world.record("web").progressed_at;
    assert!(further > progressed_at, "a pod serves for the first time");
    for n in 0..10 {
        world.pass(20);
        // An autoscaler goes to and fro as well.
        web.replicas = json!(3 - n % 2);
        world.apply(DEPLOYMENT, &web.counted([3 - n % 2, 3 - n % 2, n % 2]).json());
        assert_eq!(world.record("web").progressed_at, further);
        // A restart during the patience would begin it anew.
        if n < 3 {
            world.restart();
        }
    }
    assert_eq!(world.told(), ["started v1", "failed no-progress v1"]);
}

#[test]
fn a_release_that_waits_for_a_person_shows_the_same_each_second() {
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    let set = web.replica_set("registry.local/web:v1", 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 1]).json());
    world.pass(10);
    web.paused = true;
    world.apply(DEPLOYMENT, &web.json());
    let paused = world.shown(1);
    let waiting = paused.waiting.clone().unwrap();
    assert_eq!((waiting.since, waiting.gives_up_at), (time(10), None));
    for _ in 0..100 {
        world.pass(1);
        assert_eq!(world.shown(1), paused);
    }
    // Time that a person took is not the release's: it has its whole deadline of a minute.
    web.paused = false;
    world.apply(DEPLOYMENT, &web.json());
    let waiting = world.shown(1).waiting.unwrap();
    assert_eq!((waiting.since, waiting.gives_up_at), (time(110), Some(time(110 + 60 + 120))));
}

#[test]
fn a_canary_shows_a_change_when_its_weight_changes() {
    let canary = |n: u32, weight: u32| {
        json!({
            "metadata": {
                "name": "web", "namespace": "devx", "uid": "uid-canary", "resourceVersion": n.to_string(),
            },
            "spec": {"targetRef": {"kind": "Deployment", "name": "web"}},
            "status": {"phase": "Progressing", "canaryWeight": weight, "lastAppliedSpec": "one"},
        })
    };
    let mut world = World::new();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    world.apply(WatchedKind::Canary, &canary(1, 10));
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    let ten = world.shown(1);
    world.pass(100);
    assert_eq!(world.shown(1), ten);
    world.apply(WatchedKind::Canary, &canary(2, 20));
    let waiting = world.shown(1).waiting.unwrap();
    assert_eq!(waiting.since, time(0), "it is the same run");
    assert_eq!(waiting.last_event.unwrap().at, time(100));
}
