//! One process, killed again and again: in its first start, while it accepts, plans, pushes and tells.

use std::cell::Cell;
use std::time::Duration;

use crate::chaos::fleet::{Fleet, Setting, TARGETS, waml_of};
use crate::chaos::ledger::Ledger;
use crate::chaos::senders::{Lane, commit_beside};
use crate::chaos::{Size, finish};
use crate::harness::postgres;
use crate::harness::random::Random;

pub(crate) async fn play(mut random: Random, size: Size, ledger: &Ledger) -> Fleet {
    let postgres = if random.percent(50) { postgres::fresh_database().await } else { None };
    let host = random.percent(50);
    let setting = Setting { members: 1, postgres, github: false, host, pushes: None };
    let fleet = Fleet::prepare(setting).await;
    let lanes: Vec<Lane> = (0..size.of(3, 6))
        .map(|app| Lane::new(&format!("app-{app}"), TARGETS[random.below(2)]))
        .collect();
    for lane in &lanes {
        fleet.commit(&lane.repository, &waml_of(&lane.app));
    }
    for _ in 0..size.of(2, 4) {
        fleet.kill_in_start(0, random.millis(0, 400)).await;
        ledger.count("kills");
    }
    let over = Cell::new(false);
    let world = (&fleet, ledger);
    let sending = lanes
        .iter()
        .map(|lane| lane.deploy_all(world, random.fork(), size.of(3, 5), 400))
        .collect::<Vec<_>>();
    let killer = random.fork();
    let others = random.fork();
    let acting = async {
        tokio::join!(futures::future::join_all(sending), kill(world, killer, size.of(3, 8)));
        over.set(true);
    };
    tokio::join!(acting, commit_beside(world, others, &over));
    finish(&fleet, ledger).await;
    fleet
}

/// Kills after a number of lines of its log, or after a moment: at a point that nobody chose.
async fn kill((fleet, ledger): (&Fleet, &Ledger), mut random: Random, kills: usize) {
    for _ in 0..kills {
        fleet.start_member(0).await;
        if random.percent(50) {
            fleet.more_lines(0, random.below(60)).await;
        } else {
            tokio::time::sleep(random.millis(0, 700)).await;
        }
        fleet.kill(0, ledger);
        ledger.count("kills");
        if random.percent(30) {
            fleet.kill_in_start(0, random.millis(0, 300)).await;
            ledger.count("kills");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fleet.start_member(0).await;
}
