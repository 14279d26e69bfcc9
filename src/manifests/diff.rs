//! The diff of two sets of manifests, object by object: added, changed and removed ones.
//!
//! Objects are equal by their values, not by their text. The digest does not count.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use similar::TextDiff;

use crate::manifests::fields;
use crate::manifests::files::read_back;
use crate::manifests::object::{BUDGET, Object};
use crate::model::revision::ManifestFile;
use crate::model::stateful::group;
use crate::support::secret_marks::{SecretMarks, unmark, unmark_tree};
use crate::support::secret_tree::{MASK, mask_tree};
use crate::waml::scalar::read_untyped;
use crate::waml::{emit, yaml};

pub use crate::model::change::{Change, ChangeKind, Field};

type JsonMap = serde_json::Map<String, Json>;

/// The limit of compared lines: nobody reads more, and comparing takes the time of their number's square.
const LONGEST: usize = 5_000;

/// Objects by kind, API group and name: the version of an API may change, and so may a file's name.
pub(crate) type Objects = BTreeMap<(String, String, String), Object>;

/// Reads the objects of files; `None` when a file is not one that the service wrote.
pub(crate) fn objects(files: &[ManifestFile]) -> Option<Objects> {
    let named_objects = read_back(files)?;
    let key = |object: &Object| {
        let group = group(object.text(["apiVersion", ""]));
        (object.kind().to_owned(), group.to_owned(), object.name().to_owned())
    };
    Some(named_objects.into_iter().map(|(_, object)| (key(&object), object)).collect())
}

/// Checks that a file is one document of YAML with an object in it: a second document would be overlooked.
pub(crate) fn is_one_object(file: &ManifestFile) -> bool {
    let text = std::str::from_utf8(&file.bytes).ok();
    let documents = text.and_then(|text| yaml::parse_stream(&file.name, text, &BUDGET).ok());
    documents.is_some_and(|documents| documents.len() == 1)
        && objects(std::slice::from_ref(file)).is_some()
}

/// Writes a file's text as people may read it, with a mask for each secret; `None` unless it is one object that the
/// service wrote, and has no Secret in it. The text is written anew, without the comments of people.
pub(crate) fn masked_text(file: &ManifestFile) -> Option<String> {
    let text = std::str::from_utf8(&file.bytes).ok()?;
    let documents = yaml::parse_stream(&file.name, text, &BUDGET).ok()?;
    let [root] = documents.as_slice() else { return None };
    objects(std::slice::from_ref(file))?;
    let mut tree = read_untyped(root);
    if has_secret(&tree) {
        return None;
    }
    mask_tree(&mut tree, &mut |_| MASK.to_owned());
    Some(emit::document(&tree))
}

/// Checks that a Secret is in the tree, also as one of a list.
fn has_secret(tree: &Json) -> bool {
    match tree {
        Json::Object(map) => {
            let is_secret = map.get("kind").is_some_and(|kind| kind == "Secret");
            (is_secret && map.contains_key("apiVersion")) || map.values().any(has_secret)
        }
        Json::Array(list) => list.iter().any(has_secret),
        Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Lists the changes, in order, and the workloads whose pods would be replaced; changed lines come with `context` lines
/// around them. No part of a secret is shown.
pub(crate) fn changes(
    before: &Objects,
    after: &Objects,
    context: usize,
) -> (Vec<Change>, Vec<String>) {
    let mut changes = Vec::new();
    let mut restarts = Vec::new();
    let mut marks = SecretMarks::default();
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        let how = match (old, new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            (Some(old), Some(new)) if old.json == new.json => continue,
            _ => ChangeKind::Changed,
        };
        let (kind, _, name) = key.clone();
        if let (Some(old), Some(new)) = (old, new)
            && pods(old) != pods(new)
        {
            restarts.push(format!("{kind} {name}"));
        }
        let mut marked =
            |object: Option<&Object>| object.map(|object| marks.mark_map(object.json.clone()));
        let (old, new) = (marked(old), marked(new));
        let (mut fields, more_fields) = match (&old, &new) {
            (Some(old), Some(new)) => fields::diff_fields(old, new),
            _ => (Vec::new(), 0),
        };
        for Field { before, after, .. } in &mut fields {
            unmark_tree(before);
            unmark_tree(after);
        }
        let diff = unmark(&diff(old.as_ref(), new.as_ref(), context));
        let change = Change { kind, name, how, fields, more_fields, diff };
        changes.push(without_secrets(change));
    }
    (changes, restarts)
}

/// Lists the differences of two sets of manifests, for people: in order, with the workloads whose pods would be
/// replaced. Files with a manual edit that are no objects of the service any more are compared as they are; no part of
/// a secret is shown.
pub fn compare(
    before: &[ManifestFile],
    after: &[ManifestFile],
    context: usize,
) -> (Vec<Change>, Vec<String>) {
    match (objects(before), objects(after)) {
        (Some(before), Some(after)) => changes(&before, &after, context),
        _ => (by_file(before, after, context), Vec::new()),
    }
}

/// Manifests have no secrets, unless a company's own templates make some: those are not shown.
fn without_secrets(change: Change) -> Change {
    let is_secret =
        change.kind == "Secret" || change.name.to_ascii_lowercase().contains("secret.yaml");
    if is_secret {
        let diff = "@@ a secret is not shown @@\n".to_owned();
        Change { diff, fields: Vec::new(), more_fields: 0, ..change }
    } else {
        change
    }
}

fn by_file(before: &[ManifestFile], after: &[ManifestFile], context: usize) -> Vec<Change> {
    let mut names: Vec<&str> = before.iter().chain(after).map(|file| file.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let text = |files: &[ManifestFile], name: &str| {
        let file = files.iter().find(|file| file.name == name);
        file.map(|file| String::from_utf8_lossy(&file.bytes).into_owned())
    };
    let mut marks = SecretMarks::default();
    let change = |name: &str| {
        let (old, new) = (text(before, name), text(after, name));
        let how = match (&old, &new) {
            (Some(old), Some(new)) if old == new => return None,
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        let mut marked = |text: Option<String>| marks.mark_text(&text.unwrap_or_default());
        let (old, new) = (marked(old), marked(new));
        let diff = unmark(&text_diff(&old, &new, context));
        let (kind, name) = ("File".to_owned(), name.to_owned());
        Some(without_secrets(Change { kind, name, how, fields: Vec::new(), more_fields: 0, diff }))
    };
    names.into_iter().filter_map(change).collect()
}

/// Finds what makes the controller of a workload replace its pods when it changes. The pods of a
/// `CronJob` are others from the next run on.
fn pods(object: &Object) -> Option<&Json> {
    let spec = object.json.get("spec")?;
    match object.kind() {
        "Deployment" | "StatefulSet" | "DaemonSet" | "Rollout" => spec.get("template"),
        "CronJob" => spec.get("jobTemplate")?.get("spec")?.get("template"),
        _ => None,
    }
}

fn diff(old: Option<&JsonMap>, new: Option<&JsonMap>, context: usize) -> String {
    let text = |object: Option<&JsonMap>| object.map_or_else(String::new, emit::map);
    let (old, new) = (text(old), text(new));
    text_diff(&old, &new, context)
}

/// Shows the lines that differ, with `context` lines around them.
fn text_diff(old: &str, new: &str, context: usize) -> String {
    let lines = old.lines().count().max(new.lines().count());
    if lines > LONGEST {
        return format!("@@ too long to compare: {lines} lines @@\n");
    }
    TextDiff::from_lines(old, new).unified_diff().context_radius(context).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[(&str, &str)]) -> Vec<ManifestFile> {
        let file = |(name, text): &(&str, &str)| ManifestFile {
            name: (*name).to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        texts.iter().map(file).collect()
    }

    fn object(kind: &str, value: &str) -> String {
        format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: shop\ndata:\n  word: {value}\n")
    }

    #[test]
    fn what_changes_is_told_by_field_and_by_line() {
        let (old, new) = (object("ConfigMap", "one"), object("ConfigMap", "two"));
        let service = object("Service", "x");
        let before = files(&[("configmap.yaml", &old), ("service.yaml", &service)]);
        let (changes, restarts) = compare(&before, &files(&[("other-name.yaml", &new)]), 1);
        assert_eq!(restarts, Vec::<String>::new());
        let [edited_object, removed] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(
            (edited_object.how, edited_object.kind.as_str()),
            (ChangeKind::Changed, "ConfigMap")
        );
        assert_eq!(edited_object.fields.len(), 1);
        assert_eq!(edited_object.fields[0].path, "data.word");
        assert_eq!(edited_object.diff, "@@ -5,2 +5,2 @@\n data:\n-  word: one\n+  word: two\n");
        assert_eq!((removed.how, removed.fields.len()), (ChangeKind::Removed, 0));
        assert!(removed.diff.contains("-kind: Service"), "{}", removed.diff);
        assert_eq!(compare(&before, &before, 1), (vec![], vec![]));
    }

    #[test]
    fn a_file_is_shown_as_one_object_without_secrets_and_comments() {
        let map = object("ConfigMap", "one");
        let text_of = |text: &str| masked_text(files(&[("a.yaml", text)]).first().unwrap());
        assert_eq!(text_of(&map), Some(map.clone()));
        assert_eq!(text_of(&format!("{map}# password: hunter2\n")), Some(map.clone()));
        let secret = map.replace("word: one", "password: hunter2");
        assert_eq!(text_of(&secret), Some(secret.replace("hunter2", &format!("\"{MASK}\""))));
        for secret in [
            format!("{map}---\n{}", object("Secret", "hunter2")),
            format!("{map}---\n{map}"),
            object("Secret", "hunter2"),
            format!("{map}items:\n  - apiVersion: v1\n    kind: Secret\n"),
            String::new(),
            "a: [hunter2".to_owned(),
        ] {
            assert_eq!(text_of(&secret), None, "{secret}");
        }
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        for kind in ["Secret", "ExternalSecret"] {
            let (old, new) = (object(kind, "password-1"), object(kind, "password-2"));
            let (before, after) = (files(&[("a.yaml", &old)]), files(&[("a.yaml", &new)]));
            let (changes, _) = compare(&before, &after, 3);
            let is_shown = format!("{changes:?}").contains("password");
            assert_eq!((changes.len(), is_shown), (1, kind != "Secret"), "{changes:?}");
        }
        let unreadable = files(&[("secret.yaml", "a: [password")]);
        let (changes, _) = compare(&unreadable, &files(&[("secret.yaml", "b: 1\n")]), 3);
        assert_eq!((changes.len(), format!("{changes:?}").contains("password")), (1, false));
    }
}
