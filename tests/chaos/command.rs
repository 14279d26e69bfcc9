//! `just chaos`: round after round with fresh seeds until the time is over, and a table of them. Stops
//! at the first violation, with the command that plays that round again.
//!
//! The arguments come in `THE_DEPLOYER_CHAOS`, because a test has none of its own; without the
//! variable one brief round is played, so that this part is tried too.

use std::time::{Duration, Instant};

use clap::Parser;

use crate::chaos::{Report, Scenario, Size, play};
use crate::harness::random::Random;

const VARIABLE: &str = "THE_DEPLOYER_CHAOS";
const WIDTH: usize = 80;
/// Seeds are short, so that they can be read out.
const SEEDS: usize = 1_000_000_000;

/// What can be asked for.
#[derive(Debug, Parser)]
#[command(name = "just chaos", no_binary_name = true, about = "Chaos, and what came of it")]
struct Arguments {
    /// For how long; with --seed, one round
    #[arg(long)]
    minutes: Option<u64>,
    /// How many rounds, in place of a time
    #[arg(long)]
    rounds: Option<usize>,
    /// Play this seed, in each round
    #[arg(long)]
    seed: Option<u64>,
    /// Only this one; without, each in turn
    #[arg(long)]
    scenario: Option<Scenario>,
    /// Small rounds, as they are part of all tests
    #[arg(long)]
    brief: bool,
    /// Go on after a violation
    #[arg(long)]
    keep_going: bool,
}

impl Arguments {
    fn read() -> Self {
        let text = std::env::var(VARIABLE);
        let text = text.unwrap_or_else(|_| "--rounds 1 --scenario crash --brief".to_owned());
        Self::parse_from(text.split_whitespace())
    }

    /// Whether that was the last round.
    fn is_over(&self, rounds: usize, since: Instant) -> bool {
        let minutes = |minutes: u64| since.elapsed() >= Duration::from_mins(minutes);
        match (self.rounds, self.minutes, self.seed) {
            (Some(most), _, _) => rounds >= most,
            (None, Some(most), _) => minutes(most),
            (None, None, Some(_)) => rounds > 0,
            (None, None, None) => minutes(30),
        }
    }
}

/// Not a sentence about the product: it is what `just chaos` runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds() {
    let arguments = Arguments::read();
    let all = Scenario::all();
    let chosen = arguments.scenario.map_or(all.to_vec(), |one| vec![one]);
    let mut random = Random::new(Random::seed());
    let mut reports = Vec::new();
    let begun = Instant::now();
    while !arguments.is_over(reports.len(), begun) {
        let scenario = chosen[reports.len() % chosen.len()];
        let seed = u64::try_from(random.below(SEEDS)).unwrap();
        let seed = arguments.seed.unwrap_or(seed);
        let size = if arguments.brief { Size::Brief } else { Size::Full };
        // What it needs is not installed; that is said, and fails where all tests are required.
        let Some(report) = play(scenario, seed, size).await else { return };
        let wrong = !report.violations.is_empty();
        for line in round_lines(reports.len() + 1, &report) {
            eprintln!("{line}");
        }
        reports.push(report);
        if wrong && !arguments.keep_going {
            break;
        }
    }
    let table = table(&reports);
    for line in &table {
        eprintln!("{line}");
        assert!(line.chars().count() <= WIDTH, "the table fits a terminal: {line:?}");
    }
    let wrong = reports.iter().filter(|report| !report.violations.is_empty()).count();
    assert_eq!(wrong, 0, "rounds in which something did not hold");
}

impl Scenario {
    fn all() -> [Self; 5] {
        [Self::Crash, Self::Replicas, Self::Races, Self::Overload, Self::Rollouts]
    }

    fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Replicas => "replicas",
            Self::Races => "races",
            Self::Overload => "overload",
            Self::Rollouts => "rollouts",
        }
    }
}

/// A round as people read it.
pub(super) fn round_lines(number: usize, report: &Report) -> Vec<String> {
    let Report { scenario, seed, summary, counts, violations, peak, took, evidence } = report;
    let verdict = if violations.is_empty() { "held" } else { "VIOLATED" };
    let (name, took) = (scenario.name(), took.as_secs_f64());
    let mut lines = vec![
        format!("{number:>4}  {name:<9} seed {seed:<10} {took:>6.1} s {peak:>5} MiB  {verdict}"),
        format!("      {summary}"),
    ];
    let counts: Vec<String> = counts.iter().map(|(what, n)| format!("{n} {what}")).collect();
    lines.push(format!("      {}", counts.join(", ")));
    lines.extend(violations.iter().map(|violation| format!("      ! {violation}")));
    if !violations.is_empty() {
        lines.push(format!("      again: just chaos --scenario {name} --seed {seed} --rounds 10"));
    }
    if let Some(folder) = evidence {
        lines.push(format!("      logs and repository: {}", folder.display()));
    }
    lines
}

/// All rounds, a line for each scenario.
fn table(reports: &[Report]) -> Vec<String> {
    let head = ["rounds", "held", "events", "commits", "trouble", "MiB"];
    let head: String = head.iter().map(|word| format!("{word:>9}")).collect();
    let mut lines = vec![String::new(), format!("{:<10}{head}", "scenario")];
    for scenario in Scenario::all() {
        let of_it: Vec<&Report> = reports.iter().filter(|one| one.scenario == scenario).collect();
        let sum = |what: &[&str]| -> usize {
            let counts = of_it.iter().flat_map(|one| &one.counts);
            counts.filter(|(name, _)| what.contains(name)).map(|(_, n)| n).sum()
        };
        let trouble = [
            "attacks",
            "cancels",
            "claims",
            "cuts",
            "kills",
            "locks",
            "redeliveries",
            "removals",
            "rollbacks",
            "stops",
        ];
        let numbers = [
            of_it.len(),
            of_it.iter().filter(|one| one.violations.is_empty()).count(),
            sum(&["events"]),
            sum(&["commits"]),
            sum(&trouble),
            of_it.iter().map(|one| usize::try_from(one.peak).unwrap()).max().unwrap_or(0),
        ];
        let numbers: String = numbers.iter().map(|number| format!("{number:>9}")).collect();
        lines.push(format!("{:<10}{numbers}", scenario.name()));
    }
    lines
}
