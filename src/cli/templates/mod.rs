//! `the-deployer templates`: templates tried out before anybody deploys with them.

mod check;
mod impact;
mod wamls; // what templates are tried with

use clap::Subcommand;

use super::deployer;
use super::error::Outcome;

/// Tries templates out before anybody deploys with them.
#[derive(Debug, Subcommand)]
pub(super) enum Templates {
    Check(check::Check),
    Impact(impact::Impact),
}

impl Templates {
    pub(super) fn run(self) -> Outcome {
        match self {
            Self::Check(command) => command.run(),
            Self::Impact(command) => deployer::on_runtime(command.run()),
        }
    }
}
