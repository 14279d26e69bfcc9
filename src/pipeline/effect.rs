//! Finds written values without effect: because other values replace them, or because the part that they are about does
//! not exist. The rule `ignored` warns of them, and `bart explain` marks them.

use std::collections::{HashMap, HashSet};

use crate::model::violation::Position;
use crate::pipeline::merge;
use crate::templates::view::has_registry;
use crate::waml::Waml;
use crate::waml::duplicates::{self, ElementPlace};
use crate::waml::node::{MappingEntry, Node, Path, Step, Value, is_from_waml};
use crate::waml::quote::quote;
use crate::waml::section::Section;
use crate::waml::section_workload::Volume;

/// A value without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IneffectiveValue {
    /// The path in the complete settings.
    pub path: Path,
    /// The reason, in half a sentence.
    pub why: String,
    /// The way out.
    pub help: String,
}

/// Finds values of the complete settings that the WAML sets and that change nothing, because others decide.
pub fn without_effect(section: &Section, tree: &Node) -> Vec<IneffectiveValue> {
    let mut values = Vec::new();
    let mut add = |path: Path, why: String, help: &str| {
        if tree.at(&path).is_some_and(is_from_waml) {
            values.push(IneffectiveValue { path, why, help: help.to_owned() });
        }
    };
    let scaling = Path::root().key("scaling");
    if section.is_autoscaled() {
        let why = "the number of replicas is the autoscaler's".to_owned();
        let help = match section.keda() {
            Some(_) => {
                "remove it, or set it to `null` here; `scaling.keda.minReplicas` is the least"
            }
            None => {
                "remove it, or set it to `null` here; `autoscaling.horizontal.minReplicas` is the least"
            }
        };
        add(scaling.key("replicas"), why, help);
    }
    if let Some(disk) = section.volumes.iter().flatten().find(|volume| Volume::is_for_one(volume)) {
        let name = quote(&disk.name);
        for key in ["maxUnavailable", "maxSurge"] {
            let why = format!("with the disk {name} the old pod goes before the new one comes");
            add(scaling.key(key), why, "remove it");
        }
    }
    for (path, ingress) in Path::root().each("ingress", &section.ingress) {
        let paths = ingress.paths.as_deref().unwrap_or_default();
        if !paths.is_empty() && paths.iter().all(|way| way.service_port.is_some()) {
            add(path.key("port"), "every path has a `servicePort`".to_owned(), "remove it");
        }
    }
    for (path, service) in Path::root().each("service", &section.service) {
        let ports = service.ports.as_deref().unwrap_or_default();
        if !ports.is_empty() && ports.iter().all(|port| port.number.is_some()) {
            add(path.key("port"), "every port has a `number`".to_owned(), "remove it");
        }
    }
    let repository = section.image.as_ref().and_then(|image| image.repository.as_deref());
    if repository.is_some_and(has_registry) {
        let why = "`image.repository` names a registry itself".to_owned();
        add(Path::root().key("image").key("registry"), why, "remove it");
    }
    values
}

/// Finds the settings of `defaults`, and the header's template, that every target they are for overrides: paths in the
/// file, and positions. A target that sets the same value once more overrides nothing.
pub fn find_overridden(waml: &Waml) -> Vec<(Path, Position)> {
    // Each target's layers are merged. A file with more than this is looked through by no person either.
    const MAX_VALUES: usize = 100_000;
    let values = count(&waml.root).saturating_mul(waml.deploy.len());
    if waml.is_broken() || values > MAX_VALUES {
        return Vec::new();
    }
    let mut alive = HashSet::new();
    for target in waml.deploy.keys() {
        let mut cleared = Vec::new();
        let merged =
            merge::layers_with_clears(waml, target, &mut |null| cleared.push(place_of(null)));
        alive.extend(cleared);
        if let Some(tree) = merged {
            tree.leaves(&mut Path::root(), &mut |_, leaf| {
                alive.insert(place_of(leaf));
            });
            let mut same_values = SameValues { slug: waml.app.slug.as_str(), found: &mut alive };
            let place = Section::place();
            if let (Some(written_template), Some(set)) =
                (waml.root.get("template"), tree.get("template"))
            {
                same_values.collect(written_template, set, place.key("template"));
            }
            for entry in waml.defaults.iter().filter(|entry| entry.is_for_any(&[target])) {
                same_values.collect(&entry.section, &tree, place);
            }
        }
    }
    let mut dead = UnusedValues { alive, found: Vec::new() };
    if let Some(template) = waml.root.get("template").filter(|_| !waml.deploy.is_empty()) {
        dead.visit_node(
            template,
            Section::place().key("template"),
            &mut Path::root().key("template"),
        );
    }
    let targets = waml.targets();
    for entry in waml.defaults.iter().filter(|entry| entry.is_for_any(&targets)) {
        let mut path = Path::root().key("defaults").index(entry.index);
        dead.visit_node(&entry.section, Section::place(), &mut path);
    }
    dead.found
}

fn place_of(node: &Node) -> (u32, u32) {
    (node.origin.position.line, node.origin.position.column)
}

fn count(node: &Node) -> usize {
    match &node.value {
        Value::Null | Value::Scalar(_) => 1,
        Value::List(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Map(map) => 1 + map.values().map(|entry| count(&entry.node)).sum::<usize>(),
    }
}

/// Looks for values of a layer that a target has in the end, though it may be another layer that says so.
struct SameValues<'a> {
    slug: &'a str,
    /// The places that were found.
    found: &'a mut HashSet<(u32, u32)>,
}

impl SameValues<'_> {
    /// Collects the paths of `written` that have no effect: `set` is the target's value where `written` would be.
    fn collect(&mut self, written_node: &Node, set: &Node, place: ElementPlace<'_>) {
        match (&written_node.value, &set.value, place.identity()) {
            (Value::Map(map), Value::Map(_), _) => {
                for (key, entry) in map {
                    if let Some(set) = set.get(key) {
                        self.collect(&entry.node, set, place.key(key));
                    }
                }
            }
            (Value::List(elements), Value::List(all), Some(identity)) => {
                let identity_of =
                    |element: &Node| duplicates::read_identity(element, identity, self.slug);
                let elements_set: HashMap<String, &Node> = all
                    .iter()
                    .filter_map(|element| Some((identity_of(element)?, element)))
                    .collect();
                let pairs: Vec<(&Node, &Node)> = elements
                    .iter()
                    .filter_map(|element| {
                        Some((element, *elements_set.get(&identity_of(element)?)?))
                    })
                    .collect();
                for (element, set) in pairs {
                    self.collect(element, set, place.element());
                }
            }
            _ if is_same_value(written_node, set) => {
                written_node.leaves(&mut Path::root(), &mut |_, leaf| {
                    self.found.insert(place_of(leaf));
                });
            }
            _ => {}
        }
    }
}

fn is_same_value(left_node: &Node, right_node: &Node) -> bool {
    match (&left_node.value, &right_node.value) {
        (Value::Null, Value::Null) => true,
        (Value::Scalar(left_node), Value::Scalar(right_node)) => left_node.text == right_node.text,
        (Value::List(left_node), Value::List(right_node)) => {
            left_node.len() == right_node.len()
                && left_node.iter().zip(right_node).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Map(left_node), Value::Map(right_node)) => {
            let is_same_entry = |(key, entry): (&String, &MappingEntry)| {
                right_node
                    .get(key)
                    .is_some_and(|right_node| is_same_value(&entry.node, &right_node.node))
            };
            left_node.len() == right_node.len() && left_node.iter().all(is_same_entry)
        }
        _ => false,
    }
}

/// Looks for values that no target has in the end.
struct UnusedValues {
    /// The places of all values that some target has, be it by another layer, and of all `null`s that take something
    /// away on some target.
    alive: HashSet<(u32, u32)>,
    found: Vec<(Path, Position)>,
}

impl UnusedValues {
    fn visit_node(&mut self, node: &Node, place: ElementPlace<'_>, path: &mut Path) {
        match &node.value {
            Value::Null | Value::Scalar(_) => self.report_if_ineffective(node, path),
            Value::Map(map) => {
                for (key, entry) in map {
                    path.0.push(Step::Key(key.as_str().into()));
                    self.visit_node(&entry.node, place.key(key), path);
                    path.0.pop();
                }
            }
            Value::List(list) => match place.identity() {
                // Replaced as a whole, or not at all.
                None if !list.is_empty() => self.report_if_ineffective(node, path),
                None => {}
                Some(identity) => {
                    for (index, element) in list.iter().enumerate() {
                        path.0.push(Step::Index(index));
                        // The keys of its identity find an element, so they are in effect.
                        for (key, entry) in element.as_map().into_iter().flatten() {
                            if !identity.keys().contains(&key.as_str()) {
                                path.0.push(Step::Key(key.as_str().into()));
                                self.visit_node(&entry.node, place.element().key(key), path);
                                path.0.pop();
                            }
                        }
                        path.0.pop();
                    }
                }
            },
        }
    }

    fn report_if_ineffective(&mut self, node: &Node, path: &Path) {
        let mut some_alive = false;
        node.leaves(&mut Path::root(), &mut |_, leaf| {
            some_alive |= self.alive.contains(&place_of(leaf));
        });
        if !some_alive {
            self.found.push((path.clone(), node.origin.position.clone()));
        }
    }
}
