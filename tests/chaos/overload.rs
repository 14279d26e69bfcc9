//! Signed events in a burst while others, who know no secret, try to use the service up. All of it
//! on the loopback device, bounded in number, and over when the burst is.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::chaos::fleet::{Fleet, Setting, TARGETS, waml_of};
use crate::chaos::ledger::Ledger;
use crate::chaos::senders::Lane;
use crate::chaos::{Size, finish};
use crate::harness::random::Random;

/// What attackers hold the process to, in MiB.
const MOST_MEMORY: u64 = 256;
/// An attack takes no longer, whatever comes of it.
const LONGEST: Duration = Duration::from_secs(30);
/// Descriptors of a process that nobody attacks, generously.
const MOST_DESCRIPTORS: usize = 300;
/// Within which descriptors are given back after an attack.
const RELEASE: Duration = Duration::from_secs(20);

/// What an attacker does with a connection.
#[derive(Debug, Clone, Copy)]
enum Attack {
    /// The head of a webhook, then its body byte by byte.
    SlowBody,
    /// Half a head, and nothing more.
    HalfHead,
    /// A connection, and nothing at all.
    Silence,
    /// A whole body of a mebibyte with a signature that is none.
    LargeBody,
    /// The beginning of HTTP/2 without TLS.
    Http2,
}

/// As often as they are drawn.
const ATTACKS: [Attack; 9] = [
    Attack::SlowBody,
    Attack::SlowBody,
    Attack::SlowBody,
    Attack::SlowBody,
    Attack::SlowBody,
    Attack::HalfHead,
    Attack::Silence,
    Attack::LargeBody,
    Attack::Http2,
];

pub(crate) async fn play(mut random: Random, size: Size, ledger: &Ledger) -> Fleet {
    let setting = Setting { members: 1, postgres: None, github: false, host: false, pushes: None };
    let fleet = Fleet::start(setting).await;
    let lanes: Vec<Lane> =
        (0..size.of(4, 12)).map(|app| Lane::new(&format!("app-{app}"), TARGETS[0])).collect();
    for lane in &lanes {
        fleet.commit(&lane.repository, &waml_of(&lane.app));
    }
    let server: SocketAddr = fleet.address(0).trim_start_matches("http://").parse().unwrap();
    let over = Cell::new(false);
    // Attackers come from other addresses than GitHub does.
    let attackers = (0..size.of(250, 1600)).map(|number| {
        let from = format!("127.0.0.{}:0", 2 + number % 7).parse().unwrap();
        let attack = *random.choose(&ATTACKS);
        ledger.count("attacks");
        keep_attacking((from, server), attack, random.fork(), &over)
    });
    let attackers: Vec<_> = attackers.collect();
    let world = (&fleet, ledger);
    let sending: Vec<_> = lanes
        .iter()
        .map(|lane| lane.deploy_all(world, random.fork(), size.of(4, 8), 150))
        .collect();
    let acting = async {
        // Those who attack are there first.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let mut sending = join_all(sending);
        let sent = tokio::time::timeout(LONGEST, &mut sending).await;
        let healthy = fleet.ask(0, (reqwest::Method::GET, "/healthz"), None, None).await;
        ledger.require(healthy.is_some_and(|(status, _)| status == 200), || {
            "/healthz did not answer under attack".to_owned()
        });
        over.set(true);
        if sent.is_err() {
            ledger.violation(format!("signed events were not accepted within {LONGEST:?}"));
            sending.await;
        }
    };
    tokio::join!(acting, join_all(attackers));
    release((&fleet, ledger)).await;
    finish(&fleet, ledger).await;
    let peak = *fleet.peak.lock().unwrap();
    ledger.require(peak < MOST_MEMORY, || {
        format!("attackers made the process hold {peak} MiB, {MOST_MEMORY} are allowed")
    });
    fleet
}

/// How many deliveries were turned away or not answered, of all lanes.
fn refusals(ledger: &Ledger) -> usize {
    let entries = ledger.entries();
    ["503", "unanswered"].iter().filter_map(|what| entries.counts.get(what)).sum()
}

/// The process gives back what attackers held, and took every signed event at its first delivery.
async fn release((fleet, ledger): (&Fleet, &Ledger)) {
    let refused = refusals(ledger);
    ledger.require(refused == 0, || {
        format!("{refused} deliveries of signed events were turned away or not answered")
    });
    let deadline = Instant::now() + RELEASE;
    while fleet.descriptors(0).is_some_and(|open| open > MOST_DESCRIPTORS) {
        if Instant::now() > deadline {
            let open = fleet.descriptors(0);
            ledger.violation(format!("{open:?} descriptors are open after the attack"));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Attacks until it is over; a connection that the service ends is opened again, a little later.
async fn keep_attacking(
    (from, server): (SocketAddr, SocketAddr),
    attack: Attack,
    mut random: Random,
    over: &Cell<bool>,
) {
    tokio::time::sleep(random.millis(0, 500)).await;
    while !over.get() {
        // Nobody answers them when the service is right.
        let _refused = attack_once((from, server), attack, over).await;
        tokio::time::sleep(random.millis(200, 600)).await;
    }
}

async fn attack_once(
    (from, server): (SocketAddr, SocketAddr),
    attack: Attack,
    over: &Cell<bool>,
) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    // Other loopback addresses are not there on every system.
    let _from_here = socket.bind(from);
    let connecting = socket.connect(server);
    let mut stream = tokio::time::timeout(Duration::from_secs(2), connecting).await??;
    let head = |length: usize| {
        format!(
            "POST /webhooks/github HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
             x-github-event: deployment\r\nx-github-delivery: attack\r\n\
             x-hub-signature-256: sha256={}\r\ncontent-length: {length}\r\n\r\n",
            "0".repeat(64)
        )
    };
    match attack {
        Attack::SlowBody => {
            stream.write_all(head(100_000).as_bytes()).await?;
            while !over.get() {
                stream.write_all(b" ").await?;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        Attack::HalfHead => {
            stream.write_all(b"POST /webhooks/github HTTP/1.1\r\nhost: x\r\nx-").await?;
            hold(&stream, over).await?;
        }
        Attack::Silence => hold(&stream, over).await?,
        Attack::LargeBody => {
            let sending = async {
                stream.write_all(head(1_048_576).as_bytes()).await?;
                stream.write_all(&vec![b' '; 1_048_576]).await
            };
            tokio::time::timeout(Duration::from_secs(3), sending).await??;
        }
        Attack::Http2 => {
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
            hold(&stream, over).await?;
        }
    }
    Ok(())
}

/// Keeps a connection until the service ends it, or the attack is over.
async fn hold(stream: &TcpStream, over: &Cell<bool>) -> std::io::Result<()> {
    let mut byte = [0; 512];
    while !over.get() {
        match stream.try_read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
