//! `bart rollout pause`, `resume`, `approve`, `cancel`, `undo` and `retry`: what people do to a rollout.

use clap::Args;

use super::lines;
use crate::api::rollouts::{RolloutActRequest, RolloutSummary};
use crate::cli::context::ServiceArgs;
use crate::cli::error::CommandOutcome;
use crate::cli::output::{BOLD, DIM};
use crate::cli::verbatim::Verbatim;
use crate::model::id::RolloutId;
use crate::model::removal;

/// The arguments of every act.
#[derive(Debug, Args)]
pub(in crate::cli::bart) struct RolloutActArgs {
    /// The rollout's id, as `bart rollout list` shows it
    rollout: RolloutId,
    /// The reason; the record and the audit log store it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    #[command(flatten)]
    service: ServiceArgs,
}

impl RolloutActArgs {
    /// Asks the service for the act, and prints the rollout after it.
    pub(super) async fn run(self, act: &str) -> CommandOutcome {
        let path = format!("/api/v1/rollouts/{}/{act}", self.rollout);
        let request = RolloutActRequest { reason: self.reason };
        let ServiceArgs { server, output } = self.service;
        let rollout: Verbatim<RolloutSummary> = server.post(&path, &request).await?;
        output.print(&rollout, || {
            let RolloutSummary { id, app, tag, state, complete, targets_count, .. } = &*rollout;
            let colour = lines::colour(*state);
            let word = lines::word(*state);
            format!(
                "{colour}{word}{colour:#} {id}: {BOLD}{app}{BOLD:#} {tag}, {complete} of {targets_count} targets are \
                 complete\n{DIM}`bart rollout status {id} --watch` follows it{DIM:#}\n"
            )
        })
    }
}
