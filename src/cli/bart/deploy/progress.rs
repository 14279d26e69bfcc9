//! Shows the progress of deployments: on a terminal one line for each target, redrawn in place; elsewhere a line for
//! each change.

use std::collections::BTreeMap;

use anstyle::Style;

use crate::api::deployments::{AppPart, ClusterPart};
use crate::cli::deployment;
use crate::cli::live_lines::{LiveLines, StyledLine};
use crate::cli::output::{self, BAD, BOLD, DIM, GOOD, NOTE};
use crate::model::deployment::State;

/// One target and its phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetRow {
    pub(super) target: String,
    pub(super) phase: Phase,
    /// The clusters of a fleet, or several apps.
    pub(super) parts: Vec<ProgressPart>,
}

/// A part of a deployment, and how it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProgressPart {
    name: String,
    /// The words before the name in a log: `on ` a cluster.
    before: &'static str,
    state: State,
    summary: String,
}

impl ProgressPart {
    /// Takes the part on a cluster of a fleet.
    pub(super) fn of_cluster(part: ClusterPart) -> Self {
        let ClusterPart { cluster: name, state, summary, .. } = part;
        Self { name, before: "on ", state, summary }
    }

    /// Takes the part of one of several apps.
    pub(super) fn of_app(part: AppPart) -> Self {
        let AppPart { app_name: name, state, summary, .. } = part;
        Self { name, before: "", state, summary }
    }
}

/// The phase of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// The code host has it, and the service has not received it yet.
    Asked,
    /// The service has it; with the last finished stage, or its summary.
    Going { id: String, state: State, doing: String },
    /// The deployment has ended.
    Ended { id: String, state: State, summary: String },
    /// The deployment is not followed any more, for this reason.
    Lost(String),
}

impl Phase {
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Ended { .. } | Self::Lost(_))
    }
}

/// The display of rows on standard error.
#[derive(Debug)]
pub(super) struct Progress {
    lines: LiveLines,
    printed: Vec<Option<Phase>>,
    /// The lines of parts that were printed.
    printed_parts: BTreeMap<(String, String), String>,
}

impl Progress {
    /// Makes the progress for standard error.
    pub(super) fn new() -> Self {
        let printed_parts = BTreeMap::new();
        Self { lines: LiveLines::new(), printed: Vec::new(), printed_parts }
    }

    /// Returns whether it is redrawn in place, so that it must be shown repeatedly.
    pub(super) fn is_live(&self) -> bool {
        self.lines.is_live()
    }

    /// Shows the rows, `seconds` after the beginning.
    pub(super) fn show(&mut self, rows: &[TargetRow], seconds: f64) {
        if self.lines.is_live() {
            let lines = lines(rows, self.lines.spinner(), seconds);
            self.lines.draw(&lines);
            return;
        }
        self.printed.resize(rows.len(), None);
        for (row, printed) in rows.iter().zip(&mut self.printed) {
            for part in &row.parts {
                let key = (row.target.clone(), part.name.clone());
                let line = plain_part(row, part);
                if self.printed_parts.get(&key) != Some(&line) {
                    output::note(&line);
                    self.printed_parts.insert(key, line);
                }
            }
            if printed.as_ref() != Some(&row.phase) {
                output::note(&plain(row, seconds));
                *printed = Some(row.phase.clone());
            }
        }
    }
}

/// Returns a line for each row.
fn lines(rows: &[TargetRow], spinner: &str, seconds: f64) -> Vec<StyledLine> {
    let names = rows.iter().map(|row| row.target.chars().count()).max().unwrap_or(0);
    let of_row = |row: &TargetRow| {
        let parts = row.parts.iter().map(|part| part_line(part, &row.parts));
        std::iter::once(line(row, names, spinner, seconds)).chain(parts).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_row).collect()
}

/// Returns the line of a part, below that of its deployment.
fn part_line(part: &ProgressPart, parts: &[ProgressPart]) -> StyledLine {
    let ProgressPart { name, state, summary, .. } = part;
    let names = parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    vec![
        (Style::new(), format!("    {name:<names$}  ")),
        (deployment::colour(*state), format!("{:<11}  ", state.as_str())),
        (DIM, summary.clone()),
    ]
}

/// Returns the same for a log.
fn plain_part(row: &TargetRow, part: &ProgressPart) -> String {
    let ProgressPart { name, before, state, summary } = part;
    format!("{}: {before}{name}: {}, {summary}\n", row.target, state.as_str())
}

fn line(row: &TargetRow, names: usize, spinner: &str, seconds: f64) -> StyledLine {
    let TargetRow { target, phase, parts: _ } = row;
    let target = (BOLD, format!(" {target:<names$}  "));
    let ((style, sign), (colour, word), detail) = match phase {
        Phase::Asked => {
            let detail = format!("{seconds:.0} s, waiting for the service to receive it");
            ((NOTE, spinner), (NOTE, "created"), (DIM, detail))
        }
        Phase::Going { id: _, state, doing } => {
            let detail = format!("{seconds:.0} s  {doing}");
            ((NOTE, spinner), (deployment::colour(*state), state.as_str()), (DIM, detail))
        }
        Phase::Ended { id: _, state, summary } => {
            let sign = if *state == State::Succeeded { (GOOD, "✓") } else { (BAD, "✗") };
            (sign, (deployment::colour(*state), state.as_str()), (Style::new(), summary.clone()))
        }
        Phase::Lost(reason) => ((BAD, "?"), (BAD, "not known"), (DIM, reason.clone())),
    };
    vec![(style, sign.to_owned()), target, (colour, format!("{word:<11}")), detail]
}

/// Returns a line for a log.
fn plain(row: &TargetRow, seconds: f64) -> String {
    let TargetRow { target, phase, parts: _ } = row;
    match phase {
        Phase::Asked => format!("{target}: created\n"),
        Phase::Going { id, state, doing } => {
            let doing = if doing.is_empty() { String::new() } else { format!(", {doing}") };
            format!("{target}: {}{doing} ({id})\n", state.as_str())
        }
        Phase::Ended { id, state, summary } => {
            let state = deployment::state(*state);
            format!("{target}: {state} in {seconds:.1} s: {summary} ({id})\n")
        }
        Phase::Lost(reason) => format!("{target}: not followed any more: {reason}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::live_lines;

    fn frame(rows: &[TargetRow], drawn: usize, tick: usize, width: usize, seconds: f64) -> String {
        live_lines::frame(&lines(rows, live_lines::spinner(tick), seconds), drawn, width)
    }

    fn rows() -> Vec<TargetRow> {
        let row =
            |target: &str, phase| TargetRow { target: target.to_owned(), phase, parts: Vec::new() };
        let id = "20261121-054812123-3f9a2c".to_owned();
        vec![
            row(
                "dev",
                Phase::Ended {
                    id: id.clone(),
                    state: State::Succeeded,
                    summary: "done".to_owned(),
                },
            ),
            row("prod-1", Phase::Going { id, state: State::Running, doing: "render".to_owned() }),
            row("prod-2", Phase::Asked),
        ]
    }

    fn split_plain_lines(text: &str) -> Vec<String> {
        let plain = anstream::adapter::strip_str(text).to_string();
        plain.lines().map(|line| line.trim_start_matches('\r').to_owned()).collect()
    }

    #[test]
    fn every_target_has_its_line() {
        let lines = split_plain_lines(&frame(&rows(), 0, 0, 100, 3.2));
        assert_eq!(
            lines,
            [
                "✓ dev     succeeded  done",
                "⠋ prod-1  running    3 s  render",
                "⠋ prod-2  created    3 s, waiting for the service to receive it",
            ]
        );
    }

    #[test]
    fn every_cluster_of_a_fleet_and_every_app_has_its_line_below() {
        let part = |before: &'static str, name: &str, state, summary: &str| ProgressPart {
            name: name.to_owned(),
            before,
            state,
            summary: summary.to_owned(),
        };
        let mut rows = rows();
        rows[1].parts = vec![
            part("on ", "eu-1", State::Succeeded, "all pods are there and serve"),
            part("on ", "us-west", State::Progressing, "2 of 5 updated"),
        ];
        let lines = split_plain_lines(&frame(&rows, 0, 0, 100, 3.2));
        assert_eq!(
            lines[2..4],
            [
                "    eu-1     succeeded    all pods are there and serve",
                "    us-west  progressing  2 of 5 updated"
            ]
        );
        let printed = plain_part(&rows[1], &rows[1].parts[1]);
        assert_eq!(printed, "prod-1: on us-west: progressing, 2 of 5 updated\n");
        let app = part("", "worker", State::Failed, "2 violations");
        assert_eq!(plain_part(&rows[1], &app), "prod-1: worker: failed, 2 violations\n");
    }

    #[test]
    fn a_frame_goes_over_the_one_before_and_no_line_is_folded() {
        let second = frame(&rows(), 3, 1, 20, 3.2);
        assert!(second.starts_with("\x1b[3A\r\x1b[2K"), "{second:?}");
        assert!(
            split_plain_lines(&second).iter().all(|line| line.chars().count() <= 19),
            "{second:?}"
        );
        let mut hostile = rows();
        hostile[0].phase = Phase::Lost("a\n\x1b[2Jb".to_owned());
        assert_eq!(split_plain_lines(&frame(&hostile, 0, 0, 100, 0.0)).len(), 3);
    }

    #[test]
    fn a_log_gets_a_line_for_what_happens() {
        let lines: Vec<String> =
            rows().iter().map(|row| split_plain_lines(&plain(row, 3.25)).concat()).collect();
        assert_eq!(
            lines,
            [
                "dev: succeeded in 3.2 s: done (20261121-054812123-3f9a2c)",
                "prod-1: running, render (20261121-054812123-3f9a2c)",
                "prod-2: created",
            ]
        );
    }
}
