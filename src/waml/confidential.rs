//! The part of a file's values that a message may quote: nothing from a place for secrets.
//!
//! Such a place is known by its path, because a value that is written wrongly has no type to go by.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::model::violation::Violation;
use crate::support::secret_tree::{MASK, mask_tree};
use crate::waml::node::{Node, Path, Step, Value};
use crate::waml::quote::{is_confidential_key, quote};
use crate::waml::scalar::read_untyped;

/// Checks that the value at a path may be a secret: a message then describes it, and does not quote it.
pub fn is_confidential(path: &Path) -> bool {
    path.0.iter().any(|step| matches!(step, Step::Key(key) if is_confidential_key(key)))
}

/// Checks that the help of a message may repeat the written text, as a line to write. At a place for secrets that is
/// only the name in `NAME=value`, and a command without options.
pub(super) fn may_repeat(node: &Node, path: &Path) -> bool {
    match (&node.value, path.0.last()) {
        // Of `env: {NAME: value}` the names are repeated.
        (Value::Map(map), Some(step)) if step.is_key("env") => {
            let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            map.iter().all(|(name, _)| name.bytes().all(legal))
        }
        (Value::Scalar(scalar), _) => may_repeat_text(&scalar.text, path),
        _ => !is_confidential(path),
    }
}

/// Checks that the help of a message may repeat a text.
pub(super) fn may_repeat_text(text: &str, path: &Path) -> bool {
    if !is_confidential(path) {
        return true;
    }
    match path.0.as_slice() {
        [.., step, Step::Index(_)] if step.is_key("env") => {
            let name = text.split('=').next().unwrap_or_default();
            let legal = |b: u8| b.is_ascii_uppercase() || b == b'_';
            !name.is_empty() && name.bytes().all(legal)
        }
        // The names of secrets are asked for here.
        [.., step, Step::Index(_)] if step.is_key("secrets") => {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
        }
        // Paths in Vault, and globs of such.
        [.., step] if step.is_key("paths") => {
            let legal = |b: u8| b.is_ascii_lowercase() || b"-_/*".contains(&b);
            text.contains('/') && text.bytes().all(legal)
        }
        [.., step] if step.is_key("command") => {
            let is_plain = |word: &str| {
                word.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'/' | b'.' | b'_'))
            };
            text.split_whitespace().all(is_plain)
        }
        _ => false,
    }
}

/// Removes the known secrets of a file from the texts of violations: a template, a policy or a rule of Kubernetes may
/// quote any value.
pub fn hide_secrets(violations: &mut [Violation], root: &Node) {
    if violations.is_empty() {
        return;
    }
    let mut words = Vec::new();
    let mut tree: Json = read_untyped(root);
    mask_tree(&mut tree, &mut |secret| {
        add_forms(secret, &mut words);
        MASK.to_owned()
    });
    words.sort_unstable();
    words.dedup();
    for violation in violations {
        let Violation { message, expected, help, .. } = violation;
        for text in [Some(message), expected.as_mut(), help.as_mut()].into_iter().flatten() {
            if let Cow::Owned(masked) = mask_words(text, &words) {
                *text = masked;
            }
        }
    }
}

/// Adds the ways in which a message can quote a secret: as it is, with escapes, and cut off.
fn add_forms(secret: &str, words: &mut Vec<String>) {
    // A word of four letters and more is looked for.
    const SHORTEST: usize = 4;
    const LONGEST_QUOTED: usize = 60;
    let inner = |text: String, ends: &[char]| text.trim_matches(ends).to_owned();
    for text in [secret, secret.trim()] {
        let shortened: String = text.chars().take(LONGEST_QUOTED).collect();
        let quoted = quote(text);
        let quoted = quoted.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
        let quoted = quoted.map(|text| text.strip_suffix('…').unwrap_or(text).to_owned());
        let forms = [
            Some(text.escape_debug().to_string()),
            Some(shortened.escape_debug().to_string()),
            Some(inner(format!("{text:?}"), &['"'])),
            serde_json::to_string(text).ok().map(|text| inner(text, &['"'])),
            Some(text.to_owned()),
            Some(shortened),
            quoted,
        ];
        words.extend(forms.into_iter().flatten().filter(|form| form.len() >= SHORTEST));
    }
}

/// Removes some words from the text, wherever one stands alone. They are in order: each place of
/// the text is looked up in them, because they may be many.
fn mask_words<'t>(text: &'t str, words: &[String]) -> Cow<'t, str> {
    let (mut out, mut copied, mut hidden_until) = (String::new(), 0, 0);
    let mut before = None;
    for (at, c) in text.char_indices() {
        let is_inside = before.replace(c).is_some_and(char::is_alphanumeric);
        let Some(length) =
            text.get(at..).filter(|_| !is_inside).and_then(|rest| begins(rest, words))
        else {
            continue;
        };
        // A match that overlaps with the one before is hidden with it.
        if at >= hidden_until {
            out += text.get(copied..at).unwrap_or_default();
            out += MASK;
        }
        hidden_until = hidden_until.max(at + length);
        copied = hidden_until;
    }
    if copied == 0 {
        return text.into();
    }
    out += text.get(copied..).unwrap_or_default();
    out.into()
}

/// Finds the length of the longest of the words that a text begins with, and that ends where a word
/// ends.
fn begins(text: &str, words: &[String]) -> Option<usize> {
    let mut begin = text;
    loop {
        let last = words.partition_point(|word| word.as_str() <= begin).checked_sub(1)?;
        let word = words.get(last)?;
        let alike = begin.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
        let behind = text.get(word.len()..).and_then(|behind| behind.chars().next());
        if alike == word.len() && !behind.is_some_and(char::is_alphanumeric) {
            return Some(word.len());
        }
        // A word that is in front of this one and that the text begins with is a part of what is alike.
        let most = if alike == word.len() { alike.checked_sub(1)? } else { alike };
        begin = begin.get(..begin.floor_char_boundary(most)).filter(|begin| !begin.is_empty())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waml::quote::{quote_key, quoted_reference};

    #[test]
    fn a_key_that_is_a_value_is_shown_up_to_its_sign() {
        for (key, expected) in [
            ("DB_PASSWORD", "DB_PASSWORD"),
            ("1X", "1X"),
            ("a.env", "a.env"),
            ("DB_PASSWORD=hunter2", "DB_PASSWORD=••••"),
            ("value:hunter2", "value:••••"),
            ("A hunter2", "A••••"),
            ("hunter2!", "••••"),
            ("é", "••••"),
        ] {
            assert_eq!(quote_key(key), expected);
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
        let sentence = "`swordfish`, swordfishes and fish";
        let mut violations = [Violation::error("x", sentence).expected(sentence).help(sentence)];
        hide_secrets(&mut violations, &root.unwrap());
        let expected = "`••••`, swordfishes and fish";
        let [violation] = &violations;
        assert_eq!(violation.message, expected);
        assert_eq!(
            (violation.expected.as_deref(), violation.help.as_deref()),
            (Some(expected), Some(expected))
        );
    }

    fn hide_in_message(text: &str, message: &str) -> String {
        let budget = crate::waml::yaml::Budget::default();
        let root = crate::waml::yaml::parse("f", text.as_bytes(), &budget, &mut vec![]);
        let mut violations = [Violation::error("x", "")];
        violations[0].message = message.to_owned();
        hide_secrets(&mut violations, &root.unwrap());
        violations[0].message.clone()
    }

    #[test]
    fn a_secret_is_taken_out_with_its_escapes_and_where_it_is_cut_off() {
        let long = "correct horse é battery staple ".repeat(4);
        for secret in ["sword\"fish", "it's\\me", "one\ttwo", long.as_str()] {
            let json = serde_json::to_string(secret).unwrap();
            let text = format!("env:\n  - name: DB_PASSWORD\n    value: {json}\n");
            let shortened: String = secret.chars().take(60).collect();
            for form in [quote(secret), format!("{secret:?}"), json, shortened, secret.to_owned()] {
                let masked = hide_in_message(&text, &format!("value {form} is no host"));
                for part in secret.split(['"', '\'', '\\', '\t', ' ']).filter(|part| part.len() > 1)
                {
                    assert!(!masked.replace("value", "").contains(part), "{masked}");
                }
                assert!(masked.starts_with("value ") && masked.contains(MASK), "{masked}");
            }
        }
    }

    #[test]
    fn the_last_of_many_secrets_is_taken_out_too() {
        let many: String = (0..3000)
            .map(|n| format!("  - {{name: A{n}_PASSWORD, value: fish-{n}-x}}\n"))
            .collect();
        let text = format!("env:\n{many}  - {{name: A_PASSWORD, value: fish}}\n");
        let budget = crate::waml::yaml::Budget::default();
        let root = crate::waml::yaml::parse("f", text.as_bytes(), &budget, &mut vec![]);
        let sentence = "`fish-2999-x` and fish-0-x, fish-3000-y and fishes";
        let mut violations = [Violation::error("x", sentence)];
        hide_secrets(&mut violations, &root.unwrap());
        assert_eq!(violations[0].message, "`••••` and ••••, ••••-3000-y and fishes");
    }
}
