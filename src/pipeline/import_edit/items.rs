//! The fields in which edited manifests differ from those that were rendered.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Checks that one of its values is, or may be, a secret in one of the objects, or that a list without keys has one
    /// beside it: such a list is written as a whole. A secret is in no message and in no WAML.
    fn is_secret(&self, objects: [&Objects; 2], masked: [&MaskedObjects; 2]) -> bool {
        let steps = &self.field.steps;
        let list = match innermost_list(steps) {
            Some(list) if !matches!(steps.get(list.len()), Some(FieldStep::Named(..))) => list,
            _ => steps,
        };
        let is_secret_in = |(objects, masked): (&Objects, &MaskedObjects)| {
            let object = objects.get(&self.object).zip(masked.get(&self.object));
            object.is_some_and(|(object, masked)| {
                let has_secret = |steps| value_at(&object.json, steps) != value_at(masked, steps);
                has_secret(steps) || has_secret(list)
            })
        };
        self.object.0 == "Secret" || objects.into_iter().zip(masked).any(is_secret_in)
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

/// The edited objects with a mask for each secret.
pub(super) type MaskedObjects = BTreeMap<EditedObject, Map<String, Json>>;

/// Masks the secrets of the objects that items are of. An object is masked as a whole: an argument is a secret by the flag
/// in front of it, and a variable's value by its name.
pub(super) fn mask_objects(items: &[EditItem], objects: &Objects) -> MaskedObjects {
    let mut masked_objects = MaskedObjects::new();
    for item in items {
        if let Some(object) = objects.get(&item.object)
            && !masked_objects.contains_key(&item.object)
        {
            let mut masked = object.json.clone();
            mask_map(&mut masked, &mut |_| MASK.to_owned());
            masked_objects.insert(item.object.clone(), masked);
        }
    }
    masked_objects
}

/// Lists the items that are, or may be, secrets, by their places in the list. `masked_after` are the masked objects of the
/// second set.
pub(super) fn find_secrets(
    items: &[EditItem],
    before: &Objects,
    after: &Objects,
    masked_after: &MaskedObjects,
) -> BTreeSet<usize> {
    let (objects, masked_before) = ([before, after], mask_objects(items, before));
    let items = items.iter().enumerate();
    let is_secret = |item: &EditItem| item.is_secret(objects, [&masked_before, masked_after]);
    items.filter(|(_, item)| is_secret(item)).map(|(index, _)| index).collect()
}

/// Finds the way to the innermost list.
pub(super) fn innermost_list(steps: &[FieldStep]) -> Option<&[FieldStep]> {
    let last = steps.iter().rposition(|step| !matches!(step, FieldStep::Key(_)))?;
    steps.get(..last)
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
