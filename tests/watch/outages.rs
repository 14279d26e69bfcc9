//! Connections that break, hang or are slow.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::watch::health::KindSight;
use the_deployer::support::clock::Clock;

use crate::harness::api_server::{ApiServer, Fault, FaultRule, Verb, deployment, pod};
use crate::harness::link::{Link, LinkState};
use crate::watch::watcher::{Said, Watcher};

#[tokio::test]
async fn a_cluster_that_is_away_for_an_hour_is_told_since_when_and_seen_again_whole() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    server.apply(deployment("devx", "a"));
    let link = Link::tcp(&server.address()).await;
    let start: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
    let clock = Clock::manual(start);
    let mut watcher = Watcher::at(&format!("http://{}", link.address())).clock(&clock).start();
    watcher.settles().await;
    link.set(LinkState::Closed);
    for kind in WatchedKind::ALL {
        watcher.is_blind(kind.as_str(), "").await;
    }
    clock.advance(Duration::from_hours(1));
    // Meanwhile, life goes on.
    server.delete("Deployment", "devx", "a");
    server.apply(deployment("devx", "b"));
    server.compact();
    let asked = server.requests().len();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let unseen = watcher.health.unseen().unwrap();
    assert_eq!(unseen.since, Some(start));
    assert_eq!(server.requests().len(), asked);
    link.set(LinkState::Open);
    for kind in WatchedKind::ALL {
        watcher.sees(kind.as_str()).await;
    }
    watcher.knows("Deployment", &["devx/b"]).await;
    assert_eq!(watcher.health.unseen(), None);
    watcher.take("Deployment");
    // What goes wrong later has its own time.
    link.set(LinkState::Closed);
    watcher.is_blind("Pod", "").await;
    let KindSight::Unseen { since, .. } = watcher.sight(WatchedKind::Pod) else { panic!("blind") };
    assert_eq!(since, Some(watcher.clock.now()));
}

#[tokio::test]
async fn a_cluster_that_is_away_from_the_start_is_seen_when_it_comes() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    server.apply(deployment("devx", "a"));
    let link = Link::tcp(&server.address()).await;
    link.set(LinkState::Closed);
    let mut watcher = Watcher::at(&format!("http://{}", link.address())).start();
    watcher.is_blind("Deployment", "").await;
    assert!(!watcher.health.is_complete());
    link.set(LinkState::Open);
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/a"]).await;
    assert!(watcher.health.is_complete());
}

#[tokio::test]
async fn a_list_that_never_answers_or_never_ends_is_given_up() {
    for (fault, reason) in [
        (Fault::Silent, "timed out"),
        (Fault::HeadOnly, "did not end"),
        (Fault::Slow(Duration::from_millis(20)), "did not end"),
    ] {
        let server = ApiServer::start().await;
        server.install_custom_resources();
        server.apply(pod("devx", "a"));
        server.fail(FaultRule::always(fault).of(Verb::List, "pods"));
        let mut watcher = Watcher::of(&server).impatient().start();
        watcher.is_blind("Pod", reason).await;
        server.recover();
        watcher.knows("Pod", &["devx/a"]).await;
        watcher.sees("Pod").await;
    }
}

#[tokio::test]
async fn a_watch_that_never_answers_is_given_up_and_a_quiet_one_is_not() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    server.apply(pod("devx", "a"));
    let mut watcher = Watcher::of(&server).impatient().start();
    watcher.settles().await;
    // Each watch ends by itself after a second, and the next one begins: nobody is told of it.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    watcher.catches_up().await;
    let told = watcher.take("Pod");
    assert_eq!(told.last(), Some(&Said::Seen), "{told:?}");
    assert_eq!(server.counts("pods").0, 1);
    server.fail(FaultRule::always(Fault::Silent).of(Verb::Watch, "pods"));
    server.cut_watches();
    watcher.is_blind("Pod", "timed out").await;
    server.recover();
    server.apply(pod("devx", "b"));
    watcher.knows("Pod", &["devx/a", "devx/b"]).await;
}

#[tokio::test]
async fn a_connection_that_is_half_open_is_noticed_and_replaced() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    server.apply(pod("devx", "a"));
    let link = Link::tcp(&server.address()).await;
    let mut watcher = Watcher::at(&format!("http://{}", link.address())).impatient().start();
    watcher.settles().await;
    link.set(LinkState::Silent);
    server.apply(pod("devx", "b"));
    // Nothing is closed; only time tells.
    watcher.is_blind("Pod", "").await;
    watcher.take("Pod");
    link.set(LinkState::Open);
    watcher.knows("Pod", &["devx/a", "devx/b"]).await;
    watcher.sees("Pod").await;
}

#[tokio::test]
async fn a_slow_watch_tells_everything() {
    let server = ApiServer::start().await;
    let fault = Fault::Slow(Duration::from_micros(200));
    server.fail(FaultRule::always(fault).of(Verb::Watch, "pods"));
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    for n in 0..5 {
        server.apply(pod("devx", &format!("p-{n}")));
    }
    watcher.knows("Pod", &["devx/p-0", "devx/p-1", "devx/p-2", "devx/p-3", "devx/p-4"]).await;
}

#[tokio::test]
async fn every_change_of_a_long_life_arrives_through_a_connection_that_is_cut_all_the_time() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let mut watcher = Watcher::of(&server).start();
    watcher.settles().await;
    watcher.take("Pod");
    for n in 0..60 {
        server.apply(pod("devx", &format!("p-{}", n % 7)));
        if n % 10 == 0 {
            server.cut_watches();
        }
        if n % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let is_change = |said: &&Said| matches!(said, Said::Applied(_));
    let pods = WatchedKind::Pod;
    watcher
        .until("all arrive", |watcher| watcher.told(pods).iter().filter(is_change).count() == 60)
        .await;
    assert_eq!(server.counts("pods").0, 1, "nothing was listed again");
}

/// A rollout that another one overtakes, as a real control plane recorded it.
const RECORDING: &str = include_str!("../cluster/recordings/06_superseded_midway.jsonl");

#[tokio::test]
async fn a_recorded_rollout_arrives_whole_through_a_connection_that_is_cut_at_every_tenth_event() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let mut watcher = Watcher::of(&server).previews().start();
    watcher.settles().await;
    watcher.take("Pod");
    let lines = RECORDING.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Json> = lines.filter(|line: &Json| line["object"].is_object()).collect();
    for (n, event) in events.iter().enumerate() {
        server.edit(|world| world.replay(event));
        if n % 10 == 9 {
            server.cut_watches();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for kind in ["Pod", "ReplicaSet", "Deployment"] {
        let of_kind = |event: &&Json| event["object"]["kind"] == kind;
        let expected: Vec<Said> = events.iter().filter(of_kind).map(said).collect();
        assert!(!expected.is_empty());
        let of = WatchedKind::parse(kind).unwrap();
        let is_change = |said: &&Said| matches!(said, Said::Applied(_) | Said::Deleted(_));
        let changes = |told: &[Said]| told.iter().filter(is_change).cloned().collect::<Vec<_>>();
        let count = expected.len();
        watcher.until(kind, |watcher| changes(watcher.told(of)).len() >= count).await;
        assert_eq!(changes(watcher.told(of)), expected, "{kind}");
    }
}

fn said(event: &Json) -> Said {
    let text = |key: &str| event["object"]["metadata"][key].as_str().unwrap();
    let name = format!("{}/{}", text("namespace"), text("name"));
    if event["type"] == "DELETED" { Said::Deleted(name) } else { Said::Applied(name) }
}
