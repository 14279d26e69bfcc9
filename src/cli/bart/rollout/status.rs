//! `bart rollout status` shows one rollout, `bart rollout list` the newest ones.

use std::time::Duration;

use clap::Args;

use super::follow::{self, FollowUntil};
use super::lines;
use crate::api::rollouts::{
    GateOutcome, GateReadings, RolloutDetail, RolloutList, RolloutStatus, RolloutSummary,
};
use crate::cli::bart::deploy;
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::Context;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::live_lines::fit_line;
use crate::cli::output::{self, BAD, DIM, GOOD, NOTE};
use crate::cli::table::{Column, layout};
use crate::cli::times::{SINCE, TimeFormatter, TimeStyle};
use crate::cli::verbatim::Verbatim;
use crate::model::id::{RolloutId, TargetName};

/// The longest time that a rollout is watched.
const LONGEST_WATCH: Duration = Duration::from_hours(7 * 24);
/// The number of rollouts among which a shell completes ids.
const MAX_RECENT: usize = 20;

/// The most answers of one gate that are shown.
const MAX_ANSWERS: usize = 10;

/// Shows a rollout: every target and gate with its state, its time and what it waits for.
///
/// Without an id it shows the newest rollout of the app in this folder.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart rollout status                                      the newest of the app in this folder
  bart rollout status r-20261121-054812123-3f9a2c --watch  one, until it ends

Exit codes: 0 shown, 1 there is none (with --watch: it was undone, cancelled, or left targets without the release),
2 wrong usage or no answer, 130 after Ctrl-C.")]
pub(in crate::cli::bart) struct RolloutStatusArgs {
    /// The rollout's id
    rollout: Option<RolloutId>,
    /// Follow it until it ends
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    context: Context,
}

/// Lists rollouts, newest first: those of the app in this folder, or all that you may see.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart rollout list                        those of the app in this folder
  bart rollout list --all --state paused   every one that is paused

Exit codes: 0 listed, 1 refused, 2 wrong usage or no answer.")]
pub(in crate::cli::bart) struct RolloutListArgs {
    /// Rollouts of every app
    #[arg(long, conflicts_with_all = ["app", "repository"])]
    all: bool,
    /// Only rollouts with this target
    #[arg(long, short)]
    target: Option<TargetName>,
    /// Only rollouts in this state
    #[arg(long, value_parser = state)]
    state: Option<RolloutStatus>,
    /// The largest number of rollouts
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    #[command(flatten)]
    context: Context,
}

impl RolloutStatusArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let Context { server, output, .. } = &self.context;
        let id = match &self.rollout {
            Some(id) => id.clone(),
            None => self.newest().await?,
        };
        if !self.watch {
            let rollout: Verbatim<RolloutDetail> =
                server.get(&format!("/api/v1/rollouts/{id}"), &[]).await?;
            return output.print(&rollout, || page(&rollout, TimeFormatter::system()));
        }
        let stop = deploy::interrupts();
        let (rollout, outcome) =
            follow::follow(server, &id, FollowUntil::End, LONGEST_WATCH, &stop).await;
        if let Some(rollout) = &rollout {
            if output.is_data() {
                output.print(rollout, String::new)?;
            } else if outcome.is_ok() {
                output::note(&follow::remarks(rollout));
            }
        }
        outcome?;
        rollout.map_or(Ok(()), |rollout| follow::judge(&rollout))
    }

    /// Finds the newest rollout of the app.
    async fn newest(&self) -> Result<RolloutId, CliError> {
        let Context { about, server, .. } = &self.context;
        let (name, value) = server.find_parameter(about).await?;
        let query = [(name, value.clone()), ("limit", "1".to_owned())];
        let page: RolloutList = server.get("/api/v1/rollouts", &query).await?;
        let Some(newest) = page.rollouts.into_iter().next() else {
            server.check_names(&about.names(None)).await?;
            return Err(CliError::refused(format!("there is no rollout of {value}"))
                .hint("`bart rollout start TAG --targets GLOB` starts one"));
        };
        RolloutId::parse(newest.id).map_err(|error| {
            CliError::io(format!("the service sent an invalid rollout id: {error}"))
        })
    }
}

impl RolloutListArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let Context { about, server, output } = &self.context;
        let mut query = vec![("limit", self.limit.to_string())];
        if !self.all {
            query.push(server.find_parameter(about).await?);
        }
        query.extend(self.target.iter().map(|target| ("target", target.to_string())));
        query.extend(self.state.iter().map(|state| ("state", state.as_str().to_owned())));
        let page: Verbatim<RolloutList> = server.get("/api/v1/rollouts", &query).await?;
        if page.rollouts.is_empty() {
            server.check_names(&about.names(self.target.as_ref())).await?;
        }
        output.print(&page, || {
            let mut text = list(&page.rollouts, TimeFormatter::system(), output::width());
            if page.next.is_some() {
                text += &format!("{DIM}there are more: raise --limit{DIM:#}\n");
            }
            text
        })
    }
}

/// Returns the ids of the newest rollouts that the caller may see, for a shell that completes one.
pub(in crate::cli::bart) async fn recent_ids(server: &ServiceEndpoint) -> Vec<(String, String)> {
    let query = [("limit", MAX_RECENT.to_string())];
    let page: Result<RolloutList, CliError> = server.get("/api/v1/rollouts", &query).await;
    let rollouts = page.map_or_else(|_| Vec::new(), |page| page.rollouts);
    let with_help = |rollout: RolloutSummary| {
        let help = format!("{} {}: {}", rollout.app, rollout.tag, lines::word(rollout.state));
        (rollout.id, help)
    };
    rollouts.into_iter().map(with_help).collect()
}

/// Formats one rollout for a terminal.
fn page(rollout: &RolloutDetail, times: TimeFormatter) -> String {
    let RolloutSummary { undo_id, repository, commit, name, created_by, created_at, .. } =
        &rollout.summary;
    let width = output::width().unwrap_or(usize::MAX);
    let lines = lines::lines(rollout, times.now, "…", None);
    let mut lines = lines.iter().map(|line| format!("{}\n", fit_line(line, width)));
    let mut text = lines.next().unwrap_or_default();
    for (key, value) in [
        ("by", format!("{created_by}, {}", times.ago(*created_at))),
        ("from", format!("{repository} at {}", output::short(commit))),
        ("moved", moved(rollout)),
        ("named", name.clone().unwrap_or_default()),
        ("why", rollout.description.clone()),
        ("undo", undo_id.clone()),
    ] {
        if !value.is_empty() {
            text += &format!("  {DIM}{key:<5}{DIM:#} {value}\n");
        }
    }
    text += "\n";
    text.extend(lines);
    text += &waits(rollout, times);
    text += &gate_history(rollout, times);
    text + &follow::remarks(rollout)
}

/// Formats what the rollout waits for, with the time at which it gives up.
fn waits(rollout: &RolloutDetail, times: TimeFormatter) -> String {
    let mut text = String::new();
    for wait in &rollout.waits {
        let waiting = &wait.waiting;
        let target = wait.target.as_ref().map_or(String::new(), |target| format!("{target}: "));
        let gives_up = waiting
            .gives_up_at
            .map_or(String::new(), |at| format!(", gives up {}", times.ahead(at)));
        text += &format!(
            "  {DIM}waits for{DIM:#} {target}{}, since {}{gives_up}\n",
            waiting.what,
            times.ago(waiting.since)
        );
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Says that the branch or tag stands for another commit by now; empty where it does not.
fn moved(rollout: &RolloutDetail) -> String {
    let RolloutDetail { summary, git_ref, moved_to, .. } = rollout;
    let Some(commit) = moved_to else { return String::new() };
    let (now, own) = (output::short(commit), output::short(&summary.commit));
    format!(
        "{git_ref} stands for {now} by now; this rollout stays at {own}, as it was at its start"
    )
}

/// Formats the newest answers of each gate that was asked more than once.
fn gate_history(rollout: &RolloutDetail, times: TimeFormatter) -> String {
    let mut text = String::new();
    for gate in rollout.steps.iter().filter_map(|step| step.gate.as_ref()) {
        let is_told_above = gate.answers.len() < 2 && gate.answers.iter().all(|one| one.asked < 2);
        if is_told_above {
            continue;
        }
        text += &format!("\n  {DIM}answers of{DIM:#} {}\n", gate.condition);
        let left_out = gate.answers.len().saturating_sub(MAX_ANSWERS);
        if left_out > 0 {
            text += &format!("  {DIM}… {left_out} before; --output json has all{DIM:#}\n");
        }
        for GateReadings { last_at, asked, result, value, .. } in gate.answers.iter().skip(left_out)
        {
            let (sign, style) = match result {
                GateOutcome::Passed => ("✓", GOOD),
                GateOutcome::NotPassed => ("·", NOTE),
                GateOutcome::Unanswered => ("?", BAD),
            };
            let count = if *asked > 1 { format!(" ({asked} times)") } else { String::new() };
            let ago = times.ago(*last_at);
            text += &format!("  {style}{sign}{style:#} {value}{DIM}{count}, {ago}{DIM:#}\n");
        }
    }
    text
}

/// Formats a table with a line for each rollout.
fn list(rollouts: &[RolloutSummary], times: TimeFormatter, width: Option<usize>) -> String {
    let least = match times.style {
        TimeStyle::Relative => 8,
        TimeStyle::Absolute => 6,
    };
    let columns = [
        Column::whole("ROLLOUT"),
        Column::whole("STATE"),
        Column::middle("APP", least),
        Column::middle("TAG", least),
        Column::whole("TARGETS"),
        Column::cut("BY", 6).drop(1),
        times.column(SINCE),
        Column::cut("REASON", 16).drop(2),
    ];
    let row = |rollout: &RolloutSummary| {
        let RolloutSummary { id, app, tag, state, reason, since, created_by, .. } = rollout;
        let count = format!("{}/{}", rollout.complete, rollout.targets_count);
        let since = times.past_cell(Some(*since));
        let reason = reason.clone().unwrap_or_default();
        let state = lines::word(*state).to_owned();
        [id.clone(), state, app.clone(), tag.clone(), count, created_by.clone(), since, reason]
    };
    layout(&columns, rollouts.iter().map(row).collect(), width)
}

fn state(word: &str) -> Result<RolloutStatus, String> {
    RolloutStatus::parse(word).ok_or_else(|| {
        let words: Vec<_> = RolloutStatus::ALL.iter().map(|state| state.as_str()).collect();
        format!("use {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answers_of_a_gate_are_shown_the_newest_last() {
        let answers: Vec<_> = (1..13)
            .map(|n| {
                let result = if n == 12 { "passed" } else { "not_passed" };
                json!({"first_at": "2026-11-21T11:40:00Z", "last_at": format!("2026-11-21T11:{}:00Z", 40 + n),
                    "asked": 13 - n, "result": result, "value": format!("0.{n}")})
            })
            .collect();
        let gate = json!({"kind": "promql", "condition": "`errors` to be at most 0.01", "team": null,
            "timeout_seconds": 600, "answers": answers});
        let rollout: RolloutDetail = serde_json::from_value(json!({
            "id": "r-20261121-115000000-3f9a2c", "undo_id": "r-20261121-115000000-3f9a2d", "app": "devx/shop",
            "repository": "acme/shop", "commit": "649008fb", "tag": "1.0", "name": null, "state": "rolling_out",
            "reason": null, "since": "2026-11-21T11:50:00Z", "created_by": "ada",
            "created_at": "2026-11-21T11:50:00Z", "index": 1, "steps_count": 1, "targets_count": 0,
            "complete": 0, "failed": 0, "version": 4, "on_failure": "undo", "max_failures": 0,
            "timeout_seconds": 900, "targets": [],
            "steps": [{"targets": [], "parallel": null, "gate": gate}],
        }))
        .unwrap();
        assert_eq!(moved(&rollout), "");
        let moved_to = Some("1a2b3c4d5e6f".to_owned());
        let other = RolloutDetail { git_ref: "v1.0".to_owned(), moved_to, ..rollout.clone() };
        assert_eq!(
            moved(&other),
            "v1.0 stands for 1a2b3c4d by now; this rollout stays at 649008fb, as it was at its start"
        );
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let times = TimeFormatter { now, style: TimeStyle::Relative };
        let text = gate_history(&rollout, times);
        let text = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  answers of `errors` to be at most 0.01");
        assert_eq!(lines[2], "  … 2 before; --output json has all");
        assert_eq!(lines[3], "  · 0.3 (10 times), 17 min ago");
        assert_eq!(lines[12], "  ✓ 0.12, 8 min ago");
        assert_eq!(lines.len(), 13);
    }
}
