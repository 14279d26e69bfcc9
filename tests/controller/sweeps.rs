//! Events that were lost are found.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use the_deployer::controller::inbox::Received;
use the_deployer::controller::sweep::metrics::Metrics;
use the_deployer::controller::sweep::{Hints, Kind, Outcome, Report, Sweeps};
use the_deployer::forge::delivery::Budget;
use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::event::Event;
use the_deployer::model::id::RepoName;
use the_deployer::store::Filter;
use tracing::Level;

use crate::harness::database::run_on_both;
use crate::harness::log::Log;
use crate::harness::lost::{Lost, US};
use crate::harness::requests::{at, delivery, request};
use crate::harness::service::{Service, run_test};

async fn sweep(sweeps: &Sweeps<Lost>, kind: Kind) -> Report {
    sweeps.sweep_now(kind).await.unwrap().expect("nobody else is at it")
}

/// A forge, and sweeps that have run once: from here on, nothing is history.
async fn installed(service: &Service) -> (Lost, Sweeps<Lost>) {
    let lost = Lost::default();
    let sweeps = lost.sweeps(service);
    for kind in [Kind::Deliveries, Kind::Deployments] {
        assert_eq!(sweep(&sweeps, kind).await.healed, 0);
    }
    lost.asked("");
    (lost, sweeps)
}

async fn known(service: &Service) -> Vec<i64> {
    let page = service.db.store.deployments(&Filter::default(), None, 500).await.unwrap();
    let mut numbers: Vec<_> = page.deployments.iter().map(|one| one.request.forge_id).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn a_delivery_that_failed_is_replayed_once() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lost("web", "prod", 1, 10);
        service.wait(60);
        assert_eq!(sweep(&sweeps, Kind::Deliveries).await.healed, 1);
        service.settle().await;
        assert_eq!(service.world.pushes(), [1]);
        lost.asked("");
        let again = sweep(&sweeps, Kind::Deliveries).await;
        assert_eq!((again.healed, again.outcome), (0, Outcome::Done));
        assert_eq!(lost.asked("delivery"), 0, "it needs no second look");
        let late = service.controller.inbox();
        let event = Event::Deployment(request("web", "prod", 1));
        let received = late.receive(&delivery(77), &event).await.unwrap();
        assert!(matches!(received, Received::Known(_)), "somebody redelivers it by hand");
    })
    .await;
}

#[tokio::test]
async fn what_arrived_although_the_forge_thinks_not_is_not_asked_for() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lost("web", "prod", 1, 10);
        let guid = "guid-1".to_owned().try_into().unwrap();
        let event = Event::Deployment(request("web", "prod", 1));
        service.controller.inbox().receive(&guid, &event).await.unwrap();
        service.wait(60);
        assert_eq!(sweep(&sweeps, Kind::Deliveries).await.healed, 0);
        assert_eq!(lost.asked("delivery"), 0);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_read_is_looked_at_once_and_stops_nothing() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.undelivered("deployment", 1, 10, b"s3cret-of-a-body");
        lost.undelivered("deployment", 2, 11, b"{\"action\": 7}");
        lost.undelivered("issues", 3, 12, b"{}");
        lost.lost("web", "prod", 4, 13);
        service.wait(60);
        let log = Log::of("the_deployer", Level::INFO);
        assert_eq!(sweep(&sweeps, Kind::Deliveries).await.healed, 1);
        assert_eq!(lost.asked("delivery"), 3, "an event that nobody uses is not asked for");
        sweep(&sweeps, Kind::Deliveries).await;
        assert_eq!(lost.asked("delivery"), 0);
        let lines = log.text();
        assert!(lines.contains("malformed") && lines.contains("have been found"), "{lines}");
        assert!(!lines.contains("s3cret"), "{lines}");
    })
    .await;
}

#[tokio::test]
async fn a_push_that_was_lost_is_handed_on() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        let push = serde_json::json!({
            "ref": "refs/heads/main", "after": "a".repeat(40),
            "repository": {"full_name": "acme/templates"},
        });
        lost.undelivered("push", 1, 10, push.to_string().as_bytes());
        service.wait(60);
        sweep(&sweeps, Kind::Deliveries).await;
        assert_eq!(lost.lock().pushed[0].branch, "main");
    })
    .await;
}

#[tokio::test]
async fn many_are_replayed_in_several_runs_over_a_restart_and_none_twice() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        for n in 1..=230 {
            lost.lost("web", &format!("target-{}", n % 7), n, n);
        }
        service.wait(3600);
        let first = sweep(&sweeps, Kind::Deliveries).await;
        assert_eq!((first.healed, first.waiting), (100, 130));
        let restarted = lost.sweeps(service);
        let second = sweep(&restarted, Kind::Deliveries).await;
        assert_eq!((second.healed, second.waiting), (100, 30));
        assert_eq!(sweep(&restarted, Kind::Deliveries).await.healed, 30);
        assert_eq!(lost.asked("delivery"), 230);
        service.settle().await;
        let newest: Vec<_> = (224..=230).collect();
        let mut pushed = service.world.pushes();
        pushed.sort_unstable();
        assert_eq!(pushed, newest, "of each lane only the newest is deployed");
    })
    .await;
}

#[tokio::test]
async fn a_new_installation_deploys_no_history() {
    run_test(async |service| {
        let lost = Lost::default();
        lost.lost("web", "prod", 1, -10);
        lost.lock().installed.push(RepoName::parse("acme/web").unwrap());
        let sweeps = lost.sweeps(service);
        service.wait(600);
        for _ in 0..2 {
            assert_eq!(sweep(&sweeps, Kind::Deliveries).await.healed, 0);
            assert_eq!(sweep(&sweeps, Kind::Deployments).await.healed, 0);
        }
        assert!(known(service).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_installation_is_as_old_as_its_first_deployment() {
    run_test(async |service| {
        let lost = Lost::default();
        service.ask("web", 1).await;
        service.wait(60);
        lost.lost("web", "prod", 2, 30);
        service.wait(600);
        assert_eq!(sweep(&lost.sweeps(service), Kind::Deliveries).await.healed, 1);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_that_nobody_answered_is_found_with_its_repository() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        service.ask("web", 1).await;
        service.settle().await;
        lost.deployment("web", "prod", 1, 5);
        lost.deployment("web", "prod", 2, 10);
        service.wait(60);
        assert_eq!(sweep(&sweeps, Kind::Deployments).await.healed, 0, "it may be on its way");
        service.wait(120);
        assert_eq!(sweep(&sweeps, Kind::Deployments).await.healed, 1);
        assert_eq!(lost.asked("statuses"), 1, "what is known is not asked for");
        service.settle().await;
        assert_eq!(service.world.pushes(), [1, 2]);
        let event = Event::Deployment(request("web", "prod", 2));
        let late = service.controller.inbox().receive(&delivery(2), &event).await.unwrap();
        assert!(matches!(late, Received::Known(_)), "its webhook comes after all: a duplicate");
        service.settle().await;
        assert_eq!(service.world.pushes(), [1, 2]);
    })
    .await;
}

#[tokio::test]
async fn what_we_or_others_have_answered_is_left_alone_and_asked_about_once() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lock().installed.push(RepoName::parse("acme/web").unwrap());
        for n in 1..=4 {
            lost.deployment("web", &format!("target-{n}"), n, 10);
        }
        lost.status(1, "queued", Some(&format!("{US}/deployments/x")));
        lost.status(2, "inactive", None);
        lost.status(3, "failure", Some("https://ci.example.com"));
        lost.status(4, "in_progress", Some("https://ci.example.com"));
        service.wait(3700);
        assert_eq!(sweep(&sweeps, Kind::Deployments).await.healed, 1);
        assert_eq!(lost.asked("statuses"), 4);
        assert_eq!(known(service).await, [4]);
        sweep(&sweeps, Kind::Deployments).await;
        assert_eq!(lost.asked("statuses"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_found_late_never_overtakes_a_newer_one() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lost("web", "prod", 1, 10);
        lost.deployment("web", "prod", 2, 11);
        service.ask("web", 3).await;
        service.settle().await;
        service.wait(200);
        assert_eq!(sweep(&sweeps, Kind::Deliveries).await.healed, 1);
        assert_eq!(sweep(&sweeps, Kind::Deployments).await.healed, 1);
        service.settle().await;
        assert_eq!(service.world.pushes(), [3]);
        for n in [1, 2] {
            assert_eq!(service.world.told(n).last(), Some(&ForgeState::Inactive), "{n} is told so");
        }
    })
    .await;
}

#[tokio::test]
async fn of_several_lost_ones_of_a_lane_only_the_newest_is_deployed() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lock().installed.push(RepoName::parse("acme/web").unwrap());
        for n in [1, 2, 3] {
            lost.deployment("web", "prod", n, 10 + n);
        }
        service.wait(3700);
        assert_eq!(sweep(&sweeps, Kind::Deployments).await.healed, 3);
        service.settle().await;
        assert_eq!(service.world.pushes(), [3]);
        let page = service.db.store.deployments(&Filter::default(), None, 9).await.unwrap();
        let superseded = page.deployments.iter().filter(|one| one.state == State::Superseded);
        assert_eq!(superseded.count(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_that_nothing_can_be_made_of_is_told_why_once() {
    run_test(async |service| {
        let lost = Lost::default();
        let hints = Hints::default();
        let sweeps = lost.sweeps_with(service, Metrics::default(), hints.clone());
        sweep(&sweeps, Kind::Deployments).await;
        lost.deployment("web", "Prod EU", 1, 10);
        lost.deployment("web", &format!("prod/{}", "x".repeat(10_000)), 2, 11);
        service.wait(12);
        hints.look_at(&RepoName::parse("acme/web").unwrap());
        let report = sweeps.follow_hints().await.unwrap().unwrap();
        assert_eq!((report.refused, report.healed), (2, 0));
        let refused = lost.lock().refused.clone();
        assert!(refused[1].problem.contains("\"Prod EU\" is not a legal target"), "{refused:?}");
        assert!(refused.iter().all(|one| one.problem.len() < 300), "{refused:?}");
        hints.look_at(&RepoName::parse("acme/web").unwrap());
        let again = sweeps.follow_hints().await.unwrap().unwrap();
        assert_eq!(again.refused, 0);
        assert_eq!(lost.lock().refused.len(), 2);
        assert!(known(service).await.is_empty());
    })
    .await;
}

fn names(count: usize) -> Vec<RepoName> {
    (0..count).map(|n| RepoName::parse(format!("acme/r{n:03}")).unwrap()).collect()
}

#[tokio::test]
async fn a_round_takes_several_runs_and_comes_to_everybody() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lock().installed = names(50);
        lost.deployment("r049", "prod", 1, 10);
        service.wait(3700);
        let now = service.clock.now();
        let reset = now + Duration::from_mins(30);
        lost.lock().budget = Some(Budget { limit: 5000, remaining: 5000, reset });
        let mut waiting = vec![];
        let mut healed = 0;
        for _ in 0..3 {
            let report = sweep(&sweeps, Kind::Deployments).await;
            waiting.push(report.waiting);
            healed += report.healed;
        }
        assert_eq!((waiting, healed), (vec![31, 11, 0], 1), "20 requests a run, one for the list");
        let spent = lost.asked("deployments");
        assert_eq!(spent, 50, "each repository once");
        lost.lock().budget = Some(Budget { limit: 5000, remaining: 1000, reset });
        assert_eq!(sweep(&sweeps, Kind::Deployments).await.waiting, 50);
        assert_eq!(lost.asked(""), 0, "what is left is for deployments");
    })
    .await;
}

#[tokio::test]
async fn at_a_limit_it_stops_and_goes_on_where_it_was_when_it_may() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lock().installed = names(10);
        for n in 0..10 {
            lost.deployment(&format!("r{n:03}"), "prod", n + 1, 10);
        }
        service.wait(3700);
        lost.lock().until_limit = Some(8);
        let log = Log::of("the_deployer", Level::INFO);
        let report = sweep(&sweeps, Kind::Deployments).await;
        assert_eq!(report.outcome, Outcome::Limited);
        assert!(log.text().contains("the forge asks us to wait"));
        lost.lock().until_limit = None;
        service.wait(19 * 60);
        assert_eq!(sweeps.sweep_now(Kind::Deployments).await.unwrap(), None, "not before its time");
        service.wait(60);
        let rest = sweep(&sweeps, Kind::Deployments).await;
        assert_eq!((rest.outcome, rest.healed + report.healed), (Outcome::Done, 10));
        lost.asked("");
        lost.lock().down = true;
        assert_eq!(sweep(&sweeps, Kind::Deliveries).await.outcome, Outcome::Unreachable);
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_is_gone_is_logged_once_and_holds_up_nobody() {
    run_test(async |service| {
        let (lost, sweeps) = installed(service).await;
        lost.lock().installed = names(2);
        lost.deployment("r001", "prod", 1, 10);
        service.wait(3700);
        let log = Log::of("the_deployer", Level::INFO);
        assert_eq!(sweep(&sweeps, Kind::Deployments).await.healed, 1);
        sweep(&sweeps, Kind::Deployments).await;
        let gone = |line: &&str| line.contains("acme/r000 is not there");
        assert_eq!(log.text().lines().filter(gone).count(), 1);
    })
    .await;
}

#[tokio::test]
async fn of_two_processes_one_sweeps_and_a_dead_one_is_followed() {
    run_test(async |service| {
        let (_lost, sweeps) = installed(service).await;
        let store = &service.db.store;
        let lease = Duration::from_secs(100);
        let name = Kind::Deliveries.as_str();
        let theirs = store.begin_sweep(name, "other", service.clock.now(), lease, true).await;
        assert!(theirs.unwrap().is_some());
        assert_eq!(sweeps.sweep_now(Kind::Deliveries).await.unwrap(), None);
        service.wait(100);
        assert!(sweeps.sweep_now(Kind::Deliveries).await.unwrap().is_some());
        let early = store.begin_sweep(name, "other", service.clock.now(), lease, false).await;
        assert_eq!(early.unwrap(), None, "it is not due");
        service.wait(300);
        let due = store.begin_sweep(name, "other", service.clock.now(), lease, false).await;
        let due = due.unwrap().expect("it is due");
        assert_eq!(due.since, at(0), "that is when the installation began");
    })
    .await;
}

#[tokio::test]
async fn metrics_tell_what_was_found_and_what_waits() {
    run_on_both(async |db| {
        let service = Service::new(db);
        let lost = Lost::default();
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let sweeps = lost.sweeps_with(&service, metrics, Hints::default());
        sweep(&sweeps, Kind::Deliveries).await;
        lost.lost("web", "prod", 1, 10);
        service.wait(60);
        sweep(&sweeps, Kind::Deliveries).await;
        lost.lock().down = true;
        sweep(&sweeps, Kind::Deliveries).await;
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "sweep_runs_total{sweep=\"deliveries\",outcome=\"done\"} 2",
            "sweep_runs_total{sweep=\"deliveries\",outcome=\"unreachable\"} 1",
            "sweep_healed_total{sweep=\"deliveries\"} 1",
            "sweep_last_timestamp_seconds{sweep=\"deliveries\"} 1795240060",
            "sweep_waiting{sweep=\"deliveries\"} 0",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    })
    .await;
}
