//! `bart hold` and `bart unhold` keep automation from deploying an app, and allow it again; `bart holds` lists the holds.

use clap::Args;

use crate::api::rollbacks::{HoldAnswer, HoldList, HoldRequest, HoldSummary};
use crate::cli::context::{Context, Names, ServiceArgs};
use crate::cli::error::CommandOutcome;
use crate::cli::output::{BOLD, GOOD};
use crate::cli::table::{Column, table};
use crate::cli::times::{SINCE, TimeFormatter};
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

/// Lists the holds: the app and target of each, who took it, and why.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart holds                   every hold that you may see
  bart holds prod-cluster-1    those on a target")]
pub(super) struct HoldsArgs {
    /// Only holds on this target
    target: Option<TargetName>,
    #[command(flatten)]
    service: ServiceArgs,
}

impl HoldsArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let ServiceArgs { server, output } = &self.service;
        let query: Vec<_> =
            self.target.iter().map(|target| ("target", target.to_string())).collect();
        let list: Verbatim<HoldList> = server.get("/api/v1/holds", &query).await?;
        if list.holds.is_empty() {
            let names = Names { target: self.target.clone(), ..Names::default() };
            server.check_names(&names).await?;
        }
        output.print(&list, || format_holds(&list.holds, TimeFormatter::system()))
    }
}

fn format_holds(holds: &[HoldSummary], times: TimeFormatter) -> String {
    if holds.is_empty() {
        return "no holds\n".to_owned();
    }
    let row = |hold: &HoldSummary| {
        let HoldSummary { target, app, by, reason, since, from, .. } = hold;
        let from = from.clone().unwrap_or_else(|| "-".to_owned());
        [
            app.clone(),
            target.clone(),
            by.clone(),
            times.past_cell(Some(*since)),
            from,
            reason.clone(),
        ]
    };
    let columns = [
        Column::middle("APP", 12),
        Column::middle("TARGET", 12),
        Column::cut("BY", 6),
        times.column(SINCE),
        Column::middle("ROLLED BACK", 8).drop(1),
        Column::fold("REASON", 16),
    ];
    table(columns, holds.iter().map(row).collect())
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
