//! Text for people, with colour where a terminal wants it, and JSON for programs.
//!
//! The one file that writes to standard output and standard error for commands.

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

use super::error::CliError;

/// How a command prints its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs; stable.
    Json,
}

/// Bold.
pub const BOLD: anstyle::Style = anstyle::Style::new().bold();
/// For what is beside the point.
pub const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// For what is well.
pub const GOOD: anstyle::Style = anstyle::AnsiColor::Green.on_default().bold();
/// For what is wrong.
pub const BAD: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();
/// For what to look at.
pub const NOTE: anstyle::Style = anstyle::AnsiColor::Cyan.on_default();

/// Prints text on standard output; styles are taken out where it is no terminal.
///
/// # Errors
/// When standard output is closed: then there is nobody to print for.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(closed)
}

/// Prints a value as JSON on standard output.
///
/// # Errors
/// As [`print()`].
pub fn json(value: &impl Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::io(error.to_string()))?;
    print(&format!("{text}\n"))
}

/// Prints text on standard error. A closed one is no reason to fail.
pub fn note(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes());
}

/// Prints an error and what to do about it on standard error.
pub fn error(message: &str, hint: Option<&str>) {
    let hint = hint.map_or_else(String::new, |hint| format!("{NOTE}help{NOTE:#}: {hint}\n"));
    note(&format!("{BAD}error{BAD:#}: {message}\n{hint}"));
}

#[expect(clippy::needless_pass_by_value, reason = "taken by map_err")]
fn closed(error: std::io::Error) -> CliError {
    CliError::io(format!("cannot write to standard output: {error}"))
}
