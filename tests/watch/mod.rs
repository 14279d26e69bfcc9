//! Watches of a cluster: the service's own client against an API server on loopback, whatever is wrong with either.

mod access; // credentials, certificates, proxies
mod check; // `config check` asks a cluster
mod answers; // what a list and a watch can answer
mod kinds; // kinds that are absent or forbidden, objects that are odd
mod kubectl; // another client
mod logs; // logs of containers
mod outages; // connections that break, hang or are slow
mod size; // how much memory it takes
mod watcher; // the driver

use std::time::Duration;

use serde_json::json;

use crate::harness::api_server::{ApiServer, Verb, deployment, pod};
use crate::watch::watcher::{Said, Watcher};

#[tokio::test]
async fn everything_is_listed_in_pages_and_then_watched() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    for name in ["a", "b", "c", "d", "e"] {
        server.apply(deployment("devx", name));
    }
    let version = server.world().version;
    let mut watcher = Watcher::of(&server).page(2).start();
    watcher.settles().await;
    let told = watcher.take("Deployment");
    let listed = ["a", "b", "c", "d", "e"].map(|name| Said::Listed(format!("devx/{name}")));
    assert_eq!(told[0], Said::RelistBegun);
    assert_eq!(told[1..6], listed);
    assert_eq!(told[6..], [Said::RelistDone, Said::Seen]);

    server.apply(deployment("devx", "f"));
    server.apply(deployment("devx", "a"));
    server.delete("Deployment", "devx", "b");
    watcher.knows("Deployment", &["devx/a", "devx/c", "devx/d", "devx/e", "devx/f"]).await;
    let name = |name: &str| format!("devx/{name}");
    let expected = [Said::Applied(name("f")), Said::Applied(name("a")), Said::Deleted(name("b"))];
    assert_eq!(watcher.take("Deployment"), expected);

    let requests = server.requests();
    let of_kind: Vec<_> = requests.iter().filter(|one| one.resource == "deployments").collect();
    let verbs: Vec<Verb> = of_kind.iter().map(|one| one.verb).collect();
    assert_eq!(verbs, [Verb::List, Verb::List, Verb::List, Verb::Watch]);
    assert!(of_kind[0].query.contains("limit=2") && !of_kind[0].query.contains("continue"));
    assert!(of_kind[1].query.contains("continue=") && of_kind[2].query.contains("continue="));
    let watch = &of_kind[3];
    assert!(watch.query.contains(&format!("resourceVersion={version}")), "{}", watch.query);
    assert!(watch.query.contains("allowWatchBookmarks=true"), "{}", watch.query);
    let selector = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dthe-deployer";
    assert!(of_kind.iter().all(|one| one.query.contains(selector)), "{}", watch.query);
    let agent = &watch.headers["user-agent"];
    assert!(agent.starts_with("the-deployer/"), "{agent}");
    assert!(watcher.health.is_complete());
}

#[tokio::test]
async fn each_kind_is_watched_over_one_connection_and_one_list() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    server.watched(9).await;
    for plural in ["deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs"] {
        assert_eq!(server.counts(plural), (1, 1), "{plural}");
    }
    for plural in ["pods", "applications", "canaries"] {
        assert_eq!(server.counts(plural), (1, 1), "{plural}");
    }
}

#[tokio::test]
async fn only_what_is_ours_is_watched_and_what_is_no_longer_ours_is_gone() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let stranger = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "x", "name": name}});
    server.apply(deployment("devx", "ours"));
    server.apply(stranger("theirs"));
    server.apply(pod("devx", "ours-1"));
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/ours"]).await;
    watcher.knows("Pod", &["devx/ours-1"]).await;
    let mut unlabelled = deployment("devx", "ours");
    unlabelled["metadata"]["labels"] = json!({});
    server.apply(unlabelled);
    watcher.knows("Deployment", &[]).await;

    let mut watcher = Watcher::of(&server).previews().start();
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/ours", "x/theirs"]).await;
}

#[tokio::test]
async fn watches_end_when_they_are_told_to_and_when_nobody_listens() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    server.watched(9).await;
    watcher.stop.cancel();
    server.watched(0).await;

    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    server.watched(9).await;
    let stop = watcher.stop.clone();
    drop(watcher);
    server.watched(0).await;
    assert!(!stop.is_cancelled());
}

#[tokio::test]
async fn everything_is_listed_again_from_time_to_time() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    server.apply(deployment("devx", "a"));
    server.apply(deployment("devx", "b"));
    let mut watcher = Watcher::of(&server).relist(Duration::from_millis(300)).start();
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/a", "devx/b"]).await;
    // An API server whose cache has lost a deletion.
    server.edit(|world| world.forget("Deployment", "devx", "a"));
    watcher.knows("Deployment", &["devx/b"]).await;
    assert!(watcher.take("Deployment").iter().all(|said| !matches!(said, Said::Deleted(_))));
    let (lists, opened) = server.counts("deployments");
    assert!(lists >= 2 && opened >= lists - 1, "{lists} {opened}");
}
