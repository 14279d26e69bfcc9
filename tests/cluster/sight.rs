//! Kinds that are seen late, not at all, or not at present: the others go on, and what is missing is named.

use serde_json::{Value as Json, json};
use the_deployer::cluster::expected::ExpectedRevision;
use the_deployer::cluster::failure::CauseKind;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::record::RecordState;
use the_deployer::cluster::summary::DeploymentState;
use the_deployer::cluster::watched::WatchedObject;

use super::world::{Workload, World, revision};

const DEPLOYMENT: WatchedKind = WatchedKind::Deployment;
const IMAGE: &str = "registry.local/web:v1";

/// A Deployment of anybody that names a commit.
pub(super) fn of_anybody(web: &mut Workload, commit: &str) -> Json {
    let mut json = web.json();
    json["metadata"]["labels"] = json!({});
    json["metadata"]["annotations"] = json!({
        "the-deployer.dev/repository": "wantedly/web", "the-deployer.dev/commit": commit,
        "deployment.kubernetes.io/revision": "1",
    });
    json
}

#[test]
fn a_right_that_comes_an_hour_late_announces_nothing_that_was_there() {
    let mut world = World::unlisted();
    world.hidden = vec![DEPLOYMENT];
    world.list_everything();
    world.pass(3600);
    world.hidden.clear();
    // Of anybody, and complete; of ours, without a known deployment; of ours, whose deployment has ended.
    let mut preview = Workload::finished("v1").named("preview");
    let mut unknown = Workload::finished("v1").named("unknown");
    let mut ended = Workload::finished("v1").named("ended");
    world.expect(ExpectedRevision { awaiting: false, ..revision(1, "v1", &["ended"]) });
    let mut waiting = Workload::finished("v1").named("waiting");
    world.expect(revision(2, "v1", &["waiting"]));
    for one in [&mut preview, &mut unknown, &mut ended, &mut waiting] {
        let set = one.replica_set(IMAGE, 1, 3);
        world.apply(WatchedKind::ReplicaSet, &set);
    }
    let all = [of_anybody(&mut preview, "abc"), unknown.json(), ended.json(), waiting.json()];
    for json in &all {
        world.apply(DEPLOYMENT, json);
    }
    world.list(DEPLOYMENT);
    assert_eq!(world.told(), ["started v1 on waiting", "finished v1 on waiting"]);
    assert_eq!(world.store.values().filter(|record| !record.announced).count(), 3);
    // What comes from now on is told.
    world.apply(DEPLOYMENT, &of_anybody(&mut preview, "def"));
    assert_eq!(world.told(), ["started def on preview", "finished def on preview"]);
}

#[test]
fn a_right_that_was_taken_away_for_a_while_announces_nothing_either() {
    let mut world = World::new();
    world.hidden = vec![DEPLOYMENT];
    world.list(DEPLOYMENT);
    let mut preview = Workload::finished("v1").named("preview");
    let set = preview.replica_set(IMAGE, 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    // It is made meanwhile.
    let json = of_anybody(&mut preview, "abc");
    let object = WatchedObject::read(DEPLOYMENT, &json).unwrap();
    world.present.insert(object.key(), object);
    world.hidden.clear();
    world.list(DEPLOYMENT);
    assert!(world.told().is_empty());
    assert!(world.record("preview").is_finished());
}

#[test]
fn a_release_of_ours_that_no_deployment_waits_for_is_silent_also_while_its_pods_are_missing() {
    let mut world = World::new();
    world.expect(ExpectedRevision { awaiting: false, ..revision(1, "v1", &["web"]) });
    let mut web = Workload::finished("v1");
    world.apply(DEPLOYMENT, &web.counted([3, 3, 1]).json());
    world.pass(10_000);
    assert!(world.told().is_empty());
}

#[test]
fn argo_cd_that_is_installed_later() {
    let mut world = World::unlisted();
    world.unavailable = vec![WatchedKind::Application];
    world.list_everything();
    for (n, awaiting) in [(1, false), (2, true)] {
        let mut expected = revision(n, "v1", &[]);
        expected.application.as_mut().unwrap().name = format!("devx.web-{n}").into();
        world.expect(ExpectedRevision { awaiting, ..expected });
        let application = json!({
            "metadata": {
                "name": format!("devx.web-{n}"), "namespace": "argocd", "uid": format!("uid-{n}"),
                "resourceVersion": "1",
            },
            "status": {"sync": {"status": "Synced", "revision": format!("commit-{n}")}},
        });
        world.apply(WatchedKind::Application, &application);
    }
    world.unavailable.clear();
    world.list(WatchedKind::Application);
    assert_eq!(world.told(), ["started v1 on devx.web-2", "finished v1 on devx.web-2"]);
}

/// A process that has listed all kinds but these, in which `web` waits for a pod.
fn without(kinds: &[WatchedKind]) -> (World, Workload) {
    let mut world = World::unlisted();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    let set = web.replica_set(IMAGE, 1, 3);
    world.apply(WatchedKind::ReplicaSet, &set);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 2]).json());
    for kind in WatchedKind::ALL.into_iter().filter(|kind| !kinds.contains(kind)) {
        world.list(kind);
    }
    (world, web)
}

#[test]
fn kinds_that_never_answer_stop_no_workload_that_has_nothing_to_do_with_them() {
    use WatchedKind::{Application, CronJob, DaemonSet, Job, StatefulSet};
    let (mut world, mut web) = without(&[StatefulSet, DaemonSet, Job, CronJob, Application]);
    assert_eq!(world.told(), ["started v1"]);
    world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
    assert_eq!(world.told(), ["finished v1"]);
}

#[test]
fn a_kind_that_the_rules_need_and_that_never_answers_is_done_without_and_named() {
    let cases = [
        (WatchedKind::Pod, "pods"),
        (WatchedKind::ReplicaSet, "replicasets.apps"),
        (WatchedKind::Canary, "canaries.flagger.app"),
    ];
    for (kind, resource) in cases {
        let (mut world, mut web) = without(&[kind]);
        world.pass(1);
        world.pass(118);
        assert!(world.told().is_empty(), "{kind} may still come");
        world.pass(2);
        assert_eq!(world.told(), ["started v1"], "{kind}");
        let sentence = world.summary(1).sentence;
        assert!(sentence.ends_with(&format!("; the service cannot see {resource}")), "{sentence}");
        // A restart does not bring it back, and waits again.
        world.apply(DEPLOYMENT, &web.counted([3, 3, 3]).json());
        assert_eq!(world.told(), ["finished v1"], "{kind}");
    }
}

#[test]
fn a_release_that_stands_still_names_what_could_not_be_seen() {
    let mut world = World::unlisted();
    world.hidden = vec![WatchedKind::Pod];
    world.list_everything();
    world.expect(revision(1, "v1", &["web"]));
    let mut web = Workload::finished("v1");
    world.apply(DEPLOYMENT, &web.counted([3, 3, 2]).json());
    world.pass(61);
    world.pass(121);
    assert_eq!(world.told(), ["started v1", "failed no-progress v1"]);
    let RecordState::Failed { cause, .. } = world.record("web").state else { panic!() };
    assert_eq!(cause.message, "the service cannot see pods");
    // A kind that the cluster does not have hides nothing.
    world.hidden.clear();
    world.unavailable = vec![WatchedKind::Canary];
    world.list_everything();
    world.expect(revision(2, "v2", &["web"]));
    world.apply(DEPLOYMENT, &web.release("v2").counted([3, 1, 2]).json());
    assert!(!world.summary(2).sentence.contains("cannot see"));
}

#[test]
fn what_is_not_seen_at_present_does_not_stand_still() {
    for kind in [DEPLOYMENT, WatchedKind::Pod, WatchedKind::ReplicaSet, WatchedKind::Canary] {
        let (mut world, mut web) = without(&[]);
        assert_eq!(world.told(), ["started v1"]);
        world.index.interrupt(kind);
        for _ in 0..60 {
            world.pass(60);
        }
        assert!(world.told().is_empty(), "an hour without {kind}");
        world.index.resume(kind);
        world.pass(1);
        assert!(world.told().is_empty(), "{kind} is seen again: two minutes are left");
        let mut other = web.clone();
        world.apply(DEPLOYMENT, &other.counted([3, 3, 3]).json());
        assert_eq!(world.told(), ["finished v1"]);

        // Of another kind it does.
        let (mut world, _) = without(&[]);
        world.index.interrupt(WatchedKind::Job);
        world.pass(61);
        world.pass(121);
        assert_eq!(world.told(), ["started v1", "failed no-progress v1"]);
        web.version += 1;
    }
}

#[test]
fn a_workload_that_loses_its_marks_in_the_middle_is_given_up() {
    let (mut world, mut web) = without(&[]);
    let mut json = web.json();
    json["metadata"]["annotations"] = json!({});
    world.apply(DEPLOYMENT, &json);
    world.pass(700);
    assert_eq!(world.told(), ["started v1"]);
    world.pass(21);
    assert_eq!(world.told(), ["failed no-progress v1"]);
    let DeploymentState::Failed { cause, .. } = world.summary(1).state else { panic!() };
    assert_eq!(cause.kind, CauseKind::NoProgress);
}
