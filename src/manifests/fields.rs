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
const MOST: usize = 500;

/// Lists the fields in which two objects differ, in the order of the new one, up to a limit, and counts the others.
pub(super) fn differing(
    before: &Map<String, Json>,
    after: &Map<String, Json>,
) -> (Vec<Field>, usize) {
    let mut found = Vec::new();
    maps(before, after, "", &mut found);
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    (found, more)
}

fn maps(before: &Map<String, Json>, after: &Map<String, Json>, path: &str, found: &mut Vec<Field>) {
    for (key, new) in after {
        values(before.get(key), Some(new), &below(path, key), found);
    }
    for (key, old) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
        values(Some(old), None, &below(path, key), found);
    }
}

fn values(before: Option<&Json>, after: Option<&Json>, path: &str, found: &mut Vec<Field>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Json::Object(before)), Some(Json::Object(after))) => {
            maps(before, after, path, found);
        }
        (Some(Json::Array(before)), Some(Json::Array(after))) => lists(before, after, path, found),
        (before, after) => {
            let value = |one: Option<&Json>| one.cloned().unwrap_or(Json::Null);
            let (before, after) = (value(before), value(after));
            found.push(Field { path: path.to_owned(), before, after });
        }
    }
}

fn lists(before: &[Json], after: &[Json], path: &str, found: &mut Vec<Field>) {
    let by =
        NAMES.iter().find_map(|by| Some((index_by_key(before, by)?, index_by_key(after, by)?)));
    let Some((old, new)) = by else { return by_place(before, after, path, found) };
    for (name, item) in &new {
        values(old.get(name).copied(), Some(item), &format!("{path}[{name}]"), found);
    }
    for (name, item) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        values(Some(item), None, &format!("{path}[{name}]"), found);
    }
    let kept = |all: &Named<'_>, other: &Named<'_>| {
        all.keys().filter(|name| other.contains_key(*name)).map(|name| Json::from(*name)).collect()
    };
    let (before, after): (Json, Json) = (kept(&old, &new), kept(&new, &old));
    if before != after {
        found.push(Field { path: format!("{path}[order]"), before, after });
    }
}

/// The items of a list by their names, in its order.
type Named<'a> = IndexMap<&'a str, &'a Json>;

/// Indexes the items by what stands under that key, if each has a text of its own there.
fn index_by_key<'a>(list: &'a [Json], by: &str) -> Option<Named<'a>> {
    let each = list.iter().map(|item| Some((item.get(by)?.as_str()?, item)));
    let all: Named<'_> = each.collect::<Option<_>>()?;
    (all.len() == list.len()).then_some(all)
}

fn by_place(before: &[Json], after: &[Json], path: &str, found: &mut Vec<Field>) {
    for at in 0..before.len().max(after.len()) {
        values(before.get(at), after.get(at), &format!("{path}[{at}]"), found);
    }
}

/// Joins a path and a key. A key that is no plain word is in quotes, so that its dots are not taken for steps.
fn below(path: &str, key: &str) -> String {
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
        let (found, more) = differing(before.as_object().unwrap(), after.as_object().unwrap());
        assert_eq!(more, 0);
        found.iter().map(|f| format!("{}: {} → {}", f.path, f.before, f.after)).collect()
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
        let env = |all: &[(&str, &str)]| {
            let one = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
            json!({"env": all.iter().map(one).collect::<Vec<_>>()})
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
        let turned = env(&[("B", "2"), ("A", "1"), ("C", "3")]);
        assert_eq!(
            format_differences(&before, &turned),
            [r#"env[order]: ["A","B","C"] → ["B","A","C"]"#]
        );
    }

    #[test]
    fn items_without_a_name_of_their_own_go_by_their_places() {
        let one = |args: Json| json!({"args": args});
        assert_eq!(
            format_differences(&one(json!(["a", "b"])), &one(json!(["a", "c", "d"]))),
            [r#"args[1]: "b" → "c""#, r#"args[2]: null → "d""#]
        );
        let twice = one(json!([{"name": "a", "v": 1}, {"name": "a", "v": 2}]));
        let other = one(json!([{"name": "a", "v": 1}, {"name": "a", "v": 3}]));
        assert_eq!(format_differences(&twice, &other), ["args[1].v: 2 → 3"]);
        let alert = |expr: &str| one(json!([{"alert": "Down", "expr": expr}]));
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
        let (found, more) = differing(list(1).as_object().unwrap(), list(2).as_object().unwrap());
        assert_eq!((found.len(), more), (MOST, 200));
    }
}
