//! `--watch` of commands that show a state: they show it again and again.

use std::time::Duration;

use clap::Args;

use super::deploy;
use crate::cli::error::{CliErrorKind, CommandOutcome};
use crate::cli::output;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// The option.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Show it again every two seconds, until Ctrl-C
    #[arg(long, short)]
    watch: bool,
}

impl WatchArgs {
    /// Shows it once, or with `--watch` until Ctrl-C. On a terminal each look replaces the one before. A service that does not
    /// answer for a moment ends nothing.
    pub(super) async fn show(&self, look: impl AsyncFn() -> CommandOutcome) -> CommandOutcome {
        if !self.watch {
            return look().await;
        }
        let stop = deploy::interrupts();
        let mut has_looked = false;
        loop {
            match look().await {
                Err(error) if has_looked && is_passing(error.kind) => {
                    output::warning(&error.to_string());
                }
                outcome => outcome?,
            }
            has_looked = true;
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(INTERVAL) => output::redraw_next(),
            }
        }
    }
}

/// Checks for a failure that another look may not meet.
fn is_passing(kind: CliErrorKind) -> bool {
    matches!(kind, CliErrorKind::Io | CliErrorKind::Passing | CliErrorKind::Rejected)
}
