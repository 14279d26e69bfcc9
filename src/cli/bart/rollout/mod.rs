//! `bart rollout`: one release over many targets.

mod plan_text; // the plan of one, before it starts
mod start; // starts one, or shows the plan of one
mod status; // one rollout, and the list
mod act; // pause, resume, approve, cancel, undo, retry
mod follow; // follows one until it ends
mod lines; // one rollout as lines

use clap::Subcommand;

use crate::cli::error::CommandOutcome;

pub(super) use self::status::recent_ids;

/// Takes one release to many targets, one after the other, and back from all of them when one fails.
///
/// The service carries a rollout out by itself: it goes on when this command, the terminal or the service ends. Each
/// step is an ordinary deployment, and each undo an ordinary rollback: locks, windows and rights count for them.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  bart rollout start 1.0 --targets canary-1,'prod-*' --bake 10m --dry-run
  bart rollout start 1.0 production        a rollout that the WAML names
  bart rollout status --watch              the newest of the app in this folder
  bart rollout undo r-20261121-054812123-3f9a2c --reason 'checkout fails'")]
pub(super) enum RolloutArgs {
    Start(Box<start::RolloutStartArgs>),
    Status(status::RolloutStatusArgs),
    List(status::RolloutListArgs),
    Pause(act::PauseArgs),
    Resume(act::ResumeArgs),
    Approve(act::ApproveArgs),
    Cancel(act::CancelRolloutArgs),
    Undo(act::UndoArgs),
    Retry(act::RetryArgs),
}

impl RolloutArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        match self {
            Self::Start(command) => command.run().await,
            Self::Status(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Pause(act::PauseArgs { act }) => act.run("pause").await,
            Self::Resume(act::ResumeArgs { act }) => act.run("resume").await,
            Self::Approve(act::ApproveArgs { act }) => act.run("approve").await,
            Self::Cancel(act::CancelRolloutArgs { act }) => act.run("cancel").await,
            Self::Undo(act::UndoArgs { act }) => act.run("undo").await,
            Self::Retry(act::RetryArgs { act }) => act.run("retry").await,
        }
    }
}
