//! Everything at once: two repositories that want the same new app or host, acts of people against
//! deployments, events and acts that come several times.

use std::cell::Cell;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::chaos::fleet::{Fleet, Setting, TARGETS, waml_of};
use crate::chaos::ledger::{Expectation, Ledger, Removed};
use crate::chaos::senders::{Lane, commit_beside, deliver};
use crate::chaos::{Size, finish};
use crate::harness::postgres;
use crate::harness::random::Random;

const TARGET: &str = TARGETS[0];
const LOOK: Duration = Duration::from_millis(50);

type World<'w> = (&'w Fleet, &'w Ledger);

pub(crate) async fn play(mut random: Random, size: Size, ledger: &Ledger) -> Fleet {
    let postgres = if random.percent(60) { postgres::fresh_database().await } else { None };
    let members = if postgres.is_some() { 2 } else { 1 };
    let host = members > 1 || random.percent(50);
    let setting = Setting { members, postgres, github: false, host, pushes: None };
    let fleet = Fleet::start(setting).await;
    let (world, over) = ((&fleet, ledger), Cell::new(false));
    let [apps, hosts, acts, locks, doubles, others] = [(); 6].map(|()| random.fork());
    let acting = async {
        tokio::join!(
            join_all((0..size.of(2, 5)).map(|n| claim(world, n, Claim::App, apps.clone()))),
            join_all((0..size.of(2, 5)).map(|n| claim(world, n, Claim::Host, hosts.clone()))),
            acts_against_deployments(world, acts, size.of(2, 5)),
            lock(world, locks),
            double(world, doubles, size.of(2, 5)),
        );
        roll_back_through_a_crash(world, random.fork()).await;
        over.set(true);
    };
    tokio::join!(acting, commit_beside(world, others, &over));
    finish(&fleet, ledger).await;
    fleet
}

/// What two repositories want at the same moment.
#[derive(Debug, Clone, Copy)]
enum Claim {
    App,
    Host,
}

/// One of the two gets it, and the other is refused by the rule.
async fn claim((fleet, ledger): World<'_>, number: usize, claim: Claim, random: Random) {
    let lanes = ["a", "b"].map(|side| {
        let repository = format!("example/{claim:?}-{number}-{side}").to_lowercase();
        let (app, waml) = match claim {
            Claim::App => (format!("new-{number}"), waml_of(&format!("new-{number}"))),
            Claim::Host => {
                let app = format!("host-{number}-{side}");
                let own = format!("hostPrefix: {app}");
                let waml = waml_of(&app);
                assert!(waml.contains(&own));
                (app, waml.replace(&own, &format!("hostPrefix: shared-{number}")))
            }
        };
        fleet.commit(&repository, &waml);
        Lane { repository, app, target: TARGET, member: None }
    });
    ledger.count("claims");
    let mut randoms = [(); 2].map(|()| random.clone());
    let [one, other] = &mut randoms;
    other.below(7);
    let ids = tokio::join!(
        lanes[0].deploy((fleet, ledger), one, 1, Expectation::Contested),
        lanes[1].deploy((fleet, ledger), other, 1, Expectation::Contested),
    );
    let (Some(first), Some(second)) = ids else { return };
    let ends = [end(fleet, &first).await, end(fleet, &second).await];
    let won = ends.iter().filter(|record| record["state"] == "succeeded").count();
    ledger.require(won == 1, || {
        let ends = ends.map(|record| format!("{} {}", record["state"], record["summary"]));
        format!("{won} of 2 got the same {claim:?} {number}: {ends:?}")
    });
}

/// Releases of one app, while it is rolled back, cancelled and removed.
async fn acts_against_deployments(world: World<'_>, mut random: Random, rounds: usize) {
    let (fleet, _) = world;
    let lane = Lane::new("busy", TARGET);
    fleet.commit(&lane.repository, &waml_of(&lane.app));
    for sequence in 1..=2 {
        let id = lane.deploy(world, &mut random, sequence, Expectation::Contested).await;
        end(fleet, &id.unwrap_or_default()).await;
    }
    let [mut deploying, mut rolling, mut removing] = [(); 3].map(|()| random.fork());
    let deploying = async {
        for sequence in 3..3 + rounds * 2 {
            let sent = lane.deploy(world, &mut deploying, sequence, Expectation::Contested).await;
            if let Some(id) = sent.filter(|_| deploying.percent(30)) {
                cancel(world, &id, deploying.below(fleet.len())).await;
            }
            tokio::time::sleep(deploying.millis(0, 1200)).await;
        }
    };
    let rolling = async {
        for _ in 0..rounds {
            tokio::time::sleep(rolling.millis(0, 600)).await;
            roll_back(world, &lane, &mut rolling).await;
        }
    };
    let removing = async {
        for _ in 0..rounds {
            tokio::time::sleep(removing.millis(300, 900)).await;
            remove(world, &lane, removing.below(fleet.len())).await;
        }
    };
    tokio::join!(deploying, rolling, removing);
}

async fn cancel((fleet, ledger): World<'_>, id: &str, member: usize) {
    let path = format!("/api/v1/deployments/{id}/cancel");
    let answer = fleet.post(member, &path, &json!({"reason": "the wrong tag"})).await;
    match answer {
        Some((200, _)) => {
            ledger.count("cancels");
            ledger.expect(id, Expectation::Cancelled);
        }
        Some((409, _)) => {}
        other => ledger.violation(format!("cancelling {id}: {other:?}")),
    }
}

/// Three callers with the same key: one rollback at most.
async fn roll_back((fleet, ledger): World<'_>, lane: &Lane, random: &mut Random) {
    let path = format!("/api/v1/apps/{}/rollback", lane.spot());
    let key = format!("rollback-{}", uuid::Uuid::now_v7());
    let body = json!({"reason": key});
    let callers = (0..3).map(|_| {
        let member = random.below(fleet.len());
        fleet.ask(member, (Method::POST, &path), Some(&body), Some(&key))
    });
    let answers = join_all(callers.collect::<Vec<_>>()).await;
    let mut ids = Vec::new();
    for answer in answers {
        match answer {
            Some((202, said)) => ids.push(id_of(&said["deployment"]["id"])),
            Some((404 | 409 | 503, _)) => {}
            other => ledger.violation(format!("rolling back: {other:?}")),
        }
    }
    ids.sort();
    ids.dedup();
    ledger.require(ids.len() < 2, || format!("one key made two rollbacks: {ids:?}"));
    for id in ids {
        ledger.count("rollbacks");
        ledger.entries().rollbacks.push(id);
    }
}

/// Asks a few times: an app with a deployment under way is not removed.
async fn remove((fleet, ledger): World<'_>, lane: &Lane, member: usize) {
    let path = format!("/api/v1/apps/{}/remove", lane.spot());
    for _ in 0..10 {
        let asked = Timestamp::now();
        match fleet.post(member, &path, &json!({"reason": "moved"})).await {
            Some((200, said)) if said["outcome"] == "removed" => {
                ledger.count("removals");
                let (folder, id) = (lane.folder(), id_of(&said["id"]));
                return ledger.entries().removals.push(Removed { folder, id, asked });
            }
            Some((200 | 404, _)) => return,
            Some((409 | 503, _)) => tokio::time::sleep(LOOK * 2).await,
            other => return ledger.violation(format!("removing: {other:?}")),
        }
    }
}

/// A lock that three callers place with one key is one lock, and stops what comes after it.
async fn lock(world: World<'_>, mut random: Random) {
    let (fleet, ledger) = world;
    let lane = Lane::new("locked", TARGET);
    fleet.commit(&lane.repository, &waml_of(&lane.app));
    let key = format!("lock-{}", uuid::Uuid::now_v7());
    let scope = json!({"target": TARGET, "app": "devx/locked"});
    let body = json!({"scope": scope, "reason": key});
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let member = random.below(fleet.len());
            fleet.ask(member, (Method::POST, "/api/v1/locks"), Some(&body), Some(&key))
        })
        .collect();
    let answers = join_all(callers).await;
    let placed = answers.iter().flatten().any(|(status, _)| *status == 201);
    ledger.require(placed, || format!("nobody could place a lock: {answers:?}"));
    ledger.count("locks");
    let id = lane.deploy(world, &mut random, 1, Expectation::Refused("locks")).await;
    end(fleet, &id.unwrap_or_default()).await;
    let listed = fleet.ask(0, (Method::GET, "/api/v1/locks"), None, None).await;
    let listed = listed.map(|(_, said)| said["locks"].clone()).unwrap_or_default();
    let ours: Vec<&Json> =
        listed.as_array().into_iter().flatten().filter(|one| one["reason"] == key).collect();
    ledger.require(ours.len() == 1, || format!("one key placed {} locks", ours.len()));
    for one in ours {
        let path = format!("/api/v1/locks/{}/remove", id_of(&one["id"]));
        fleet.post(0, &path, &json!({"reason": "it is over"})).await;
    }
    lane.deploy(world, &mut random, 2, Expectation::Deployed).await;
}

/// The same event to everybody at once, several times: one deployment.
async fn double(world: World<'_>, mut random: Random, events: usize) {
    let (fleet, ledger) = world;
    let lane = Lane::new("doubled", TARGET);
    fleet.commit(&lane.repository, &waml_of(&lane.app));
    for sequence in 1..=events {
        let tag = format!("v{sequence}");
        let event = fleet.deployment(&lane.repository, TARGET, &tag).await;
        let mut randoms: Vec<Random> = (0..4).map(|_| random.fork()).collect();
        let sending = randoms.iter_mut().map(|random| deliver(world, &event, random, None));
        let mut ids: Vec<String> = join_all(sending).await.into_iter().flatten().collect();
        ids.sort();
        ids.dedup();
        ledger.require(ids.len() < 2, || format!("{tag} became several deployments: {ids:?}"));
        let (app, answered) = (lane.app.clone(), Timestamp::now());
        let expectation = Expectation::Deployed;
        for id in ids {
            ledger.count("events");
            let event = event.clone();
            let app = app.clone();
            ledger.entries().accepted.push(crate::chaos::ledger::Accepted {
                event,
                app,
                id,
                sequence,
                answered,
                expectation,
            });
        }
    }
}

/// A process dies while it rolls back, and the caller asks again with the same key: the app goes
/// back by one revision, not by two.
async fn roll_back_through_a_crash(world: World<'_>, mut random: Random) {
    let (fleet, ledger) = world;
    let lane = Lane::new("keyed", TARGET);
    fleet.commit(&lane.repository, &waml_of(&lane.app));
    for sequence in 1..=3 {
        let id = lane.deploy(world, &mut random, sequence, Expectation::Contested).await;
        end(fleet, &id.unwrap_or_default()).await;
    }
    let path = format!("/api/v1/apps/{}/rollback", lane.spot());
    let key = format!("crash-{}", uuid::Uuid::now_v7());
    let body = json!({"reason": key});
    let ask = |member| fleet.ask(member, (Method::POST, &path), Some(&body), Some(&key));
    let dying = async {
        tokio::time::sleep(random.millis(0, 60)).await;
        fleet.kill(0, ledger);
        ledger.count("kills");
    };
    tokio::join!(ask(0), dying);
    fleet.start_member(0).await;
    for _ in 0..20 {
        match ask(random.below(fleet.len())).await {
            Some((202, said)) => {
                end(fleet, &id_of(&said["deployment"]["id"])).await;
                break;
            }
            // Another rollback of the app waits, or the key is still held for who died.
            _ => tokio::time::sleep(LOOK * 4).await,
        }
    }
    let made = fleet.records().await;
    let made = made.iter().filter(|record| record["rollback"]["reason"] == key).count();
    ledger.require(made < 2, || format!("a rollback repeated with its key was done {made} times"));
}

/// The deployment when it has ended; what is known of it where it does not.
async fn end(fleet: &Fleet, id: &str) -> Json {
    let mut last = Json::Null;
    for _ in 0..600 {
        if let Some(record) = fleet.record(id).await {
            if !record["finished_at"].is_null() {
                return record;
            }
            last = record;
        }
        tokio::time::sleep(LOOK).await;
    }
    last
}

fn id_of(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
