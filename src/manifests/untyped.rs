//! Reads back as JSON what lies in a manifest repository: objects that we wrote, and people may have edited.
//!
//! Nobody is told of a line here, so `serde_yaml` reads, without places. It resolves aliases without a bound:
//! a file of some kilobytes may ask for hours. So a file may have few of them, and a size.

use serde::Deserialize as _;
use serde_json::Value as Json;

/// A dashboard in a `ConfigMap` may have more than a WAML.
const MOST_BYTES: usize = 1 << 20;
/// Our writer makes none. What so few repeat of each other is a small multiple of the file.
const MOST_ALIASES: usize = 8;

/// The documents of a file; `None` where it cannot be read, is too large or has many aliases.
pub(super) fn parse_documents(bytes: &[u8]) -> Option<Vec<Json>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MOST_BYTES)?;
    if possible_aliases(text) > MOST_ALIASES {
        return None;
    }
    let documents = serde_yaml::Deserializer::from_str(text).map(|document| {
        let mut tree = serde_yaml::Value::deserialize(document).ok()?;
        tree.apply_merge().ok()?;
        serde_json::to_value(tree).ok()
    });
    documents.collect()
}

/// The only document of a file.
pub(super) fn parse_document(bytes: &[u8]) -> Option<Json> {
    let [document] = <[Json; 1]>::try_from(parse_documents(bytes)?).ok()?;
    Some(document)
}

/// How many aliases a text has at most: some of these signs may stand in a string.
fn possible_aliases(text: &str) -> usize {
    let starts = |before: Option<char>| {
        before.is_none_or(|sign| sign.is_whitespace() || "[{,:".contains(sign))
    };
    let is_alias = |(at, _): &(usize, &str)| {
        let (before, after) = text.split_at(*at);
        let named = after.chars().nth(1).is_some_and(|sign| !sign.is_whitespace());
        named && starts(before.chars().next_back())
    };
    text.match_indices('*').filter(is_alias).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_with_merges_and_aliases() {
        let text = "a: &a {x: 1, 2: two}\nb: {<<: *a, y: on}\n---\n- '*'\n";
        let read = parse_documents(text.as_bytes()).unwrap();
        let merged = json!({"x": 1, "2": "two", "y": "on"});
        assert_eq!(read, [json!({"a": {"x": 1, "2": "two"}, "b": merged}), json!(["*"])]);
        assert_eq!(parse_document(text.as_bytes()), None);
        assert_eq!(parse_document(b"a: 1"), Some(json!({"a": 1})));
    }

    #[test]
    fn what_is_no_yaml_or_would_grow_is_not_read() {
        for text in ["a: [\n", "a: 1\na: 2\n", "a: *missing\n"] {
            assert_eq!(parse_documents(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_documents(&[0xff]), None);
        assert_eq!(parse_documents(" ".repeat(MOST_BYTES + 1).as_bytes()), None);
        let level = |n: usize| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}]\n", n - 1);
        let bomb: String = (1..40).map(level).collect();
        assert_eq!(parse_documents(format!("l0: &l0 x\n{bomb}").as_bytes()), None);
        for text in ["[*a]", "{*a : 1}", "- *a", "*a", "k:\n  *a", "[x,*a]", "? *a"] {
            assert_eq!(possible_aliases(text), 1, "{text}");
        }
        for text in ["a * b", "2*3", "'*'", "* a"] {
            assert_eq!(possible_aliases(text), 0, "{text}");
        }
        assert_eq!(parse_documents("[".repeat(100_000).as_bytes()), None);
    }
}
