//! `bart plan` shows the changes of a deployment without deploying.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::api::plans::{ClusterPlan, PlanAnswer, PlanOutcome, PlanRequest};
use crate::cli::bart::canary;
use crate::cli::changes::{self, ShownChange};
use crate::cli::context::{self, RepositorySelector, ServiceArgs};
use crate::cli::diagnostics::{self, SourceTexts};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::extra_files;
use crate::cli::output::{self, BAD, BOLD, GOOD, note_line};
use crate::cli::repository_apps::AppChoiceArg;
use crate::cli::verbatim::Verbatim;
use crate::model::change::{Change, ChangeKind};
use crate::model::id::{IdError, ImageTag, TargetName};
use crate::waml::Waml;

/// Shows what a deployment would change on each target, object by object and field by field, and the rules that would
/// refuse it now. Nothing is deployed.
///
/// The plan uses the WAML of the working folder as it is, even if it is not pushed; with --ref, that of the code host.
/// All rules run as for a deployment, including those about branches, locks and windows.
#[derive(Debug, Args)]
#[command(
    override_usage = "bart plan [OPTIONS] TAG TARGET...\n       bart plan [OPTIONS] --live TARGET...",
    after_long_help = "\
Examples:
  bart plan 1.0.202611211506 prod-cluster-1
  bart plan --live dev-cluster-1 prod-cluster-1     the tag stays, the WAML and templates may not
  bart plan 1.1 prod-cluster-1 --ref main --diff
  bart plan 1.1 prod-cluster-1 --output json | jq '.plans[].changes[].fields'

Exit codes: 0 it could be deployed, whether something would change or not; 1 it would be refused, or the
service refuses to say; 2 wrong usage or no answer."
)]
pub(super) struct PlanArgs {
    /// The image tag, then the targets; with --live targets alone
    #[arg(value_name = "TAG TARGET", required = true, num_args = 1..)]
    names: Vec<String>,
    /// Use the tag that is live on each target
    #[arg(long)]
    live: bool,
    /// Use the WAML at this branch, tag or commit of the code host
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    /// Show the lines that differ, not the fields
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    app: AppChoiceArg,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    service: ServiceArgs,
}

impl PlanArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let ServiceArgs { server, output } = &self.service;
        let (tag, targets) = self.parse_names()?;
        let (mut request, waml, sources) = self.request(tag)?;
        let mut plans = Vec::new();
        for target in targets {
            request.target = target.to_string();
            let files = waml.as_ref().map(|waml| extra_files::texts_of(waml, &target));
            request.manifests = files.unwrap_or_default();
            let planned = server.consult("/api/v1/plan", &request).await;
            let planned: Verbatim<PlanAnswer> =
                server.suggest(planned, &self.selector.names(&target)).await?;
            if !output.is_data() {
                let gap = if plans.is_empty() { "" } else { "\n" };
                output::print(&format!("{gap}{}", page(&planned, self.diff, &sources)))?;
            }
            plans.push(planned);
        }
        let refused = plans.iter().any(|plan| plan.outcome == PlanOutcome::Refused);
        output.print(&json!({"plans": plans}), String::new)?;
        if refused { Err(CliError::rejected()) } else { Ok(()) }
    }

    /// Parses the tag and the targets.
    fn parse_names(&self) -> Result<(Option<ImageTag>, Vec<TargetName>), CliError> {
        let wrong = |error: IdError| CliError::usage(error.to_string());
        let target = |text: &String| TargetName::parse(text.as_str()).map_err(wrong);
        if self.live {
            return Ok((None, self.names.iter().map(target).collect::<Result<_, _>>()?));
        }
        let missing = || {
            CliError::usage("which target? a tag and at least one target are needed")
                .hint("bart plan TAG TARGET, or bart plan --live TARGET")
        };
        let (tag, targets) = self.names.split_first().ok_or_else(missing)?;
        if targets.is_empty() {
            return Err(missing());
        }
        let tag = ImageTag::parse(tag.as_str()).map_err(wrong)?;
        Ok((Some(tag), targets.iter().map(target).collect::<Result<_, _>>()?))
    }

    /// Returns the request, and the WAML of the working folder if that is planned.
    fn request(
        &self,
        tag: Option<ImageTag>,
    ) -> Result<(PlanRequest, Option<Waml>, SourceTexts), CliError> {
        let mut waml = None;
        let mut sources = SourceTexts::default();
        let repository = self.selector.repository()?;
        let app = context::request_app(&self.app, &repository)?;
        let mut request = PlanRequest {
            repository: repository.to_string(),
            app_name: app.map(String::from),
            target: String::new(),
            tag: tag.map(String::from),
            commit: None,
            git_ref: self.git_ref.clone(),
            waml: None,
            manifests: BTreeMap::new(),
        };
        if self.git_ref.is_none() {
            let (file, bytes) = context::waml_text(&self.app)?;
            let text = String::from_utf8(bytes).map_err(|_| {
                CliError::usage(format!("{} is not UTF-8 text", file.path.display()))
            })?;
            sources.add(&file.name, text.as_str());
            request.app_name = file.app.map(String::from);
            // What is wrong with a WAML that cannot be read, the service says.
            let parsed = Waml::parse(&file.name, text.as_bytes()).ok();
            let folder = file.path.parent().unwrap_or(Path::new(""));
            waml = parsed.map(|waml| extra_files::from_folder(waml, folder, &mut sources));
            (request.waml, request.commit) = (Some(text), context::head());
        }
        Ok((request, waml, sources))
    }
}

/// Formats one target's plan.
fn page(plan: &PlanAnswer, diff: bool, sources: &SourceTexts) -> String {
    let app = plan.app.as_deref().unwrap_or("the app");
    let tag = plan.tag.as_ref().map_or_else(String::new, |tag| format!(", tag {tag}"));
    let mut text = format!(
        "{BOLD}{app} on {}{BOLD:#}{tag}: {}\n",
        plan.target,
        verdict(plan.outcome, &plan.changes)
    );
    let detail = if diff { ShownChange::Lines } else { ShownChange::Fields };
    if plan.clusters.is_empty() {
        text += &changes::page(&plan.changes, detail);
    }
    for ClusterPlan { cluster, outcome, digest: _, changes, notes } in &plan.clusters {
        text += &format!("{BOLD}on {cluster}{BOLD:#}: {}\n", verdict(*outcome, changes));
        text += &changes::page(changes, detail);
        text += &notes.iter().map(note_line).collect::<String>();
    }
    text += &plan.canary.as_ref().map(canary::describe).unwrap_or_default();
    text += &plan.notes.iter().map(note_line).collect::<String>();
    let violations: Vec<_> = plan.violations.iter().chain(&plan.warnings).cloned().collect();
    if !violations.is_empty() {
        text += &format!("\n{}", diagnostics::render(&violations, sources));
        text += &diagnostics::left_out(plan.violations_left_out + plan.warnings_left_out);
    }
    text
}

fn verdict(outcome: PlanOutcome, changes: &[Change]) -> String {
    let count_of = |how: ChangeKind| changes.iter().filter(|change| change.how == how).count();
    match outcome {
        PlanOutcome::Refused => format!("{BAD}would be refused{BAD:#}"),
        PlanOutcome::Unchanged => format!("{GOOD}nothing would change{GOOD:#}"),
        PlanOutcome::Changes => {
            let kinds = [
                (ChangeKind::Added, "new"),
                (ChangeKind::Changed, "changed"),
                (ChangeKind::Removed, "gone"),
            ];
            let counts = kinds.map(|(how, word)| (count_of(how), word)).into_iter();
            let nonzero = counts.filter(|(n, _)| *n > 0);
            nonzero.map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(", ")
        }
    }
}
