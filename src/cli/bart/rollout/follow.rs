//! Follows a rollout until it ends, or a person must act.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::lines;
use crate::api::rollouts::{RolloutCommand, RolloutDetail, RolloutStatus, RolloutSummary};
use crate::cli::client::ServiceEndpoint;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::live_lines::{self, LiveLines};
use crate::cli::output::{self, NOTE};
use crate::cli::verbatim::Verbatim;
use crate::model::id::RolloutId;
use crate::support::clock::Clock;

/// The time between two frames on a terminal.
const FRAME: Duration = Duration::from_millis(120);

/// The ends of following a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowUntil {
    /// Its end alone: a person who watches sees others act.
    End,
    /// Its end, or a pause that only a person ends: a job would wait in vain.
    PersonNeeded,
}

/// The display of a rollout on standard error.
struct RolloutDisplay {
    lines: LiveLines,
    clock: Clock,
    newest: Option<Verbatim<RolloutDetail>>,
}

/// Follows a rollout; returns the newest record that was read, also where following failed.
pub(super) async fn follow(
    server: &ServiceEndpoint,
    id: &RolloutId,
    until: FollowUntil,
    limit: Duration,
    stop: &CancellationToken,
) -> (Option<Verbatim<RolloutDetail>>, CommandOutcome) {
    let mut events = server.follow_rollout(id);
    let mut display =
        RolloutDisplay { lines: LiveLines::new(), clock: Clock::system(), newest: None };
    let end = tokio::time::sleep(limit);
    tokio::pin!(end);
    let outcome = loop {
        let event = {
            let next = events.next();
            tokio::pin!(next);
            // A frame does not interrupt the reading of an event.
            loop {
                tokio::select! {
                    event = &mut next => break Ok(event),
                    () = tokio::time::sleep(FRAME), if display.lines.is_live() => display.redraw(),
                    () = stop.cancelled() => break Err(interruption(id, display.newest.as_deref())),
                    () = &mut end => break Err(too_long(id, limit)),
                }
            }
        };
        match event {
            Ok(Ok(Some(rollout))) => {
                display.show(rollout);
                if display.is_over(until) {
                    break Ok(());
                }
            }
            Ok(Ok(None)) => break display.read_end(server, id).await,
            Ok(Err(error)) => {
                let message = format!("rollout {id} continues, and cannot be followed: {error}");
                break Err(CliError::io(message).hint(next_steps(id)));
            }
            Err(error) => break Err(error),
        }
    };
    (display.newest, outcome)
}

impl RolloutDisplay {
    /// Shows the next state: redraws the lines, or prints one for each change.
    fn show(&mut self, rollout: Verbatim<RolloutDetail>) {
        if !self.lines.is_live() {
            for line in lines::news(self.newest.as_deref(), &rollout) {
                output::note(&line);
            }
        }
        self.newest = Some(rollout);
        self.redraw();
    }

    fn redraw(&mut self) {
        let Some(rollout) = self.newest.as_ref().filter(|_| self.lines.is_live()) else { return };
        let height = Some(live_lines::screen_size().1);
        let frame = lines::lines(rollout, self.clock.now(), self.lines.spinner(), height);
        self.lines.draw(&frame);
    }

    fn is_over(&self, until: FollowUntil) -> bool {
        self.newest.as_ref().is_some_and(|rollout| {
            let RolloutSummary { state, needs_person, .. } = rollout.summary;
            state.is_end() || (needs_person && until == FollowUntil::PersonNeeded)
        })
    }

    /// Reads the record once more: the stream has ended, because the rollout has.
    async fn read_end(&mut self, server: &ServiceEndpoint, id: &RolloutId) -> CommandOutcome {
        let rollout = server.get(&format!("/api/v1/rollouts/{id}"), &[]).await?;
        self.show(rollout);
        Ok(())
    }
}

/// Fails unless the rollout is done; says what a person can do.
pub(super) fn judge(rollout: &RolloutDetail) -> CommandOutcome {
    let RolloutSummary { state, complete, targets_count, .. } = rollout.summary;
    let others = targets_count.saturating_sub(complete);
    let is_good = state == RolloutStatus::Done && others <= rollout.max_failures;
    if is_good { Ok(()) } else { Err(CliError::rejected()) }
}

/// Returns the remarks after the end: what failed, what is left, and how to act.
pub(super) fn remarks(rollout: &RolloutDetail) -> String {
    let remarks = rollout.targets.iter().filter_map(|target| {
        let remark = lines::remark(target)?;
        Some(output::note_line(format!("{}: {remark}", target.target)))
    });
    let text: String = remarks.collect();
    text + &commands(rollout)
}

/// Returns the commands by which a person can act now.
fn commands(rollout: &RolloutDetail) -> String {
    let line = |command: &RolloutCommand| {
        format!("{NOTE}help{NOTE:#}: `{}` {}\n", command.command, command.effect)
    };
    rollout.commands.iter().map(line).collect()
}

fn interruption(id: &RolloutId, newest: Option<&RolloutDetail>) -> CliError {
    let message = match newest.map(|rollout| &rollout.summary) {
        Some(RolloutSummary { state, complete, targets_count, .. }) => format!(
            "rollout {id} continues without this command: it is {}, {complete} of {targets_count} targets are complete",
            lines::word(*state)
        ),
        None => format!("rollout {id} continues without this command"),
    };
    CliError::interrupted(message).hint(next_steps(id))
}

fn too_long(id: &RolloutId, limit: Duration) -> CliError {
    let message = format!("rollout {id} has not ended within {limit:?}; it continues");
    CliError::io(message).hint(next_steps(id))
}

fn next_steps(id: &RolloutId) -> String {
    format!(
        "`bart rollout status {id} --watch` follows it, `bart rollout pause {id} --reason TEXT` stops it before its \
         next target"
    )
}
