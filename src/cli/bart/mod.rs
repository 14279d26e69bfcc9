//! `bart`: the command line of developers.

mod validate;
mod render;
mod explain;
mod schema;
mod deploy;
mod builds;
mod watch; // --watch
mod status;
mod history;
mod insights;
mod logs;
pub(super) mod open;
mod plan;
mod canary; // the forecast of a canary
pub(super) mod lock; // bart lock, unlock, locks
mod promote;
mod cancel;
mod rollback;
mod rollout; // bart rollout start, status, list and acts
mod hold; // bart hold, unhold, holds
mod doctor;
mod init;
mod remove;
mod traffic; // bart traffic show, set, shift
mod run; // the app on this machine
mod secrets; // bart secrets list, set, unset, copy, login
mod import; // documents of other systems
mod import_edit; // a manual edit of the manifest repository
mod pull_request; // a pull request with another WAML
mod login;
mod configure; // `bart config`
mod completion;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::VERSION;
use super::error::{CliError, CommandOutcome, on_runtime};
use super::settings::{self, BartSettings};
use super::times::TimesArgument;

/// Deploys services, and shows what is deployed where.
///
/// A service describes itself in `.weave.yaml` (the WAML) at the root of its repository. bart finds the app from the
/// WAML and the git remote of the working folder, and the service by --server, `BART_SERVER` or `bart config set server
/// URL`. validate, render, explain and schema need no service and no network.
#[derive(Debug, Parser)]
#[command(name = "bart", version = VERSION, arg_required_else_help = true, after_long_help = AFTER)]
pub struct Bart {
    /// The file with your settings, instead of the one in the system's folder for settings
    #[arg(long, global = true, value_name = "FILE", env = settings::VARIABLE, hide_short_help = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    times: TimesArgument,
    #[command(subcommand)]
    command: Command,
}

/// The text after the options in `bart --help` and `docs/bart.md`.
const AFTER: &str = "\
Exit codes:
  0    done; followed deployments have succeeded
  1    violations, a deployment that failed or was superseded, or a refusal
  2    wrong usage, or something that could not be read or reached in time
  130  interrupted by Ctrl-C; the last message says how to continue

Environment:
  BART_SERVER        the service's address, before the settings
  BART_TOKEN         an API token of the service, before `bart login`; it goes by https, or stays on this machine
  BART_CONFIG        the file with your settings
  BART_GITHUB_TOKEN  a GitHub token for `bart deploy`, before `bart login`; GH_TOKEN and GITHUB_TOKEN count
                     as well for github.com, for the GitHub of the git remote, and for that of the login
  NO_COLOR           no colour, if it is set and not empty
  HTTPS_PROXY        the proxy, with HTTP_PROXY and NO_PROXY

Results go to standard output, everything else to standard error. Colour is for terminals only. For programs
there is `--output json` and `--output yaml`, whose keys are stable: new ones may be added, none is removed.";

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Doctor(doctor::Doctor),
    Validate(validate::Validate),
    Render(render::Render),
    Explain(explain::Explain),
    Schema(schema::SchemaArgs),
    Deploy(deploy::Deploy),
    Promote(promote::Promote),
    Builds(builds::BuildsArgs),
    Status(status::StatusArgs),
    History(history::HistoryArgs),
    Insights(insights::InsightsArgs),
    Logs(logs::Logs),
    Open(open::Open),
    Plan(plan::PlanArgs),
    Lock(lock::LockArgs),
    Unlock(lock::UnlockArgs),
    Locks(lock::LocksArgs),
    Cancel(cancel::Cancel),
    Rollback(rollback::RollbackArgs),
    #[command(subcommand)]
    Rollout(rollout::RolloutArgs),
    Hold(hold::HoldArgs),
    Unhold(hold::Unhold),
    Holds(hold::HoldsArgs),
    Remove(remove::Remove),
    #[command(subcommand)]
    Traffic(traffic::TrafficArgs),
    Run(run::RunArgs),
    #[command(subcommand)]
    Secrets(secrets::SecretsArgs),
    #[command(subcommand)]
    Import(import::Import),
    ImportEdit(import_edit::ImportEditArgs),
    #[command(name = "login")]
    LogIn(login::LogIn),
    #[command(name = "logout")]
    LogOut(login::LogOut),
    #[command(subcommand, name = "config")]
    Configure(configure::Configure),
    Completion(completion::ShellCompletion),
}

impl Bart {
    fn run(self, settings: Result<BartSettings, CliError>) -> CommandOutcome {
        self.times.set();
        let command = match self.command {
            Command::Configure(command) => return command.run(settings),
            Command::Completion(command) => return command.run(),
            command => command,
        };
        // All other commands take their defaults from the settings.
        let settings = settings?;
        match command {
            Command::Init(command) => on_runtime(command.run()),
            Command::Doctor(command) => on_runtime(command.run()),
            Command::Validate(command) => on_runtime(command.run()),
            Command::Render(command) => on_runtime(command.run()),
            Command::Explain(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Deploy(command) => on_runtime(command.run()),
            Command::Promote(command) => on_runtime(command.run()),
            Command::Builds(command) => on_runtime(command.run()),
            Command::Status(command) => on_runtime(command.run()),
            Command::History(command) => on_runtime(command.run()),
            Command::Insights(command) => on_runtime(command.run()),
            Command::Logs(command) => on_runtime(command.run()),
            Command::Open(command) => on_runtime(command.run()),
            Command::Plan(command) => on_runtime(command.run()),
            Command::Lock(command) => on_runtime(command.run()),
            Command::Unlock(command) => on_runtime(command.run()),
            Command::Locks(command) => on_runtime(command.run()),
            Command::Cancel(command) => on_runtime(command.run()),
            Command::Rollback(command) => on_runtime(command.run()),
            Command::Rollout(command) => on_runtime(command.run()),
            Command::Hold(command) => on_runtime(command.run()),
            Command::Holds(command) => on_runtime(command.run()),
            Command::Unhold(command) => on_runtime(command.run()),
            Command::Remove(command) => on_runtime(command.run()),
            Command::Traffic(command) => on_runtime(command.run()),
            Command::Run(command) => on_runtime(command.run()),
            Command::Secrets(command) => on_runtime(command.run()),
            Command::Import(command) => command.run(),
            Command::ImportEdit(command) => on_runtime(command.run()),
            Command::LogIn(command) => on_runtime(command.run(settings)),
            Command::LogOut(command) => command.run(),
            Command::Configure(_) | Command::Completion(_) => Ok(()),
        }
    }
}

/// Parses the arguments, runs the command, and gives the exit code.
pub fn main() -> ExitCode {
    completion::answer(Bart::command);
    let settings = BartSettings::read(settings::place());
    let defaults = settings.as_ref().ok().cloned().unwrap_or_default();
    let matches = defaults.defaults(Bart::command()).get_matches();
    let bart = Bart::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    bart.run(settings).map_or_else(|error| error.report(), |()| ExitCode::SUCCESS)
}
