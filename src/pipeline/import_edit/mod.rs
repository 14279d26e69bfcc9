//! Turns a manual edit of an app's manifests into the change of its WAML that gives the same.
//!
//! ```text
//! fields that a person edited ─▶ edits of settings, patches ─ rendered ─▶ kept, if it gives these fields and no others
//! ```
//!
//! Nothing is believed: each candidate is written into the text, read again and planned with the facts of the target. It
//! is kept if it gives at least one more of the edited fields, loses none, changes nothing else, and changes the settings
//! of no other target. What no candidate gives is listed with the reason. Pure: the caller says when the time is over.

mod items; // the edited fields
mod candidates; // edits that may give them

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::manifests::diff::{self, Objects};
use crate::manifests::fields::FieldStep;
use crate::model::facts::Facts;
use crate::model::id::TargetName;
use crate::model::revision::ManifestFile;
use crate::model::violation::{Rejection, Violation};
use crate::pipeline::import_edit::candidates::Candidate;
use crate::pipeline::import_edit::items::{
    EditItem, EditedItems, EditedObject, MaskedObjects, compare, find_secrets, mask_objects,
    value_at,
};
use crate::pipeline::{Input, default, merge, plan};
use crate::waml::Waml;
use crate::waml::node::Node;
use crate::waml::scalar::read_untyped;
use crate::waml::text_edit::{EditStep, set_value};
use crate::waml::yaml::{self, Budget};

/// The most fields of an edit: a person edits a few.
const MAX_FIELDS: usize = 60;
/// The most plans of an import.
const MAX_PLANS: usize = 500;
/// The reason why the rest is left when the plans or the time are used up.
const NO_TIME: &str = "there was no time left to try more: import a smaller edit";
/// The reason why a secret is left.
const SECRET: &str =
    "it is a secret, looks like one, or cannot be written without one: see `secrets` of the WAML";

/// The text of a WAML that is edited, and what it is planned with.
#[derive(Debug)]
pub struct EditedWaml<'a> {
    /// The text.
    pub text: &'a str,
    /// The limits for it.
    pub budget: Budget,
    /// The WAML, target, release and templates of the plan.
    pub input: &'a Input,
    /// The facts of the plan.
    pub facts: &'a Facts,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct EditImport {
    /// The edited text; the same as before where nothing could be said.
    pub text: String,
    /// The fields that it gives.
    pub imported: Vec<ImportedField>,
    /// The fields and objects that it does not give.
    pub left: Vec<LeftField>,
    /// True if the WAML gives other manifests than those that were edited, also without the edit.
    pub is_other_base: bool,
}

/// A field that the edited WAML gives.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedField {
    /// The object: `Deployment shop`.
    pub object: String,
    /// The field: `spec.replicas`.
    pub field: String,
    /// Its value before the edit.
    pub before: Json,
    /// Its value after the edit.
    pub after: Json,
    /// The setting: `scaling.replicas`, `patches`.
    pub setting: String,
}

/// A part of an edit that no change of the WAML gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftField {
    /// The object: `Deployment shop`.
    pub object: String,
    /// The field; `None` for the object as a whole.
    pub field: Option<String>,
    /// The reason, and what to do.
    pub why: String,
}

/// The reason why an edit cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The files, the edit or the WAML are not in a form that can be imported.
    #[error("{0}")]
    Unusable(String),
    /// The WAML as it is would be refused.
    #[error("{0}")]
    Refused(Rejection),
}

/// Imports the difference of two sets of manifests into a WAML. What is not tried when `has_time` says no is left.
///
/// # Errors
/// Files that are no objects, edits that are too large, and a WAML that is refused as it is.
pub fn import_edit(
    waml: &EditedWaml<'_>,
    before: &[ManifestFile],
    after: &[ManifestFile],
    has_time: &dyn Fn() -> bool,
) -> Result<EditImport, ImportError> {
    let target = &waml.input.target;
    if !waml.input.waml.deploy.contains_key(target) {
        return unusable(format!(
            "{target} is not under `deploy` of the WAML: the section of a fleet is for all of its clusters"
        ));
    }
    let (before, after) = (read_objects(before)?, read_objects(after)?);
    let base = waml.render(waml.text).map_err(ImportError::Refused)?;
    let EditedItems { items, added, removed } = compare(&before, &after);
    if items.len() > MAX_FIELDS {
        let count = items.len();
        return unusable(format!(
            "the edit has {count} fields, more than the {MAX_FIELDS} that are imported"
        ));
    }
    let mut left: Vec<LeftField> = Vec::new();
    let of_object = |key: &EditedObject, why: &str| LeftField {
        object: object_name(key),
        field: None,
        why: why.to_owned(),
    };
    let help =
        "an object that was added: write it into a file, and name the file under `manifests`";
    left.extend(added.iter().map(|key| of_object(key, help)));
    let help = "an object that was removed: no patch removes one; change what renders it";
    left.extend(removed.iter().map(|key| of_object(key, help)));
    let is_other_base = base.len() != before.len() || !is_same(&base, &before);
    let masked_after = mask_objects(&items, &after);
    let mut import = Import {
        waml,
        before: &before,
        after: &after,
        base: &base,
        secrets: find_secrets(&items, &before, &after, &masked_after),
        masked_after,
        items,
        text: waml.text.to_owned(),
        objects: base.clone(),
        given: BTreeSet::new(),
        plans: 0,
        has_time,
    };
    let (mut imported, mut reasons) = (Vec::new(), Vec::new());
    for index in 0..import.items.len() {
        if import.given.contains(&index) {
            continue;
        }
        let already = import.given.clone();
        match import.try_item(index) {
            Ok(setting) => {
                let new = import.given.difference(&already).copied();
                imported.extend(new.map(|index| (index, setting.clone())));
            }
            Err(why) => reasons.push((index, why)),
        }
    }
    // A candidate for another field may have given it after all.
    reasons.retain(|(index, _)| !import.given.contains(index));
    imported.sort_by_key(|(index, _)| *index);
    let item = |index: usize| import.items.get(index);
    left.extend(reasons.into_iter().filter_map(|(index, why)| item(index)?.to_left(why).into()));
    let imported = imported.into_iter();
    let imported = imported.filter_map(|(index, setting)| Some(item(index)?.to_imported(setting)));
    Ok(EditImport { imported: imported.collect(), text: import.text, left, is_other_base })
}

fn unusable<T>(message: String) -> Result<T, ImportError> {
    Err(ImportError::Unusable(message))
}

fn read_objects(files: &[ManifestFile]) -> Result<Objects, ImportError> {
    let of_file = |file: &ManifestFile| {
        let is_one = diff::is_one_object(file);
        (!is_one).then(|| file.name.clone())
    };
    let broken: Vec<String> = files.iter().filter_map(of_file).collect();
    match (diff::objects(files), broken.first()) {
        (Some(objects), None) if objects.len() == files.len() => Ok(objects),
        (Some(_), None) => {
            unusable("two files have an object of the same kind and name".to_owned())
        }
        (_, Some(name)) => {
            unusable(format!("{name} is not one object of YAML, so its fields cannot be compared"))
        }
        (None, None) => unusable("the files cannot be read as objects".to_owned()),
    }
}

fn is_same(first: &Objects, second: &Objects) -> bool {
    first.iter().all(|(key, object)| second.get(key).is_some_and(|other| other.json == object.json))
}

fn object_name((kind, _, name): &EditedObject) -> String {
    format!("{kind} {name}")
}

impl EditItem {
    fn to_left(&self, why: String) -> LeftField {
        LeftField { object: object_name(&self.object), field: Some(self.field.path()), why }
    }

    fn to_imported(&self, setting: String) -> ImportedField {
        ImportedField {
            object: object_name(&self.object),
            field: self.field.path(),
            before: self.field.before.clone().unwrap_or_default(),
            after: self.field.after.clone().unwrap_or_default(),
            setting,
        }
    }
}

impl EditedWaml<'_> {
    fn parse(&self, text: &str) -> Result<Waml, Rejection> {
        let file = self.input.waml.root.origin.position.file.clone();
        let waml = Waml::parse_within(&file, text.as_bytes(), &self.budget)?;
        Ok(waml.with_extra_files(self.input.waml.extra_files.clone()))
    }

    fn render(&self, text: &str) -> Result<Objects, Rejection> {
        let input = Input { waml: Arc::new(self.parse(text)?), ..self.input.clone() };
        let rendered = plan(&input, self.facts)?;
        // What was just rendered can be read.
        Ok(diff::objects(&rendered.files).unwrap_or_default())
    }
}

impl EditedWaml<'_> {
    /// Finds the file beside the WAML that has an object.
    fn find_extra_file(&self, (kind, _, name): &EditedObject) -> Option<String> {
        let text_of =
            |node: &Node, key: &str| node.get(key).and_then(Node::as_text).map(str::to_owned);
        let is_it = |node: &Node| {
            let metadata = node.get("metadata");
            text_of(node, "kind").as_ref() == Some(kind)
                && metadata.and_then(|metadata| text_of(metadata, "name")).as_ref() == Some(name)
        };
        let has_object = |text: &str| {
            let documents = yaml::parse_stream("", text, &Budget::default());
            documents.is_ok_and(|documents| documents.iter().any(is_it))
        };
        let mut files = self.input.waml.extra_files.texts();
        files.find(|(_, text)| has_object(text)).map(|(path, _)| path.to_owned())
    }
}

/// An import under way.
struct Import<'a> {
    waml: &'a EditedWaml<'a>,
    before: &'a Objects,
    after: &'a Objects,
    masked_after: MaskedObjects,
    /// The objects without any edit.
    base: &'a Objects,
    items: Vec<EditItem>,
    /// The items that are, or may be, secrets.
    secrets: BTreeSet<usize>,
    /// The text so far, and what it renders.
    text: String,
    objects: Objects,
    /// The items that it gives.
    given: BTreeSet<usize>,
    plans: usize,
    has_time: &'a dyn Fn() -> bool,
}

impl Import<'_> {
    /// Tries the candidates of an item. Returns the setting that gives it, or the reason why none does.
    fn try_item(&mut self, index: usize) -> Result<String, String> {
        let Some(item) = self.items.get(index).cloned() else { return Err(String::new()) };
        if self.secrets.contains(&index) {
            return Err(SECRET.to_owned());
        }
        if item.is_image() {
            let help = "the image is that of the release: deploy its tag, or set `image`";
            return Err(help.to_owned());
        }
        let now = self.base.get(&item.object);
        let value = now.and_then(|object| value_at(&object.json, &item.field.steps));
        let is_order = matches!(item.field.steps.last(), Some(FieldStep::Order));
        if now.is_none() {
            return Err("the WAML does not render this object any more".to_owned());
        }
        if !is_order && value != item.field.before.as_ref() {
            return Err("the WAML gives another value now than the one that was edited".to_owned());
        }
        if !self.may_plan() {
            return Err(NO_TIME.to_owned());
        }
        if let Some(path) = self.waml.find_extra_file(&item.object) {
            return Err(format!("the object is in the file {path}: change it there"));
        }
        let mut why = None;
        for candidate in candidates::of_settings(&item, &self.settings()) {
            if self.try_candidate(index, &candidate).is_ok() {
                return Ok(write_setting(&candidate.0));
            }
        }
        let (current, edited) = (self.objects.get(&item.object), self.after.get(&item.object));
        let masked = self.masked_after.get(&item.object);
        let (Some(current), Some((edited, masked))) = (current, edited.zip(masked)) else {
            return Err(String::new());
        };
        for candidate in candidates::of_patches(&item, current, &edited.json, masked) {
            match self.try_candidate(index, &candidate) {
                Ok(()) => return Ok("patches".to_owned()),
                Err(reason) => why = why.or(reason),
            }
        }
        let nothing = || "no key of the WAML and no patch gives exactly this".to_owned();
        Err(why.unwrap_or_else(nothing))
    }

    /// Checks that one more plan is within the limits.
    fn may_plan(&self) -> bool {
        self.plans < MAX_PLANS && (self.has_time)()
    }

    /// Returns the complete settings of the target as they are without the edit.
    fn settings(&self) -> Node {
        let input = self.waml.input;
        let merged = merge::layers(&input.waml, &input.target).ok();
        let settings = merged.and_then(|merged| {
            let template = merged.choose_template(&input.templates).ok()?;
            Some(default::fill(merged, &template.defaults).tree)
        });
        settings.unwrap_or_else(|| input.waml.root.clone())
    }

    /// Keeps a candidate if it gives the item, and nothing that was not edited.
    ///
    /// # Errors
    /// The reason, where a rule has one.
    fn try_candidate(&mut self, index: usize, candidate: &Candidate) -> Result<(), Option<String>> {
        if !self.may_plan() {
            return Err(Some(NO_TIME.to_owned()));
        }
        let (steps, value) = candidate;
        let target = &self.waml.input.target;
        let section = [EditStep::key("deploy"), EditStep::key(target.as_str())];
        let steps: Vec<EditStep> = section.iter().chain(steps).cloned().collect();
        let Ok(waml) = self.waml.parse(&self.text) else { return Err(None) };
        let Some(text) = set_value(&self.text, &waml.root, &steps, value) else { return Err(None) };
        self.plans += 1;
        let objects = self.waml.render(&text).map_err(|rejection| {
            let errors = rejection.violations.into_iter();
            errors.filter(Violation::is_error).map(|violation| violation.message).next()
        })?;
        let given = self.given_by(&objects).ok_or(None)?;
        // The text of such a change has the secret in it.
        if !given.is_disjoint(&self.secrets) {
            return Err(Some(SECRET.to_owned()));
        }
        if !given.is_superset(&self.given) || !given.contains(&index) || !self.is_alone(&text) {
            return Err(None);
        }
        (self.text, self.objects, self.given) = (text, objects, given);
        Ok(())
    }

    /// Lists the items that objects give; `None` where they differ from the base by something else.
    fn given_by(&self, objects: &Objects) -> Option<BTreeSet<usize>> {
        let EditedItems { items, added, removed } = compare(self.base, objects);
        if !added.is_empty() || !removed.is_empty() {
            return None;
        }
        let position = |item: &EditItem| self.items.iter().position(|other| other == item);
        let given: BTreeSet<usize> = items.iter().map(position).collect::<Option<_>>()?;
        given.iter().all(|index| self.is_in_order(*index, objects)).then_some(())?;
        self.is_exact(&given, objects).then_some(given)
    }

    /// Checks that a new element of a list stands where the person put it, among those that both have.
    fn is_in_order(&self, index: usize, objects: &Objects) -> bool {
        let Some(EditItem { object, field }) = self.items.get(index) else { return false };
        let [list @ .., FieldStep::Named(by, _)] = field.steps.as_slice() else { return true };
        let names = |objects: &Objects| -> Vec<String> {
            let list = objects.get(object).and_then(|object| value_at(&object.json, list));
            let items = list.and_then(Json::as_array).into_iter().flatten();
            items.filter_map(|item| Some(item.get(*by)?.as_str()?.to_owned())).collect()
        };
        let (now, edited) = (names(objects), names(self.after));
        let common = |names: &[String], others: &[String]| -> Vec<String> {
            names.iter().filter(|name| others.contains(name)).cloned().collect()
        };
        common(&now, &edited) == common(&edited, &now)
    }

    /// Checks that an object whose every edit is given is the edited one, where it was rendered as it stood.
    fn is_exact(&self, given: &BTreeSet<usize>, objects: &Objects) -> bool {
        objects.iter().all(|(key, object)| {
            let mut items = self.items.iter().enumerate().filter(|(_, item)| item.object == *key);
            let is_whole = items.all(|(index, _)| given.contains(&index));
            let json = |objects: &Objects| objects.get(key).map(|object| object.json.clone());
            let is_same_base = json(self.base) == json(self.before);
            !is_whole || !is_same_base || Some(&object.json) == json(self.after).as_ref()
        })
    }

    /// Checks that the settings of all other targets stay.
    fn is_alone(&self, text: &str) -> bool {
        let (Ok(waml), old) = (self.waml.parse(text), &self.waml.input.waml) else { return false };
        let settings = |waml: &Waml, target: &TargetName| {
            merge::layers(waml, target).ok().map(|merged| read_untyped(&merged.tree))
        };
        let mut others =
            old.targets().into_iter().filter(|target| **target != self.waml.input.target);
        others.all(|target| settings(&waml, target) == settings(old, target))
    }
}

/// Writes the way to a setting as messages do: `env[MODE].value`.
fn write_setting(steps: &[EditStep]) -> String {
    steps.iter().fold(String::new(), |path, step| match step {
        EditStep::Key(key) if path.is_empty() => key.clone(),
        EditStep::Key(key) => format!("{path}.{key}"),
        EditStep::Element(keys) => {
            let texts: Vec<&str> = keys.iter().map(|(_, text)| text.as_str()).collect();
            format!("{path}[{}]", texts.join(" "))
        }
    })
}

#[cfg(test)]
mod tests;
