//! The fields in which edited manifests differ from those that were rendered.

use serde_json::{Map, Value as Json};

use crate::manifests::diff::Objects;
use crate::manifests::fields::{FieldDifference, FieldStep, list_differences};
use crate::support::secret_tree::{MASK, mask_map};

/// The kind, API group and name of an object.
pub(super) type EditedObject = (String, String, String);

/// One field that differs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EditItem {
    pub(super) object: EditedObject,
    pub(super) field: FieldDifference,
}

/// The difference of two sets of objects.
#[derive(Debug, Default)]
pub(super) struct EditedItems {
    pub(super) items: Vec<EditItem>,
    /// Objects that only the second set has.
    pub(super) added: Vec<EditedObject>,
    /// Objects that only the first set has.
    pub(super) removed: Vec<EditedObject>,
}

/// Compares two sets of objects.
pub(super) fn compare(before: &Objects, after: &Objects) -> EditedItems {
    let mut edited = EditedItems::default();
    for (key, object) in after {
        let Some(old) = before.get(key) else {
            edited.added.push(key.clone());
            continue;
        };
        let fields = list_differences(&old.json, &object.json).into_iter();
        edited.items.extend(fields.map(|field| EditItem { object: key.clone(), field }));
    }
    edited.removed.extend(before.keys().filter(|key| !after.contains_key(*key)).cloned());
    edited
}

impl EditItem {
    /// Checks that one of its values is, or may be, a secret: it is in no message and in no WAML.
    pub(super) fn is_secret(&self) -> bool {
        let value = |value: &Option<Json>| value.clone().unwrap_or_default();
        let is_masked = |value: Json| {
            let name = self.field.steps.iter().rev().find_map(|step| match step {
                FieldStep::Named(_, name) => Some(name.clone()),
                FieldStep::Key(_) | FieldStep::At(_) | FieldStep::Order => None,
            });
            // As it stands: a variable's value beside its name, everything else under its key.
            let key = match self.field.steps.last() {
                Some(FieldStep::Key(key)) => key.clone(),
                _ => "item".to_owned(),
            };
            let mut map = Map::new();
            map.extend(name.map(|name| ("name".to_owned(), name.into())));
            map.insert(key, value);
            mask_map(&mut map, &mut |_| MASK.to_owned());
            Json::Object(map).to_string().contains(MASK)
        };
        self.object.0 == "Secret"
            || is_masked(value(&self.field.before))
            || is_masked(value(&self.field.after))
    }

    /// Checks that it is an image of a container.
    pub(super) fn is_image(&self) -> bool {
        matches!(self.field.steps.last(), Some(FieldStep::Key(key)) if key == "image")
    }
}

/// Finds the value behind some steps.
pub(super) fn value_at<'j>(object: &'j Map<String, Json>, steps: &[FieldStep]) -> Option<&'j Json> {
    let (first, rest) = steps.split_first()?;
    let FieldStep::Key(key) = first else { return None };
    rest.iter().try_fold(object.get(key)?, |value, step| match step {
        FieldStep::Key(key) => value.get(key),
        FieldStep::Named(by, name) => {
            let items = value.as_array()?.iter();
            items.into_iter().find(|item| item.get(*by).and_then(Json::as_str) == Some(name))
        }
        FieldStep::At(at) => value.as_array()?.get(*at),
        FieldStep::Order => None,
    })
}

/// Writes the JSON Pointer to the value behind some steps.
pub(super) fn pointer_to(object: &Map<String, Json>, steps: &[FieldStep]) -> Option<String> {
    let mut pointer = String::new();
    for (index, step) in steps.iter().enumerate() {
        let part = match step {
            FieldStep::Key(key) => key.replace('~', "~0").replace('/', "~1"),
            FieldStep::At(at) => at.to_string(),
            FieldStep::Named(by, name) => {
                let list = value_at(object, steps.get(..index)?)?.as_array()?;
                let is_it = |item: &Json| item.get(*by).and_then(Json::as_str) == Some(name);
                list.iter().position(is_it)?.to_string()
            }
            FieldStep::Order => return None,
        };
        pointer = format!("{pointer}/{part}");
    }
    Some(pointer)
}
