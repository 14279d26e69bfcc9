//! Escapes texts of others for Slack's own markup: they become harmless, and stay within their limits.
//!
//! Slack reads `&`, `<` and `>` as its markup (mentions, links) and nothing else once it is told to leave plain text
//! alone (`verbatim`, `parse: none`); escaped they are only themselves.

use crate::support::text::remove_invisible;

/// Escapes a text for Slack's markup, cut to so many characters as Slack counts them, on one line.
pub fn escape_line(text: &str, most: usize) -> String {
    escape(&harmless(text).split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// Escapes lines of a program's output for a code block: the last ones that fit, whose backticks do not end it.
pub fn escape_lines(lines: &[String], most: usize) -> String {
    let mut room = most;
    let escaped = lines.iter().rev().map(|line| escape(&harmless(line).replace('`', "'"), most));
    let fits = |line: &String| {
        let long = length(line) + 1;
        let fits = long <= room;
        room = room.saturating_sub(long);
        fits
    };
    let mut escaped: Vec<String> = escaped.take_while(fits).collect();
    escaped.reverse();
    escaped.join("\n")
}

/// Returns the length of a text in the largest of the units that it may be counted in.
pub fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Cuts the text, with a mark that something is missing; only for a text that is markup already if it cannot be too
/// long.
pub fn cut(text: &str, most: usize) -> String {
    if length(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let fits = |c: &char| {
        let fits = c.len_utf16() <= room;
        room = room.saturating_sub(c.len_utf16());
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Removes characters that move a cursor, and invisible ones.
fn harmless(text: &str) -> String {
    let visible = remove_invisible(text);
    visible.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Escapes the text by whole characters: half of `&amp;` would be shown.
fn escape(text: &str, most: usize) -> String {
    let mut escaped_text = String::with_capacity(text.len());
    let mut room = most;
    // The place of the cut, if the text turns out to be too long: with room for the mark.
    let mut cut_at = 0;
    for c in text.chars() {
        let before = escaped_text.len();
        match c {
            '&' => escaped_text.push_str("&amp;"),
            '<' => escaped_text.push_str("&lt;"),
            '>' => escaped_text.push_str("&gt;"),
            c => escaped_text.push(c),
        }
        let piece_length = length(escaped_text.get(before..).unwrap_or_default());
        if piece_length > room {
            escaped_text.truncate(cut_at);
            escaped_text.push('…');
            return escaped_text;
        }
        room -= piece_length;
        if room >= 1 {
            cut_at = escaped_text.len();
        }
    }
    escaped_text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_that_fit_stay_in_their_code_block() {
        let lines = ["first", "```<!channel>", "panicked at \u{1b}[31mmain.rs"].map(str::to_owned);
        assert_eq!(
            escape_lines(&lines, 200),
            "first\n'''&lt;!channel&gt;\npanicked at  [31mmain.rs"
        );
        assert_eq!(escape_lines(&lines, 30), "panicked at  [31mmain.rs");
        assert_eq!(escape_lines(&[], 30), "");
    }

    #[test]
    fn slacks_markup_is_only_itself() {
        assert_eq!(
            escape_line("<!channel> <@U1> & <https://evil|us>", 200),
            "&lt;!channel&gt; &lt;@U1&gt; &amp; &lt;https://evil|us&gt;"
        );
    }

    #[test]
    fn nothing_moves_the_cursor_or_turns_the_text() {
        assert_eq!(escape_line("a\r\nb\u{202e}c\u{1b}[31m\u{0}\td", 200), "a bc [31m d");
        assert_eq!(escape_line("🦀👩‍💻 ok", 200), "🦀👩‍💻 ok");
    }

    #[test]
    fn a_cut_keeps_characters_whole() {
        assert_eq!(escape_line("a&b", 7), "a&amp;b");
        assert_eq!(escape_line("a&bc", 7), "a&amp;…");
        assert_eq!(escape_line("a&b", 6), "a…");
        assert_eq!(escape_line("&&&&", 3), "…");
        assert_eq!(escape_line("🦀🦀🦀", 5), "🦀🦀…");
        assert_eq!(cut("🦀🦀🦀", 5), "🦀🦀…");
        assert_eq!(cut("abc", 3), "abc");
        for most in 1..60 {
            let text = escape_line("<a & b> 🦀 c < d <e> f & & & ä", most);
            assert!(length(&text) <= most, "{most}: {text}");
        }
    }
}
