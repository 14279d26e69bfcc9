//! Edits of a WAML that may give a field of an object another value. Each is only tried: what it really gives is rendered.

use serde_json::{Map, Value as Json};

use super::items::{EditItem, innermost_list, pointer_to, value_at};
use crate::manifests::fields::FieldStep;
use crate::manifests::object::Object;
use crate::manifests::patch::merge::merges_by;
use crate::waml::node::{Node, Path, Step};
use crate::waml::section::Section;
use crate::waml::text_edit::EditStep;

/// An edit: the way to a value in a section, and the value.
pub(super) type Candidate = (Vec<EditStep>, Json);

/// The most settings with the former value that are tried.
const MAX_SETTINGS: usize = 8;
/// The parts of a section that have single values of pods and workloads.
const PARTS: [&[&str]; 8] = [
    &[],
    &["scaling"],
    &["lifecycle"],
    &["security"],
    &["scheduling"],
    &["disruption"],
    &["probes"],
    &["autoscaling", "horizontal"],
];

/// Lists edits of the settings: of the keys that have the field's former value, and of those that have its name.
pub(super) fn of_settings(item: &EditItem, settings: &Node) -> Vec<Candidate> {
    let (before, after) = (item.field.before.as_ref(), item.field.after.as_ref());
    let mut candidates = Vec::new();
    if let Some(before) = before.and_then(scalar_text) {
        let value = after.cloned().unwrap_or_default();
        if is_scalar(&value) {
            let settings = with_value(item, settings, &before).into_iter();
            candidates.extend(settings.map(|steps| (steps, value.clone())));
        }
    }
    candidates.extend(of_variable(item));
    if let (None, Some(after)) = (before, after) {
        candidates.extend(of_name(item, after));
    }
    candidates
}

/// Lists the settings that have a value, those first whose path is most like that of the field.
fn with_value(item: &EditItem, settings: &Node, value: &str) -> Vec<Vec<EditStep>> {
    let field_words: Vec<&str> = item.field.steps.iter().filter_map(word_of).collect();
    let mut scored = Vec::new();
    settings.leaves(&mut Path::root(), &mut |path, leaf| {
        if leaf.as_text() != Some(value) || is_ours(path) {
            return;
        }
        let Some(steps) = edit_steps(settings, path) else { return };
        let words = steps.iter().flat_map(words_of_step);
        let common = words.filter(|word| field_words.contains(word)).count();
        let is_same_key = field_words.last() == Some(&path.last_key());
        scored.push((common + if is_same_key { 4 } else { 0 }, steps));
    });
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().take(MAX_SETTINGS).map(|(_, steps)| steps).collect()
}

/// Checks that the settings are not of the object's values: patches and templates.
fn is_ours(path: &Path) -> bool {
    matches!(
        path.0.first(),
        Some(Step::Key(key)) if matches!(&**key, "patches" | "manifests" | "template")
    )
}

fn word_of(step: &FieldStep) -> Option<&str> {
    match step {
        FieldStep::Key(word) | FieldStep::Named(_, word) => Some(word),
        FieldStep::At(_) | FieldStep::Order => None,
    }
}

fn words_of_step(step: &EditStep) -> Vec<&str> {
    match step {
        EditStep::Key(key) => vec![key],
        EditStep::Element(keys) => keys.iter().map(|(_, text)| text.as_str()).collect(),
    }
}

/// Writes a way through the settings, with elements of lists by their identity; `None` where one has none.
fn edit_steps(settings: &Node, path: &Path) -> Option<Vec<EditStep>> {
    let mut place = Section::place();
    let mut steps = Vec::new();
    for (index, step) in path.0.iter().enumerate() {
        match step {
            Step::Key(key) => {
                place = place.key(key);
                steps.push(EditStep::key(&**key));
            }
            Step::Index(_) => {
                let identity = place.identity()?;
                let element = settings.at(&Path(path.0.get(..=index)?.to_vec()))?;
                let text =
                    |key: &&str| Some(((*key).to_owned(), element.get(key)?.as_text()?.to_owned()));
                let keys: Vec<_> = identity.keys().iter().filter_map(text).collect();
                if keys.is_empty() {
                    return None;
                }
                place = place.element();
                steps.push(EditStep::Element(keys));
            }
        }
    }
    Some(steps)
}

/// Lists the edit for a variable that is new, or gone.
fn of_variable(item: &EditItem) -> Option<Candidate> {
    let [.., FieldStep::Key(list), FieldStep::Named(_, name)] = item.field.steps.as_slice() else {
        return None;
    };
    let steps =
        vec![EditStep::key("env"), EditStep::element_named("name", name), EditStep::key("value")];
    let value = match (&item.field.before, &item.field.after) {
        (None, Some(Json::Object(variable))) if variable.len() == 2 => {
            variable.get("value")?.clone()
        }
        (Some(_), None) => Json::Null,
        _ => return None,
    };
    (list == "env").then_some((steps, value))
}

/// Lists the settings that have the name of a field that is new.
fn of_name(item: &EditItem, after: &Json) -> Vec<Candidate> {
    let keys: Vec<&str> = item.field.steps.iter().rev().map_while(word_of_key).collect();
    let keys: Vec<&str> = keys.into_iter().rev().collect();
    let mut candidates = Vec::new();
    for length in (1..=keys.len().min(3)).rev() {
        let suffix = keys.get(keys.len() - length..).unwrap_or_default();
        if matches!(suffix.first(), Some(&("spec" | "metadata" | "template"))) {
            continue;
        }
        // Parts of a section have such values right in them.
        let parts = if length == 1 { &PARTS[..] } else { &PARTS[..1] };
        for part in parts {
            let steps = part.iter().chain(suffix).map(|key| EditStep::key(*key)).collect();
            candidates.push((steps, after.clone()));
        }
    }
    candidates
}

fn word_of_key(step: &FieldStep) -> Option<&str> {
    match step {
        FieldStep::Key(key) => Some(key),
        FieldStep::Named(..) | FieldStep::At(_) | FieldStep::Order => None,
    }
}

/// Lists patches that give the field its new value. `current` is the object as it is rendered now, `edited` as it should
/// be, and `masked` the latter with a mask for each secret: a list with a secret in it is not written.
pub(super) fn of_patches(
    item: &EditItem,
    current: &Object,
    edited: &Map<String, Json>,
    masked: &Map<String, Json>,
) -> Vec<Candidate> {
    let (kind, _, name) = item.object.clone();
    let patch = [
        EditStep::key("patches"),
        EditStep::Element(vec![("kind".to_owned(), kind), ("name".to_owned(), name)]),
    ];
    let at = |rest: Vec<EditStep>| patch.iter().cloned().chain(rest).collect::<Vec<_>>();
    let mut candidates = Vec::new();
    let value_without_secrets = |steps: &[FieldStep]| {
        value_at(edited, steps).filter(|value| value_at(masked, steps) == Some(*value))
    };
    let merge = merge_steps(item, current, value_without_secrets);
    candidates.extend(merge.map(|(steps, value)| (at(steps), value)));
    let operation = |verb: &str, pointer: String| {
        let keys = vec![("op".to_owned(), verb.to_owned()), ("path".to_owned(), pointer)];
        vec![EditStep::key("operations"), EditStep::Element(keys)]
    };
    if item.field.after.is_none()
        && let Some(pointer) = pointer_to(&current.json, &item.field.steps)
    {
        candidates.push((at(operation("remove", pointer)), Json::Object(Map::new())));
    }
    // The whole of the innermost list: for another order, and elements without a key.
    if let Some(list) = innermost_list(&item.field.steps)
        && let Some(value) = value_without_secrets(list)
        && let Some(pointer) = pointer_to(&current.json, list)
    {
        let mut steps = operation("replace", pointer);
        steps.push(EditStep::key("value"));
        candidates.push((at(steps), value.clone()));
    }
    candidates
}

/// Makes the way to the field in the `merge` of a patch, with its new value: of a list that is replaced as a whole, the list
/// is the value. `None` where a merge cannot say it.
fn merge_steps<'j>(
    item: &EditItem,
    current: &Object,
    edited_value: impl Fn(&[FieldStep]) -> Option<&'j Json>,
) -> Option<Candidate> {
    let api_version = current.text(["apiVersion", ""]);
    let mut steps = vec![EditStep::key("merge")];
    let mut list = "";
    for (index, step) in item.field.steps.iter().enumerate() {
        match step {
            FieldStep::Key(key) => {
                list = key;
                steps.push(EditStep::key(&**key));
            }
            FieldStep::Named(by, name) if merges_by(api_version, list, Some(by)) => {
                let is_last = index + 1 == item.field.steps.len();
                if is_last && item.field.after.is_none() {
                    return None;
                }
                steps.push(EditStep::element_named(by, name));
            }
            FieldStep::Named(..) | FieldStep::At(_) | FieldStep::Order => {
                let value = edited_value(item.field.steps.get(..index)?)?;
                return (!merges_by(api_version, list, None)).then(|| (steps, value.clone()));
            }
        }
    }
    Some((steps, item.field.after.clone().unwrap_or_default()))
}

fn is_scalar(value: &Json) -> bool {
    !value.is_array() && !value.is_object()
}

/// Writes a scalar as a WAML spells it; `None` for what is none.
fn scalar_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Bool(_) | Json::Number(_) => Some(value.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}
