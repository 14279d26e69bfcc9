//! The default stage: the template's `defaults.yaml` fills every hole.
//!
//! The WAML's values always win. A default fills a hole in an existing part and never creates an optional one:
//! `ingress: {port: 8000}` creates no ingress. Over a list, a default map applies to each element. A `null` of the WAML
//! keeps its hole empty.

use crate::model::fleet::FleetPlace;
use crate::model::id::TargetName;
use crate::pipeline::merge::{Merged, find, strip_nulls};
use crate::pipeline::processes::{self, ProcessLayer};
use crate::waml::Waml;
use crate::waml::duplicates::{ElementIdentity, ElementPlace};
use crate::waml::node::{Map, MappingEntry, Node, Value};
use crate::waml::section::{Section, always_exists, refines};

/// The complete settings of one section for one target.
#[derive(Debug, Clone)]
#[must_use = "complete settings are not yet valid"]
pub struct Complete<'a> {
    /// The WAML that it was made of.
    pub waml: &'a Waml,
    /// The cluster that it was made for; for a target that is no fleet, the target itself.
    pub target: TargetName,
    /// The cluster and the others of its fleet, where the target is one.
    pub fleet: Option<FleetPlace>,
    /// The section; a map without `null`s. Every value has its origin.
    pub tree: Node,
    /// What its processes say.
    pub processes: Vec<ProcessLayer>,
}

/// Fills the holes of a merged section.
pub fn fill<'a>(merged: Merged<'a>, defaults: &Node) -> Complete<'a> {
    let Merged { waml, target, mut tree } = merged;
    let slug = waml.app.slug.as_str();
    let section = Section::place();
    if let (Value::Map(map), Some(defaults)) = (&mut tree.value, defaults.as_map()) {
        for (part, default) in defaults {
            let hole = Hole { place: section.key(part), always: always_exists(part), slug };
            match map.get_mut(part) {
                Some(entry) => hole.fill(&mut entry.node, &default.node),
                None if hole.always => hole.add(map, part, default),
                None => {}
            }
        }
    }
    drop_emptied(&mut tree, section);
    hand_down(&mut tree, "ingress", "paths", "cache");
    let processes = processes::layers(&tree);
    strip_nulls_of_section(&mut tree);
    Complete { waml, target, fleet: None, tree, processes }
}

impl Complete<'_> {
    /// Makes the settings of a fleet those of one of its clusters: rules and templates then see that cluster.
    pub fn place_in(&mut self, fleet: &FleetPlace) {
        self.target = fleet.cluster.clone();
        self.fleet = Some(fleet.clone());
    }
}

/// A hole that a default may fill.
#[derive(Clone, Copy)]
struct Hole<'a> {
    place: ElementPlace<'static>,
    /// True if every app has the part, so that elements of a default list are added too.
    always: bool,
    slug: &'a str,
}

impl Hole<'_> {
    fn below(self, key: &str) -> Self {
        Self { place: self.place.key(key), always: false, ..self }
    }

    fn element(self) -> Self {
        Self { place: self.place.element(), always: false, ..self }
    }

    fn fill(self, node: &mut Node, default: &Node) {
        match (&mut node.value, &default.value, self.place.identity()) {
            (Value::Map(map), Value::Map(defaults), _) => {
                for (key, default) in defaults {
                    match map.get_mut(key) {
                        Some(entry) => self.below(key).fill(&mut entry.node, &default.node),
                        None => self.below(key).add(map, key, default),
                    }
                }
            }
            (Value::List(list), Value::Map(_), _) => {
                for element in list.iter_mut().filter(|element| !is_emptied_in(element, self.place))
                {
                    self.element().fill(element, default);
                }
            }
            (Value::List(list), Value::List(defaults), Some(identity)) if self.always => {
                for default in defaults {
                    match find(list, default, identity, self.slug) {
                        Some(element) if is_emptied(element, identity) => {}
                        Some(element) => self.element().fill(element, default),
                        None => list.push(default.clone()),
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the missing parts, unless the default is a map for the elements of a list: there are none.
    fn add(self, map: &mut Map, key: &str, default: &MappingEntry) {
        let for_elements = self.place.identity().is_some() && default.node.as_map().is_some();
        if !for_elements {
            map.insert(key.to_owned(), default.clone());
        }
    }
}

/// Hands down what each element of a list says for the elements of a list in it, unless they say it
/// themselves, if only by a `null`.
fn hand_down(tree: &mut Node, list: &str, inner: &str, key: &str) {
    let Value::Map(map) = &mut tree.value else { return };
    let Some(Value::List(elements)) = map.get_mut(list).map(|entry| &mut entry.node.value) else {
        return;
    };
    for element in elements {
        let Value::Map(map) = &mut element.value else { continue };
        // A broken value was reported at its place, and may be large: it is not reported again for each element.
        let is_said = |entry: &&MappingEntry| !entry.node.is_null() && !entry.node.has_broken();
        let Some(entry) = map.get(key).filter(is_said).cloned() else { continue };
        let Some(Value::List(elements)) = map.get_mut(inner).map(|entry| &mut entry.node.value)
        else {
            continue;
        };
        for element in elements {
            if let Value::Map(map) = &mut element.value {
                map.entry(key.to_owned()).or_insert_with(|| entry.clone());
            }
        }
    }
}

/// Removes an element of which `null`s have left only its name, unless they removed only keys that refine it. This
/// happens last: a default of the same name has met the element, and was kept out.
fn drop_emptied(node: &mut Node, place: ElementPlace<'_>) {
    match &mut node.value {
        Value::Null | Value::Scalar(_) => {}
        Value::Map(map) => {
            for (key, entry) in map.iter_mut() {
                drop_emptied(&mut entry.node, place.key(key));
            }
        }
        Value::List(list) => {
            list.retain(|element| !is_emptied_in(element, place));
            for element in list {
                drop_emptied(element, place.element());
            }
        }
    }
}

fn is_emptied_in(element: &Node, list: ElementPlace<'_>) -> bool {
    list.identity().is_some_and(|identity| is_emptied(element, identity))
}

fn is_emptied(element: &Node, identity: ElementIdentity) -> bool {
    let Some(map) = element.as_map() else { return false };
    let is_rest = |key: &str| !identity.keys().contains(&key);
    let rest = || map.iter().filter(|(key, _)| is_rest(key));
    rest().all(|(_, entry)| entry.node.is_null()) && rest().any(|(key, _)| !refines(key))
}

/// Removes the `null`s that kept defaults out. In the `merge` of a patch they stay: there a `null` removes a field of the
/// object.
fn strip_nulls_of_section(tree: &mut Node) {
    let hide = |merge: &mut Node| {
        let empty = Node::new(Value::Map(Map::new()), merge.origin.clone());
        std::mem::replace(merge, empty)
    };
    let hidden: Vec<Node> = patch_merges(tree).into_iter().map(hide).collect();
    strip_nulls(tree);
    for (merge, node) in patch_merges(tree).into_iter().zip(hidden) {
        *merge = node;
    }
}

/// Lists the `merge` of each patch that has one.
fn patch_merges(tree: &mut Node) -> Vec<&mut Node> {
    let Value::Map(map) = &mut tree.value else { return Vec::new() };
    let patches = map.get_mut("patches").map(|entry| &mut entry.node.value);
    let Some(Value::List(patches)) = patches else { return Vec::new() };
    patches.iter_mut().filter_map(find_merge).filter(|merge| merge.as_map().is_some()).collect()
}

fn find_merge(patch: &mut Node) -> Option<&mut Node> {
    match &mut patch.value {
        Value::Map(patch) => patch.get_mut("merge").map(|entry| &mut entry.node),
        Value::Null | Value::Scalar(_) | Value::List(_) => None,
    }
}

#[cfg(test)]
#[path = "default_tests.rs"]
mod tests;
