//! `bart completion` prints the script by which a shell completes commands, options, and names that the WAML or the service
//! has.

use std::time::Duration;

use clap::Args;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use super::rollout;
use crate::api::apps::AppPage;
use crate::api::builds::BuildPage;
use crate::api::revisions::RevisionList;
use crate::cli::client::ServiceEndpoint;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::repository_apps::{AppFile, RepositoryApps};
use crate::cli::settings::{self, BartSettings};
use crate::cli::{context, output};
use crate::config;

/// The variable with which a shell asks bart for completions.
const VARIABLE: &str = "BART_COMPLETE";
/// The time that a shell waits for what the service has: tags, revisions, apps, ids.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most tags or apps that are offered.
const MAX_CANDIDATES: usize = 50;
/// The commands whose app is one of the repository.
const REPOSITORY_COMMANDS: [&str; 15] = [
    "deploy",
    "plan",
    "validate",
    "render",
    "explain",
    "run",
    "doctor",
    "start",
    "import-edit",
    "set",
    "list",
    "unset",
    "copy",
    "login",
    "init",
];
/// The commands whose tag is one that can be deployed.
const TAGGED: [&str; 3] = ["deploy", "start", "plan"];

/// Prints the script by which a shell completes commands, options, the targets of the WAML, tags, revisions, apps, and the
/// ids of rollouts.
///
/// The script asks bart itself, so that a newer bart needs no newer script. For what the service has, bart asks it, for a
/// second at most.
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

/// Returns the command with completions for its arguments that name something.
fn with_candidates(command: clap::Command) -> clap::Command {
    let name = command.get_name().to_owned();
    let add = |argument: clap::Arg| match candidates(&name, argument.get_id().as_str()) {
        Some(candidates) => argument.add(ArgValueCandidates::new(candidates)),
        None => argument,
    };
    command.mut_args(add).mut_subcommands(with_candidates)
}

/// Finds what completes an argument of a command.
fn candidates(command: &str, argument: &str) -> Option<fn() -> Vec<CompletionCandidate>> {
    match argument {
        "target" | "targets" | "only" => Some(targets),
        "rollout" => Some(rollouts),
        "app" if REPOSITORY_COMMANDS.contains(&command) => Some(repository_apps),
        "app" => Some(apps),
        "to" if command == "rollback" => Some(revisions),
        "to" | "from" if command == "promote" => Some(targets),
        "tag" if TAGGED.contains(&command) => Some(tags),
        _ => None,
    }
}

/// Returns the targets of the WAML; of several apps those of all.
fn targets() -> Vec<CompletionCandidate> {
    let wamls = RepositoryApps::find().map(|apps| apps.wamls()).unwrap_or_default();
    let mut targets: Vec<String> = wamls
        .iter()
        .flat_map(|waml| waml.targets().into_iter().map(ToString::to_string).collect::<Vec<_>>())
        .collect();
    targets.sort();
    targets.dedup();
    targets.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the newest rollouts.
fn rollouts() -> Vec<CompletionCandidate> {
    ask(async |server| rollout::recent_ids(&server).await)
}

/// Returns the newest tags of the WAML's app.
fn tags() -> Vec<CompletionCandidate> {
    ask(async |server| {
        let Ok(waml) = context::waml() else { return Vec::new() };
        let query = [("app", waml.app.to_string()), ("limit", MAX_CANDIDATES.to_string())];
        let page: Result<BuildPage, _> = server.get("/api/v1/builds", &query).await;
        let builds = page.map(|page| page.builds).unwrap_or_default();
        builds.into_iter().map(|build| (build.tag, build.live.join(", "))).collect()
    })
}

/// Returns the revisions of the WAML's app on all its targets that a rollback can restore.
fn revisions() -> Vec<CompletionCandidate> {
    ask(async |server| {
        let Ok(waml) = context::waml() else { return Vec::new() };
        let mut candidates = Vec::new();
        for target in waml.targets() {
            let path = format!("/api/v1/apps/{target}/{}/revisions", waml.app);
            let Ok(list) = server.get::<RevisionList>(&path, &[]).await else { continue };
            let restorable = list.revisions.into_iter().filter(|revision| !revision.live);
            candidates.extend(restorable.map(|revision| {
                let tag = revision.tag.unwrap_or_else(|| "-".to_owned());
                (revision.id, format!("{tag} on {target}"))
            }));
        }
        candidates
    })
}

/// Returns the apps of the repository by the names of their files, where it has several.
fn repository_apps() -> Vec<CompletionCandidate> {
    let apps = RepositoryApps::find().filter(RepositoryApps::has_several);
    let files = apps.map(|apps| apps.list()).unwrap_or_default().into_iter();
    let candidate = |file: AppFile| {
        let key = file.key().map(|key| key.to_string().into());
        Some(CompletionCandidate::new(file.app?.to_string()).help(key))
    };
    files.filter_map(candidate).collect()
}

/// Returns the apps of the repository, and those that the caller may see, by name.
fn apps() -> Vec<CompletionCandidate> {
    let of_repository = repository_apps();
    let of_service = ask(async |server| {
        let query = [("limit", MAX_CANDIDATES.to_string())];
        let page: Result<AppPage, _> = server.get("/api/v1/apps", &query).await;
        let apps = page.map(|page| page.apps).unwrap_or_default().into_iter();
        let mut names: Vec<(String, String)> = apps
            .map(|app| (format!("{}/{}", app.namespace, app.app), app.owner.unwrap_or_default()))
            .collect();
        names.sort();
        names.dedup_by(|one, other| one.0 == other.0);
        names
    });
    of_repository.into_iter().chain(of_service).collect()
}

/// Asks the service for candidates with their descriptions; none where it does not answer soon.
fn ask(
    question: impl AsyncFnOnce(ServiceEndpoint) -> Vec<(String, String)>,
) -> Vec<CompletionCandidate> {
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
    let answer = async { tokio::time::timeout(PATIENCE, question(server)).await };
    let candidates = runtime.block_on(answer).unwrap_or_default().into_iter();
    candidates.map(|(id, help)| CompletionCandidate::new(id).help(Some(help.into()))).collect()
}
