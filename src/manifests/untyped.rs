//! The reader of files in a manifest repository as JSON: objects that the service wrote, and people may have edited.
//!
//! No line is reported here, so `serde_yaml` reads the files of the service's own writer. It follows aliases and deep
//! nesting without a limit, and merges otherwise than others: a file that has any of these, or that it cannot read, is
//! read by the parser of `waml`, which has limits.

use serde::Deserialize as _;
use serde_json::Value as Json;

use crate::manifests::object::BUDGET;
use crate::waml::scalar::read_untyped;
use crate::waml::yaml;

/// `serde_yaml` may look at each open bracket for each token: the product of brackets and bytes is bounded, to a tenth
/// of a second. A file of 16 KiB may be nothing but brackets; one of a mebibyte may have some hundred.
const MAX_LOOKS: usize = 1 << 28;

/// Parses the documents of a file; `None` where it cannot be read, or only with more than a
/// manifest may ask for.
pub(super) fn parse_documents(bytes: &[u8]) -> Option<Vec<Json>> {
    let text = std::str::from_utf8(bytes).ok()?;
    parse_plain(text).or_else(|| {
        let documents = yaml::parse_stream("manifest", text, &BUDGET).ok()?;
        Some(documents.iter().map(read_untyped).collect())
    })
}

/// Parses the documents of a file in the form of the service's own writer.
fn parse_plain(text: &str) -> Option<Vec<Json>> {
    let brackets = || text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    let is_plain = text.len() <= BUDGET.bytes
        && !has_possible_alias(text)
        && !text.contains("<<")
        && brackets().saturating_mul(text.len()) <= MAX_LOOKS;
    let parse = |document| {
        let tree = serde_yaml::Value::deserialize(document).ok()?;
        serde_json::to_value(tree).ok()
    };
    if is_plain { serde_yaml::Deserializer::from_str(text).map(parse).collect() } else { None }
}

/// Parses the only document of a file.
pub(super) fn parse_document(bytes: &[u8]) -> Option<Json> {
    let [document] = <[Json; 1]>::try_from(parse_documents(bytes)?).ok()?;
    Some(document)
}

/// Checks that a text may have an alias: the sign may also be in a string.
fn has_possible_alias(text: &str) -> bool {
    let is_start = |before: Option<char>| {
        before.is_none_or(|sign| sign.is_whitespace() || "[{,:".contains(sign))
    };
    text.match_indices('*').any(|(at, _)| {
        let (before, after) = text.split_at(at);
        let is_named = after.chars().nth(1).is_some_and(|sign| !sign.is_whitespace());
        is_named && is_start(before.chars().next_back())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_read_with_merges_and_aliases() {
        let text = "a: &a {x: 1, 2: two}\nb: {<<: *a, y: on}\n---\n- '*'\n";
        let documents = parse_documents(text.as_bytes()).unwrap();
        let merged = json!({"x": 1, "2": "two", "y": "on"});
        assert_eq!(documents, [json!({"a": {"x": 1, "2": "two"}, "b": merged}), json!(["*"])]);
        assert_eq!(parse_document(text.as_bytes()), None);
        assert_eq!(parse_document(b"a: 1"), Some(json!({"a": 1})));
        // Both readers say the same of what needs neither.
        let plain =
            "a: {x: 1, 2: two, y: on}\nb: [1.5, null, '*', \"0x1\"]\n---\n- |\n  two\n  lines\n";
        let nodes = yaml::parse_stream("manifest", plain, &BUDGET).unwrap();
        assert_eq!(parse_plain(plain), Some(nodes.iter().map(read_untyped).collect()));
    }

    #[test]
    fn comments_of_programs_are_no_reason_not_to_read_a_file() {
        let text = format!("data:\n  a.c: |\n{}", "    /* x */ **bold** s3:*\n".repeat(20));
        assert!(parse_plain(&text).is_none());
        assert!(parse_documents(text.as_bytes()).unwrap()[0]["data"]["a.c"].is_string());
    }

    #[test]
    fn what_is_no_yaml_or_would_grow_is_not_read() {
        for text in ["a: [\n", "a: 1\na: 2\n", "a: *missing\n"] {
            assert_eq!(parse_documents(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_documents(&[0xff]), None);
        let level = |n: usize| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}]\n", n - 1);
        let bomb: String = (1..40).map(level).collect();
        assert_eq!(parse_documents(format!("l0: &l0 x\n{bomb}").as_bytes()), None);
        assert_eq!(parse_documents("[".repeat(100_000).as_bytes()), None);
        assert_eq!(parse_documents("[?".repeat(500_000).as_bytes()), None);
        let looks = "[?".repeat(20_000) + &"a,".repeat(480_000);
        assert_eq!(parse_documents(looks.as_bytes()), None);
    }

    #[test]
    fn aliases_are_found_wherever_they_may_stand() {
        for text in ["[*a]", "{*a : 1}", "- *a", "*a", "k:\n  *a", "[x,*a]", "? *a"] {
            assert!(has_possible_alias(text), "{text}");
        }
        for text in ["a * b", "2*3", "'*'", "* a"] {
            assert!(!has_possible_alias(text), "{text}");
        }
    }
}
