//! `bart cancel` stops a deployment whose push has not begun.

use clap::Args;

use crate::api::deployments::{CancelRequest, DeploymentSummary};
use crate::cli::context::ServiceArgs;
use crate::cli::error::CommandOutcome;
use crate::cli::output::{BOLD, GOOD};
use crate::cli::verbatim::Verbatim;
use crate::model::id::DeployId;
use crate::model::removal;

/// Stops a deployment that waits, or whose push has not begun.
///
/// Nothing of it is deployed, and the code host shows it as inactive with your reason. A deployment whose push has
/// begun cannot be cancelled, because the push may have arrived: roll back instead.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart cancel 20261121-054812123-3f9a2c --reason 'the wrong tag'

Exit codes: 0 cancelled, 1 refused (it has ended, or is being pushed), 2 wrong usage or no answer.")]
pub(super) struct Cancel {
    /// The deployment's id, as `bart status` shows it
    deployment: DeployId,
    /// The reason; it is stored, and the code host shows it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Cancel {
    pub(super) async fn run(self) -> CommandOutcome {
        let path = format!("/api/v1/deployments/{}/cancel", self.deployment);
        let request = CancelRequest { reason: self.reason };
        let ServiceArgs { server, output } = self.service;
        let cancelled: Verbatim<DeploymentSummary> = server.post(&path, &request).await?;
        output.print(&cancelled, || {
            let DeploymentSummary { id, target, tag, repository, app, .. } = &*cancelled;
            let app = app.as_ref().unwrap_or(repository);
            format!(
                "{GOOD}cancelled{GOOD:#} {id}: {BOLD}{app}{BOLD:#} {tag} is not deployed to {target}\n"
            )
        })
    }
}
