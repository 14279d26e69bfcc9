//! Texts of other programs' logs: removes what steers a terminal, and masks secrets.
//!
//! The order matters: a colour in the middle of a token would hide the token from the mask. A log can begin anywhere,
//! also within a private key. Pure.

use std::iter::Peekable;
use std::ops::RangeInclusive;
use std::str::Chars;

use super::secret_mask::{mask_secrets, mask_spans};
use super::text::remove_invisible;

/// The first characters of the lines around a key in PEM, before their label.
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// The longest label of such a line, in bytes.
const LONGEST_LABEL: usize = 100;

/// A longer "key" has lost its end: the rest of the log is shown again. Keys of RSA with 16384 bits have 200 lines.
const MAX_KEY_LINES: usize = 250;

/// The lengths of a line of Base64 that can be one of a key; a shorter one may be a word.
const KEY_LINE: RangeInclusive<usize> = 40..=80;

/// Removes escape sequences, control characters but for tabs, and invisible characters. A carriage return alone ends a
/// line, as a progress bar means it.
pub fn remove_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if chars.peek() != Some(&'\n') => out.push('\n'),
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_parameters(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut chars),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    remove_invisible(&out).into_owned()
}

/// Skips the rest of an escape sequence (ECMA-48).
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_parameters(chars);
        }
        Some('P' | 'X' | ']' | '^' | '_') => skip_string(chars),
        Some(' '..='~') => {
            while chars.next_if(|c| (' '..='/').contains(c)).is_some() {}
            chars.next_if(|c| ('0'..='~').contains(c));
        }
        _ => {}
    }
}

/// Skips the parameters of a control sequence and the character that ends it.
fn skip_parameters(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
    chars.next_if(|c| ('@'..='~').contains(c));
}

/// Skips a control string, a window's title for one; without an end it is over with the line.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' if chars.next_if_eq(&'\\').is_some() => return,
            _ => {}
        }
    }
}

/// Replaces each character of secrets by a star. Everything before the end of a private key whose first line is not
/// there counts as a part of the key.
pub fn mask_log(text: &str) -> String {
    let (key, rest) = text.split_at(cut_key_length(text));
    let whole_key = 0..key.len();
    let spans = if key.is_empty() { Vec::new() } else { vec![whole_key] };
    [mask_spans(key, spans), mask_secrets(rest)].concat()
}

/// Returns the length of the text up to the end of a private key that begins before the text; 0 without one.
fn cut_key_length(text: &str) -> usize {
    let begin = find_marker(text, BEGIN).map(|(start, _)| start);
    let end = find_marker(text, END);
    end.filter(|(start, _)| begin.is_none_or(|begin| start < &begin)).map_or(0, |(_, end)| end)
}

/// Finds the first line that begins or ends a private key; returns where it begins and ends.
fn find_marker(text: &str, marker: &str) -> Option<(usize, usize)> {
    text.match_indices(marker).find_map(|(start, _)| {
        let label = start + marker.len();
        let rest = text.get(label..)?;
        let length = rest.find("-----").filter(|length| *length <= LONGEST_LABEL)?;
        let is_key = rest.get(..length)?.contains("PRIVATE KEY");
        is_key.then_some((start, label + length + "-----".len()))
    })
}

/// Masks the lines of a log one after another, for a reader that follows it: a private key has many lines.
#[derive(Debug, Default)]
pub struct LogMask {
    key: KeyState,
}

/// The position of the next line in a private key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum KeyState {
    /// The log begins here, maybe within a key.
    #[default]
    Start,
    /// All lines so far can be those of a key.
    MaybeInside,
    Outside,
    /// Within a key, after so many of its lines.
    Inside(usize),
}

impl LogMask {
    /// Replaces each character of secrets by a star.
    pub fn mask_line(&mut self, line: &str) -> String {
        let begin = find_marker(line, BEGIN).map(|(start, _)| start);
        let end = find_marker(line, END).map(|(start, _)| start);
        let is_body = begin.is_none() && end.is_none() && self.is_key_line(line);
        self.key = match self.key {
            _ if begin > end => KeyState::Inside(0),
            _ if end.is_some() => KeyState::Outside,
            KeyState::Inside(lines) if is_body => KeyState::Inside(lines + 1),
            // An empty line is no sign of where the log begins.
            KeyState::Start if line.trim().is_empty() => KeyState::Start,
            _ if is_body && KEY_LINE.contains(&line.trim().len()) => KeyState::MaybeInside,
            _ => KeyState::Outside,
        };
        if is_body { mask_whole(line) } else { mask_log(line) }
    }

    /// Returns whether the line is one of a private key, or can be.
    fn is_key_line(&self, line: &str) -> bool {
        let line = line.trim();
        let is_base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
        match self.key {
            KeyState::Inside(lines) => lines < MAX_KEY_LINES,
            KeyState::Start => KEY_LINE.contains(&line.len()) && line.bytes().all(is_base64),
            // The last line of a key is shorter.
            KeyState::MaybeInside => {
                (1..=*KEY_LINE.end()).contains(&line.len()) && line.bytes().all(is_base64)
            }
            KeyState::Outside => false,
        }
    }
}

fn mask_whole(line: &str) -> String {
    let whole = 0..line.len();
    mask_spans(line, vec![whole]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        for (text, expected) in [
            ("\x1b[31mred\x1b[0m", "red"),
            ("a\x1b[1;38:5:1mb\x1b[2Jc\x1b[?25hd", "abcd"),
            ("\x1b]0;title\x07a\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
            ("\x1b]0;no end\nnext", "\nnext"),
            ("\u{9b}31mred\u{9d}title\u{9c}!", "red!"),
            ("a\x1b(Bb\x1b7c\x1bMd", "abcd"),
            ("10%\r50%\r\ndone\r\n", "10%\n50%\ndone\n"),
            ("a\tb\x08\x07\0c\u{200b}d\u{202e}e", "a\tbcde"),
            ("\x1b", ""),
            ("\x1b[", ""),
            ("\x1b[31\nä", "\nä"),
        ] {
            assert_eq!(remove_controls(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_key_without_its_first_line_is_masked_with_all_before_it() {
        let text = format!("{BODY}\nshort=\n-----END RSA PRIVATE KEY-----\nstarted\n");
        let masked = mask_log(&text);
        assert_eq!(masked.lines().last(), Some("started"));
        assert!(masked.lines().take(3).all(|line| line.bytes().all(|b| b == b'*')), "{masked}");
        // With its first line it is masked from there on.
        let text =
            format!("hello\n-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n");
        let masked = mask_log(&text);
        assert!(masked.starts_with("hello\n") && !masked.contains(BODY), "{masked}");
        for plain in ["hello\n-----END CERTIFICATE-----\n", "-----END ", "", "a -----END x"] {
            assert_eq!(mask_log(plain), plain);
        }
    }

    #[test]
    fn a_key_is_masked_line_by_line_wherever_the_log_begins() {
        let whole = format!(
            "ready\n-----BEGIN PRIVATE KEY-----\n{BODY}\n{BODY}\nend=\n-----END PRIVATE KEY-----\nserving"
        );
        let lines: Vec<&str> = whole.lines().collect();
        for from in 0..lines.len() {
            let mut mask = LogMask::default();
            let masked: Vec<String> =
                lines[from..].iter().map(|line| mask.mask_line(line)).collect();
            let text = masked.join("\n");
            assert!(!text.contains(BODY) && text.ends_with("serving"), "{from}: {text}");
            assert_eq!(text.contains("ready"), from == 0, "{text}");
        }
        let mut mask = LogMask::default();
        let one =
            format!("key -----BEGIN PRIVATE KEY-----\\n{BODY}\\n-----END PRIVATE KEY----- loaded");
        assert!(!mask.mask_line(&one).contains(BODY));
        assert_eq!(mask.mask_line("next"), "next");
        // A digest is masked, and no more than it.
        let mut mask = LogMask::default();
        assert_ne!(mask.mask_line(&"0af1".repeat(16)), "0af1".repeat(16));
        assert_eq!(mask.mask_line("it is built"), "it is built");
        assert_eq!(mask.mask_line(&"0af1".repeat(16)), "0af1".repeat(16));
    }

    #[test]
    fn a_key_that_does_not_end_hides_a_part_of_the_log_only() {
        let mut mask = LogMask::default();
        mask.mask_line("-----BEGIN PRIVATE KEY-----");
        let shown = (0..400).filter(|_| mask.mask_line("hello") == "hello").count();
        assert_eq!(shown, 400 - MAX_KEY_LINES);
    }
}
