//! The patches of a section, applied to rendered objects.
//!
//! They come after the template and before the rules of objects, so that every rule and every policy judges the result.
//! A patch that cannot be applied changes nothing, and the rule `patches` says why.

use crate::manifests::object::Object;
use crate::manifests::patch::PatchError;
use crate::manifests::patch::merge::merge_patch;
use crate::manifests::patch::operations::apply_operation;
use crate::manifests::patch::protected::{PATCHABLE, find_change};
use crate::model::violation::Violation;
use crate::templates::set::Template;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section::Section;
use crate::waml::section_patches::ObjectPatch;
use crate::waml::suggest;

const RULE: &str = "patches";

/// The most patches of a section, and the most operations of one.
const MAX: usize = 50;
/// The largest patched object in bytes, as much as a template may render.
const LARGEST_OBJECT: usize = 1024 * 1024;

/// A patch that could not be applied, at its place in the settings.
pub(crate) type PatchViolation = (Path, Violation);

/// Applies the patches of a section to the objects, and lists those that cannot be applied.
pub(crate) fn apply_patches(
    objects: &mut [Object],
    section: &Section,
    template: &Template,
) -> Vec<PatchViolation> {
    let patches = section.patches.as_deref().unwrap_or_default();
    let mut violations = Vec::new();
    if patches.len() > MAX {
        let violation = Violation::error(RULE, format!("there are {} patches", patches.len()))
            .expected("too many")
            .help(format!("write at most {MAX}; what many need belongs into the template"));
        return vec![(Path::root().key("patches"), violation)];
    }
    for (place, patch) in Path::root().each("patches", &section.patches) {
        if let Err(violation) = apply_patch(objects, patch, &place, template) {
            violations.push(violation);
        }
    }
    violations
}

fn apply_patch(
    objects: &mut [Object],
    patch: &ObjectPatch,
    place: &Path,
    template: &Template,
) -> Result<(), PatchViolation> {
    check_form(patch, place, template)?;
    let is_meant = |object: &Object| {
        object.kind() == patch.kind && patch.name.as_ref().is_none_or(|name| name == object.name())
    };
    if !objects.iter().any(is_meant) {
        return Err(find_no_object(objects, patch, place));
    }
    for object in objects.iter_mut().filter(|object| is_meant(object)) {
        let mut json = object.json.clone();
        if let Some(entries) = &patch.merge {
            merge_patch(&mut json, entries).map_err(|(inner, error)| {
                let steps = place.key("merge").0.into_iter().chain(inner.0).collect();
                violation(&Path(steps), error, object)
            })?;
        }
        for (place, operation) in place.each("operations", &patch.operations) {
            apply_operation(&mut json, operation)
                .map_err(|error| violation(&place.key("path"), error, object))?;
        }
        if let Some(error) = find_change(&object.json, &json) {
            return Err(violation(place, error, object));
        }
        let size = serde_json::to_string(&json).map_or(0, |text| text.len());
        if size > LARGEST_OBJECT {
            let message = format!("the object has {size} bytes with the patch");
            let help = format!("keep it under {LARGEST_OBJECT} bytes");
            return Err(violation(place, PatchError { message, help }, object));
        }
        object.json = json;
        // What rules say of the object may be the patch's fault.
        object.source = format!("{} and `{place}`", object.source);
    }
    Ok(())
}

fn check_form(
    patch: &ObjectPatch,
    place: &Path,
    template: &Template,
) -> Result<(), PatchViolation> {
    let kinds: Vec<&str> = match template.parameters.patchable() {
        Some(kinds) => kinds.iter().map(String::as_str).collect(),
        None => PATCHABLE.to_vec(),
    };
    if !kinds.contains(&patch.kind.as_str()) {
        let (message, help) = if kinds.is_empty() {
            let id = template.id();
            let message = format!("the template `{id}` does not let WAMLs patch its objects");
            (message, "remove the patch, or ask the template's owners for a parameter".to_owned())
        } else {
            let message = format!("objects of the kind {} cannot be patched", quote(&patch.kind));
            (message, suggest::hint(&patch.kind, kinds))
        };
        let violation = Violation::error(RULE, message).expected("cannot be patched").help(help);
        return Err((place.key("kind"), violation));
    }
    let operations = patch.operations.as_deref().unwrap_or_default();
    let is_empty = patch.merge.as_ref().is_none_or(indexmap::IndexMap::is_empty);
    if is_empty && operations.is_empty() {
        let violation = Violation::error(RULE, "the patch changes nothing")
            .expected("needs `merge` or `operations`")
            .help("add what is to change: `merge: {metadata: {annotations: {example.com/a: b}}}`");
        return Err((place.clone(), violation));
    }
    if operations.len() > MAX {
        let message = format!("the patch has {} operations", operations.len());
        let help = format!("write at most {MAX}");
        let violation = Violation::error(RULE, message).expected("too many").help(help);
        return Err((place.key("operations"), violation));
    }
    Ok(())
}

/// Makes the violation of a patch that hits nothing, with the objects that there are.
fn find_no_object(objects: &[Object], patch: &ObjectPatch, place: &Path) -> PatchViolation {
    let names: Vec<String> =
        objects.iter().map(|object| format!("{} {}", object.kind(), object.name())).collect();
    let list = suggest::list(names.iter().map(String::as_str));
    let of_kind = objects.iter().filter(|object| object.kind() == patch.kind).map(Object::name);
    let (at, message, hint) = match &patch.name {
        Some(name) => {
            let nearest = suggest::nearest(name, of_kind);
            let hint = nearest.map_or_else(String::new, |best| format!("did you mean `{best}`? "));
            let message = format!("no {} {} is rendered", patch.kind, quote(name));
            ("name", message, hint)
        }
        None => ("kind", format!("no {} is rendered", patch.kind), String::new()),
    };
    let violation = Violation::error(RULE, message)
        .expected("no such object")
        .help(format!("{hint}the objects are {list}"));
    (place.key(at), violation)
}

fn violation(path: &Path, error: PatchError, object: &Object) -> PatchViolation {
    let PatchError { message, help } = error;
    let message = format!("{message} ({} `{}`)", object.kind(), object.name());
    let violation = Violation::error(RULE, message).expected("cannot be applied").help(help);
    (path.clone(), violation)
}
