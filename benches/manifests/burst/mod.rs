//! A burst through the whole program: `the-deployer serve` with the local code host, a manifest
//! repository behind the git host, and signed events over HTTP. In the end everything is checked.

mod check; // none lost, none doubled, in order
mod events; // what is sent, and how fast it is answered
mod service; // the program, started and asked

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::burst::check::Outcome;
use crate::burst::events::{Answers, Event};
use crate::burst::service::Service;
use crate::host::Host;
use crate::measure::{self, millis, percentile};
use crate::ways::REPOSITORY;
use crate::{Place, generate};

#[derive(Args)]
pub struct Options {
    /// How many events
    #[arg(long, default_value_t = 1_000)]
    events: usize,
    /// Over how many apps
    #[arg(long, default_value_t = 500)]
    over: usize,
    /// On how many clusters an app's events are; with 1, later ones supersede those that wait
    #[arg(long, default_value_t = 2)]
    targets: usize,
    /// Where the service keeps its state
    #[arg(long, value_enum, default_value_t = Database::Sqlite)]
    database: Database,
    /// How many connections send events
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How many events a second are sent at most; without, as fast as they are answered
    #[arg(long)]
    rate: Option<u32>,
    /// `limits.workers`; without, what the program chooses
    #[arg(long)]
    workers: Option<usize>,
    /// More lines for the configuration of the manifest repository, as YAML: `push: libgit2`
    #[arg(long)]
    repository_setting: Vec<String>,
    /// The program
    #[arg(long, default_value = env!("CARGO_BIN_EXE_the-deployer"))]
    program: std::path::PathBuf,
    /// Waits for Enter before the burst, so that a profiler can be attached
    #[arg(long)]
    pause: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
}

/// After so long without an end something has gone wrong.
const PATIENCE: Duration = Duration::from_mins(15);

pub fn run(place: &Place, options: &Options) {
    assert!(options.over <= place.apps, "--over: there are {} apps", place.apps);
    assert!(options.targets <= place.clusters, "--targets: there are {} clusters", place.clusters);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let kept = generate::kept(place);
    let host = Host::start(place);
    generate::copy(&kept, &host.repository(REPOSITORY), &[]);
    let service = Service::start(place, options, &host);
    println!(
        "{} events over {} apps, into {} files, {}",
        options.events,
        options.over,
        place.shape().files(),
        options.described()
    );
    println!("start to ready                {:>9.0} ms", millis(service.ready_after));
    let first = Instant::now();
    runtime.block_on(async {
        events::send(&service, vec![Event::warm_up(&service)], 1, None).await;
        service.until_idle(PATIENCE).await;
    });
    println!("first deployment, with clone  {:>9.0} ms", millis(first.elapsed()));
    if options.pause {
        println!("process {}; press Enter", service.pid());
        std::io::stdin().read_line(&mut String::new()).expect("a terminal");
    }
    host.forget();
    let used = || [service.pid(), std::process::id()].map(measure::cpu);
    let before = used();
    let all = Event::all(&service, options.events, options.over, options.targets);
    let answers = runtime.block_on(async {
        let answers = events::send(&service, all, options.connections, options.rate).await;
        service.until_idle(PATIENCE).await;
        answers
    });
    let after = used();
    let cpu = [after[0] - before[0], after[1] - before[1]];
    let outcome =
        runtime.block_on(check::check(&service, &host.repository(REPOSITORY), options.events));
    print(&answers, &outcome, &host, &service, cpu);
    outcome.insist();
}

impl Options {
    fn described(&self) -> String {
        let database = match self.database {
            Database::Sqlite => "SQLite",
            Database::Postgres => "PostgreSQL",
        };
        let workers = self.workers.map_or("default".to_owned(), |n| n.to_string());
        let rate = self.rate.map_or("unpaced".to_owned(), |rate| format!("{rate}/s"));
        format!("{database}, {} connections, {rate}, workers: {workers}", self.connections)
    }
}

fn print(answers: &Answers, outcome: &Outcome, host: &Host, service: &Service, cpu: [f64; 2]) {
    let pushes = host.requests(|request| request.is_push() && request.status == 200);
    let refused = host.requests(|request| request.is_push() && request.status != 200);
    let server: Vec<Duration> =
        pushes.iter().map(|push| Duration::from_secs_f64(push.seconds)).collect();
    let bytes: u64 = pushes.iter().map(|push| push.received).sum();
    let rate = |n: usize, time: Duration| n as f64 / time.as_secs_f64();
    let [p50, p99, most] = [50.0, 99.0, 100.0].map(|p| millis(percentile(&answers.times, p)));
    println!("events answered               {:>9.0} /s", rate(answers.times.len(), answers.whole));
    println!("  answer p50, p99, max        {p50:>9.1} ms {p99:>9.1} ms {most:>9.1} ms");
    println!("  other than 202              {:>9}", answers.refused);
    println!("deployments pushed            {:>9.0} /s", rate(outcome.pushed, outcome.whole));
    println!(
        "  pushed, superseded, failed  {:>9} {:>9} {:>9}",
        outcome.pushed, outcome.superseded, outcome.failed
    );
    println!("  first event to last success {:>9.0} ms", millis(outcome.whole));
    println!(
        "  event to success p50, p99   {:>9.0} ms {:>9.0} ms",
        millis(percentile(&outcome.each, 50.0)),
        millis(percentile(&outcome.each, 99.0))
    );
    println!("pushes                        {:>9}", pushes.len());
    println!("  deployments a push          {:>9.1}", outcome.pushed as f64 / pushes.len() as f64);
    println!(
        "  host's time p50, p99        {:>9.1} ms {:>9.1} ms",
        millis(percentile(&server, 50.0)),
        millis(percentile(&server, 99.0))
    );
    println!(
        "  sent                        {:>9.1} MiB; not answered with 200: {}",
        bytes as f64 / 1_048_576.0,
        refused.len()
    );
    println!(
        "memory at most, and now       {:>9.0} MiB {:>9.0} MiB",
        measure::memory(service.pid()).0,
        measure::memory(service.pid()).1
    );
    println!("processor: service, this driver {:>5.1} s {:>5.1} s", cpu[0], cpu[1]);
    for (stage, times) in &outcome.stages {
        println!(
            "  stage {stage:<10} p50, p99     {:>9.1} ms {:>9.1} ms",
            millis(percentile(times, 50.0)),
            millis(percentile(times, 99.0))
        );
    }
}
