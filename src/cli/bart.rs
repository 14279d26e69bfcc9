//! `bart`: the one tool besides GitHub that a developer needs.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::error::Outcome;
use super::{
    cancel, deployer, explain, history, hold, keep_back, logs, open, plan, remove, render,
    rollback, schema, status, validate,
};

/// Checks, renders and explains a service's `.weave.yaml` (the WAML), shows its deployments and what
/// the next one would change, keeps deployments back, and takes apps off a target.
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
    History(history::History),
    Logs(logs::Logs),
    Open(open::Open),
    Plan(plan::Plan),
    Lock(keep_back::Lock),
    Unlock(keep_back::Unlock),
    Locks(keep_back::Locks),
    Cancel(cancel::Cancel),
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
            Command::History(command) => deployer::on_runtime(command.run()),
            Command::Logs(command) => deployer::on_runtime(command.run()),
            Command::Open(command) => deployer::on_runtime(command.run()),
            Command::Plan(command) => deployer::on_runtime(command.run()),
            Command::Lock(command) => deployer::on_runtime(command.run()),
            Command::Unlock(command) => deployer::on_runtime(command.run()),
            Command::Locks(command) => deployer::on_runtime(command.run()),
            Command::Cancel(command) => deployer::on_runtime(command.run()),
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
