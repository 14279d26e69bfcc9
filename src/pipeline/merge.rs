//! The merge stage: the layers of a WAML for one target become one tree.
//!
//! The layers are the `defaults` whose glob matches, in file order, then `deploy.<target>`. Maps merge deep, scalars
//! and plain lists are replaced, lists of elements with a key merge by it. `null` removes the values of earlier layers,
//! and stays in the tree, so that the template's default does not put it back. Every value keeps its origin.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::id::TargetName;
use crate::model::violation::Rejection;
use crate::templates::set::{Template, TemplateSet};
use crate::waml::Waml;
use crate::waml::duplicates::{self, ElementIdentity, ElementPlace};
use crate::waml::node::{Node, Path, Value};
use crate::waml::section::Section;

/// The merged settings of one section for one target, `null`s still in place.
#[derive(Debug, Clone)]
#[must_use = "merged settings still lack the template's defaults"]
pub struct Merged<'a> {
    /// The WAML that it was made of.
    pub waml: &'a Waml,
    /// The target that it was made for.
    pub target: TargetName,
    /// The section; a map.
    pub tree: Node,
}

/// The name of the template where a WAML names none.
pub const DEFAULT_TEMPLATE: &str = "backend-default";

/// Merges all layers that are for the target.
///
/// # Errors
/// When the target is not under `deploy`; with everything else that is wrong with the file.
pub fn layers<'a>(waml: &'a Waml, target: &TargetName) -> Result<Merged<'a>, Rejection> {
    let Some(deploy) = waml.deploy.get(target) else {
        let mut violations = waml.violations.clone();
        // The targets of an unreadable `deploy` are unknown; its violation is reported at its place.
        if waml.lacks(target) || !waml.is_broken() {
            violations.push(waml.unknown_target(target));
        }
        crate::model::violation::sort(&mut violations);
        return Err(Rejection { violations });
    };
    let tree = merge_section(waml, sections(waml, deploy, target), &mut |_| {});
    Ok(Merged { waml, target: target.clone(), tree })
}

/// Merges all layers for the target; `clears` gets each `null` that removes a map or a list. Values of later layers
/// there do not merge with the removed ones, so such a `null` has a lasting effect.
pub fn layers_with_clears(
    waml: &Waml,
    target: &TargetName,
    clears: &mut dyn FnMut(&Node),
) -> Option<Node> {
    let deploy = waml.deploy.get(target)?;
    Some(merge_section(waml, sections(waml, deploy, target), clears))
}

/// Merges the layers for the target before the named one; elements of lists have the same places as in the whole.
pub fn layers_before(waml: &Waml, target: &TargetName, layer: &str) -> Option<Node> {
    let layers = sections(waml, waml.deploy.get(target)?, target);
    Some(merge_section(
        waml,
        layers.take_while(|section| *section.origin.layer != *layer),
        &mut |_| {},
    ))
}

/// Lists the sections that are for the target, the first that counts first.
fn sections<'w>(
    waml: &'w Waml,
    deploy: &'w Node,
    target: &TargetName,
) -> impl Iterator<Item = &'w Node> {
    let matching = waml.defaults.iter().filter(|entry| entry.matcher.is_match(target.as_str()));
    matching.map(|entry| &entry.section).chain([deploy])
}

fn merge_section<'w>(
    waml: &Waml,
    sections: impl Iterator<Item = &'w Node>,
    clears: &mut dyn FnMut(&Node),
) -> Node {
    let mut tree = header(waml);
    // `prod:` with nothing behind it is a section that sets nothing.
    for section in sections.filter(|section| !section.is_null()) {
        merge_layer(&mut tree, section, Section::place(), waml.app.slug.as_str(), clears);
    }
    tree
}

impl Merged<'_> {
    /// Returns the template of the section, NAME or NAME@VERSION.
    pub fn template(&self) -> &str {
        self.tree.get("template").and_then(Node::as_text).unwrap_or(DEFAULT_TEMPLATE)
    }

    /// Finds that template in a set.
    ///
    /// # Errors
    /// When there is none of that name or version, with everything else that is wrong.
    pub fn choose_template(&self, templates: &TemplateSet) -> Result<Arc<Template>, Rejection> {
        let missing = match templates.find(self.template()) {
            Ok(template) => return Ok(Arc::clone(template)),
            Err(missing) => missing,
        };
        let mut violations = self.waml.violations.clone();
        if !self.tree.get("template").is_some_and(|node| node.broken) {
            let (_, place) = self.tree.nearest(&Path::root().key("template"));
            violations.push(missing.at("template", Some(place)));
            crate::model::violation::sort(&mut violations);
        }
        Err(Rejection { violations })
    }
}

/// Reads the parts of the header that a section may have too.
fn header(waml: &Waml) -> Node {
    let mut tree = Node::new(Value::Map(crate::waml::node::Map::new()), waml.root.origin.clone());
    if let (Value::Map(map), Some(root)) = (&mut tree.value, waml.root.as_map())
        && let Some(template) = root.get("template")
    {
        map.insert("template".to_owned(), template.clone());
    }
    tree
}

/// Lays one section over another, both of the same file.
pub(super) fn lay_over(base: &mut Node, layer: &Node, slug: &str) {
    merge_layer(base, layer, Section::place(), slug, &mut |_| {});
}

/// Removes all `null`s.
pub(super) fn strip_nulls(node: &mut Node) {
    match &mut node.value {
        Value::Null | Value::Scalar(_) => {}
        Value::List(list) => {
            list.retain(|node| !node.is_null());
            list.iter_mut().for_each(strip_nulls);
        }
        Value::Map(map) => {
            map.retain(|_, entry| !entry.node.is_null());
            map.values_mut().for_each(|entry| strip_nulls(&mut entry.node));
        }
    }
}

/// Merges `layer` over `base`; `place` is the place of both.
fn merge_layer(
    base: &mut Node,
    layer: &Node,
    place: ElementPlace<'_>,
    slug: &str,
    clears: &mut dyn FnMut(&Node),
) {
    match (&mut base.value, &layer.value, place.identity()) {
        (Value::Map(map), Value::Map(upper), _) => {
            for (key, entry) in upper {
                match map.get_mut(key) {
                    Some(lower) => {
                        merge_layer(&mut lower.node, &entry.node, place.key(key), slug, clears);
                        lower.key = entry.key.clone();
                    }
                    None => drop(map.insert(key.clone(), entry.clone())),
                }
            }
        }
        (Value::List(list), Value::List(upper), Some(identity)) => {
            join(list, upper, (identity, place.element()), slug, clears);
        }
        (Value::Map(_) | Value::List(_), Value::Null, _) => {
            clears(layer);
            *base = layer.clone();
            return;
        }
        _ => {
            *base = layer.clone();
            return;
        }
    }
    base.origin = layer.origin.clone();
    base.broken |= layer.broken;
}

/// Lays each element over the one that is the same thing, and puts the others at the end.
fn join(
    list: &mut Vec<Node>,
    upper: &[Node],
    (identity, place): (ElementIdentity, ElementPlace<'_>),
    slug: &str,
    clears: &mut dyn FnMut(&Node),
) {
    let identity_of = |element: &Node| duplicates::read_identity(element, identity, slug);
    let mut positions: HashMap<String, usize> = list
        .iter()
        .enumerate()
        .filter_map(|(index, lower)| Some((identity_of(lower)?, index)))
        .collect();
    for element in upper {
        let id = identity_of(element);
        let lower =
            id.as_ref().and_then(|id| positions.get(id)).and_then(|index| list.get_mut(*index));
        if let Some(lower) = lower {
            merge_layer(lower, element, place, slug, clears);
            continue;
        }
        positions.extend(id.map(|id| (id, list.len())));
        list.push(element.clone());
    }
}

/// Finds the element of the list that is the same thing.
pub(crate) fn find<'a>(
    list: &'a mut [Node],
    element: &Node,
    identity: ElementIdentity,
    slug: &str,
) -> Option<&'a mut Node> {
    let expected_identity = duplicates::read_identity(element, identity, slug)?;
    list.iter_mut().find(|other| {
        duplicates::read_identity(other, identity, slug).as_ref() == Some(&expected_identity)
    })
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
