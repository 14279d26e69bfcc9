//! Two or three processes on one PostgreSQL. One after the other is killed, stands still for longer
//! than its lease, or is cut off from the database, the git host or GitHub alone.

use std::cell::Cell;
use std::time::Duration;

use crate::chaos::fleet::{Fleet, Setting, TARGETS, waml_of};
use crate::chaos::ledger::{Expectation, Ledger};
use crate::chaos::senders::{Lane, commit_beside};
use crate::chaos::{Size, finish};
use crate::harness::link::LinkState;
use crate::harness::postgres;
use crate::harness::random::Random;

/// `None` where PostgreSQL is not installed, which is said.
pub(crate) async fn play(mut random: Random, size: Size, ledger: &Ledger) -> Option<Fleet> {
    let postgres = Some(postgres::fresh_database().await?);
    let github = random.percent(40);
    // So few pushes that work waits in the first one's queue while something happens to it.
    let pushes = *random.choose(&[Some(10), Some(20), Some(40), None]);
    let members = 2 + random.below(2);
    let setting = Setting { members, postgres, github, host: true, pushes };
    let fleet = Fleet::start(setting).await;
    // GitHub takes eighty writes a minute, and a deployment is up to six.
    let (apps, deployments) =
        if github { (size.of(2, 3), size.of(2, 3)) } else { (size.of(2, 4), size.of(4, 8)) };
    let lanes: Vec<Lane> =
        (0..apps).map(|app| Lane::new(&format!("app-{app}"), TARGETS[random.below(2)])).collect();
    for lane in &lanes {
        fleet.commit(&lane.repository, &waml_of(&lane.app));
    }
    let over = Cell::new(false);
    let world = (&fleet, ledger);
    let sending = lanes
        .iter()
        .map(|lane| lane.deploy_all(world, random.fork(), deployments, 1500))
        .collect::<Vec<_>>();
    let troublemaker = random.fork();
    let others = random.fork();
    let acting = async {
        tokio::join!(futures::future::join_all(sending), disturb(world, troublemaker, size));
        if !github {
            overtake(world, random.fork(), size).await;
        }
        over.set(true);
    };
    tokio::join!(acting, commit_beside(world, others, &over));
    finish(&fleet, ledger).await;
    Some(fleet)
}

/// One disturbance after the other, each of one process and each with an end. The lease is a second.
async fn disturb(world: (&Fleet, &Ledger), mut random: Random, size: Size) {
    for _ in 0..size.of(2, 7) {
        tokio::time::sleep(random.millis(100, size.of(400, 1000))).await;
        disturb_once(world, &mut random, size).await;
    }
}

/// Kills one process, stops it, or cuts it off, and brings it back.
pub(super) async fn disturb_once(
    (fleet, ledger): (&Fleet, &Ledger),
    random: &mut Random,
    size: Size,
) {
    let longest = size.of(2000, 5000);
    let member = random.below(fleet.len());
    match random.below(10) {
        0..2 => {
            fleet.kill(member, ledger);
            ledger.count("kills");
            tokio::time::sleep(random.millis(0, 2000)).await;
            fleet.start_member(member).await;
        }
        2..6 => {
            fleet.pause(member);
            ledger.count("stops");
            tokio::time::sleep(random.millis(1200, longest)).await;
            fleet.go_on(member);
        }
        _ => {
            let link = *random.choose(&["database", "database", "git", "github"]);
            let state = *random.choose(&[LinkState::Silent, LinkState::Closed]);
            if fleet.set_link(member, link, state) {
                ledger.count("cuts");
                tokio::time::sleep(random.millis(1200, longest)).await;
                fleet.set_link(member, link, LinkState::Open);
            }
        }
    }
}

/// The first process stands still, or is cut off from the database, while a release waits in it for
/// the push budget. The others go on, and far enough that the release's revision is not
/// kept any more: nothing in the tree tells that it has been there.
async fn overtake((fleet, ledger): (&Fleet, &Ledger), mut random: Random, size: Size) {
    const OTHER: usize = 1;
    let lane = Lane::new("overtaken", TARGETS[0]);
    fleet.commit(&lane.repository, &waml_of(&lane.app));
    let mut sequence = 0;
    for _ in 0..size.of(1, 3) {
        for _ in 0..2 {
            sequence += 1;
            let by = lane.by(0);
            by.deploy((fleet, ledger), &mut random, sequence, Expectation::Deployed).await;
            tokio::time::sleep(random.millis(100, 700)).await;
        }
        let stops = random.percent(60);
        if stops {
            fleet.pause(0);
        } else {
            fleet.set_link(0, "database", LinkState::Closed);
        }
        ledger.count(if stops { "stops" } else { "cuts" });
        for _ in 0..6 {
            sequence += 1;
            let by = lane.by(OTHER);
            let id = by.deploy((fleet, ledger), &mut random, sequence, Expectation::Deployed).await;
            let id = id.unwrap_or_default();
            for _ in 0..200 {
                let record = fleet.record_of(OTHER, &id).await;
                if record.is_some_and(|record| !record["finished_at"].is_null()) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        fleet.set_link(0, "database", LinkState::Open);
        fleet.go_on(0);
        ledger.count("overtakes");
        tokio::time::sleep(random.millis(0, 1500)).await;
    }
}
