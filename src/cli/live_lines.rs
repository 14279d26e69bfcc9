//! Lines on standard error that are redrawn in place on a terminal.

use std::io::IsTerminal as _;

use anstyle::Style;

use super::output;
use crate::support::text::reveal_invisible;

/// The size of a terminal that does not report one: columns and lines.
const SIZE: (usize, usize) = (80, 24);
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⢰", "⣠", "⣄", "⡆", "⠇"];

/// A line in parts, each with its style.
pub(super) type StyledLine = Vec<(Style, String)>;

/// The lines that are drawn on standard error.
#[derive(Debug)]
pub(super) struct LiveLines {
    /// True if lines can be redrawn.
    live: bool,
    drawn: usize,
    tick: usize,
}

impl LiveLines {
    /// Makes the lines for standard error. Without colours they use no other escape sequences either.
    pub(super) fn new() -> Self {
        let error = std::io::stderr();
        let no_colour = anstream::AutoStream::choice(&error) == anstream::ColorChoice::Never;
        Self { live: error.is_terminal() && !no_colour, drawn: 0, tick: 0 }
    }

    /// Returns whether they are redrawn in place, so that they must be shown repeatedly.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Returns the sign of something that is under way, in this frame.
    pub(super) fn spinner(&self) -> &'static str {
        spinner(self.tick)
    }

    /// Draws the lines over those that were drawn before.
    pub(super) fn draw(&mut self, lines: &[StyledLine]) {
        output::draw(&frame(lines, self.drawn, screen_size().0));
        (self.drawn, self.tick) = (lines.len(), self.tick.wrapping_add(1));
    }
}

/// Returns the columns and lines of the terminal.
pub(super) fn screen_size() -> (usize, usize) {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(SIZE, |(width, height)| (usize::from(width.0), usize::from(height.0)))
}

/// Returns the sign of that frame. Pure.
pub(super) fn spinner(tick: usize) -> &'static str {
    SPINNER.get(tick % SPINNER.len()).copied().unwrap_or("·")
}

/// Returns the lines of a terminal, over those that were drawn before. No line is wider than the terminal: a folded one
/// would take two lines, and the next frame would begin in the wrong place. Pure.
pub(super) fn frame(lines: &[StyledLine], drawn: usize, width: usize) -> String {
    let up = if drawn == 0 { String::new() } else { format!("\x1b[{drawn}A") };
    let line =
        |parts: &StyledLine| format!("\r\x1b[2K{}\n", fit_line(parts, width.saturating_sub(1)));
    let rest = if lines.len() < drawn { "\x1b[J" } else { "" };
    up + &lines.iter().map(line).collect::<String>() + rest
}

/// Joins the parts, cut where the terminal ends.
pub(super) fn fit_line(parts: &[(Style, String)], width: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_lines_leave_nothing_of_the_frame_before() {
        let line = |text: &str| vec![(Style::new(), text.to_owned())];
        assert!(frame(&[line("a"), line("b")], 3, 80).ends_with("b\n\x1b[J"));
        assert!(frame(&[line("a"), line("b"), line("c")], 2, 80).ends_with("c\n"));
    }
}
