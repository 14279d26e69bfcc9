//! Kinds that are absent or forbidden, and objects that are odd.

use std::time::Duration;

use serde_json::json;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::watch::health::KindSight;

use crate::harness::api_server::{ApiServer, World, deployment, ours, pod};
use crate::watch::watcher::{Said, Watcher};

#[tokio::test]
async fn a_cluster_without_argo_cd_and_flagger_is_whole_and_they_are_looked_for_seldom() {
    let server = ApiServer::start().await;
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    assert_eq!(watcher.sight(WatchedKind::Application), KindSight::Absent);
    assert_eq!(watcher.sight(WatchedKind::Canary), KindSight::Absent);
    assert_eq!((watcher.health.unseen(), watcher.health.is_complete()), (None, true));
    assert_eq!(watcher.take("Application"), [Said::Unavailable]);
    let requests = || server.requests().iter().filter(|one| one.path.contains("argoproj")).count();
    let before = requests();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!((1..=4).contains(&(requests() - before)), "a probe each 300 to 600 ms");

    server.install_custom_resources();
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"namespace": "argocd", "name": "devx.my-app", "labels": ours("my-app")},
    });
    server.apply(application);
    watcher.knows("Application", &["argocd/devx.my-app"]).await;
    watcher.sees("Canary").await;

    // Argo CD is taken away again.
    server.edit(World::remove_custom_resources);
    watcher.knows("Application", &[]).await;
    assert_eq!(watcher.sight(WatchedKind::Application), KindSight::Absent);
    assert_eq!(watcher.health.unseen(), None);
}

#[tokio::test]
async fn a_kind_that_is_forbidden_is_named_and_the_others_are_seen() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let denied = [("list", "pods"), ("watch", "pods"), ("list", "applications")];
    server.edit(|world| world.forbidden = denied.into());
    server.apply(deployment("devx", "a"));
    server.apply(pod("devx", "a-1"));
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/a"]).await;
    assert_eq!(watcher.take("Pod"), [Said::Unavailable]);
    let reason = watcher.health.unseen().unwrap().reason;
    for expected in [
        "pods: the server answers 403: pods is forbidden",
        "grant `list` and `watch` on pods",
        "grant `list` and `watch` on applications.argoproj.io",
    ] {
        assert!(reason.contains(expected), "{expected} in {reason}");
    }
    server.edit(|world| world.forbidden.clear());
    watcher.knows("Pod", &["devx/a-1"]).await;
    watcher.sees("Application").await;
    assert_eq!(watcher.health.unseen(), None);

    // An authorizer that is ill for a while takes nothing away.
    server.edit(|world| world.forbidden = denied.into());
    server.cut_watches();
    watcher.is_blind("Pod", "grant `list` and `watch` on pods").await;
    watcher.knows("Pod", &["devx/a-1"]).await;
    assert!(!watcher.take("Pod").contains(&Said::Unavailable));
}

#[tokio::test]
async fn objects_with_missing_or_absurd_fields_hide_no_others() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let absurd = |name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "namespace": "devx", "name": name, "labels": ours(name), "generation": "two", "annotations": null,
                "ownerReferences": {"uid": 1}, "creationTimestamp": "yesterday",
            },
            "spec": {"replicas": "three", "template": []}, "status": {"replicas": -1, "conditions": {"a": "b"}},
        })
    };
    let hollow = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "devx", "name": name, "labels": ours(name)}});
    let nameless = || json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "", "labels": ours("x")}});
    let mut huge = deployment("devx", "huge");
    huge["metadata"]["annotations"] = json!({"note": "x".repeat(1024 * 1024)});
    for object in
        [absurd("absurd"), nameless(), hollow("hollow"), huge.clone(), deployment("devx", "fine")]
    {
        server.apply(object);
    }
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/absurd", "devx/hollow", "devx/huge", "devx/fine"]).await;
    huge["metadata"]["name"] = json!("huge-2");
    for object in
        [absurd("absurd-2"), nameless(), hollow("hollow-2"), huge, deployment("devx", "last")]
    {
        server.apply(object);
    }
    let all = [
        "devx/absurd",
        "devx/hollow",
        "devx/huge",
        "devx/fine",
        "devx/absurd-2",
        "devx/hollow-2",
        "devx/huge-2",
        "devx/last",
    ];
    watcher.knows("Deployment", &all).await;
    assert_eq!(server.counts("deployments"), (1, 1));
    assert_eq!(watcher.health.unseen(), None);
}
