//! Foreign texts: cuts long ones with a mark, and shows their invisible characters.
//!
//! Invisible characters are those that show nothing, or that turn the direction of the text after them. A text with
//! them reads as another one.
//!
//! A new text of a person is refused with them; an existing one is shown with each written as `\u{202e}`. Knows no
//! place where texts are shown. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Cuts a text to at most so many characters; the last is an ellipsis if some are missing.
pub fn truncate_chars(text: &str, most: usize) -> Cow<'_, str> {
    if text.char_indices().nth(most).is_none() {
        return text.into();
    }
    let end = text.char_indices().nth(most.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    format!("{}…", text.get(..end).unwrap_or_default().trim_end()).into()
}

/// Cuts a text to at most so many bytes of UTF-8, with an ellipsis if some are missing.
pub fn truncate_bytes(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default()).into()
}

/// Returns whether a reader sees nothing of the character. Control characters do not count: each place treats line ends
/// in its own way.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' // soft hyphen, combining grapheme joiner
        | '\u{61c}' | '\u{200e}' | '\u{200f}' // marks of direction
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{feff}' // of no width
        | '\u{2028}'..='\u{202e}' // separators; embeddings and overrides of direction
        | '\u{2060}'..='\u{206f}' // word joiner, invisible operators, isolates of direction
        | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' // tags, and what else is left out by default
    )
}

/// Finds the first invisible character of a text; a joiner between two pictures (`👩‍💻`) is visible.
pub fn find_invisible(text: &str) -> Option<char> {
    invisible(text).next().map(|(_, c)| c)
}

/// Refuses a text with invisible characters; `name` is the text's name in the message.
///
/// # Errors
/// A sentence for the caller.
pub fn refuse_invisible(name: &str, text: &str) -> Result<(), String> {
    find_invisible(text).map_or(Ok(()), |c| {
        let code = u32::from(c);
        Err(format!("{name} has an invisible character (U+{code:04X}): write it without"))
    })
}

/// Writes every invisible character of the text as `\u{202e}`.
pub fn reveal_invisible(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (at, c) in invisible(text) {
        out.push_str(text.get(copied..at).unwrap_or_default());
        let _infallible = write!(out, "{}", c.escape_unicode());
        copied = at + c.len_utf8();
    }
    if copied == 0 {
        return text.into();
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out.into()
}

/// Replaces each carriage return that stands alone by a line feed: YAML ends a line there, and most readers do not.
/// Positions stay the same.
pub fn with_line_feeds(text: &str) -> Cow<'_, str> {
    let is_alone = |at: usize| !text.get(at + 1..).is_some_and(|rest| rest.starts_with('\n'));
    if !text.match_indices('\r').any(|(at, _)| is_alone(at)) {
        return text.into();
    }
    let unify = |(at, c): (usize, char)| if c == '\r' && is_alone(at) { '\n' } else { c };
    text.char_indices().map(unify).collect::<String>().into()
}

/// Removes the invisible characters of a text, for places without room to show them.
pub fn remove_invisible(text: &str) -> Cow<'_, str> {
    let places: Vec<usize> = invisible(text).map(|(at, _)| at).collect();
    if places.is_empty() {
        return text.into();
    }
    let visible = text.char_indices().filter(|(at, _)| places.binary_search(at).is_err());
    visible.map(|(_, c)| c).collect::<String>().into()
}

fn invisible(text: &str) -> impl Iterator<Item = (usize, char)> {
    text.char_indices().filter(|(at, c)| is_invisible(*c) && !joins_pictures(text, *at, *c))
}

fn joins_pictures(text: &str, at: usize, c: char) -> bool {
    let (before, after) = text.split_at(at);
    c == '\u{200d}'
        && before.chars().next_back().is_some_and(|c| is_picture(c) || c == '\u{fe0f}')
        && after.chars().nth(1).is_some_and(is_picture)
}

fn is_picture(c: char) -> bool {
    matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2190}'..='\u{21ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: [char; 18] = [
        '\u{202a}',
        '\u{202e}',
        '\u{2066}',
        '\u{2069}',
        '\u{200e}',
        '\u{200f}',
        '\u{61c}',
        '\u{200b}',
        '\u{200c}',
        '\u{200d}',
        '\u{2060}',
        '\u{feff}',
        '\u{ad}',
        '\u{2028}',
        '\u{3164}',
        '\u{e0041}',
        '\u{fff9}',
        '\u{180e}',
    ];

    #[test]
    fn a_long_text_is_cut_by_characters_or_by_bytes() {
        assert_eq!(truncate_chars("üüü", 3), "üüü");
        assert_eq!(truncate_chars("ü üü", 3), "ü…");
        assert_eq!(truncate_chars("üü", 1), "…");
        assert_eq!(truncate_bytes("üü", 4), "üü");
        assert_eq!(truncate_bytes(&"ü".repeat(100), 20), format!("{}…", "ü".repeat(8)));
    }

    #[test]
    fn what_nobody_sees_is_shown_or_refused() {
        for c in HIDDEN {
            let text = format!("a{c}ü");
            let code = u32::from(c);
            assert_eq!(find_invisible(&text), Some(c));
            assert_eq!(reveal_invisible(&text), format!("a\\u{{{code:x}}}ü"));
            assert_eq!(remove_invisible(&text), "aü");
            let message = refuse_invisible("the reason", &text).unwrap_err();
            assert!(
                message.contains(&format!("the reason has an invisible character (U+{code:04X})"))
            );
        }
        assert_eq!(reveal_invisible("\u{200b}\u{200b}"), "\\u{200b}\\u{200b}");
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for text in ["", "plain", "größer → 東京\n\ttab", "שלום עולם", "👩‍💻 ❤️‍🔥 🏳️‍🌈 ok", "é e\u{301}"]
        {
            assert_eq!(find_invisible(text), None, "{text}");
            assert_eq!(reveal_invisible(text), text);
            assert_eq!(remove_invisible(text), text);
            assert_eq!(refuse_invisible("x", text), Ok(()));
        }
        assert_eq!(find_invisible("a\u{200d}💻"), Some('\u{200d}'), "it joins no pictures");
    }
}
