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

/// Stops a rollout before its next target. A deployment that is under way goes on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart rollout pause r-20261121-054812123-3f9a2c --reason 'the error rate rises'

Exit codes: 0 paused, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct PauseArgs {
    #[command(flatten)]
    pub(super) act: RolloutActArgs,
}

/// Lets a paused rollout go on, also past targets that have failed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart rollout resume r-20261121-054812123-3f9a2c --reason 'it was the load test'

Exit codes: 0 resumed, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct ResumeArgs {
    #[command(flatten)]
    pub(super) act: RolloutActArgs,
}

/// Approves the gate that a rollout waits at.
///
/// A gate with a team is for its members; any other one is for whoever may deploy to every target of the rollout.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart rollout approve r-20261121-054812123-3f9a2c --reason 'the canary looks good'

Exit codes: 0 approved, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct ApproveArgs {
    #[command(flatten)]
    pub(super) act: RolloutActArgs,
}

/// Ends a rollout where it is: every target keeps what it has.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart rollout cancel r-20261121-054812123-3f9a2c --reason 'the wrong tag'

Exit codes: 0 cancelled, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct CancelRolloutArgs {
    #[command(flatten)]
    pub(super) act: RolloutActArgs,
}

/// Gives every changed target its former revision back, byte for byte: failed targets first, then the others in reverse
/// order.
///
/// Targets to which a person has deployed meanwhile are left to them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart rollout undo r-20261121-054812123-3f9a2c --reason 'checkout fails since 1.10'

Exit codes: 0 the undo has begun, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct UndoArgs {
    #[command(flatten)]
    pub(super) act: RolloutActArgs,
}

/// Tries again: the failed targets of the current step, or the undos that failed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  bart rollout retry r-20261121-054812123-3f9a2c --reason 'the registry works again'

Exit codes: 0 it goes on, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct RetryArgs {
    #[command(flatten)]
    pub(super) act: RolloutActArgs,
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
