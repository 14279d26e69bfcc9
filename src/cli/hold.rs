//! `bart hold` and `bart unhold`: automation is kept from deploying an app, and let again.

use clap::Args;

use super::client::Server;
use super::error::{CliError, Outcome};
use super::here::About;
use super::offline;
use super::output::{self, BOLD, Format, GOOD};
use super::times::Times;
use super::verbatim::Verbatim;
use crate::api::rollbacks::{HoldAnswer, HoldRequest, HoldSummary};
use crate::model::id::{AppKey, TargetName};
use crate::model::removal;

/// Keeps workflows and rollouts from deploying the app to a target.
///
/// A rollback does the same by itself. A person's deployment ends the hold; so does `bart unhold`. To
/// keep people from deploying as well, use `bart lock`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart hold prod-cluster-1 --reason 'we watch 1.10 over the weekend'")]
pub(super) struct Hold {
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
    #[arg(value_parser = offline::target)]
    target: TargetName,
    /// Why; it is shown to whoever is held, and kept in the audit log
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Hold {
    pub(super) async fn run(self) -> Outcome {
        let answer = self.ask.post("hold").await?;
        self.ask.print(&answer, |held| {
            format!(
                "{GOOD}held{GOOD:#} {BOLD}{}{BOLD:#} on {}: automation does not deploy it\n",
                held.app, held.target
            )
        })
    }
}

impl Unhold {
    pub(super) async fn run(self) -> Outcome {
        let answer = self.ask.post("release").await?;
        self.ask.print(&answer, |held| {
            format!(
                "{GOOD}released{GOOD:#} {BOLD}{}{BOLD:#} on {}; {} had held it, {}: {}\n",
                held.app,
                held.target,
                held.by,
                Times::system().ago(held.since),
                held.reason
            )
        })
    }
}

impl Ask {
    async fn post(&self, what: &str) -> Result<Verbatim<HoldAnswer>, CliError> {
        let AppKey { namespace, slug } = self.server.find_app(&self.about).await?;
        let path = format!("/api/v1/apps/{}/{namespace}/{slug}/{what}", self.target);
        let answer = self.server.post(&path, &HoldRequest { reason: self.reason.clone() }).await;
        self.server.suggest(answer, &self.about.names(Some(&self.target))).await
    }

    fn print(
        &self,
        answer: &Verbatim<HoldAnswer>,
        text: impl Fn(&HoldSummary) -> String,
    ) -> Outcome {
        match self.output {
            Format::Text => output::print(&text(&answer.hold)),
            data @ (Format::Json | Format::Yaml) => output::data(data, answer),
        }
    }
}
