//! `bart plan`: what a deployment would do, before the deed.

mod page; // as people read it

use clap::Args;
use serde::Serialize;

use super::client::Server;
use super::diagnostics::Sources;
use super::error::{CliError, Outcome};
use super::here::{self, Whose};
use super::offline::{self, WAML_FILE};
use super::output::{self, Format};
use super::verbatim::Verbatim;
use crate::api::plans::{PlanAnswer, PlanOutcome, PlanRequest};
use crate::model::id::{ImageTag, TargetName};

/// Shows what a deployment would change on each target, object by object and field by field, and what
/// would speak against it now. Nothing is deployed.
///
/// The WAML of the working folder is planned as it is, saved and not yet pushed; with --ref, the one that
/// the code host has. All rules run as for a deployment, those about branches, locks and windows too.
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
pub(super) struct Plan {
    /// The image tag, then the targets; with --live targets alone
    #[arg(value_name = "TAG TARGET", required = true, num_args = 1..)]
    names: Vec<String>,
    /// With the tag that is live on each target
    #[arg(long)]
    live: bool,
    /// The WAML at this branch, tag or commit of the code host, not the one in the working folder
    #[arg(long = "ref", value_name = "REF")]
    git_ref: Option<String>,
    /// Show the lines that differ, not the fields
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// All that was planned.
#[derive(Debug, Serialize)]
struct Plans {
    plans: Vec<Verbatim<PlanAnswer>>,
}

impl Plan {
    pub(super) async fn run(self) -> Outcome {
        let (tag, targets) = self.named()?;
        let (mut ask, sources) = self.ask(tag)?;
        let mut plans = Vec::new();
        for target in targets {
            ask.target = target.to_string();
            let planned = self.server.consult("/api/v1/plan", &ask).await;
            let names = self.whose.names(&target);
            let planned: Verbatim<PlanAnswer> = self.server.suggest(planned, &names).await?;
            if !self.output.is_data() {
                let gap = if plans.is_empty() { "" } else { "\n" };
                output::print(&format!("{gap}{}", page::of(&planned, self.diff, &sources)))?;
            }
            plans.push(planned);
        }
        let refused = plans.iter().any(|plan| plan.outcome == PlanOutcome::Refused);
        if self.output.is_data() {
            output::data(self.output, &Plans { plans })?;
        }
        if refused { Err(CliError::rejected()) } else { Ok(()) }
    }

    /// The tag, and the targets.
    fn named(&self) -> Result<(Option<ImageTag>, Vec<TargetName>), CliError> {
        let target = |text: &String| offline::target(text).map_err(CliError::usage);
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
        let tag = ImageTag::parse(tag.as_str()).map_err(|e| CliError::usage(e.to_string()))?;
        Ok((Some(tag), targets.iter().map(target).collect::<Result<_, _>>()?))
    }

    fn ask(&self, tag: Option<ImageTag>) -> Result<(PlanRequest, Sources), CliError> {
        let mut sources = Sources::default();
        let mut ask = PlanRequest {
            repository: self.whose.repository()?.to_string(),
            target: String::new(),
            tag: tag.map(String::from),
            commit: None,
            git_ref: self.git_ref.clone(),
            waml: None,
        };
        if self.git_ref.is_none() {
            let (file, bytes) = here::waml_text()?;
            let text = String::from_utf8(bytes)
                .map_err(|_| CliError::usage(format!("{} is not UTF-8 text", file.display())))?;
            sources.add(WAML_FILE, text.as_str());
            (ask.waml, ask.commit) = (Some(text), here::head());
        }
        Ok((ask, sources))
    }
}
