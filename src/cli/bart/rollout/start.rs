//! `bart rollout start` starts a rollout, and follows it.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use super::follow::{self, FollowUntil};
use super::plan_text;
use crate::api::rollouts::{
    OverlapChoice, RolloutFailurePolicy, RolloutPlanAnswer, RolloutStartRequest, RolloutSummary,
};
use crate::cli::bart::deploy::{self, worktree};
use crate::cli::context::{RepositorySelector, ServiceArgs};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, DIM, GOOD};
use crate::cli::repository_apps::AppChoiceArg;
use crate::cli::times;
use crate::cli::verbatim::Verbatim;
use crate::cli::working_folder;
use crate::model::id::{AppName, ImageTag, RolloutId};
use crate::model::removal;

/// The path of the list, which takes new ones, too.
const ROLLOUTS: &str = "/api/v1/rollouts";

/// Starts a rollout of an image tag: targets by name, glob, label or expression, or a rollout that the WAML names.
///
/// The sequence of targets is fixed when the rollout starts; --dry-run shows it before, with what is live on each target
/// and how long it will take. Every target must be one that the WAML deploys to. The commit that is checked out is
/// deployed, or the one that --ref names.
///
/// A target that fails, or takes longer than --timeout, brings all changed targets back to what they had (--on-failure).
/// bart then ends with exit code 1.
///
/// Ctrl-C ends the waiting and not the rollout: bart prints how to follow it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart rollout start 1.0 --targets canary-1,'prod-*' --dry-run
  bart rollout start 1.0 --targets canary-1,'prod-*' --bake 10m
  bart rollout start 1.0 --labels region=eu --parallel 4 --max-failures 1 --on-failure pause
  bart rollout start 1.0 --match 'prod-(eu|us)-[0-9]+' --queue --no-wait
  bart rollout start 1.0 production --reason 'the sale begins on Friday'

Exit codes: 0 every target has the release (with --no-wait: it has started), 1 refused, undone, cancelled, or a person
must act, 2 wrong usage, or it could not be followed or did not end in time, 130 after Ctrl-C.")]
#[command(
    override_usage = "bart rollout start [OPTIONS] <TAG> <NAME|--targets <GLOB>|--labels <KEY=VALUE>|--match <REGEX>>"
)]
#[command(group = clap::ArgGroup::new("selection").required(true).multiple(true))]
pub(in crate::cli::bart) struct RolloutStartArgs {
    /// The image tag; `bart builds` lists them
    tag: ImageTag,
    /// A rollout that the WAML names, with its own targets, steps and gates
    #[arg(group = "selection", conflicts_with_all = ["targets", "labels", "pattern", "parallel", "bake"])]
    name: Option<String>,
    /// The targets: names and globs, in the order of the rollout; several with commas, or the option several times
    #[arg(long, value_name = "GLOB", value_delimiter = ',', group = "selection")]
    targets: Vec<String>,
    /// Only targets with this label; several with commas, or the option several times
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label, group = "selection")]
    labels: Vec<(String, String)>,
    /// Only targets whose whole name matches this regular expression
    #[arg(long = "match", value_name = "REGEX", group = "selection")]
    pattern: Option<String>,
    /// The number of targets that are under way at the same time. Default: 1
    #[arg(long, value_name = "N")]
    parallel: Option<usize>,
    /// The number of failed targets that are accepted. Default: 0
    #[arg(long, value_name = "N")]
    max_failures: Option<usize>,
    /// What follows when more have failed: every target gets its former revision back, the rollout waits for a person,
    /// or it goes on. Default: undo
    #[arg(long, value_name = "POLICY", value_parser = ["undo", "pause", "continue"])]
    on_failure: Option<String>,
    /// The time to wait between two targets, or two groups of --parallel targets: `10m`
    #[arg(long, value_name = "TIME", value_parser = times::duration)]
    bake: Option<SignedDuration>,
    /// The longest time that each target may take: `15m`
    #[arg(long, value_name = "TIME", value_parser = times::duration)]
    timeout: Option<SignedDuration>,
    /// Where another rollout of the app has a target in common: wait for its end, and do not refuse
    #[arg(long)]
    queue: bool,
    /// The reason; the record and the audit log store it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: Option<String>,
    /// Only print the plan
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    follow: FollowArgs,
    /// The branch, tag or commit whose WAML is deployed. Default: the commit that is checked out
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    #[command(flatten)]
    app: AppChoiceArg,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    service: ServiceArgs,
}

/// How long a rollout that was started is followed.
#[derive(Debug, Args)]
pub(in crate::cli::bart) struct FollowArgs {
    /// Start it, and do not wait for its end
    #[arg(long)]
    no_wait: bool,
    /// The longest wait for its end: `--wait=2h`
    #[arg(
        long,
        value_name = "TIME",
        value_parser = times::patience,
        num_args = 0..=1,
        require_equals = true,
        default_value = "24h",
        default_missing_value = "24h",
        conflicts_with = "no_wait"
    )]
    wait: Duration,
}

impl FollowArgs {
    /// Returns the longest wait; `None` where nothing is waited for.
    pub(in crate::cli::bart) fn wait(&self) -> Option<Duration> {
        (!self.no_wait).then_some(self.wait)
    }
}

/// Starts a rollout and follows it, or prints its plan where the request is for no more.
pub(in crate::cli::bart) async fn start_and_follow(
    request: &RolloutStartRequest,
    service: &ServiceArgs,
    wait: Option<Duration>,
) -> CommandOutcome {
    // From here on Ctrl-C prints how to continue.
    let stop = deploy::interrupts();
    if request.dry_run {
        return show_plan(request, service, &stop).await;
    }
    let ServiceArgs { server, output } = service;
    let answer = tokio::select! {
        answer = server.post(ROLLOUTS, request) => answer,
        () = stop.cancelled() => return Err(interrupted_error(request)),
    };
    let rollout: Verbatim<RolloutSummary> = answer?;
    let id = RolloutId::parse(rollout.id.as_str()).map_err(|error| {
        CliError::io(format!("the service sent an invalid rollout id: {error}"))
    })?;
    let Some(wait) = wait else {
        return output.print(&rollout, || started(&rollout));
    };
    let until = FollowUntil::PersonNeeded;
    let (newest, outcome) = follow::follow(server, &id, until, wait, &stop).await;
    // Programs get the state so far, even after Ctrl-C.
    match &newest {
        Some(newest) if output.is_data() => output.print(newest, String::new)?,
        None if output.is_data() => output.print(&rollout, String::new)?,
        Some(newest) if outcome.is_ok() => output::note(&follow::remarks(newest)),
        Some(_) | None => {}
    }
    outcome?;
    newest.map_or(Ok(()), |newest| follow::judge(&newest))
}

/// Prints the plan.
async fn show_plan(
    request: &RolloutStartRequest,
    service: &ServiceArgs,
    stop: &CancellationToken,
) -> CommandOutcome {
    let ServiceArgs { server, output } = service;
    let plan: Verbatim<RolloutPlanAnswer> = tokio::select! {
        answer = server.consult(ROLLOUTS, request) => answer?,
        () = stop.cancelled() => return Err(interrupted_error(request)),
    };
    output.print(&plan, || plan_text::format_plan(&plan, output::width()))
}

/// Makes the error for Ctrl-C before the service has answered.
fn interrupted_error(request: &RolloutStartRequest) -> CliError {
    if request.dry_run {
        return CliError::interrupted("nothing was changed");
    }
    CliError::interrupted("the service has not answered yet; it may have started the rollout")
        .hint("`bart rollout list` shows whether it has")
}

impl RolloutStartArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let repository = self.selector.repository()?;
        let app = self.app.name();
        let tree = worktree::read_tree(&working_folder::path()?, self.git_ref.as_deref(), app)?;
        for warning in &tree.warnings {
            output::warning(warning);
        }
        let request = self.request(repository.to_string(), tree.git_ref, tree.app)?;
        start_and_follow(&request, &self.service, self.follow.wait()).await
    }

    fn request(
        &self,
        repository: String,
        git_ref: String,
        app: Option<AppName>,
    ) -> Result<RolloutStartRequest, CliError> {
        let mut labels = BTreeMap::new();
        for (key, value) in &self.labels {
            if labels.insert(key.clone(), value.clone()).is_some_and(|before| before != *value) {
                return Err(CliError::usage(format!("the label {key} is given twice")));
            }
        }
        Ok(RolloutStartRequest {
            repository,
            app_name: app.map(String::from),
            git_ref,
            tag: self.tag.to_string(),
            name: self.name.clone(),
            targets: self.targets.clone(),
            labels,
            pattern: self.pattern.clone(),
            parallel: self.parallel,
            max_failures: self.max_failures,
            on_failure: self.on_failure.as_deref().and_then(RolloutFailurePolicy::parse),
            timeout: self.timeout,
            bake: self.bake,
            weights: Vec::new(),
            gates: None,
            on_overlap: self.queue.then_some(OverlapChoice::Queue),
            reason: self.reason.clone(),
            dry_run: self.dry_run,
        })
    }
}

fn started(summary: &RolloutSummary) -> String {
    let RolloutSummary { id, app, tag, targets_count, .. } = summary;
    format!(
        "{GOOD}started{GOOD:#} {id}: {BOLD}{app}{BOLD:#} {tag} to {targets_count} targets\n{DIM}`bart rollout status \
         {id} --watch` follows it{DIM:#}\n"
    )
}

/// Parses `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it like region=eu")?;
    if key.trim().is_empty() {
        return Err("write it like region=eu".to_owned());
    }
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        start: RolloutStartArgs,
    }

    fn parse(arguments: &[&str]) -> Result<RolloutStartArgs, String> {
        let line = Line::try_parse_from(["start"].iter().chain(arguments));
        line.map(|line| line.start).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rollout_is_selected_by_name_or_by_its_targets() {
        for (arguments, message) in [
            (&["1.0"][..], "required"),
            (&["1.0", "production", "--targets", "a"], "cannot be used with"),
            (&["1.0", "--labels", "region"], "write it like region=eu"),
            (
                &["1.0", "--targets", "a", "--on-failure", "explode"],
                "possible values: undo, pause, continue",
            ),
            (&["1.0", "--targets", "a", "--wait", "--no-wait"], "cannot be used with"),
        ] {
            let error = parse(arguments).err().unwrap();
            assert!(error.contains(message), "{arguments:?}: {error}");
        }
        let start = parse(&["1.0", "production", "--wait"]).unwrap();
        assert_eq!(
            (start.name.as_deref(), start.follow.wait()),
            (Some("production"), Some(Duration::from_hours(24)))
        );
        let wait = parse(&["1.0", "p", "--wait=2h"]).unwrap().follow.wait();
        assert_eq!(wait, Some(Duration::from_hours(2)));
    }

    #[test]
    fn every_option_is_in_the_request() {
        let arguments = [
            "1.0",
            "--targets",
            "canary-1,prod-*",
            "--targets",
            "edge",
            "--labels",
            "region=eu,tier=1",
            "--match",
            "prod-.*",
            "--parallel",
            "2",
            "--max-failures",
            "1",
            "--on-failure",
            "continue",
            "--bake",
            "10m",
            "--timeout",
            "15m",
            "--queue",
            "--reason",
            "the sale",
            "--dry-run",
        ];
        let request = parse(&arguments).unwrap().request("a/b".to_owned(), "main".to_owned(), None);
        insta::assert_snapshot!(serde_json::to_string(&request.ok().unwrap()).unwrap(), @r#"
        {"repository":"a/b","ref":"main","tag":"1.0","targets":["canary-1","prod-*","edge"],"labels":{"region":"eu","tier":"1"},"match":"prod-.*","parallel":2,"max_failures":1,"on_failure":"continue","timeout":"PT15M","bake":"PT10M","on_overlap":"queue","reason":"the sale","dry_run":true}
        "#);
        let twice = parse(&["1.0", "--labels", "a=1,a=2"]).unwrap();
        let error = twice.request("a/b".to_owned(), "main".to_owned(), None).unwrap_err();
        assert_eq!(error.to_string(), "the label a is given twice");
    }
}
