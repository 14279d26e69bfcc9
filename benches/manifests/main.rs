//! LOAD: what a write to a manifest repository costs beside other ways, and what the whole service
//! does with a burst. `deploy/load/README.md` says how to run it and how to read it.
//!
//! ```text
//! shape, generate    a manifest repository of any size
//! host               nginx, fcgiwrap and git http-backend, by deploy/load/git-host
//! ways, compare      one deployment's write, four ways, side by side
//! burst              signed events into a running service, until all is pushed
//! month              thousands of deployments by one writer, one after the other
//! measure            medians, percentiles, memory, processor time
//! ```

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark measures real time, and may fail loudly"
)]

mod shape; // what is in a repository, pure
mod generate; // a repository of that shape
mod host; // who serves it
mod ways; // one write, four ways
mod compare; // side by side
mod burst; // the whole service
mod month; // thousands of writes
mod measure;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::shape::Shape;

#[derive(Parser)]
#[command(about = "What writing a manifest repository costs. See deploy/load/README.md")]
struct Arguments {
    #[command(subcommand)]
    mode: Option<Mode>,
    /// Cargo says so; it changes nothing.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Mode {
    /// Make a manifest repository and keep it
    Generate {
        #[command(flatten)]
        place: Place,
    },
    /// One deployment's write: ours, git2, git's command line, and the floor
    Compare {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        options: compare::Options,
    },
    /// A burst of signed events through the whole service
    Burst {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        options: burst::Options,
    },
    /// Thousands of deployments by one writer
    Month {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        options: month::Options,
    },
}

/// Where, and how large.
#[derive(Args, Clone)]
pub struct Place {
    /// How many apps; each is on every cluster
    #[arg(long, default_value_t = 500)]
    apps: usize,
    /// How many clusters
    #[arg(long, default_value_t = 3)]
    clusters: usize,
    /// Where repositories are kept and served from
    #[arg(long, default_value_os_t = std::env::temp_dir().join("the-deployer-load"))]
    folder: PathBuf,
    /// Of the git host
    #[arg(long, default_value_t = 8580)]
    port: u16,
}

impl Place {
    pub fn shape(&self) -> Shape {
        Shape { apps: self.apps, clusters: self.clusters }
    }
}

fn main() {
    let Arguments { mode, bench: _ } = Arguments::parse();
    the_deployer::support::http::install_tls_provider();
    match mode {
        Some(Mode::Generate { place }) => {
            println!("{}", generate::kept(&place).display());
        }
        Some(Mode::Compare { place, options }) => compare::run(&place, &options),
        Some(Mode::Burst { place, options }) => burst::run(&place, &options),
        Some(Mode::Month { place, options }) => month::run(&place, &options),
        None => println!("cargo bench --bench manifests -- compare, burst or month"),
    }
}
