//! Shows the progress of deployments: on a terminal one line for each target, redrawn in place; elsewhere a line for
//! each change.

use std::io::IsTerminal as _;

use anstyle::Style;

use crate::cli::deployment;
use crate::cli::output::{self, BAD, BOLD, DIM, GOOD, NOTE};
use crate::model::deployment::State;
use crate::support::text::reveal_invisible;

const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⢰", "⣠", "⣄", "⡆", "⠇"];
/// The width of a terminal that does not report one, in columns.
const WIDTH: usize = 80;

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
    /// True if lines can be redrawn.
    live: bool,
    drawn: usize,
    tick: usize,
    printed: Vec<Option<Phase>>,
}

impl Progress {
    /// Makes the progress for standard error. Without colours it uses no other escape sequences either.
    pub(super) fn new() -> Self {
        let error = std::io::stderr();
        let no_colour = anstream::AutoStream::choice(&error) == anstream::ColorChoice::Never;
        Self { live: error.is_terminal() && !no_colour, drawn: 0, tick: 0, printed: Vec::new() }
    }

    /// Returns whether it is redrawn in place, so that it must be shown repeatedly.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Shows the rows, `seconds` after the beginning.
    pub(super) fn show(&mut self, rows: &[TargetRow], seconds: f64) {
        if self.live {
            let width = terminal_size::terminal_size_of(std::io::stderr());
            let width = width.map_or(WIDTH, |(width, _)| usize::from(width.0));
            output::draw(&frame(rows, self.drawn, self.tick, width, seconds));
            (self.drawn, self.tick) = (rows.len(), self.tick + 1);
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

/// Returns the lines of a terminal, over those that were drawn before. No line is wider than the terminal: a folded one
/// would take two lines, and the next frame would begin in the wrong place.
fn frame(rows: &[TargetRow], drawn: usize, tick: usize, width: usize, seconds: f64) -> String {
    let up = if drawn == 0 { String::new() } else { format!("\x1b[{drawn}A") };
    let names = rows.iter().map(|row| row.target.chars().count()).max().unwrap_or(0);
    let line = |row: &TargetRow| {
        let parts = parts(row, names, tick, seconds);
        format!("\r\x1b[2K{}\n", fit_line(&parts, width.saturating_sub(1)))
    };
    up + &rows.iter().map(line).collect::<String>()
}

fn parts(row: &TargetRow, names: usize, tick: usize, seconds: f64) -> [(Style, String); 4] {
    let TargetRow { target, phase } = row;
    let spinner = SPINNER.get(tick % SPINNER.len()).copied().unwrap_or("·");
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
    [(style, sign.to_owned()), target, (colour, format!("{word:<11}")), detail]
}

/// Joins the parts, cut where the terminal ends.
fn fit_line(parts: &[(Style, String)], width: usize) -> String {
    let mut left = width;
    let mut out = String::new();
    for (style, text) in parts {
        let text = reveal_invisible(text);
        let text: String = text.chars().filter(|c| !c.is_control()).take(left).collect();
        left -= text.chars().count();
        out += &format!("{style}{text}{style:#}");
    }
    out
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
