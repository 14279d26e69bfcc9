//! Signed events in a burst while others, who know no secret, try to use the service up. All of it
//! on the loopback device, bounded in number, and over when the burst is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;

use crate::chaos::fleet::{Fleet, Setting, TARGETS, waml_of};
use crate::chaos::ledger::Ledger;
use crate::chaos::senders::Lane;
use crate::chaos::{Size, finish};
use crate::harness::attack::Attack;
use crate::harness::random::Random;

/// What attackers hold the process to, in MiB.
const MAX_MEMORY: u64 = 256;
/// Descriptors of a process that nobody attacks, generously.
const MAX_DESCRIPTORS: usize = 300;
/// Within which descriptors are given back after an attack.
const RELEASE: Duration = Duration::from_secs(20);
/// An attack takes no longer, whatever comes of it.
const LONGEST: Duration = Duration::from_secs(30);

pub(crate) async fn play(mut random: Random, size: Size, ledger: &Ledger) -> Fleet {
    let setting = Setting { members: 1, postgres: None, github: false, host: false, pushes: None };
    let mut fleet = Fleet::start(setting).await;
    let attack = *random.choose(&Attack::ALL);
    fleet.summary.push_str(&format!(", {attack:?}"));
    let lanes: Vec<Lane> =
        (0..size.of(3, 12)).map(|app| Lane::new(&format!("app-{app}"), TARGETS[0])).collect();
    for lane in &lanes {
        fleet.commit(&lane.repository, &waml_of(&lane.app));
    }
    let server: SocketAddr = fleet.address(0).trim_start_matches("http://").parse().unwrap();
    let world = (&fleet, ledger);
    let mut sending = join_all(
        lanes
            .iter()
            .map(|lane| lane.deploy_all(world, random.fork(), size.of(3, 8), 150))
            .collect::<Vec<_>>(),
    );
    ledger.count("attacks");
    let running = attack.begin(server).await;
    let sent = tokio::time::timeout(LONGEST, &mut sending).await;
    let healthy = fleet.ask(0, (Method::GET, "/healthz"), None, None).await;
    ledger.require(healthy.is_some_and(|(status, _)| status == 200), || {
        "/healthz did not answer under attack".to_owned()
    });
    drop(running);
    if sent.is_err() {
        ledger.violation(format!("signed events were not accepted within {LONGEST:?}"));
        sending.await;
    } else {
        drop(sending);
    }
    release(world).await;
    finish(&fleet, ledger).await;
    let peak = *fleet.peak.lock().unwrap();
    ledger.require(peak < MAX_MEMORY, || {
        format!("attackers made the process hold {peak} MiB, {MAX_MEMORY} are allowed")
    });
    fleet
}

/// The process gives back what attackers held, and took every signed event at its first delivery.
async fn release((fleet, ledger): (&Fleet, &Ledger)) {
    let refused: usize = {
        let entries = ledger.entries();
        ["503", "unanswered"].iter().filter_map(|what| entries.counts.get(what)).sum()
    };
    ledger.require(refused == 0, || {
        format!("{refused} deliveries of signed events were turned away or not answered")
    });
    let deadline = Instant::now() + RELEASE;
    while fleet.descriptors(0).is_some_and(|open| open > MAX_DESCRIPTORS) {
        if Instant::now() > deadline {
            let open = fleet.descriptors(0);
            ledger.violation(format!("{open:?} descriptors are open after the attack"));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
