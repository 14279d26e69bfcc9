//! What of a file's values a message may quote: nothing from where secrets stand, or are asked for.
//!
//! Such a place is known by its path, because a value that is written wrongly has no type to go by.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value as Json;

use crate::model::violation::Violation;
use crate::support::secret_name::is_secret_name;
use crate::support::secret_sections::is_section;
use crate::support::secret_text::is_random;
use crate::support::secret_tree::{MASK, mask_tree};
use crate::waml::node::{Node, Path, Step};
use crate::waml::typed::{quoted, untyped};

/// Whether what is written at a path may be a secret: a message then says what it is, and does not quote it.
pub fn is_confidential(path: &Path) -> bool {
    path.0.iter().any(is_confidential_step)
}

/// Whether what stands below the step may be a secret.
pub(super) fn is_confidential_step(step: &Step) -> bool {
    match step {
        Step::Key(key) => is_section(key) || key == "annotations" || is_secret_name(key),
        Step::Index(_) => false,
    }
}

/// Whether the help of a message may repeat what is written, as a line to write. Where secrets stand that is only the
/// name in `NAME=value`, and a command without options.
pub(super) fn may_repeat(node: &Node, path: &Path) -> bool {
    if !is_confidential(path) {
        return true;
    }
    let Some(text) = node.as_text() else { return false };
    match path.0.as_slice() {
        [.., Step::Key(key), Step::Index(_)] if key == "env" => {
            let legal = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
            text.split_once('=').is_some_and(|(name, _)| {
                name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(legal)
            })
        }
        [.., Step::Key(key)] if key == "command" => {
            let is_plain = |word: &str| {
                word.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'/' | b'.' | b'_'))
            };
            text.split_whitespace().all(is_plain)
        }
        _ => false,
    }
}

/// A key as a message shows it where secrets stand: `PASSWORD=x` and `value:x` are values that lack a blank.
pub(crate) fn shown_key(key: &str) -> Cow<'_, str> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    match key.find(|c: char| !is_legal(c)) {
        None => key.into(),
        Some(end) => {
            let (name, rest) = key.split_at(end);
            let name = if rest.starts_with(['=', ':', ' ']) { name } else { "" };
            let sign = rest.chars().next().filter(|c| !name.is_empty() && matches!(c, '=' | ':'));
            format!("{name}{}{MASK}", sign.map_or_else(String::new, String::from)).into()
        }
    }
}

/// A name in a message, where a secret may have been written instead of it.
pub(crate) fn quoted_name(text: &str) -> String {
    quoted(&shown_key(text))
}

/// A reference to a secret in a message, `None` where it can be the secret itself: it has signs that no name of
/// one has, or is as mixed as no name is.
pub(crate) fn quoted_reference(text: &str) -> Option<String> {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"_-./*+".contains(&b);
    let is_mixed = |part: &str| is_random(part) && part.bytes().any(|b| b.is_ascii_digit());
    let is_name = text.bytes().all(is_legal) && !text.split(['-', '_', '.', '/']).any(is_mixed);
    // No secret is as short.
    (is_name || text.chars().count() < 5).then(|| quoted(text))
}

/// Takes the secrets that a file is known to have out of what is said of it: a template, a policy or a rule of
/// Kubernetes may quote any value.
pub fn hide_secrets(violations: &mut [Violation], root: &Node) {
    // A word of four letters and more is looked for; so many at most, because each is looked for everywhere.
    const SHORTEST: usize = 4;
    const MOST: usize = 200;
    if violations.is_empty() {
        return;
    }
    let mut secrets = HashSet::new();
    let mut tree: Json = untyped(root);
    mask_tree(&mut tree, &mut |secret| {
        if secret.len() >= SHORTEST && secrets.len() < MOST {
            secrets.insert(secret.to_owned());
        }
        MASK.to_owned()
    });
    let mut secrets: Vec<String> = secrets.into_iter().collect();
    // One may be a part of another.
    secrets.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    for violation in violations {
        let Violation { message, expected, help, .. } = violation;
        for text in [Some(message), expected.as_mut(), help.as_mut()].into_iter().flatten() {
            for secret in &secrets {
                if text.contains(secret.as_str()) {
                    *text = without(text, secret);
                }
            }
        }
    }
}

/// The text without a word, wherever it stands alone.
fn without(text: &str, word: &str) -> String {
    let is_inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.match_indices(word) {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let behind = text.get(at + word.len()..).and_then(|behind| behind.chars().next());
        if !is_inside(before) && !is_inside(behind) {
            out += text.get(copied..at).unwrap_or_default();
            out += MASK;
            copied = at + word.len();
        }
    }
    out + text.get(copied..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_a_value_is_shown_up_to_its_sign() {
        for (key, shown) in [
            ("DB_PASSWORD", "DB_PASSWORD"),
            ("1X", "1X"),
            ("a.env", "a.env"),
            ("DB_PASSWORD=hunter2", "DB_PASSWORD=••••"),
            ("value:hunter2", "value:••••"),
            ("A hunter2", "A••••"),
            ("hunter2!", "••••"),
            ("é", "••••"),
        ] {
            assert_eq!(shown_key(key), shown);
        }
    }

    #[test]
    fn a_reference_is_quoted_unless_it_can_be_the_secret_itself() {
        for text in
            ["db", "x y", "My_Secret", "devx/shop/*", "database-credentials", "NO/upper.case"]
        {
            assert!(quoted_reference(text).is_some(), "{text}");
        }
        for text in ["hunter2!", "Tr0ub4dor3Xq", "correct horse", "pass=word"] {
            assert_eq!(quoted_reference(text), None, "{text}");
        }
    }

    #[test]
    fn a_secret_of_the_file_is_taken_out_of_every_sentence() {
        let text = "env: [{name: DB_PASSWORD, value: swordfish}, {name: A, value: fish}]\n";
        let budget = crate::waml::yaml::Budget::default();
        let root = crate::waml::yaml::parse("f", text.as_bytes(), &budget, &mut vec![]);
        let said = "`swordfish`, swordfishes and fish";
        let mut all = [Violation::error("x", said).expected(said).help(said)];
        hide_secrets(&mut all, &root.unwrap());
        let expected = "`••••`, swordfishes and fish";
        let [one] = &all;
        assert_eq!(one.message, expected);
        assert_eq!(
            (one.expected.as_deref(), one.help.as_deref()),
            (Some(expected), Some(expected))
        );
    }
}
