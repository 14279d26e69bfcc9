//! `the-deployer`: the command line of operators.

mod serve;
mod agent; // reports from inside a cluster
mod init;
mod setup; // from nothing to the first deployment
mod demo;
mod config;
mod token;
mod ledger; // what acts on the record share
mod audit;
mod owners;
mod locks;
mod backup; // and restore, and rebuild
mod validators;
mod templates;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::VERSION;
use super::error::{CommandOutcome, on_runtime};
use super::times::TimesArgument;

/// Deploys by GitOps: a GitHub Deployment event becomes manifests in a git repository, and Argo CD syncs them.
///
/// Without a configuration, `serve` keeps everything under ./.the-deployer and listens on loopback only. `demo` shows a
/// deployment from the event to the commit on that default.
///
/// Exit codes: 0 done, 1 the configuration or the templates are refused or a demo's deployment did not end as expected,
/// 2 wrong usage or something that could not be read or reached.
#[derive(Debug, Parser)]
#[command(name = "the-deployer", version = VERSION, arg_required_else_help = true)]
pub struct DeployerCli {
    #[command(flatten)]
    times: TimesArgument,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Agent(agent::AgentArgs),
    Demo(demo::Demo),
    Init(init::Init),
    Setup(Box<setup::Setup>),
    #[command(subcommand)]
    Config(config::Config),
    /// Describe what the clusters of the configuration offer, for plans on other machines
    #[command(subcommand)]
    Platform(config::PlatformCommand),
    #[command(subcommand)]
    Owners(owners::Owners),
    Lock(locks::OperatorLockArgs),
    Unlock(locks::OperatorUnlockArgs),
    Locks(locks::OperatorLocksArgs),
    Audit(audit::Audit),
    Backup(backup::Backup),
    Restore(backup::RestoreArgs),
    Rebuild(backup::Rebuild),
    Validators(validators::Validators),
    #[command(subcommand)]
    Templates(templates::TemplatesCommand),
}

impl DeployerCli {
    fn run(self) -> CommandOutcome {
        self.times.set();
        match self.command {
            Command::Serve(command) => on_runtime(command.run()),
            Command::Agent(command) => on_runtime(command.run()),
            Command::Demo(command) => on_runtime(command.run()),
            Command::Init(command) => on_runtime(command.run()),
            Command::Setup(command) => on_runtime(command.run()),
            Command::Config(command) => command.run(),
            Command::Platform(command) => command.run(),
            Command::Owners(command) => on_runtime(command.run()),
            Command::Lock(command) => on_runtime(command.run()),
            Command::Unlock(command) => on_runtime(command.run()),
            Command::Locks(command) => on_runtime(command.run()),
            Command::Audit(command) => on_runtime(command.run()),
            Command::Backup(command) => on_runtime(command.run()),
            Command::Restore(command) => on_runtime(command.run()),
            Command::Rebuild(command) => on_runtime(command.run()),
            Command::Validators(command) => command.run(),
            Command::Templates(command) => command.run(),
        }
    }
}

/// Parses the arguments, runs the command, and gives the exit code.
pub fn main() -> ExitCode {
    DeployerCli::parse().run().map_or_else(|error| error.report(), |()| ExitCode::SUCCESS)
}
