//! The diff of two objects, value by value: the changed fields, by their paths.
//!
//! ```text
//! spec.replicas                                            3 → 5
//! spec.template.spec.containers[my-app].env[MODE].value    "a" → "b"
//! metadata.labels["app.kubernetes.io/version"]             "1.4" → "1.5"
//! ```
//!
//! Items of a list are matched by their names, where all of them have one: a new item in between is one field, and not
//! a change of all that follow. Other items are matched by their places, from 0.

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use crate::model::change::Field;

/// The keys that name items of Kubernetes' and Prometheus' lists; the first that all items have is used.
const NAMES: [&str; 6] = ["name", "alert", "record", "mountPath", "key", "host"];

/// The limit of listed fields of one object; its text has all.
const MAX: usize = 500;

/// One step to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldStep {
    /// Into a map.
    Key(String),
    /// To the item of a list that has this name under that key.
    Named(&'static str, String),
    /// To an item of a list, from 0.
    At(usize),
    /// The order of a list's items.
    Order,
}

/// A field that differs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldDifference {
    pub(crate) steps: Vec<FieldStep>,
    /// The value before; `None` where there was none.
    pub(crate) before: Option<Json>,
    /// The value after; `None` where there is none.
    pub(crate) after: Option<Json>,
}

impl FieldDifference {
    /// Writes the path for people.
    pub(crate) fn path(&self) -> String {
        self.steps.iter().fold(String::new(), |path, step| match step {
            FieldStep::Key(key) => join_path(&path, key),
            FieldStep::Named(_, name) => format!("{path}[{name}]"),
            FieldStep::At(at) => format!("{path}[{at}]"),
            FieldStep::Order => format!("{path}[order]"),
        })
    }
}

/// Lists the fields in which two objects differ, in the order of the new one, up to a limit, and counts the others.
pub(super) fn diff_fields(
    before: &Map<String, Json>,
    after: &Map<String, Json>,
) -> (Vec<Field>, usize) {
    let mut differences = list_differences(before, after);
    let more = differences.len().saturating_sub(MAX);
    differences.truncate(MAX);
    let field = |difference: FieldDifference| Field {
        path: difference.path(),
        before: difference.before.unwrap_or_default(),
        after: difference.after.unwrap_or_default(),
    };
    (differences.into_iter().map(field).collect(), more)
}

/// Lists all fields in which two objects differ, in the order of the new one.
pub(crate) fn list_differences(
    before: &Map<String, Json>,
    after: &Map<String, Json>,
) -> Vec<FieldDifference> {
    let mut differences = Vec::new();
    maps(before, after, &mut Vec::new(), &mut differences);
    differences
}

fn maps(
    before: &Map<String, Json>,
    after: &Map<String, Json>,
    path: &mut Vec<FieldStep>,
    fields: &mut Vec<FieldDifference>,
) {
    for (key, new) in after {
        values(before.get(key), Some(new), FieldStep::Key(key.clone()), path, fields);
    }
    for (key, old) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
        values(Some(old), None, FieldStep::Key(key.clone()), path, fields);
    }
}

/// Compares the values behind one more step.
fn values(
    before: Option<&Json>,
    after: Option<&Json>,
    step: FieldStep,
    path: &mut Vec<FieldStep>,
    fields: &mut Vec<FieldDifference>,
) {
    path.push(step);
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Json::Object(before)), Some(Json::Object(after))) => {
            maps(before, after, path, fields);
        }
        (Some(Json::Array(before)), Some(Json::Array(after))) => lists(before, after, path, fields),
        (before, after) => {
            let (before, after) = (before.cloned(), after.cloned());
            fields.push(FieldDifference { steps: path.clone(), before, after });
        }
    }
    path.pop();
}

fn lists(
    before: &[Json],
    after: &[Json],
    path: &mut Vec<FieldStep>,
    fields: &mut Vec<FieldDifference>,
) {
    let keyed = NAMES
        .iter()
        .find_map(|by| Some((*by, index_by_key(before, by)?, index_by_key(after, by)?)));
    let Some((by, old, new)) = keyed else { return by_place(before, after, path, fields) };
    let step = |name: &str| FieldStep::Named(by, name.to_owned());
    for (name, item) in &new {
        values(old.get(name).copied(), Some(item), step(name), path, fields);
    }
    for (name, item) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        values(Some(item), None, step(name), path, fields);
    }
    let common_names = |names: &ItemsByName<'_>, other_names: &ItemsByName<'_>| {
        names
            .keys()
            .filter(|name| other_names.contains_key(*name))
            .map(|name| Json::from(*name))
            .collect()
    };
    let (before, after): (Json, Json) = (common_names(&old, &new), common_names(&new, &old));
    if before != after {
        let steps = path.iter().cloned().chain([FieldStep::Order]).collect();
        fields.push(FieldDifference { steps, before: Some(before), after: Some(after) });
    }
}

/// The items of a list by their names, in its order.
type ItemsByName<'a> = IndexMap<&'a str, &'a Json>;

/// Indexes the items by what stands under that key, if each has a text of its own there.
fn index_by_key<'a>(list: &'a [Json], by: &str) -> Option<ItemsByName<'a>> {
    let pairs = list.iter().map(|item| Some((item.get(by)?.as_str()?, item)));
    let named_items: ItemsByName<'_> = pairs.collect::<Option<_>>()?;
    (named_items.len() == list.len()).then_some(named_items)
}

fn by_place(
    before: &[Json],
    after: &[Json],
    path: &mut Vec<FieldStep>,
    fields: &mut Vec<FieldDifference>,
) {
    for at in 0..before.len().max(after.len()) {
        values(before.get(at), after.get(at), FieldStep::At(at), path, fields);
    }
}

/// Joins a path and a key. A key that is no plain word is in quotes, so that its dots are not taken for steps.
fn join_path(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if key.is_empty() || !key.chars().all(plain) {
        return format!("{path}[{}]", Json::from(key));
    }
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Formats each difference as `path: before → after`.
    fn format_differences(before: &Json, after: &Json) -> Vec<String> {
        let (fields, more) = diff_fields(before.as_object().unwrap(), after.as_object().unwrap());
        assert_eq!(more, 0);
        fields.iter().map(|f| format!("{}: {} → {}", f.path, f.before, f.after)).collect()
    }

    #[test]
    fn values_are_told_by_their_paths() {
        let before = json!({"spec": {"replicas": 3, "old": true, "same": [1]}, "kind": "A"});
        let after = json!({"spec": {"replicas": 5, "same": [1], "new": {"a": 1}}, "kind": "A"});
        assert_eq!(
            format_differences(&before, &after),
            ["spec.replicas: 3 → 5", "spec.new: null → {\"a\":1}", "spec.old: true → null"]
        );
        assert_eq!(format_differences(&before, &before), Vec::<String>::new());
    }

    #[test]
    fn an_item_is_the_same_by_its_name_wherever_it_stands() {
        let env = |variables: &[(&str, &str)]| {
            let variable = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
            json!({"env": variables.iter().map(variable).collect::<Vec<_>>()})
        };
        let before = env(&[("A", "1"), ("B", "2"), ("C", "3")]);
        let after = env(&[("NEW", "0"), ("A", "1"), ("C", "4")]);
        assert_eq!(
            format_differences(&before, &after),
            [
                r#"env[NEW]: null → {"name":"NEW","value":"0"}"#,
                r#"env[C].value: "3" → "4""#,
                r#"env[B]: {"name":"B","value":"2"} → null"#,
            ]
        );
        let reordered = env(&[("B", "2"), ("A", "1"), ("C", "3")]);
        assert_eq!(
            format_differences(&before, &reordered),
            [r#"env[order]: ["A","B","C"] → ["B","A","C"]"#]
        );
    }

    #[test]
    fn items_without_a_name_of_their_own_go_by_their_places() {
        let with_args = |args: Json| json!({"args": args});
        assert_eq!(
            format_differences(&with_args(json!(["a", "b"])), &with_args(json!(["a", "c", "d"]))),
            [r#"args[1]: "b" → "c""#, r#"args[2]: null → "d""#]
        );
        let repeated = with_args(json!([{"name": "a", "v": 1}, {"name": "a", "v": 2}]));
        let other_repeated = with_args(json!([{"name": "a", "v": 1}, {"name": "a", "v": 3}]));
        assert_eq!(format_differences(&repeated, &other_repeated), ["args[1].v: 2 → 3"]);
        let alert = |expr: &str| with_args(json!([{"alert": "Down", "expr": expr}]));
        assert_eq!(format_differences(&alert("a"), &alert("b")), [r#"args[Down].expr: "a" → "b""#]);
    }

    #[test]
    fn a_key_with_dots_is_one_step() {
        let label = |tag: &str| json!({"metadata": {"labels": {"app.kubernetes.io/version": tag}}});
        assert_eq!(
            format_differences(&label("1"), &label("2")),
            [r#"metadata.labels["app.kubernetes.io/version"]: "1" → "2""#]
        );
    }

    #[test]
    fn what_becomes_something_else_is_one_field() {
        assert_eq!(
            format_differences(&json!({"a": {"b": 1}}), &json!({"a": [1]})),
            [r#"a: {"b":1} → [1]"#]
        );
        assert_eq!(
            format_differences(&json!({"a": []}), &json!({"a": ["x"]})),
            [r#"a[0]: null → "x""#]
        );
    }

    #[test]
    fn no_more_is_told_than_somebody_reads() {
        let list = |n: usize| json!({"args": vec![n; 700]});
        let (fields, more) =
            diff_fields(list(1).as_object().unwrap(), list(2).as_object().unwrap());
        assert_eq!((fields.len(), more), (MAX, 200));
    }
}
