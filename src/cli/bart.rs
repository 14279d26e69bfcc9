//! `bart`: the one tool besides GitHub that a developer needs.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::error::Outcome;
use super::{deployer, explain, hold, remove, render, rollback, schema, status, validate};

/// Checks, renders and explains a service's `.weave.yaml` (the WAML), shows its deployments, and takes
/// apps off a target.
///
/// validate, render, explain and schema need no service and no network.
///
/// Exit codes: 0 done, 1 violations, a failed deployment or a refusal, 2 wrong usage or something that could
/// not be read or reached.
#[derive(Debug, Parser)]
#[command(name = "bart", version, arg_required_else_help = true)]
pub struct Bart {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(validate::Validate),
    Render(render::Render),
    Explain(explain::Explain),
    Schema(schema::Schema),
    Status(status::Status),
    Rollback(rollback::Rollback),
    Hold(hold::Hold),
    Unhold(hold::Unhold),
    Remove(remove::Remove),
}

impl Bart {
    fn run(self) -> Outcome {
        match self.command {
            Command::Validate(command) => command.run(),
            Command::Render(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Status(command) => deployer::on_runtime(command.run()),
            Command::Rollback(command) => deployer::on_runtime(command.run()),
            Command::Hold(command) => deployer::on_runtime(command.run()),
            Command::Unhold(command) => deployer::on_runtime(command.run()),
            Command::Remove(command) => deployer::on_runtime(command.run()),
        }
    }
}

/// Parses the arguments, runs the command, and gives the exit code.
pub fn main() -> ExitCode {
    match Bart::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
