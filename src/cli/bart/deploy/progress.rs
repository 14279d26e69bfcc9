//! Shows the progress of deployments: on a terminal one line for each target, redrawn in place; elsewhere a line for
//! each change.

use anstyle::Style;

use crate::cli::deployment;
use crate::cli::live_lines::{LiveLines, StyledLine};
use crate::cli::output::{self, BAD, BOLD, DIM, GOOD, NOTE};
use crate::model::deployment::State;

/// One target and its phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetRow {
    pub(super) target: String,
    pub(super) phase: Phase,
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
}

impl Progress {
    /// Makes the progress for standard error.
    pub(super) fn new() -> Self {
        Self { lines: LiveLines::new(), printed: Vec::new() }
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
    rows.iter().map(|row| line(row, names, spinner, seconds)).collect()
}

fn line(row: &TargetRow, names: usize, spinner: &str, seconds: f64) -> StyledLine {
    let TargetRow { target, phase } = row;
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
    let TargetRow { target, phase } = row;
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
        let row = |target: &str, phase| TargetRow { target: target.to_owned(), phase };
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
