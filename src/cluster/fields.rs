//! Reads fields of a Kubernetes object in JSON: what is missing, or of another type than it should be, is absent.
//!
//! An object that is wrong in one field must not hide all others of its cluster, so nothing here fails. Texts are cut,
//! lists are bounded: an object of a megabyte leaves a few hundred bytes.

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::support::text::truncate_bytes;

/// The longest name, in bytes: Kubernetes allows 253.
pub(super) const NAME_BYTES: usize = 253;
/// The bytes of a message that are kept: enough for the sentence that says what is wrong.
pub(super) const MESSAGE_BYTES: usize = 512;
/// The most entries of a list that are read: conditions, containers, owners. Real objects have about ten.
const LIST_ENTRIES: usize = 64;

/// Returns the value at a path of keys.
pub(super) fn value_at<'a>(json: &'a Json, path: &[&str]) -> Option<&'a Json> {
    path.iter().try_fold(json, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// Reads a text, cut after so many bytes; `None` where it is empty.
pub(super) fn text_at(json: &Json, path: &[&str], most: usize) -> Option<Box<str>> {
    let text = value_at(json, path)?.as_str().filter(|text| !text.is_empty())?;
    Some(truncate_bytes(text, most).into())
}

/// Reads a name; empty where there is none.
pub(super) fn name_at(json: &Json, path: &[&str]) -> Box<str> {
    text_at(json, path, NAME_BYTES).unwrap_or_default()
}

/// Reads a word and compares it.
pub(super) fn is_word(json: &Json, path: &[&str], word: &str) -> bool {
    value_at(json, path).and_then(Json::as_str) == Some(word)
}

/// Reads a counter, if it is one: no negative number, no fraction, no text.
pub(super) fn count_at(json: &Json, path: &[&str]) -> Option<u32> {
    let number = value_at(json, path)?.as_u64()?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Reads a counter of a status; the API leaves zeros out.
pub(super) fn counter(json: &Json, path: &[&str]) -> u32 {
    count_at(json, path).unwrap_or(0)
}

/// Reads a generation; 0 where there is none.
pub(super) fn generation_at(json: &Json, path: &[&str]) -> i64 {
    value_at(json, path).and_then(Json::as_i64).unwrap_or(0)
}

/// Reads a flag that is off unless it is on.
pub(super) fn flag_at(json: &Json, path: &[&str]) -> bool {
    value_at(json, path).and_then(Json::as_bool).unwrap_or(false)
}

/// Reads a time in RFC 3339.
pub(super) fn time_at(json: &Json, path: &[&str]) -> Option<Timestamp> {
    value_at(json, path)?.as_str()?.parse().ok()
}

/// Reads a list; empty where there is none, and never longer than a real one.
pub(super) fn list_at<'a>(json: &'a Json, path: &[&str]) -> &'a [Json] {
    let list = value_at(json, path).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    list.get(..LIST_ENTRIES).unwrap_or(list)
}

/// Finds the condition of that type in `status.conditions`.
pub(super) fn condition_at<'a>(json: &'a Json, kind: &str) -> Option<&'a Json> {
    list_at(json, &["status", "conditions"])
        .iter()
        .find(|condition| is_word(condition, &["type"], kind))
}

/// Finds the condition of that type in `status.conditions`, if its status is `True`.
pub(super) fn true_condition<'a>(json: &'a Json, kind: &str) -> Option<&'a Json> {
    condition_at(json, kind).filter(|condition| is_word(condition, &["status"], "True"))
}

/// Reads the message of a condition that is `True`, or its reason where it has no message.
pub(super) fn message_of_true(json: &Json, kind: &str) -> Option<Box<str>> {
    let condition = true_condition(json, kind)?;
    text_at(condition, &["message"], MESSAGE_BYTES)
        .or_else(|| text_at(condition, &["reason"], MESSAGE_BYTES))
        .or_else(|| Some(kind.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absurd_fields_are_absent() {
        let json = json!({
            "count": -1, "text": 7, "flag": "yes", "time": "tomorrow", "list": {"a": 1}, "none": null,
            "huge": 9_999_999_999_u64, "part": 1.5,
        });
        assert_eq!(count_at(&json, &["count"]), None);
        assert_eq!(count_at(&json, &["part"]), None);
        assert_eq!(count_at(&json, &["huge"]), Some(u32::MAX));
        assert_eq!(text_at(&json, &["text"], 10), None);
        assert!(!flag_at(&json, &["flag"]));
        assert_eq!(time_at(&json, &["time"]), None);
        assert!(list_at(&json, &["list"]).is_empty());
        assert_eq!(value_at(&json, &["none"]), None);
        assert_eq!(value_at(&json, &["text", "deeper"]), None);
        assert_eq!(condition_at(&json!({"status": {"conditions": [1, null, "x"]}}), "Ready"), None);
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        let json = json!({"text": "ä".repeat(1_000_000), "list": vec![1; 10_000]});
        assert!(text_at(&json, &["text"], MESSAGE_BYTES).unwrap().len() <= MESSAGE_BYTES);
        assert_eq!(list_at(&json, &["list"]).len(), LIST_ENTRIES);
    }
}
