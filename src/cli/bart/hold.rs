//! `bart hold` and `bart unhold` keep automation from deploying an app, and allow it again.

use clap::Args;

use crate::api::rollbacks::{HoldAnswer, HoldRequest, HoldSummary};
use crate::cli::context::Context;
use crate::cli::error::CommandOutcome;
use crate::cli::output::{BOLD, GOOD};
use crate::cli::times::TimeFormatter;
use crate::cli::verbatim::Verbatim;
use crate::model::id::TargetName;
use crate::model::removal;

/// Keeps workflows and rollouts from deploying the app to a target.
///
/// A rollback takes a hold by itself. A person's deployment ends the hold; so does `bart unhold`. To stop people as
/// well, use `bart lock`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart hold prod-cluster-1 --reason 'we watch 1.10 over the weekend'")]
pub(super) struct HoldArgs {
    #[command(flatten)]
    ask: Ask,
}

/// Ends a hold: workflows and rollouts may deploy the app to the target again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart unhold prod-cluster-1 --reason '1.11 has the fix'")]
pub(super) struct Unhold {
    #[command(flatten)]
    ask: Ask,
}

#[derive(Debug, Args)]
struct Ask {
    /// The target
    target: TargetName,
    /// The reason; refused deployments show it, and the audit log stores it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    #[command(flatten)]
    context: Context,
}

impl HoldArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let print = |HoldSummary { app, target, .. }: &HoldSummary| {
            format!(
                "{GOOD}held{GOOD:#} {BOLD}{app}{BOLD:#} on {target}: automation does not deploy it\n"
            )
        };
        self.ask.run("hold", print).await
    }
}

impl Unhold {
    pub(super) async fn run(self) -> CommandOutcome {
        let print = |HoldSummary { app, target, by, since, reason, .. }: &HoldSummary| {
            let ago = TimeFormatter::system().ago(*since);
            format!(
                "{GOOD}released{GOOD:#} {BOLD}{app}{BOLD:#} on {target}; {by} had held it, {ago}: {reason}\n"
            )
        };
        self.ask.run("release", print).await
    }
}

impl Ask {
    async fn run(self, act: &str, text: impl Fn(&HoldSummary) -> String) -> CommandOutcome {
        let Self { target, reason, context } = self;
        let request = HoldRequest { reason };
        let answer: Verbatim<HoldAnswer> = context.post_act(&target, act, &request).await?;
        context.output.print(&answer, || text(&answer.hold))
    }
}
