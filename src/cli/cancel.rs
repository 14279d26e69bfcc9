//! `bart cancel`: a deployment that has not begun to push is stopped.

use clap::Args;

use super::client::Server;
use super::error::Outcome;
use super::output::{self, BOLD, Format, GOOD};
use super::verbatim::Verbatim;
use crate::api::deployments::{CancelRequest, DeploymentSummary};
use crate::model::id::DeployId;
use crate::model::removal;

/// Stops a deployment that waits, or that has not begun to push.
///
/// Nothing of it is deployed, and the code host shows it as inactive with your reason. Once its push has
/// begun it is too late, because it may have arrived: roll back instead.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart cancel 20261121-054812123-3f9a2c --reason 'the wrong tag'

Exit codes: 0 cancelled, 1 refused (it has ended, or is being pushed), 2 wrong usage or no answer.")]
pub(super) struct Cancel {
    /// The deployment's id, as `bart status` shows it
    #[arg(value_parser = |text: &str| DeployId::parse(text).map_err(|e| e.to_string()))]
    deployment: DeployId,
    /// Why; it is kept, and the code host shows it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Cancel {
    pub(super) async fn run(self) -> Outcome {
        let path = format!("/api/v1/deployments/{}/cancel", self.deployment);
        let request = CancelRequest { reason: self.reason };
        let cancelled: Verbatim<DeploymentSummary> = self.server.post(&path, &request).await?;
        if self.output.is_data() {
            return output::data(self.output, &cancelled);
        }
        let DeploymentSummary { id, target, tag, repository, app, .. } = cancelled.value;
        let app = app.unwrap_or(repository);
        output::print(&format!(
            "{GOOD}cancelled{GOOD:#} {id}: {BOLD}{app}{BOLD:#} {tag} is not deployed to {target}\n"
        ))
    }
}
