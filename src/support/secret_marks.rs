//! Compares texts and data without showing their secrets: a changed secret is a difference, an unchanged one is none.
//!
//! Both sides are marked, the caller compares them, and the result is unmarked. Pure.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::secret_mask::ValueMask;
use super::secret_tree::{MASK, mask_map};

/// The marks of secrets while two sides are compared: [`MASK`] and a character of its own for each.
#[derive(Debug, Default)]
pub struct SecretMarks(HashMap<String, char>);

impl SecretMarks {
    /// The first of the characters, from a plane for private use. Secrets beyond a limit share the last one.
    const FIRST: u32 = 0xF_0000;
    const LAST: u32 = 0xF_FFF0;

    /// Marks each secret of an object.
    pub fn mark_map(&mut self, mut map: Map<String, Json>) -> Map<String, Json> {
        mask_map(&mut map, &mut |secret| self.mark(secret));
        map
    }

    /// Marks each value that may be a secret in a text that cannot be parsed.
    pub fn mark_text(&mut self, text: &str) -> String {
        ValueMask::new(text).replace(&mut |secret| self.mark(secret)).into_owned()
    }

    /// Marks each value of a manifest's text that is a secret by its name or form.
    pub fn mark_manifest(&mut self, text: &str) -> String {
        ValueMask::of_manifest(text).replace(&mut |secret| self.mark(secret)).into_owned()
    }

    fn mark(&mut self, secret: &str) -> String {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let next = Self::FIRST.saturating_add(count).min(Self::LAST);
        let next = char::from_u32(next).unwrap_or('\u{F0000}');
        let sign = self.0.entry(secret.to_owned()).or_insert(next);
        format!("{MASK}{sign}")
    }
}

/// Removes the characters after masks from the text.
pub fn unmark(text: &str) -> String {
    let mut parts = text.split(MASK);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_sign = |c: char| (SecretMarks::FIRST..=SecretMarks::LAST).contains(&u32::from(c));
        out += MASK;
        out += part.strip_prefix(is_sign).unwrap_or(part);
    }
    out
}

/// Removes the characters after masks from all texts of a tree.
pub fn unmark_tree(tree: &mut Json) {
    match tree {
        Json::String(text) if text.contains(MASK) => *text = unmark(text),
        Json::Array(list) => list.iter_mut().for_each(unmark_tree),
        Json::Object(map) => map.values_mut().for_each(unmark_tree),
        Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_masked_where_names_and_forms_say_so() {
        let mut marks = SecretMarks::default();
        let text = "- name: DB_PASSWORD\n  value: hunter2\n- name: MODE\n  value: slow\nargs:\n- --password=hunter2\n- --token\n- hunter2\n- --port\n- 80\npassword: swordfish\n";
        let marked = marks.mark_manifest(text);
        let expected = "- name: DB_PASSWORD\n  value: ••••\n- name: MODE\n  value: slow\nargs:\n- --password=••••\n- --token\n- ••••\n- --port\n- 80\npassword: ••••\n";
        assert_eq!(unmark(&marked), expected);
        let other = "a: b\ncommand:\n- redis-cli\n- -a\n- hunter2\n.netrc: |\n  machine a\n  password hunter2\n# token: hunter2\n";
        let expected = other.replace("hunter2", MASK);
        assert_eq!(unmark(&marks.mark_manifest(other)), expected);
        assert_eq!(marks.0.len(), 2, "equal secrets have equal marks");
        assert_eq!(marks.mark_manifest(text), marked);
        assert_ne!(marks.mark_manifest(&text.replace("swordfish", "codfish")), marked);
    }
}
