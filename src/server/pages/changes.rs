//! The difference between two sets of manifests, by object and field. Pure.

use serde_json::Value as Json;

use crate::model::change::{Change, ChangeKind, Field};
use crate::server::pages::words;
use crate::support::text::truncate_chars;

/// The most objects that are shown.
const OBJECTS: usize = 100;
/// The most fields of an object that are shown; its lines have all.
const FIELDS: usize = 200;
/// The most lines of an object's diff that are shown.
const LINES: usize = 2_000;
/// The longest value of a field, in characters.
const LONGEST_VALUE: usize = 400;
/// The number of objects up to which all are unfolded.
const UNFOLDED: usize = 6;

/// The changed objects.
#[derive(Debug)]
pub(super) struct ChangesView {
    pub(super) objects: Vec<ChangeView>,
    /// The number of objects that are not shown.
    pub(super) left_out: usize,
    /// True if they are few enough to be unfolded.
    pub(super) is_open: bool,
}

/// A changed object.
#[derive(Debug)]
pub(super) struct ChangeView {
    /// Its kind and name.
    pub(super) title: String,
    /// The kind of change.
    pub(super) how: &'static str,
    /// The CSS class of that.
    pub(super) look: &'static str,
    /// The number of changed fields, in words.
    pub(super) count: String,
    pub(super) fields: Vec<FieldView>,
    /// The sentence about fields that are not shown.
    pub(super) more: String,
    pub(super) lines: Vec<DiffLine>,
}

/// A changed field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldView {
    pub(super) path: String,
    pub(super) before: String,
    pub(super) after: String,
}

/// A line of a diff, and its CSS class.
#[derive(Debug)]
pub(super) struct DiffLine {
    pub(super) text: String,
    pub(super) look: &'static str,
}

impl ChangesView {
    /// Makes the view of these changes.
    pub(super) fn new(changes: Vec<Change>) -> Self {
        let left_out = changes.len().saturating_sub(OBJECTS);
        let objects: Vec<_> = changes.into_iter().take(OBJECTS).map(change).collect();
        Self { left_out, is_open: objects.len() <= UNFOLDED, objects }
    }
}

fn change(change: Change) -> ChangeView {
    let Change { kind, name, how, fields, more_fields, diff } = change;
    let count = words::count(fields.len() + more_fields, "field");
    let more_fields = more_fields + fields.len().saturating_sub(FIELDS);
    let mut more = String::new();
    if more_fields > 0 {
        more = format!("and {} more, which are in the lines", words::count(more_fields, "field"));
    }
    let mut lines: Vec<_> = diff.lines().take(LINES).map(diff_line).collect();
    if diff.lines().nth(LINES).is_some() {
        lines.push(DiffLine { text: "… and more lines".to_owned(), look: "quiet" });
    }
    ChangeView {
        title: format!("{kind} {name}"),
        how: how.as_str(),
        look: match how {
            ChangeKind::Added => "good",
            ChangeKind::Changed => "going",
            ChangeKind::Removed => "bad",
        },
        count,
        fields: fields.into_iter().take(FIELDS).map(field).collect(),
        more,
        lines,
    }
}

fn field(field: Field) -> FieldView {
    let Field { path, before, after } = field;
    FieldView { path, before: value(&before), after: value(&after) }
}

/// Writes a value as it stands in the manifest, on one line; a dash where there is none.
fn value(value: &Json) -> String {
    let text = match value {
        Json::Null => "–".to_owned(),
        Json::String(text) => text.clone(),
        value => value.to_string(),
    };
    truncate_chars(&text, LONGEST_VALUE).into_owned()
}

/// Makes the view of a line of a diff.
pub(super) fn diff_line(text: &str) -> DiffLine {
    let look = match text.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "name",
        [b'+', ..] => "new",
        [b'-', ..] => "old",
        _ => "quiet",
    };
    DiffLine { text: text.to_owned(), look }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_shown_by_field_and_bounded() {
        let field =
            |n: usize| Field { path: format!("data.k{n}"), before: json!(n), after: json!(null) };
        let large = Change {
            kind: "ConfigMap".to_owned(),
            name: "shop".to_owned(),
            how: ChangeKind::Changed,
            fields: (0..FIELDS + 3).map(field).collect(),
            more_fields: 2,
            diff: "-a\n+b\n".repeat(LINES),
        };
        let view = ChangesView::new(vec![large; OBJECTS + 1]);
        assert_eq!((view.objects.len(), view.left_out, view.is_open), (OBJECTS, 1, false));
        let object = &view.objects[0];
        assert_eq!((object.title.as_str(), object.how), ("ConfigMap shop", "changed"));
        assert_eq!((object.fields.len(), object.lines.len()), (FIELDS, LINES + 1));
        assert_eq!(object.more, "and 5 fields more, which are in the lines");
        assert_eq!(object.count, "205 fields");
        let expected =
            FieldView {
                path: "data.k1".to_owned(), before: "1".to_owned(), after: "–".to_owned()
            };
        assert_eq!(object.fields[1], expected);
        assert_eq!(value(&json!("x".repeat(500))).chars().count(), LONGEST_VALUE);
    }
}
