//! The ways side by side, in one run, each round in another order.

use std::time::Duration;

use clap::Args;
use the_deployer::model::id::DeployId;
use the_deployer::support::clock::Clock;

use crate::host::Host;
use crate::measure::{median, memory, millis, percentile};
use crate::shape::Deployment;
use crate::ways::{self, REPOSITORY, Way};
use crate::{Place, generate};

#[derive(Args)]
pub struct Options {
    /// How many deployments each way writes, after two that are not counted
    #[arg(long, default_value_t = 30)]
    runs: usize,
    /// Which ways: floor; ours; fallback, ours with libgit2's push; git2; git
    #[arg(long, value_delimiter = ',', default_values_t = ways::ALL.map(str::to_owned))]
    ways: Vec<String>,
}

/// What makes the first ones slow is made once: caches, connections.
const WARM_UP: usize = 2;

struct Measured {
    name: String,
    way: Box<dyn Way>,
    times: Vec<Duration>,
}

pub fn run(place: &Place, options: &Options) {
    let kept = generate::kept(place);
    let host = Host::start(place);
    let branches: Vec<&str> = options.ways.iter().map(String::as_str).collect();
    generate::copy(&kept, &host.repository(REPOSITORY), &branches);
    let clones = place.folder.join("clones");
    let mut all: Vec<Measured> = options
        .ways
        .iter()
        .map(|name| {
            let way = ways::ready(name, &host, &clones);
            Measured { name: name.clone(), way, times: Vec::new() }
        })
        .collect();
    for round in 0..options.runs + WARM_UP {
        let ways = all.len();
        for turn in 0..ways {
            let one = &mut all[(round + turn) % ways];
            let id = DeployId::of(Clock::system().draw());
            let took = one.way.write(&Deployment::new(place.shape(), round, id));
            if round >= WARM_UP {
                one.times.push(took);
            }
        }
    }
    print(place, options, &all);
    drop(host);
    std::fs::remove_dir_all(clones).expect("the clones are ours");
}

fn print(place: &Place, options: &Options, all: &[Measured]) {
    let files = place.shape().files();
    println!("one deployment into {files} files, {} runs each, milliseconds", options.runs);
    println!("{:<8}{:>9}{:>9}{:>9}{:>12}", "way", "median", "p10", "p90", "÷ floor");
    let floor = all.iter().find(|one| one.name == "floor").map(|one| median(&one.times));
    for Measured { name, times, .. } in all {
        let ratio = floor.map_or(f64::NAN, |floor| millis(median(times)) / millis(floor));
        println!(
            "{name:<8}{:>9.1}{:>9.1}{:>9.1}{ratio:>11.2}×",
            millis(median(times)),
            millis(percentile(times, 10.0)),
            millis(percentile(times, 90.0)),
        );
    }
    println!("memory of this process at most: {:.0} MiB", memory(std::process::id()).0);
}
