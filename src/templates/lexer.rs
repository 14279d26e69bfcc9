//! The tags of a template's text, as words with their places.
//!
//! It reads only templates that the engine has parsed: faults of their syntax are known by now. The engine's own tree
//! is not public, and has no places of names.

/// A word, a text, or anything else in a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagToken<'t> {
    pub(crate) kind: TokenKind,
    /// The text as written; a string without its quotes.
    pub(crate) text: &'t str,
    /// The offset of its beginning, in bytes.
    pub(crate) at: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Word,
    /// A text in quotes.
    Text,
    /// A number or a sign.
    Other,
}

impl TagToken<'_> {
    pub(crate) fn is(&self, sign: &str) -> bool {
        self.kind == TokenKind::Other && self.text == sign
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text == word
    }
}

/// One `{{ … }}` or `{% … %}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag<'t> {
    /// A value that is shown.
    Shown(Vec<TagToken<'t>>),
    /// An instruction.
    Does(Vec<TagToken<'t>>),
}

/// Lists all tags in order, without comments and the content of `raw`.
pub(crate) fn tags(text: &str) -> Vec<Tag<'_>> {
    tags_with_ends(text).into_iter().map(|(tag, _)| tag).collect()
}

/// Lists all tags in order, each with the byte behind it.
pub(crate) fn tags_with_ends(text: &str) -> Vec<(Tag<'_>, usize)> {
    let mut tags = Vec::new();
    let mut at = 0;
    while let Some(brace) = text.get(at..).and_then(|rest| rest.find('{')) {
        let open = at + brace;
        at = match text.get(open..open + 2) {
            Some("{#") => after(text, open, "#}"),
            Some("{{") => {
                let (tokens, end) = tokens(text, open + 2, '}');
                tags.push((Tag::Shown(tokens), end));
                end
            }
            Some("{%") => {
                let (tokens, end) = tokens(text, open + 2, '%');
                let raw = tokens.first().is_some_and(|token| token.is_word("raw"));
                tags.push((Tag::Does(tokens), end));
                if raw { after(text, end, "endraw") } else { end }
            }
            _ => open + 1,
        };
    }
    tags
}

fn after(text: &str, from: usize, end: &str) -> usize {
    let end_at = text.get(from..).and_then(|rest| rest.find(end));
    end_at.map_or(text.len(), |end_at| from + end_at + end.len())
}

/// Reads the tokens up to the end of a tag, which is `closing` and a brace outside of any map.
fn tokens(text: &str, from: usize, closing: char) -> (Vec<TagToken<'_>>, usize) {
    let mut tokens = Vec::new();
    let (mut at, mut depth) = (from, 0_usize);
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        if depth == 0 && c == closing && rest.get(1..2) == Some("}") {
            return (tokens, at + 2);
        }
        let length = match c {
            _ if c.is_whitespace() => c.len_utf8(),
            '"' | '\'' | '`' => {
                let end =
                    rest.get(1..).and_then(|inner| inner.find(c)).map_or(rest.len(), |n| n + 1);
                let inner = rest.get(1..end).unwrap_or_default();
                tokens.push(TagToken { kind: TokenKind::Text, text: inner, at });
                end + 1
            }
            _ => {
                let (kind, length) = word_or_sign(rest, c);
                let text = rest.get(..length).unwrap_or_default();
                match text {
                    "{" => depth += 1,
                    "}" => depth = depth.saturating_sub(1),
                    _ => {}
                }
                tokens.push(TagToken { kind, text, at });
                length
            }
        };
        at += length;
    }
    (tokens, text.len())
}

fn word_or_sign(rest: &str, c: char) -> (TokenKind, usize) {
    let length = |legal: fn(char) -> bool| rest.find(|c| !legal(c)).unwrap_or(rest.len());
    if c.is_alphabetic() || c == '_' {
        return (TokenKind::Word, length(|c| c.is_alphanumeric() || c == '_'));
    }
    if c.is_ascii_digit() {
        return (TokenKind::Other, length(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_'));
    }
    let signs = ["...", "==", "!=", "<=", ">=", "?.", "?[", "//", "**"];
    let sign = signs.into_iter().find(|sign| rest.starts_with(sign));
    (TokenKind::Other, sign.map_or(c.len_utf8(), str::len))
}

/// Counts the line and column (both from 1, in characters) of a byte.
pub(crate) fn place(text: &str, at: usize) -> (u32, u32) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<&str>> {
        let tokens_of = |tag| match tag {
            Tag::Shown(tokens) | Tag::Does(tokens) => tokens,
        };
        let texts =
            |tokens: Vec<TagToken<'_>>| tokens.iter().map(|t| t.text.len()).collect::<Vec<_>>();
        let _lengths: Vec<_> = tags(text).into_iter().map(tokens_of).map(texts).collect();
        tags(text).into_iter().map(tokens_of).map(|t| t.iter().map(|t| t.text).collect()).collect()
    }

    #[test]
    fn tags_are_found_between_text_comments_and_raw() {
        let text =
            "a: {b} {{ x.y }}{# {{ no }} #}{%- if z -%}{% raw %}{{ no }}{% endraw %}{{- w }}";
        let tags_found = words(text);
        assert_eq!(tags_found[0], ["x", ".", "y"]);
        assert_eq!(tags_found[1], ["-", "if", "z", "-"]);
        assert_eq!(tags_found.last().unwrap(), &["-", "w"]);
        assert!(!tags_found.concat().contains(&"no"), "{tags_found:?}");
    }

    #[test]
    fn maps_and_texts_may_hold_what_looks_like_an_end() {
        assert_eq!(words(r#"{{ {"a": {"b": 1}} }}"#).len(), 1);
        assert_eq!(words(r#"{{ "}}" ~ x }}"#), [["}}", "~", "x"]]);
        assert_eq!(words("{{ never closed"), [["never", "closed"]]);
        assert_eq!(words("{{ \"never closed"), [["never closed"]]);
    }

    #[test]
    fn places_count_characters() {
        let text = "ä\nöö{{ x }}";
        let Tag::Shown(tokens) = &tags(text)[0] else { panic!() };
        assert_eq!(place(text, tokens[0].at), (2, 6));
    }
}
