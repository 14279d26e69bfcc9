//! CHAOS: the real program, with everything that can happen to it at moments that nobody chose, and
//! a model that judges from outside what came of it.
//!
//! ```text
//! command               `just chaos`: rounds for minutes, and a table
//! crash, replicas,      a scenario each: what is done to the service
//! races, overload,
//! rollouts
//!   fleet               processes, databases, code and git hosts, links that can be cut
//!   senders             who uses the service meanwhile
//!   ledger              what it has answered for
//! verdict               what is there at the end, held against the ledger
//!   history             the manifest repository, as the git program reads it
//! ```
//!
//! A round of each runs with all tests. What is done follows from the seed, which is printed; when
//! it meets what the service is at does not, so one seed may have to be played a few times.

mod command; // many rounds, for people
mod crash; // SIGKILL
mod fleet; // what is played with
mod history; // git, from outside
mod ledger; // what was promised
mod overload; // too much, without a secret
mod races; // two at once
mod replicas; // stopped, cut off
mod rollouts; // many targets, and back
mod senders; // events, and other people's commits
mod verdict; // what came of it

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use futures::FutureExt as _;

use crate::chaos::fleet::Fleet;
use crate::chaos::ledger::{Entries, Ledger};
use crate::harness::random::Random;

/// No round takes longer.
const LONGEST: Duration = Duration::from_mins(6);
/// No round of rollouts does: those of an app follow each other, and may stand still for some minutes.
const LONGEST_OF_ROLLOUTS: Duration = Duration::from_mins(25);

/// What is done to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Scenario {
    Crash,
    Replicas,
    Races,
    Overload,
    Rollouts,
}

/// How much is done in a round.
#[derive(Debug, Clone, Copy)]
enum Size {
    /// A few seconds.
    Brief,
    Full,
}

impl Size {
    fn of(self, brief: usize, full: usize) -> usize {
        match self {
            Self::Brief => brief,
            Self::Full => full,
        }
    }
}

/// What came of a round.
struct Report {
    scenario: Scenario,
    seed: u64,
    /// What the fleet was made of.
    summary: String,
    counts: BTreeMap<&'static str, usize>,
    violations: Vec<String>,
    /// The most memory of a process, in MiB.
    peak: u64,
    took: Duration,
    /// Where logs and the repository are, if something was wrong.
    evidence: Option<PathBuf>,
}

/// Plays one round; `None` where what it needs is not installed, which is said.
async fn play(scenario: Scenario, seed: u64, size: Size) -> Option<Report> {
    let begun = Instant::now();
    let ledger = Ledger::default();
    // Seeds that are close to each other are to begin differently.
    let random = Random::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let playing = async {
        match scenario {
            Scenario::Crash => Some(crash::play(random, size, &ledger).await),
            Scenario::Replicas => replicas::play(random, size, &ledger).await,
            Scenario::Races => Some(races::play(random, size, &ledger).await),
            Scenario::Overload => Some(overload::play(random, size, &ledger).await),
            Scenario::Rollouts => rollouts::play(random, size, &ledger).await,
        }
    };
    let playing = AssertUnwindSafe(Box::pin(playing)).catch_unwind();
    let longest = if scenario == Scenario::Rollouts { LONGEST_OF_ROLLOUTS } else { LONGEST };
    let fleet = match tokio::time::timeout(longest, playing).await {
        Ok(Ok(None)) => return None,
        Ok(Ok(fleet)) => fleet,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            ledger.violation(format!("the round broke off: {text}"));
            None
        }
        Err(_) => {
            ledger.violation(format!("the round did not end within {longest:?}"));
            None
        }
    };
    let Entries { counts, violations, .. } = std::mem::take(&mut *ledger.entries());
    let peak = fleet.as_ref().map_or(0, |fleet| *fleet.peak.lock().unwrap());
    let summary = fleet.as_ref().map_or_else(String::new, |fleet| fleet.summary.clone());
    let evidence = fleet.filter(|_| !violations.is_empty()).map(|fleet| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{seed}"));
        fleet.keep(&folder);
        folder
    });
    let took = begun.elapsed();
    Some(Report { scenario, seed, summary, counts, violations, peak, took, evidence })
}

/// Every scenario ends with this: nothing is in the way any more, everything comes to its end, and
/// is judged.
async fn finish(fleet: &Fleet, ledger: &Ledger) {
    fleet.restore().await;
    let mut ids = ledger.ids();
    let unfinished = fleet.records().await.into_iter().filter(|one| one["finished_at"].is_null());
    ids.extend(unfinished.filter_map(|record| record["id"].as_str().map(str::to_owned)));
    fleet.until_ended(&ids, ledger).await;
    fleet.start_over(&ids, ledger).await;
    verdict::judge(fleet, ledger).await;
    fleet.kill(0, ledger);
    fleet.github_settled(ledger);
}

/// A brief round, as part of all tests.
async fn holds(scenario: Scenario) {
    let seed = Random::seed();
    eprintln!("THE_DEPLOYER_TEST_SEED={seed}");
    let Some(report) = play(scenario, seed, Size::Brief).await else { return };
    let said = command::round_lines(1, &report);
    assert!(report.violations.is_empty(), "{}", said.join("\n"));
    assert!(report.counts["events"] > 0, "a round in which nothing happens proves nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_moments_that_nobody_chose() {
    holds(Scenario::Crash).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_are_killed_stopped_and_cut_off() {
    holds(Scenario::Replicas).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_at_once_and_people_against_deployments() {
    holds(Scenario::Races).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_events_while_others_attack() {
    holds(Scenario::Overload).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollouts_while_everything_happens_to_them() {
    holds(Scenario::Rollouts).await;
}
