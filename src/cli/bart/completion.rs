//! `bart completion` prints the script by which a shell completes commands, options, targets and rollouts.

use std::time::Duration;

use clap::Args;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use super::rollout;
use crate::cli::client::ServiceEndpoint;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::settings::{self, BartSettings};
use crate::cli::{context, output};
use crate::config;

/// The variable with which a shell asks bart for completions.
const VARIABLE: &str = "BART_COMPLETE";
/// The time that a shell waits for the ids of rollouts, which the service has.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints the script by which a shell completes commands, options, the targets of the WAML, and the ids of rollouts.
///
/// The script asks bart itself, so that a newer bart needs no newer script. For ids, bart asks the service, for a second
/// at most.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bash        echo 'source <(bart completion bash)' >> ~/.bashrc
  zsh         echo 'source <(bart completion zsh)' >> ~/.zshrc       # behind compinit
  fish        bart completion fish > ~/.config/fish/completions/bart.fish
  powershell  bart completion powershell >> $PROFILE
  elvish      bart completion elvish >> ~/.config/elvish/rc.elv")]
pub(super) struct ShellCompletion {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "elvish"])]
    shell: String,
}

impl ShellCompletion {
    pub(super) fn run(&self) -> CommandOutcome {
        let mut script = Vec::new();
        let shells = Shells::builtins();
        let shell =
            shells.completer(&self.shell).ok_or_else(|| CliError::usage("no such shell"))?;
        let written = shell.write_registration(VARIABLE, "bart", "bart", "bart", &mut script);
        written.map_err(CliError::failed)?;
        output::print(&String::from_utf8_lossy(&script))
    }
}

/// Answers a shell that asks for completions, and ends the process; otherwise does nothing.
pub(super) fn answer(command: fn() -> clap::Command) {
    let command = || with_candidates(command());
    CompleteEnv::with_factory(command).var(VARIABLE).bin("bart").completer("bart").complete();
}

/// Returns the command with completions: the WAML's targets for each target argument, ids for each rollout.
fn with_candidates(command: clap::Command) -> clap::Command {
    let arguments = command.get_arguments().map(clap::Arg::get_id).cloned().collect::<Vec<_>>();
    let command = arguments.into_iter().fold(command, |command, id| {
        let candidates: fn() -> Vec<CompletionCandidate> = match id.as_str() {
            "target" | "targets" | "only" => targets,
            "rollout" => rollouts,
            _ => return command,
        };
        command.mut_arg(id, |argument| argument.add(ArgValueCandidates::new(candidates)))
    });
    command.mut_subcommands(with_candidates)
}

fn targets() -> Vec<CompletionCandidate> {
    let Ok(waml) = context::waml() else { return Vec::new() };
    let targets = waml.targets().into_iter();
    targets.map(|target| CompletionCandidate::new(target.to_string())).collect()
}

/// Returns the newest rollouts; none where the service does not answer soon.
fn rollouts() -> Vec<CompletionCandidate> {
    let environment = config::environment();
    let settings = BartSettings::read(settings::place()).unwrap_or_default();
    let server = environment.get("BART_SERVER").cloned().or(settings.server);
    let token = environment.get("BART_TOKEN").map(|token| token.as_str().into());
    let server = match server {
        Some(url) => ServiceEndpoint::at(url, token),
        None => ServiceEndpoint::local(token),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let ids = async { tokio::time::timeout(PATIENCE, rollout::recent_ids(&server)).await };
    let ids = runtime.block_on(ids).unwrap_or_default().into_iter();
    ids.map(|(id, help)| CompletionCandidate::new(id).help(Some(help.into()))).collect()
}
