//! The count of a template's work while it is rendered: each turn of a loop, each use of a component or another file,
//! and each inserted text. Without it nothing would stop an endless template: the engine cannot be interrupted, and the
//! output of a component is seen only when it is done.
//!
//! The count is inserted into the template's own text before the engine parses it, behind the tags that begin a
//! repetition. The shift of columns is recorded, so that mistakes keep their place.

use std::cell::Cell;
use std::collections::HashMap;

use tera::{Kwargs, State, Tera, TeraResult, Value};

use crate::templates::lexer;
use crate::templates::lexer::{Tag, TagToken, TokenKind};

/// The limit of work for one file: inserted bytes, also those that no file has in the end.
const MAX: usize = 16 * 1024 * 1024;

/// The cost of a turn beside its text.
const TURN: usize = 64;

/// Counts a turn; no template of its own has it.
const COUNT_TURN: &str = "count_turn_";
/// Counts the elements that a list is made of.
const COUNT_EACH: &str = "count_each_";

thread_local! {
    /// The rest of the limit for the file that this thread renders.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Runs the rendering of one file; the second is whether it was stopped.
pub(super) fn run_limited<T>(render: impl FnOnce() -> T) -> (T, bool) {
    LEFT.set(MAX);
    let result = render();
    (result, LEFT.get() == 0)
}

/// Counts work against the limit; `false` when nothing is left.
pub(super) fn spend(bytes: usize) -> bool {
    let remaining = LEFT.get().saturating_sub(bytes);
    LEFT.set(remaining);
    remaining > 0
}

/// Registers the counting functions with the engine.
pub(super) fn register(tera: &mut Tera) {
    tera.register_function(COUNT_TURN, |arguments: Kwargs, _: &State| -> TeraResult<bool> {
        take_turn(
            arguments
                .get::<u64>("bytes")?
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(0),
        )
    });
    tera.register_filter(COUNT_EACH, |list: &Value, _: Kwargs, _: &State| -> TeraResult<Value> {
        take_turn(list.len().unwrap_or(0).saturating_mul(TURN))?;
        Ok(list.clone())
    });
}

fn take_turn(bytes: usize) -> TeraResult<bool> {
    if spend(TURN.saturating_add(bytes)) {
        return Ok(true);
    }
    Err(tera::Error::message("the output is larger than a file may be"))
}

/// One inserted text: its line and its column, both from 1, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Insertion {
    line: u32,
    column: u32,
    length: u32,
}

/// The inserted texts, by the names of files.
#[derive(Debug, Default)]
pub(super) struct Insertions(HashMap<String, Vec<Insertion>>);

impl Insertions {
    /// Computes the column of the text that was written from a column of the text that is counted.
    pub(super) fn written(&self, file: &str, line: u32, column: u32) -> u32 {
        let insertions = self.0.get(file).into_iter().flatten();
        let before =
            insertions.filter(|insertion| insertion.line == line && insertion.column < column);
        before.fold(column, |original_column, insertion| {
            // Within what was put in, it is where that begins.
            original_column.saturating_sub(insertion.length.min(column - insertion.column))
        })
    }
}

/// Inserts the counts into the texts, and returns them with the inserted parts.
pub(super) fn insert_counts(texts: &[(String, String)]) -> (Vec<(String, String)>, Insertions) {
    let sizes: HashMap<&str, usize> =
        texts.iter().map(|(name, text)| (name.as_str(), text.len())).collect();
    let mut insertions = Insertions::default();
    let counted_texts = texts.iter().map(|(name, text)| {
        let (counted_text, insertions_of_file) = apply(text, collect_insertions(text, &sizes));
        insertions.0.insert(name.clone(), insertions_of_file);
        (name.clone(), counted_text)
    });
    (counted_texts.collect(), insertions)
}

/// Collects what to put in, and where, in bytes.
fn collect_insertions(text: &str, sizes: &HashMap<&str, usize>) -> Vec<(usize, String)> {
    let mut insertions: Vec<(usize, String)> = Vec::new();
    // The loops and components that are open: where in `insertions` they count, and where they
    // begin.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for (tag, end) in lexer::tags_with_ends(text) {
        let (Tag::Shown(tokens) | Tag::Does(tokens)) = &tag;
        comprehensions(tokens, &mut insertions);
        if let Tag::Shown(_) = tag {
            continue;
        }
        let close = if text.get(..end).is_some_and(|tag_text| tag_text.ends_with("-%}")) {
            "-%}"
        } else {
            "%}"
        };
        let count =
            |bytes: usize| format!("{{% if {COUNT_TURN}(bytes={bytes}) %}}{{% endif {close}");
        let mut words = tokens.iter().filter(|token| !token.is("-"));
        match words.next().filter(|token| token.kind == TokenKind::Word).map(|token| token.text) {
            Some("for" | "component") => {
                open.push((insertions.len(), end));
                insertions.push((end, count(0)));
            }
            Some("endfor" | "endcomponent") => {
                if let Some((index, begin)) = open.pop()
                    && let Some((_, counting)) = insertions.get_mut(index)
                {
                    let close = if counting.ends_with("-%}") { "-%}" } else { "%}" };
                    let bytes = end.saturating_sub(begin);
                    *counting = format!("{{% if {COUNT_TURN}(bytes={bytes}) %}}{{% endif {close}");
                }
            }
            Some("include") => {
                let names = tokens.iter().filter(|token| token.kind == TokenKind::Text);
                let size = names.filter_map(|name| sizes.get(name.text)).max();
                insertions.push((end, count(size.copied().unwrap_or(0))));
            }
            _ => {}
        }
    }
    insertions.sort_by_key(|(at, _)| *at);
    insertions
}

/// Counts the elements of a comprehension: `[x for x in LIST if …]` becomes
/// `[x for x in (LIST)|count if …]`.
fn comprehensions(tokens: &[TagToken<'_>], insertions: &mut Vec<(usize, String)>) {
    let begins = |token: &TagToken<'_>| ["(", "[", "{", "?["].iter().any(|sign| token.is(sign));
    let ends = |token: &TagToken<'_>| [")", "]", "}"].iter().any(|sign| token.is(sign));
    let mut brackets = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        if begins(token) {
            brackets += 1;
        } else if ends(token) {
            brackets = brackets.saturating_sub(1);
        }
        if brackets == 0 || !token.is_word("for") {
            continue;
        }
        let rest = tokens.get(index..).unwrap_or_default();
        let Some(in_at) = rest.iter().position(|token| token.is_word("in")) else { continue };
        let list = rest.get(in_at + 1..).unwrap_or_default();
        let mut depth = 0_usize;
        let length = list.iter().position(|token| {
            let is_end = depth == 0 && (token.is_word("if") || ends(token));
            if begins(token) {
                depth += 1;
            } else if ends(token) {
                depth = depth.saturating_sub(1);
            }
            is_end
        });
        let list = length.and_then(|length| list.get(..length)).unwrap_or_default();
        if let (Some(first), Some(last)) = (list.first(), list.last()) {
            let quotes = if last.kind == TokenKind::Text { 2 } else { 0 };
            insertions.push((first.at, "(".to_owned()));
            insertions.push((last.at + last.text.len() + quotes, format!(")|{COUNT_EACH}")));
        }
    }
}

fn apply(text: &str, insertions: Vec<(usize, String)>) -> (String, Vec<Insertion>) {
    let mut counted_text = String::with_capacity(text.len() + 64 * insertions.len());
    let mut positions = Vec::with_capacity(insertions.len());
    let mut from = 0;
    for (at, inserted_text) in insertions {
        counted_text.push_str(text.get(from..at).unwrap_or_default());
        from = at;
        let (line, column) = lexer::place(&counted_text, counted_text.len());
        let length = u32::try_from(inserted_text.chars().count()).unwrap_or(u32::MAX);
        positions.push(Insertion { line, column, length });
        counted_text.push_str(&inserted_text);
    }
    counted_text.push_str(text.get(from..).unwrap_or_default());
    (counted_text, positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_turns(text: &str) -> (String, Insertions) {
        let (mut texts, insertions) = insert_counts(&[("a".to_owned(), text.to_owned())]);
        (texts.pop().unwrap().1, insertions)
    }

    #[test]
    fn what_may_be_repeated_is_counted() {
        for (text, expected) in [
            ("a {{ b }}", "a {{ b }}"),
            (
                "{%- for a in b -%}\nx{% endfor %}",
                "{%- for a in b -%}{% if count_turn_(bytes=14) %}{% endif -%}\nx{% endfor %}",
            ),
            (
                "{% for a in b %}{% for c in a %}{% endfor %}{% endfor %}",
                "{% for a in b %}{% if count_turn_(bytes=40) %}{% endif %}{% for c in a %}{% if count_turn_(bytes=12) %}{% endif %}{% endfor %}{% endfor %}",
            ),
            ("{% include \"a\" %}", "{% include \"a\" %}{% if count_turn_(bytes=17) %}{% endif %}"),
            ("{{ [x for x in y or [] if x] }}", "{{ [x for x in (y or [])|count_each_ if x] }}"),
            ("{{ [x for x in [\"a\"]] }}", "{{ [x for x in ([\"a\"])|count_each_] }}"),
            ("{% raw %}{% for a in b %}{% endraw %}", "{% raw %}{% for a in b %}{% endraw %}"),
            ("{# {% for a in b %} #}", "{# {% for a in b %} #}"),
        ] {
            assert_eq!(count_turns(text).0, expected);
        }
    }

    #[test]
    fn places_are_those_of_the_text_that_was_written() {
        let text = "a\n{% for a in b %}X{% for c in [d for d in e] %}Y{% endfor %}{% endfor %} Z";
        let (counted_text, insertions) = count_turns(text);
        for sign in ["X", "d in ", "Y", "Z"] {
            let (line, column) = lexer::place(&counted_text, counted_text.find(sign).unwrap());
            let expected = lexer::place(text, text.find(sign).unwrap());
            assert_eq!((line, insertions.written("a", line, column)), expected, "{sign}");
        }
        assert_eq!(insertions.written("a", 1, 7), 7);
        assert_eq!(insertions.written("other", 2, 70), 70);
    }
}
