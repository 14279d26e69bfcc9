//! Thousands of deployments by one writer, one after the other: whether the kept clone, the time of
//! a push and memory stay what they were.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use the_deployer::git::writer::PushBy;
use the_deployer::model::id::DeployId;
use the_deployer::support::clock::Clock;

use crate::host::Host;
use crate::measure::{count, median, memory, millis, percentile, size};
use crate::shape::Deployment;
use crate::ways::{Ours, REPOSITORY};
use crate::{Place, generate};

#[derive(Args)]
pub struct Options {
    /// How many; a month of 400 a day on 25 days is 10,000
    #[arg(long, default_value_t = 10_000)]
    deployments: usize,
    /// After how many a line is printed, and the host packs what has piled up there
    #[arg(long, default_value_t = 1_000)]
    every: usize,
    /// How many are written at once, and so in one push
    #[arg(long, default_value_t = 1)]
    together: usize,
}

pub fn run(place: &Place, options: &Options) {
    let kept = generate::kept(place);
    let host = Host::start(place);
    let served = host.repository(REPOSITORY);
    generate::copy(&kept, &served, &["ours"]);
    let clone = place.folder.join("clones/month");
    let _absent = std::fs::remove_dir_all(&clone);
    let begun = Instant::now();
    let writer = Ours::ready(&host, &clone, "ours", PushBy::Direct);
    println!("{} deployments into {} files", options.deployments, place.shape().files());
    println!("first clone, ready to write: {:.1?}", begun.elapsed());
    println!(
        "{:>8}{:>10}{:>10}{:>10}{:>12}{:>10}{:>10}",
        "after", "median ms", "p99 ms", "max ms", "clone MiB", "files", "RSS MiB"
    );
    let mut times = Vec::new();
    for first in (0..options.deployments).step_by(options.together) {
        let next = (first + options.together).min(options.deployments);
        let deployment =
            |n| Deployment::new(place.shape(), n, DeployId::of(Clock::system().draw()));
        let deployments: Vec<Deployment> = (first..next).map(deployment).collect();
        times.push(writer.write_together(&deployments));
        if next / options.every > first / options.every {
            line(next, &times, &clone);
            times.clear();
            // As hosts do it, at a time of their own.
            generate::git(&served, &["repack", "-q", "-d", "--geometric=2"]);
        }
    }
    let commits = generate::git(&served, &["rev-list", "--count", "main..ours"]);
    assert_eq!(commits, options.deployments.to_string(), "a commit for each deployment");
    drop(writer);
    again(&host, &clone);
}

fn line(after: usize, times: &[Duration], clone: &Path) {
    let mib = size(clone) as f64 / 1024.0 / 1024.0;
    println!(
        "{after:>8}{:>10.1}{:>10.1}{:>10.1}{mib:>12.1}{:>10}{:>10.0}",
        millis(median(times)),
        millis(percentile(times, 99.0)),
        millis(percentile(times, 100.0)),
        count(clone),
        memory(std::process::id()).1,
    );
}

/// The clone that all this has left is opened by another writer.
fn again(host: &Host, clone: &Path) {
    let begun = Instant::now();
    let _writer = Ours::ready(host, clone, "ours", PushBy::Direct);
    println!("opened again, ready to write: {:.1?}", begun.elapsed());
}
