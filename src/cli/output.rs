//! Prints text for people, with colour on a terminal, and JSON or YAML for programs.
//!
//! The only file that writes to standard output and standard error for commands.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use regex::{Captures, Regex};
use serde::Serialize;

use super::error::{CliError, CliErrorKind, CommandOutcome};
use crate::support::text::{is_invisible, reveal_invisible};

/// The format of a command's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs; stable.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Format {
    /// Returns whether the format is for programs.
    pub(super) fn is_data(self) -> bool {
        self != Self::Text
    }

    /// Prints a result: its data for programs, its text for people.
    pub(super) fn print(
        self,
        data: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> CommandOutcome {
        if self.is_data() { self::data(self, data) } else { print(&text()) }
    }
}

/// Returns the word of a value, as arguments have it.
pub(super) fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Bold.
pub(super) const BOLD: anstyle::Style = anstyle::Style::new().bold();
/// The style of secondary text.
pub(super) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// The style of success.
pub(super) const GOOD: anstyle::Style = anstyle::AnsiColor::Green.on_default().bold();
/// The style of errors.
pub(super) const BAD: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();
/// The style of warnings.
const WARN: anstyle::Style = anstyle::AnsiColor::Yellow.on_default().bold();
/// The style of notes.
pub(super) const NOTE: anstyle::Style = anstyle::AnsiColor::Cyan.on_default();

/// The pattern of styles (ECMA-48, 8.3.117, "SGR"), Windows line ends, and every control character but newlines and
/// tabs.
static CONTROLS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?<style>\x1b\[[0-9;:]*m)|\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f]").expect("a regex")
});

/// Prints text on standard output. Removes styles if it is no terminal, and always replaces characters in foreign names
/// and messages that could manipulate a terminal or mislead its reader.
pub(super) fn print(text: &str) -> CommandOutcome {
    write(&reveal_invisible(text))
}

/// Prints a document for other programs, such as a manifest: a terminal shows its invisible characters, other outputs
/// get them unchanged.
pub(super) fn document(text: &str) -> CommandOutcome {
    if std::io::stdout().is_terminal() { print(text) } else { write(text) }
}

/// True if the next text replaces the whole screen.
static REDRAWS: AtomicBool = AtomicBool::new(false);
/// Moves the cursor to the first line, and clears the screen (ECMA-48, "CUP" and "ED").
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";

/// Lets the next text on standard output replace what a terminal shows.
pub(super) fn redraw_next() {
    REDRAWS.store(std::io::stdout().is_terminal(), Ordering::Relaxed);
}

/// Writes to standard output; a closed one is an error without a message.
fn write(text: &str) -> CommandOutcome {
    let mut out = anstream::stdout().lock();
    let clear = if REDRAWS.swap(false, Ordering::Relaxed) { CLEAR_SCREEN } else { "" };
    let written = out.write_all(clear.as_bytes());
    let written = written.and_then(|()| out.write_all(harmless(text).as_bytes()));
    let written = written.and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::new(CliErrorKind::Unread, ""),
        _ => CliError::io(format!("cannot write to standard output: {error}")),
    })
}

/// Returns the number of columns of the terminal; `None` if standard output is no terminal.
pub(super) fn width() -> Option<usize> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| terminal_size::terminal_size_of(&out)).flatten();
    size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0)
}

/// Prints a value as JSON on standard output.
pub(super) fn json(value: &impl Serialize) -> CommandOutcome {
    let text = serde_json::to_string_pretty(value).map_err(CliError::failed)?;
    print(&format!("{}\n", escape_json(&text)))
}

/// Escapes the control and invisible characters in a JSON text: they only occur in strings, where an escape means the
/// same.
fn escape_json(json: &str) -> Cow<'_, str> {
    let strange = |c: char| (c.is_control() && c != '\n') || is_invisible(c);
    if !json.contains(strange) {
        return json.into();
    }
    let escape = |c: char| -> String {
        c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    let escape_strange = |c: char| if strange(c) { escape(c) } else { c.to_string() };
    json.chars().map(escape_strange).collect::<String>().into()
}

/// Keeps lines, tabs and styles of a text, and replaces every other control character by a visible one.
fn harmless(text: &str) -> Cow<'_, str> {
    CONTROLS.replace_all(text, |captures: &Captures<'_>| match captures.name("style") {
        Some(style) => style.as_str().to_owned(),
        None if &captures[0] == "\r\n" => "\n".to_owned(),
        None => '\u{fffd}'.to_string(),
    })
}

/// Prints a value for programs on standard output, in their format.
pub(super) fn data(format: Format, value: &impl Serialize) -> CommandOutcome {
    if format != Format::Yaml {
        return json(value);
    }
    let value = serde_json::to_value(value).map_err(CliError::failed)?;
    document(&crate::waml::emit::document(&value))
}

/// Prints text on standard error. A closed standard error is no failure.
pub(super) fn note(text: &str) {
    draw(&harmless(&reveal_invisible(text)));
}

/// Draws on standard error, cursor movements included; the caller has filtered foreign texts.
pub(super) fn draw(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes());
}

/// Formats a note beside a result.
pub(super) fn note_line(text: impl std::fmt::Display) -> String {
    format!("{NOTE}note{NOTE:#}: {text}\n")
}

/// Returns the short form of a commit's id.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}

/// Prints a warning on standard error.
pub(super) fn warning(message: &str) {
    note(&format!("{WARN}warning{WARN:#}: {message}\n"));
}

impl CliError {
    /// Prints the error and its hint on standard error, and returns the exit code.
    pub(super) fn report(&self) -> ExitCode {
        let kind = match self.kind {
            CliErrorKind::Rejected | CliErrorKind::Unread => {
                return ExitCode::from(self.exit_code());
            }
            // The process had the last word.
            CliErrorKind::Ended(code) if self.to_string().is_empty() => {
                return ExitCode::from(code);
            }
            CliErrorKind::Interrupted => format!("\n{NOTE}stopped{NOTE:#}"),
            _ => format!("{BAD}error{BAD:#}"),
        };
        let hint = self.next_step().map(|hint| format!("{NOTE}help{NOTE:#}: {hint}\n"));
        note(&format!("{kind}: {self}\n{}", hint.unwrap_or_default()));
        ExitCode::from(self.exit_code())
    }

    /// Prints the error now, because more output follows; returns it without words, for the exit code.
    pub(super) fn report_now(&self) -> Self {
        let _later = self.report();
        let kind =
            if self.exit_code() == 1 { CliErrorKind::Rejected } else { CliErrorKind::Unread };
        Self::new(kind, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_nothing_to_a_terminal() {
        for (text, expected) in [
            ("a\tü\n", "a\tü\n"),
            ("\x1b[1;38:5:1mbold\x1b[0m", "\x1b[1;38:5:1mbold\x1b[0m"),
            ("\x1b[2Jx", "\u{fffd}[2Jx"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            ("\u{9b}2J\x7f", "\u{fffd}2J\u{fffd}"),
            ("good\rbad\r\n", "good\u{fffd}bad\n"),
            ("\x1b[", "\u{fffd}["),
            ("\x1b[1", "\u{fffd}[1"),
            ("\x1b\x1b[m", "\u{fffd}\x1b[m"),
        ] {
            assert_eq!(harmless(text), expected, "{text:?}");
        }
    }

    #[test]
    fn json_says_the_same_with_escapes() {
        let json = serde_json::to_string(&["a\u{9b}b\x7f\x1b"]).unwrap();
        let text = escape_json(&json);
        assert_eq!(text, r#"["a\u009bb\u007f\u001b"]"#);
        assert_eq!(serde_json::from_str::<[String; 1]>(&text).unwrap()[0], "a\u{9b}b\x7f\x1b");
    }

    #[test]
    fn json_with_what_nobody_sees_is_the_same_data() {
        for c in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{e0041}'] {
            let text = format!("ops{c}x");
            let json = serde_json::to_string(&[&text]).unwrap();
            assert!(!escape_json(&json).contains(c), "{c:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&escape_json(&json)).unwrap()[0], text);
        }
    }
}
