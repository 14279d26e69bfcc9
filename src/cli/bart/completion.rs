//! `bart completion` prints the script by which a shell completes commands, options and targets.

use clap::Args;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::{context, output};

/// The variable with which a shell asks bart for completions.
const VARIABLE: &str = "BART_COMPLETE";

/// Prints the script by which a shell completes commands, options and the targets of the WAML.
///
/// The script asks bart itself, so that a newer bart needs no newer script.
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
    let command = || with_targets(command());
    CompleteEnv::with_factory(command).var(VARIABLE).bin("bart").completer("bart").complete();
}

/// Returns the command with the WAML's targets as completions of each target argument.
fn with_targets(command: clap::Command) -> clap::Command {
    let wanting: Vec<clap::Id> = command
        .get_arguments()
        .map(clap::Arg::get_id)
        .filter(|id| matches!(id.as_str(), "target" | "targets" | "only"))
        .cloned()
        .collect();
    let command = wanting.into_iter().fold(command, |command, id| {
        command.mut_arg(id, |argument| argument.add(ArgValueCandidates::new(targets)))
    });
    command.mut_subcommands(with_targets)
}

fn targets() -> Vec<CompletionCandidate> {
    let Ok(waml) = context::waml() else { return Vec::new() };
    let targets = waml.targets().into_iter();
    targets.map(|target| CompletionCandidate::new(target.to_string())).collect()
}
