//! `bart rollout`: one release over many targets.

mod plan_text; // the plan of one, before it starts
pub(super) mod start; // starts one, or shows the plan of one
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
    /// Stops a rollout before its next target. A deployment that is under way goes on.
    #[command(after_long_help = "\
Example:
  bart rollout pause r-20261121-054812123-3f9a2c --reason 'the error rate rises'

Exit codes: 0 paused, 1 refused, 2 wrong usage or no answer.")]
    Pause(act::RolloutActArgs),
    /// Lets a paused rollout go on, also past targets that have failed.
    #[command(after_long_help = "\
Example:
  bart rollout resume r-20261121-054812123-3f9a2c --reason 'it was the load test'

Exit codes: 0 resumed, 1 refused, 2 wrong usage or no answer.")]
    Resume(act::RolloutActArgs),
    /// Approves the gate that a rollout waits at.
    ///
    /// A gate with a team is for its members; any other one is for whoever may deploy to every target of the rollout.
    #[command(after_long_help = "\
Example:
  bart rollout approve r-20261121-054812123-3f9a2c --reason 'the canary looks good'

Exit codes: 0 approved, 1 refused, 2 wrong usage or no answer.")]
    Approve(act::RolloutActArgs),
    /// Ends a rollout where it is: every target keeps what it has.
    #[command(after_long_help = "\
Example:
  bart rollout cancel r-20261121-054812123-3f9a2c --reason 'the wrong tag'

Exit codes: 0 cancelled, 1 refused, 2 wrong usage or no answer.")]
    Cancel(act::RolloutActArgs),
    /// Gives every changed target its former revision back, byte for byte: failed targets first, then the others in
    /// reverse order.
    ///
    /// Targets to which a person has deployed meanwhile are left to them.
    #[command(after_long_help = "\
Example:
  bart rollout undo r-20261121-054812123-3f9a2c --reason 'checkout fails since 1.10'

Exit codes: 0 the undo has begun, 1 refused, 2 wrong usage or no answer.")]
    Undo(act::RolloutActArgs),
    /// Tries again: the failed targets of the current step, or the undos that failed.
    #[command(after_long_help = "\
Example:
  bart rollout retry r-20261121-054812123-3f9a2c --reason 'the registry works again'

Exit codes: 0 it goes on, 1 refused, 2 wrong usage or no answer.")]
    Retry(act::RolloutActArgs),
}

impl RolloutArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        match self {
            Self::Start(command) => command.run().await,
            Self::Status(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Pause(act) => act.run("pause").await,
            Self::Resume(act) => act.run("resume").await,
            Self::Approve(act) => act.run("approve").await,
            Self::Cancel(act) => act.run("cancel").await,
            Self::Undo(act) => act.run("undo").await,
            Self::Retry(act) => act.run("retry").await,
        }
    }
}
