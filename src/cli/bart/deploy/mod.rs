//! `bart deploy` creates a deployment on each target, and follows them until they end.
//!
//! ```text
//! the folder's commit ─▶ checked early ─▶ created, one after the other ─▶ followed, side by side
//! ```

pub(super) mod worktree; // the commit to deploy, and whether it was pushed
mod preflight; // checks before anything is created; holds
pub(super) mod github; // GitHub Deployments
pub(super) mod create; // creates deployments one after the other
mod follow; // finds them at the service, and follows them
mod progress; // progress on the terminal

use std::path::PathBuf;
use std::time::Duration;

use self::create::{CreationTarget, Set};
use self::follow::FollowedDeployment;
use self::github::{GitHubSession, ReleaseToDeploy};
use self::progress::{Phase, Progress, TargetRow};
use crate::cli::bart::deploy::worktree::{Tree, TreeWaml};
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::api::deployments::{DeploymentDetail, DeploymentPage};
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::{RepositorySelector, ServiceArgs};
use crate::cli::diagnostics::{self, SourceTexts};
use crate::cli::error::{CliError, CliErrorKind, CommandOutcome};
use crate::cli::host::Host;
use crate::cli::output;
use crate::cli::platform::KnownTargets;
use crate::cli::table::{Column, table};
use crate::cli::times;
use crate::cli::verbatim::Verbatim;
use crate::cli::working_folder;
use crate::model::deployment::State;
use crate::model::id::{AppName, ImageTag, RepoName, TargetName};
use crate::model::violation::Severity;
use crate::support::clock::Clock;
use crate::support::text::refuse_invisible;
use crate::waml::Waml;

/// The targets that GitHub calls production environments, unless the command says others.
const PRODUCTION: &str = "prod*";
/// The time between two frames on a terminal.
const FRAME: Duration = Duration::from_millis(120);

/// Deploys an image tag to one or more targets, and follows each deployment to its end.
///
/// bart creates a GitHub Deployment for each target with your own GitHub token; the service receives it as GitHub's
/// event. If the service's code host is local, bart creates the deployment there directly. It deploys the commit that
/// is checked out in the working folder, or the one that --ref names. A WAML that no service would accept is refused
/// before anything is created, with regard to what the service's targets offer. Of a repository with several apps all are
/// deployed, each where its WAML has the target, unless --app names one. Violations that depend on templates,
/// which may be others than those in bart, are warnings; with --templates they are errors.
///
/// `GH_TOKEN` and `GITHUB_TOKEN` are used for github.com, and for the GitHub of the git remote or of your login. For
/// another one log in with `bart login`, or set `BART_GITHUB_TOKEN`.
///
/// Ctrl-C never leaves half a deployment: the created ones continue, and bart says how to follow them, and which were
/// not created.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart deploy 1.0.202206151506-sha.649008fb dev
  bart deploy 1.0 prod-cluster-1 prod-cluster-2 --description 'fixes the checkout'
  bart deploy 1.0 prod-cluster-1 --ref v1.0 --require-context build
  bart deploy 1.0 dev --no-wait --output json
  bart deploy 1.0 dev --app worker              one of several apps of the repository

Exit code 0 when every deployment succeeded (with --no-wait: was created), 1 when one failed, was superseded,
cancelled or refused, 2 when one could not be created or followed, 130 after Ctrl-C.")]
pub(super) struct Deploy {
    /// The image tag; `bart builds` lists them
    tag: ImageTag,
    /// The targets, as under `deploy` of the WAML
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<TargetName>,
    /// The branch, tag or commit whose WAML is deployed. Default: the commit that is checked out
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    /// A sentence for people: the reason
    #[arg(long, short, value_name = "TEXT", default_value = "", value_parser = description)]
    description: String,
    /// A check that must have succeeded on the commit at GitHub; may be given several times. Default: none
    #[arg(long, value_name = "NAME", conflicts_with = "require_all_contexts")]
    require_context: Vec<String>,
    /// Require every check on the commit at GitHub, also those of earlier deployments
    #[arg(long)]
    require_all_contexts: bool,
    /// Targets that GitHub calls production environments
    #[arg(long, value_name = "GLOB", default_value = PRODUCTION)]
    production: String,
    /// Create the deployments, and do not wait for their ends
    #[arg(long)]
    no_wait: bool,
    /// The longest wait for their ends: `90s`, `15m`, `1h`
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = times::patience)]
    timeout: Duration,
    /// A folder of templates with `apps/` in it to check with, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// Skip the check on this machine
    #[arg(long)]
    no_check: bool,
    /// The app, where the repository has several: the name of its file under `.weave/` without the ending, or its slug.
    /// Default: all of them
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The result of one target; stable for programs.
#[derive(Debug, Serialize)]
struct Became {
    target: String,
    forge_id: i64,
    id: Option<String>,
    state: Option<State>,
    summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deployment: Option<Verbatim<DeploymentDetail>>,
}

/// Returns the GitHub of the service, with the developer's own token.
///
/// # Errors
/// When there is no token, or the code host is none of GitHub.
pub(super) async fn github_session(server: &ServiceEndpoint) -> Result<GitHubSession, CliError> {
    match CreationTarget::new(Host::fetch(server).await?, server)? {
        CreationTarget::GitHub(session) => Ok(session),
        CreationTarget::Service(_) => {
            Err(CliError::refused("the service has the repositories itself, and no pull requests")
                .hint("edit the file and commit it"))
        }
    }
}

/// Checks that a token for deployments is at hand, and says who creates them.
///
/// # Errors
/// As [`CreationTarget::new`].
pub(super) fn check_token(host: Host, server: &ServiceEndpoint) -> Result<String, CliError> {
    Ok(match CreationTarget::new(host, server)? {
        CreationTarget::GitHub(_) => "a GitHub token is at hand".to_owned(),
        CreationTarget::Service(_) => "the service creates them".to_owned(),
    })
}

/// A release for one target, of a commit that is known.
#[derive(Debug)]
pub(super) struct ReleaseOnTarget {
    pub(super) tag: ImageTag,
    pub(super) commit: String,
    pub(super) target: TargetName,
    pub(super) repository: RepoName,
    /// The app, where the repository has several.
    pub(super) app: Option<AppName>,
    /// The reason, for people.
    pub(super) description: String,
}

/// Deploys a release as `bart deploy` does, and follows it for as long; without a time it is not followed.
pub(super) async fn deploy_release(
    release: ReleaseOnTarget,
    wait: Option<Duration>,
    service: ServiceArgs,
) -> CommandOutcome {
    let ReleaseOnTarget { tag, commit, target, repository, app, description } = release;
    let deploy = Deploy {
        tag,
        targets: vec![target],
        git_ref: Some(commit),
        description,
        require_context: Vec::new(),
        require_all_contexts: false,
        production: PRODUCTION.to_owned(),
        no_wait: wait.is_none(),
        timeout: wait.unwrap_or_default(),
        templates: None,
        no_check: false,
        app: app.map(String::from),
        selector: RepositorySelector::of(repository),
        service,
    };
    deploy.run().await
}

impl Deploy {
    pub(super) async fn run(mut self) -> CommandOutcome {
        let mut unique = std::collections::HashSet::new();
        self.targets.retain(|target| unique.insert(target.clone()));
        let repository = self.selector.repository()?;
        let server = &self.service.server;
        let known_targets = KnownTargets::fetch(server, &repository).await;
        let tree = self.read_checked_tree(&known_targets)?;
        let host = Host::fetch(server).await?;
        // A caller who may not read deployments could not follow them either; nothing has been created yet.
        let query = [("repository", repository.to_string()), ("limit", "1".to_owned())];
        let _readable: DeploymentPage = server.get("/api/v1/deployments", &query).await?;
        let release = ReleaseToDeploy {
            repository: &repository,
            git_ref: &tree.git_ref,
            app: tree.app.as_ref(),
            tag: &self.tag,
            description: self.description.trim(),
            contexts: (!self.require_all_contexts).then_some(self.require_context.as_slice()),
            production: &self.production,
        };
        let forge = CreationTarget::new(host, server)?;
        preflight::tell_holds(server, &tree, &self.targets).await;
        let stop = interrupts();
        let creations = forge.create_all(&release, &self.targets, &stop).await;
        output::note(&creations.part(&self.tag, &tree.git_ref).unwrap_or_default());
        // The created deployments take their time; the person reads about the rest now.
        let failure = creations.failure.as_ref().map(CliError::report_now);
        let followed = self.follow(&repository, &creations, &tree, &stop).await;
        merge_outcomes(failure, followed)
    }

    /// Reads the commit, and checks its WAML as far as this machine can.
    fn read_checked_tree(&self, known_targets: &KnownTargets) -> Result<Tree, CliError> {
        let (folder, app) = (working_folder::path()?, self.app.as_deref());
        let tree = worktree::read_tree(&folder, self.git_ref.as_deref(), app)?;
        for waml in tree.wamls.iter().filter(|_| !self.no_check) {
            let targets = self.targets_of(waml, &tree);
            let templates = self.templates.as_deref();
            preflight::check(waml, &targets, templates, known_targets, self.service.output)?;
        }
        if tree.wamls.len() > 1 && !self.service.output.is_data() {
            let paths: Vec<&str> = tree.wamls.iter().map(|waml| waml.path.as_str()).collect();
            let apps =
                format!("all {} apps are deployed, each to the targets that it has", paths.len());
            output::note(&output::note_line(format!("{apps}: {}", paths.join(", "))));
        }
        for warning in &tree.warnings {
            output::warning(warning);
        }
        Ok(tree)
    }

    /// Returns the targets to check a WAML for: of several apps each is deployed only where its WAML has the target.
    fn targets_of(&self, waml: &TreeWaml, tree: &Tree) -> Vec<TargetName> {
        let parsed = Waml::parse(&waml.path, &waml.bytes).ok().filter(|_| tree.wamls.len() > 1);
        let is_deployed = |target: &&TargetName| {
            parsed.as_ref().is_none_or(|waml| waml.targets().contains(target))
        };
        self.targets.iter().filter(is_deployed).cloned().collect()
    }

    async fn follow(
        &self,
        repository: &RepoName,
        creations: &Set,
        tree: &Tree,
        stop: &CancellationToken,
    ) -> CommandOutcome {
        let followed = &creations.created;
        let mut rows: Vec<TargetRow> = followed.iter().map(row).collect();
        if self.no_wait || stop.is_cancelled() || followed.is_empty() {
            self.print(followed, &rows, tree).await?;
            return if stop.is_cancelled() { Err(interruption(&rows)) } else { Ok(()) };
        }
        let result = self.wait(repository, followed, &mut rows, stop).await;
        // Programs get the results so far, even after Ctrl-C.
        self.print(followed, &rows, tree).await?;
        result?;
        judge(&rows)
    }

    /// Shows the progress until all have ended.
    async fn wait(
        &self,
        repository: &RepoName,
        followed: &[FollowedDeployment],
        rows: &mut [TargetRow],
        stop: &CancellationToken,
    ) -> CommandOutcome {
        let mut news = follow::follow_all(&self.service.server, repository, followed);
        let (mut progress, watch) = (Progress::new(), Clock::system().stopwatch());
        let mut frames = tokio::time::interval(FRAME);
        let end = tokio::time::sleep(self.timeout);
        tokio::pin!(end);
        loop {
            #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
            progress.show(rows, watch.micros() as f64 / 1e6);
            if rows.iter().all(|row| row.phase.is_over()) {
                return Ok(());
            }
            tokio::select! {
                Some((place, phase, parts)) = news.recv() => {
                    if let Some(row) = rows.get_mut(place) {
                        row.phase = phase;
                        // The last word of one that was lost has none.
                        if !parts.is_empty() { row.parts = parts; }
                    }
                }
                _ = frames.tick(), if progress.is_live() => {}
                () = stop.cancelled() => return Err(interruption(rows)),
                () = &mut end => return Err(too_long(rows, self.timeout)),
            }
        }
    }

    /// Prints the result: all of it for programs, the reasons of failures for people.
    async fn print(
        &self,
        followed: &[FollowedDeployment],
        rows: &[TargetRow],
        tree: &Tree,
    ) -> CommandOutcome {
        let mut outcomes = Vec::new();
        for (creation, row) in followed.iter().zip(rows) {
            let (id, state, summary) = summarize_phase(creation, &row.phase);
            let over = matches!(row.phase, Phase::Ended { .. });
            let deployment = match id.as_deref().filter(|_| over) {
                Some(id) => {
                    let path = format!("/api/v1/deployments/{id}");
                    self.service.server.get(&path, &[]).await.ok()
                }
                None => None,
            };
            let (target, forge_id) = (creation.target.clone(), creation.forge_id);
            outcomes.push(Became { target, forge_id, id, state, summary, deployment });
        }
        let output = self.service.output;
        if output.is_data() || self.no_wait {
            let data = serde_json::json!({"deployments": outcomes});
            return output.print(&data, || list_created(&outcomes));
        }
        output::note(&outcomes.iter().map(|outcome| reasons(outcome, tree)).collect::<String>());
        Ok(())
    }
}

fn description(text: &str) -> Result<String, String> {
    refuse_invisible("the description", text).map(|()| text.to_owned())
}

fn row(followed: &FollowedDeployment) -> TargetRow {
    let phase = followed.id.as_ref().map_or(Phase::Asked, |id| Phase::Going {
        id: id.clone(),
        state: State::Queued,
        doing: String::new(),
    });
    TargetRow { target: followed.target.clone(), phase, parts: Vec::new() }
}

/// Returns the id, the state and the summary of a deployment, as far as they are known.
fn summarize_phase(
    deployment: &FollowedDeployment,
    phase: &Phase,
) -> (Option<String>, Option<State>, Option<String>) {
    match phase.clone() {
        Phase::Asked => (deployment.id.clone(), None, None),
        Phase::Going { id, state, doing: _ } => (Some(id), Some(state), None),
        Phase::Ended { id, state, summary } => (Some(id), Some(state), Some(summary)),
        Phase::Lost(why) => (deployment.id.clone(), None, Some(why)),
    }
}

fn list_created(outcomes: &[Became]) -> String {
    let row = |outcome: &Became| {
        let id = outcome.id.clone().unwrap_or_else(|| "-".to_owned());
        [outcome.target.clone(), outcome.forge_id.to_string(), id]
    };
    let columns =
        [Column::middle("TARGET", 12), Column::whole("CREATED"), Column::whole("DEPLOYMENT")];
    table(columns, outcomes.iter().map(row).collect())
}

/// Returns the result of a command that created and followed only a part: an error other than failed
/// deployments, such as an interruption, goes before the failure.
fn merge_outcomes(failure: Option<CliError>, followed: CommandOutcome) -> CommandOutcome {
    match (failure, followed) {
        (Some(failure), Ok(())) => Err(failure),
        (Some(failure), Err(error)) if error.kind == CliErrorKind::Rejected => Err(failure),
        (_, followed) => followed,
    }
}

/// Formats the reasons of a failure, with lines of the WAML if that commit's file is on this machine.
fn reasons(outcome: &Became, tree: &Tree) -> String {
    let Some(detail) = &outcome.deployment else { return String::new() };
    if detail.violations.is_empty() {
        return String::new();
    }
    let mut sources = SourceTexts::default();
    for TreeWaml { path, bytes, .. } in &tree.wamls {
        sources.add(path, String::from_utf8_lossy(bytes));
    }
    let (target, id) = (&outcome.target, &detail.summary.id);
    let mut violations = diagnostics::render(&detail.violations, &sources);
    violations += &diagnostics::left_out(detail.violations_left_out);
    let stops = detail.violations.iter().any(|violation| violation.severity == Severity::Error);
    let heading = if stops { "what is wrong on" } else { "warnings for" };
    format!("\n{heading} {target}, deployment {id}:\n\n{violations}")
}

/// Fails unless all deployments have succeeded.
fn judge(rows: &[TargetRow]) -> CommandOutcome {
    let lost = rows.iter().find_map(|row| match &row.phase {
        Phase::Lost(reason) => Some(reason.clone()),
        Phase::Asked | Phase::Going { .. } | Phase::Ended { .. } => None,
    });
    let failed = rows
        .iter()
        .any(|row| matches!(&row.phase, Phase::Ended { state, .. } if *state != State::Succeeded));
    match (failed, lost) {
        (true, _) => Err(CliError::rejected()),
        (false, Some(reason)) => Err(CliError::io(reason).hint(next_steps(rows))),
        (false, None) => Ok(()),
    }
}

fn interruption(rows: &[TargetRow]) -> CliError {
    let open: Vec<&str> =
        rows.iter().filter(|row| !row.phase.is_over()).map(|row| row.target.as_str()).collect();
    if open.is_empty() {
        return CliError::interrupted("nothing is under way");
    }
    let message = format!("the deployment to {} continues", open.join(", "));
    CliError::interrupted(message).hint(next_steps(rows))
}

fn too_long(rows: &[TargetRow], timeout: Duration) -> CliError {
    let message = format!("not all deployments ended within {timeout:?}; they continue");
    CliError::io(message).hint(next_steps(rows))
}

fn next_steps(rows: &[TargetRow]) -> String {
    let id = rows.iter().find_map(|row| match &row.phase {
        Phase::Going { id, .. } => Some(id.clone()),
        Phase::Asked | Phase::Ended { .. } | Phase::Lost(_) => None,
    });
    match id {
        Some(id) => {
            format!("`bart logs {id} --follow` follows it, `bart cancel {id}` stops one that waits")
        }
        None => "`bart status` shows their states".to_owned(),
    }
}

/// Returns a token that the first Ctrl-C cancels; the second ends the process at once.
pub(super) fn interrupts() -> CancellationToken {
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let _cannot_be_heard = tokio::signal::ctrl_c().await;
        stop.cancel();
        let _cannot_be_heard = tokio::signal::ctrl_c().await;
        std::process::exit(130);
    });
    token
}
