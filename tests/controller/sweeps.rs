//! Events that were lost are found.

use std::time::Duration;

use serde_json::json;
use the_deployer::controller::sweep::{SweepKind, SweepOutcome, SweepReport};
use the_deployer::model::deployment::State;
use tracing::Level;

use crate::controller::acts::{TARGET, app, pushes};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Webhooks;
use crate::harness::log::CapturedLog;
use crate::harness::process::client;
use crate::harness::requests::at;

/// Which requests read what a delivery carried.
const READ: &str = "GET app/hook/deliveries/";

async fn sweep(deployer: &Deployer) -> Vec<SweepReport> {
    deployer.stepped().sweep().await.unwrap()
}

fn healed(reports: &[SweepReport]) -> u64 {
    reports.iter().map(|report| report.healed).sum()
}

/// The App at its first repository, which has swept once: from here on, nothing is history.
async fn swept_once() -> Deployer {
    let deployer = Deployer::start_as_app().await;
    app(&deployer, "first");
    assert_eq!(healed(&sweep(&deployer).await), 0);
    deployer
}

fn wait(deployer: &Deployer, seconds: u64) {
    deployer.clock.advance(Duration::from_secs(seconds));
}

#[tokio::test]
async fn what_arrived_although_the_forge_thinks_not_is_not_asked_for() {
    let deployer = swept_once().await;
    deployer.github.webhooks(Webhooks::Unanswered);
    app(&deployer, "shop").deploys(TARGET, "v1").await;
    assert_eq!(deployer.github.answers(), [504]);
    wait(&deployer, 60);
    assert_eq!(healed(&sweep(&deployer).await), 0);
    assert_eq!(deployer.github.count(READ), 0);
    deployer.settle().await;
    deployer.settled().await;
}

/// Whoever asked for it sees why at once: nobody waits for the round, and no other repository is asked about.
#[tokio::test]
async fn a_refused_event_is_a_hint_that_is_followed_by_itself() {
    let deployer = swept_once().await;
    let shop = app(&deployer, "shop");
    let before = deployer.github.seen().len();
    let wrong = shop.deploys("Prod EU", "v1").await;
    assert_eq!(deployer.github.answers(), [400]);
    wait(&deployer, 60);
    let report = deployer.stepped().follow_hints().await.unwrap().expect("nobody else is at it");
    assert_eq!((report.healed, report.refused), (0, 1));
    assert_eq!(deployer.github.told(wrong), ["error"]);
    let of_first = || {
        let seen = deployer.github.seen();
        seen[before..].iter().filter(|one| one.line.contains("/first/")).count()
    };
    assert_eq!(of_first(), 0, "the other repository waits for its turn");
    wait(&deployer, 60);
    let again = deployer.stepped().follow_hints().await.unwrap().expect("nobody else is at it");
    assert_eq!((again.healed, again.refused), (0, 0), "a hint is followed once");
    sweep(&deployer).await;
    assert!(of_first() > 0, "its turn has come");
    deployer.settled().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_looked_at_once_and_stops_nothing() {
    let deployer = swept_once().await;
    let shop = app(&deployer, "shop");
    deployer.github.webhooks(Webhooks::Lost);
    let odd = json!({"action": "created", "deployment": "s3cret-of-a-body"});
    shop.sends("deployment", odd).await;
    shop.sends("deployment", json!({"action": 7})).await;
    shop.sends("issues", json!({"action": "opened"})).await;
    let push = json!({"ref": "refs/heads/main", "after": "a".repeat(40)});
    shop.sends("push", push).await;
    let lost = shop.deploys(TARGET, "v1").await;
    wait(&deployer, 60);
    let log = CapturedLog::of("the_deployer", Level::INFO);
    assert_eq!(sweep(&deployer).await[0].healed, 1);
    assert_eq!(deployer.github.count(READ), 4, "an event that nobody uses is not asked for");
    sweep(&deployer).await;
    assert_eq!(deployer.github.count(READ), 4);
    let lines = log.text();
    assert_eq!(lines.matches("outcome=\"malformed\"").count(), 2, "{lines}");
    assert_eq!(lines.matches("outcome=\"handed_on\"").count(), 1, "{lines}");
    assert!(lines.contains("missed events recovered"), "{lines}");
    assert!(!lines.contains("s3cret"), "{lines}");
    deployer.settle().await;
    assert_eq!(pushes(&deployer).await, [lost]);
    deployer.settled().await;
}

/// Templates come from a repository, whose pushes are looked at by themselves once an hour.
#[tokio::test]
async fn a_push_that_was_lost_brings_its_templates() {
    const FILE: &str = "apps/backend-default/latest/configmap.yaml.tmpl";
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ app.slug }}\n";
    let mut deployer = Deployer::prepared().await;
    deployer.acts_as_app();
    deployer.pushes_to_host().await;
    let templates = deployer.host().create("example/templates.git");
    templates.somebody_writes(
        "apps/backend-default/defaults.yaml",
        "resources: {requests: {cpu: 100m}}",
    );
    templates.somebody_writes(FILE, text);
    let url = deployer.host().url("example/templates.git");
    deployer.configure(|config| {
        format!(
            "{config}templates:\n  \
             repository: {{url: \"{url}\", refresh: 1h, token: {{env: GIT_TOKEN}}}}\n"
        )
    });
    let running =
        deployer.runs_with(|settings| settings.webhook.sweep = Some(Duration::from_secs(1))).await;
    let repository = deployer.github.repository("example/templates");
    let ready = format!("http://{}/readyz", running.address);
    let note = async || client().get(&ready).send().await.unwrap().text().await.unwrap();
    let until = async |what: &str, condition: &dyn Fn(&str) -> bool| {
        for _ in 0..300 {
            wait(&deployer, 1);
            let note = note().await;
            if condition(&note) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("waited in vain for {what}: {}", note().await);
    };
    let swept = |_: &str| deployer.github.count("GET app/hook/deliveries") > 0;
    until("the first sweep, since which nothing is history", &swept).await;
    deployer.github.webhooks(Webhooks::Lost);
    templates.somebody_writes(FILE, &format!("{text}data: {{word: two}}\n"));
    let tip = templates.tip();
    repository.sends("push", json!({"ref": "refs/heads/main", "after": tip})).await;
    until("the new templates", &|note| note.contains(&tip[..8])).await;
    running.stop.cancel();
    running.ended().await;
    deployer.starts().await;
    deployer.settled().await;
}

/// A run replays a hundred, the oldest first.
#[tokio::test]
async fn many_are_replayed_in_several_runs_over_a_restart_and_of_a_lane_the_newest_is_deployed() {
    const PUSHES: usize = 96;
    const DEPLOYMENTS: usize = 12;
    let mut deployer = swept_once().await;
    deployer.github.webhooks(Webhooks::Lost);
    let shop = app(&deployer, "shop");
    for _ in 0..PUSHES {
        shop.sends("push", json!({"ref": "refs/heads/main", "after": shop.tip("main")})).await;
        wait(&deployer, 1);
    }
    let mut newest = 0;
    for n in 0..DEPLOYMENTS {
        newest = shop.deploys(TARGET, &format!("v{n}")).await;
        wait(&deployer, 1);
    }
    let first = sweep(&deployer).await;
    assert_eq!((first[0].healed, first[0].waiting), (4, DEPLOYMENTS - 4));
    assert_eq!(deployer.github.count(READ), 100);
    deployer.dies();
    deployer.starts().await;
    let second = sweep(&deployer).await;
    assert_eq!((second[0].outcome, second[0].waiting), (SweepOutcome::Done, 0));
    let all = healed(&first) + healed(&second) + healed(&sweep(&deployer).await);
    assert_eq!(all, DEPLOYMENTS as u64, "none twice, whoever found it");
    assert_eq!(deployer.github.count(READ), PUSHES + DEPLOYMENTS);
    deployer.settle().await;
    assert_eq!(pushes(&deployer).await, [newest]);
    let all = deployer.deployments().await;
    let superseded = all.iter().filter(|one| one.state == State::Superseded);
    assert_eq!((all.len(), superseded.count()), (DEPLOYMENTS, DEPLOYMENTS - 1));
    deployer.settled().await;
}

#[tokio::test]
async fn a_new_installation_deploys_no_history() {
    let deployer = Deployer::start_as_app().await;
    let shop = app(&deployer, "shop");
    for webhooks in [Webhooks::Lost, Webhooks::Unheard] {
        deployer.github.webhooks(webhooks);
        let before_us = shop.deploys(TARGET, "v1").await;
        deployer.github.left_open(before_us);
    }
    wait(&deployer, 600);
    for _ in 0..2 {
        assert_eq!(healed(&sweep(&deployer).await), 0);
        wait(&deployer, 600);
    }
    assert_eq!(deployer.deployments().await, []);
    deployer.settled().await;
}

#[tokio::test]
async fn an_installation_is_as_old_as_its_first_deployment() {
    let deployer = Deployer::start_as_app().await;
    let shop = app(&deployer, "shop");
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    wait(&deployer, 60);
    deployer.github.webhooks(Webhooks::Lost);
    let lost = shop.deploys(TARGET, "v2").await;
    wait(&deployer, 600);
    assert_eq!(sweep(&deployer).await[0].healed, 1);
    deployer.settle().await;
    assert_eq!(deployer.github.told(lost).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn what_we_or_others_have_answered_is_left_alone_and_asked_about_once() {
    let deployer = swept_once().await;
    let shop = app(&deployer, "shop");
    deployer.github.webhooks(Webhooks::Unheard);
    let mut lost = Vec::new();
    let ci = "https://ci.example.com";
    let statuses = [
        ("queued", "https://deploy.example.com/deployments/x"),
        ("inactive", ""),
        ("failure", ci),
        ("in_progress", ci),
    ];
    for (state, log_url) in statuses {
        let id = shop.deploys(TARGET, "v1").await;
        shop.another_tool_tells(id, state, log_url);
        lost.push(id);
    }
    wait(&deployer, 3700);
    assert_eq!(healed(&sweep(&deployer).await), 1);
    assert_eq!(deployer.github.count("GET example/shop statuses"), 4);
    let known: Vec<_> =
        deployer.deployments().await.iter().map(|one| one.request.forge_id).collect();
    assert_eq!(known, [lost[3]]);
    sweep(&deployer).await;
    assert_eq!(deployer.github.count("GET example/shop statuses"), 4);
    deployer.settle().await;
    deployer.github.left_open(lost[0]);
    deployer.settled().await;
}

#[tokio::test]
async fn a_round_takes_several_runs_and_comes_to_everybody() {
    let deployer = swept_once().await;
    for n in 1..50 {
        app(&deployer, &format!("r{n:03}"));
    }
    wait(&deployer, 3700);
    // GitHub says with each answer what may be asked within the hour.
    app(&deployer, "first").deploys(TARGET, "v1").await;
    deployer.settle().await;
    deployer.github.webhooks(Webhooks::Unheard);
    let lost = deployer.github.repository("example/r049").deploys(TARGET, "v1").await;
    wait(&deployer, 180);
    let mut waiting = Vec::new();
    let mut found = 0;
    for _ in 0..3 {
        let before = deployer.github.seen().len();
        let reports = sweep(&deployer).await;
        let asked = deployer.github.seen().len() - before;
        // Beside its allowance of 20: an App asks for a token of each repository.
        assert!(asked <= 3 * 20 + 2, "a run spends little: {asked} requests");
        waiting.push(reports[1].waiting);
        found += healed(&reports);
    }
    assert_eq!((waiting, found), (vec![31, 11, 0], 1), "20 requests a run, one for the list");
    for n in 1..50 {
        let line = format!("GET repos/example/r{n:03}/deployments");
        let looked = deployer.github.seen().into_iter().filter(|one| one.line == line);
        assert_eq!(looked.count(), 1, "each repository once: {line}");
    }
    deployer.settle().await;
    assert_eq!(deployer.github.told(lost).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn a_repository_that_is_gone_is_logged_once_and_holds_up_nobody() {
    let deployer = swept_once().await;
    let gone = deployer.github.repository("acme/gone");
    gone.commit(&waml("gone").replace("namespace: devx", "namespace: acme"));
    gone.deploys(TARGET, "v1").await;
    let shop = app(&deployer, "shop");
    deployer.settle().await;
    deployer.github.uninstalled("acme");
    deployer.github.webhooks(Webhooks::Unheard);
    let lost = shop.deploys(TARGET, "v1").await;
    wait(&deployer, 3700);
    let log = CapturedLog::of("the_deployer", Level::INFO);
    assert_eq!(healed(&sweep(&deployer).await), 1);
    sweep(&deployer).await;
    let about = |line: &&str| line.contains("could not be swept") && line.contains("acme/gone");
    assert_eq!(log.text().lines().filter(about).count(), 1, "{}", log.text());
    deployer.settle().await;
    assert_eq!(deployer.github.told(lost).last().unwrap(), "success");
    deployer.settled().await;
}

#[tokio::test]
async fn of_two_processes_one_sweeps_and_a_dead_one_is_followed() {
    let deployer = swept_once().await;
    let store = deployer.stepped().store();
    let lease = Duration::from_secs(100);
    let name = SweepKind::Deliveries.as_str();
    let theirs = store.begin_sweep(name, "other", deployer.clock.now(), lease, true).await;
    assert!(theirs.unwrap().is_some());
    assert_eq!(sweep(&deployer).await.len(), 1, "the other kind alone");
    wait(&deployer, 100);
    assert_eq!(sweep(&deployer).await.len(), 2);
    let early = store.begin_sweep(name, "other", deployer.clock.now(), lease, false).await;
    assert_eq!(early.unwrap(), None, "it is not due");
    wait(&deployer, 300);
    let due = store.begin_sweep(name, "other", deployer.clock.now(), lease, false).await;
    let due = due.unwrap().expect("it is due");
    assert_eq!(due.since, at(0), "that is when the installation began");
    deployer.settled().await;
}

#[tokio::test]
async fn metrics_tell_what_was_found_and_what_waits() {
    let deployer = swept_once().await;
    deployer.github.webhooks(Webhooks::Lost);
    app(&deployer, "shop").deploys(TARGET, "v1").await;
    wait(&deployer, 60);
    assert_eq!(sweep(&deployer).await[0].healed, 1);
    deployer.settle().await;
    let now = deployer.clock.now();
    deployer.github.down_for(Duration::from_secs(1));
    assert_eq!(sweep(&deployer).await[0].outcome, SweepOutcome::Unreachable);
    let url = format!("{}/metrics", deployer.url());
    let text = client().get(url).send().await.unwrap().text().await.unwrap();
    for line in [
        "sweep_runs_total{sweep=\"deliveries\",outcome=\"done\"} 2",
        "sweep_runs_total{sweep=\"deliveries\",outcome=\"unreachable\"} 1",
        "sweep_healed_total{sweep=\"deliveries\"} 1",
        &format!("sweep_last_timestamp_seconds{{sweep=\"deliveries\"}} {}", at(60).as_second()),
        "sweep_waiting{sweep=\"deliveries\"} 0",
    ] {
        assert!(text.contains(line), "at {now}: no {line} in\n{text}");
    }
    wait(&deployer, 1);
    deployer.settled().await;
}
