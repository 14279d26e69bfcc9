//! `bart completion` prints the script by which a shell completes commands, options, and names that the WAML or the service
//! has.

use std::time::Duration;

use clap::Args;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use futures::StreamExt as _;

use super::builds::BuildLookup;
use super::rollout;
use crate::api::apps::AppPage;
use crate::api::revisions::RevisionList;
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::RepositorySelector;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output;
use crate::cli::repository_apps::{AppFile, RepositoryApps};
use crate::cli::settings::{self, BartSettings};
use crate::config;
use crate::model::id::TargetName;
use crate::waml::Waml;

/// The variable with which a shell asks bart for completions.
const VARIABLE: &str = "BART_COMPLETE";
/// The time that a shell waits for what the service has: tags, revisions, apps, ids.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most tags or apps that are offered.
const MAX_CANDIDATES: u32 = 50;
/// The number of questions to the service at the same time.
const AT_ONCE: usize = 8;
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
const TAGGED: [&str; 2] = ["deploy", "start"];

/// Prints the script by which a shell completes commands, options, the targets of the WAML, tags, revisions, apps, and the
/// ids of rollouts.
///
/// The script asks bart itself, so that a newer bart needs no newer script. For what the service has, bart asks it, for a
/// second at most. In a repository with several apps, tags and revisions are those of the app after --app, or of all.
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
        "names" if command == "plan" => Some(tags_and_targets),
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

/// Returns the newest tags of the line's app, or of all apps of the repository.
fn tags() -> Vec<CompletionCandidate> {
    let wamls = line_wamls();
    let repository = RepositorySelector::default().repository().ok();
    ask(async |server| {
        let fetch_tags = |waml: &Waml| {
            let lookup = BuildLookup {
                app: waml.app.clone(),
                repository: repository.clone(),
                target: None,
                limit: MAX_CANDIDATES,
                cursor: None,
            };
            let server = server.clone();
            async move {
                let page = lookup.fetch(&server).await;
                let builds = page.map(|page| page.value.builds).unwrap_or_default();
                builds.into_iter().map(|build| (build.tag, build.live.join(", "))).collect()
            }
        };
        let questions = wamls.iter().map(|waml| (waml, fetch_tags(waml)));
        of_apps(wamls.len() > 1, questions.collect()).await
    })
}

/// Returns both: the first word of `bart plan` is a tag, the others and those beside `--live` are targets.
fn tags_and_targets() -> Vec<CompletionCandidate> {
    targets().into_iter().chain(tags()).collect()
}

/// Returns the revisions of the line's app, or of all apps of the repository, on all their targets that a rollback can
/// restore.
fn revisions() -> Vec<CompletionCandidate> {
    let wamls = line_wamls();
    ask(async |server| {
        let fetch_revisions = |waml: &Waml, target: &TargetName| {
            let path = format!("/api/v1/apps/{target}/{}/revisions", waml.app);
            let (server, target) = (server.clone(), target.clone());
            async move {
                let list: Result<RevisionList, _> = server.get(&path, &[]).await;
                let revisions = list.map(|list| list.revisions).unwrap_or_default().into_iter();
                let restorable = revisions.filter(|revision| !revision.live);
                let candidate = restorable.map(|revision| {
                    let tag = revision.tag.unwrap_or_else(|| "-".to_owned());
                    (revision.id, format!("{tag} on {target}"))
                });
                candidate.collect()
            }
        };
        let questions = wamls.iter().flat_map(|waml| {
            let targets = waml.targets().into_iter();
            targets.map(|target| (waml, fetch_revisions(waml, target))).collect::<Vec<_>>()
        });
        of_apps(wamls.len() > 1, questions.collect()).await
    })
}

/// Reads the WAML of the app that the completed line names with `--app`, or those of all apps of the repository.
fn line_wamls() -> Vec<Waml> {
    let Some(apps) = RepositoryApps::find() else { return Vec::new() };
    match line_app(std::env::args_os().map(|word| word.to_string_lossy().into_owned())) {
        Some(app) => {
            let file = apps.choose(Some(&app)).ok();
            file.and_then(|file| file.read()).into_iter().collect()
        }
        None => apps.wamls(),
    }
}

/// Finds the app that a completed line names, among the arguments of this process: the shell's script gives the line's words
/// after `--`.
fn line_app(arguments: impl Iterator<Item = String>) -> Option<String> {
    // bash makes three words of `--app=NAME`.
    let words = arguments.skip_while(|word| word != "--").skip(1).filter(|word| word != "=");
    settings::find_option(&words.collect::<Vec<_>>(), "--app").filter(|app| !app.is_empty())
}

/// Asks questions about apps, and joins their candidates. Of several apps the descriptions name the app, and a candidate that
/// several have is one with all of them.
async fn of_apps(
    has_several: bool,
    questions: Vec<(&Waml, impl Future<Output = Vec<(String, String)>>)>,
) -> Vec<(String, String)> {
    let answers = questions.into_iter().map(async |(waml, question)| (waml, question.await));
    let mut answers = futures::stream::iter(answers).buffered(AT_ONCE);
    let mut candidates: Vec<(String, String)> = Vec::new();
    while let Some((waml, answer)) = answers.next().await {
        for (name, help) in answer {
            let slug = &waml.app.slug;
            let help = match has_several {
                true if help.is_empty() => slug.to_string(),
                true => format!("{slug}: {help}"),
                false => help,
            };
            match candidates.iter_mut().find(|(other, _)| *other == name) {
                Some((_, all)) => *all = format!("{all}; {help}"),
                None => candidates.push((name, help)),
            }
        }
    }
    candidates
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_app_of_a_line_is_among_the_words_that_the_shell_gives() {
        for (line, app) in [
            ("bart -- bart deploy --app worker ", Some("worker")),
            ("bart -- bart deploy --app=worker 1", Some("worker")),
            ("bart -- bart deploy --app = worker 1", Some("worker")),
            ("bart -- bart deploy 1 dev", None),
            ("bart -- bart deploy --app ", None),
            ("bart -- bart deploy --app", None),
            ("bart -- bart run dev -- serve --app x", None),
            ("bart --app x", None),
        ] {
            assert_eq!(line_app(line.split(' ').map(str::to_owned)).as_deref(), app, "{line}");
        }
    }
}
