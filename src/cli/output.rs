//! Text for people, with colour where a terminal wants it, and JSON for programs.
//!
//! The one file that writes to standard output and standard error for commands.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::error::CliError;
use crate::support::text::{is_invisible, reveal_invisible};

/// How a command prints its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs; stable.
    Json,
    /// The same as YAML.
    Yaml,
}

impl Format {
    /// Whether it is for programs.
    pub fn is_data(self) -> bool {
        self != Self::Text
    }
}

/// Bold.
pub const BOLD: anstyle::Style = anstyle::Style::new().bold();
/// For what is beside the point.
pub const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// For what is well.
pub const GOOD: anstyle::Style = anstyle::AnsiColor::Green.on_default().bold();
/// For what is wrong.
pub const BAD: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();
/// For what may be wrong.
pub const WARN: anstyle::Style = anstyle::AnsiColor::Yellow.on_default().bold();
/// For what to look at.
pub const NOTE: anstyle::Style = anstyle::AnsiColor::Cyan.on_default();

/// Prints text on standard output; styles are taken out where it is no terminal, and what others might do
/// to a terminal or to its reader by names and messages of theirs always.
///
/// # Errors
/// When standard output is closed: then there is nobody to print for.
pub fn print(text: &str) -> Result<(), CliError> {
    write(&reveal_invisible(text))
}

/// Prints what another program may read from standard output, such as a manifest: its invisible characters are
/// shown on a terminal, and stay as they are where it is none.
///
/// # Errors
/// As [`print()`].
pub fn document(text: &str) -> Result<(), CliError> {
    if std::io::stdout().is_terminal() { print(text) } else { write(text) }
}

fn write(text: &str) -> Result<(), CliError> {
    let mut out = anstream::stdout().lock();
    out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush()).map_err(closed)
}

/// How many columns the terminal has that results are printed on; nothing where it is none.
pub fn width() -> Option<usize> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| terminal_size::terminal_size_of(&out)).flatten();
    size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0)
}

/// Prints a value as JSON on standard output.
///
/// # Errors
/// As [`print()`].
pub fn json(value: &impl Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::io(error.to_string()))?;
    print(&format!("{}\n", escaped(&text)))
}

/// A JSON text with the control and the invisible characters that the format allows written as escapes, which mean
/// the same: only texts have them.
fn escaped(json: &str) -> Cow<'_, str> {
    let strange = |c: char| (c.is_control() && c != '\n') || is_invisible(c);
    if !json.contains(strange) {
        return json.into();
    }
    let escape = |c: char| -> String {
        c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    let shown = |c: char| if strange(c) { escape(c) } else { c.to_string() };
    json.chars().map(shown).collect::<String>().into()
}

/// The text with lines, tabs and styles (`ESC [ … m`); every other control character is replaced by one that
/// can be seen.
fn harmless(text: &str) -> Cow<'_, str> {
    const SEEN: char = '\u{fffd}';
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(plain) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c| !plain(c)) {
        let (before, strange) = rest.split_at(at);
        out.push_str(before);
        let kept = style(strange).unwrap_or(0);
        out.push_str(strange.get(..kept).unwrap_or_default());
        let left_out = match strange.chars().next() {
            Some(first) if kept == 0 => {
                // The end of a line as Windows has it is no trick.
                if !strange.starts_with("\r\n") {
                    out.push(SEEN);
                }
                first.len_utf8()
            }
            _ => 0,
        };
        rest = strange.get(kept + left_out..).unwrap_or_default();
    }
    (out + rest).into()
}

/// How long the style is that the text begins with, in bytes (ECMA-48, 8.3.117, "SGR").
fn style(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\x1b[")?;
    let end = inside.find(|c: char| !c.is_ascii_digit() && !matches!(c, ';' | ':'))?;
    inside.get(end..)?.starts_with('m').then_some(end + 3)
}

/// Prints a value for programs on standard output, as they asked for it.
///
/// # Errors
/// As [`print()`].
pub fn data(format: Format, value: &impl Serialize) -> Result<(), CliError> {
    if format != Format::Yaml {
        return json(value);
    }
    let value = serde_json::to_value(value).map_err(|error| CliError::io(error.to_string()))?;
    document(&crate::waml::emit::document(&value))
}

/// Prints text on standard error. A closed one is no reason to fail.
pub fn note(text: &str) {
    draw(&harmless(&reveal_invisible(text)));
}

/// Draws on standard error what moves the cursor; whose texts are in it has filtered them.
pub fn draw(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes());
}

/// Prints an error and what to do about it on standard error.
pub fn error(message: &str, hint: Option<&str>) {
    told(&format!("{BAD}error{BAD:#}"), message, hint);
}

/// Prints that somebody has stopped us, and how to go on, on standard error.
pub fn stopped(message: &str, hint: Option<&str>) {
    told(&format!("\n{NOTE}stopped{NOTE:#}"), message, hint);
}

/// Prints what people should look at on standard error.
pub fn warning(message: &str) {
    told(&format!("{WARN}warning{WARN:#}"), message, None);
}

fn told(kind: &str, message: &str, hint: Option<&str>) {
    let hint = hint.map_or_else(String::new, |hint| format!("{NOTE}help{NOTE:#}: {hint}\n"));
    note(&format!("{kind}: {message}\n{hint}"));
}

#[expect(clippy::needless_pass_by_value, reason = "taken by map_err")]
fn closed(error: std::io::Error) -> CliError {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => CliError::unread(),
        _ => CliError::io(format!("cannot write to standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_nothing_to_a_terminal() {
        for (text, shown) in [
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
            assert_eq!(harmless(text), shown, "{text:?}");
        }
    }

    #[test]
    fn json_says_the_same_with_escapes() {
        let json = serde_json::to_string(&["a\u{9b}b\x7f\x1b"]).unwrap();
        let text = escaped(&json);
        assert_eq!(text, r#"["a\u009bb\u007f\u001b"]"#);
        assert_eq!(serde_json::from_str::<[String; 1]>(&text).unwrap()[0], "a\u{9b}b\x7f\x1b");
    }

    #[test]
    fn json_with_what_nobody_sees_is_the_same_data() {
        for c in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{e0041}'] {
            let text = format!("ops{c}x");
            let json = serde_json::to_string(&[&text]).unwrap();
            assert!(!escaped(&json).contains(c), "{c:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&escaped(&json)).unwrap()[0], text);
        }
    }
}
