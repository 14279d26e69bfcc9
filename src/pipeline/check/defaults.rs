//! The check for defaults that no file of a template reads.
//!
//! A default may reach a template in another form than it is written in: a port's number as the end of a route. So it
//! is tried: without it the view of some sample changes, and a file reads the changed part; or there is no violation,
//! as no sample shows the use of the default.

use serde_json::Value as Json;

use crate::model::violation::{Position, Violation};
use crate::pipeline::check::{Sample, view};
use crate::templates::lint::reads::{EACH, TemplateRead, ViewPath};
use crate::templates::parameters::PART;
use crate::templates::set::Template;
use crate::waml::node::{Map, Node, Value};

/// Lists the violations of a template's defaults; `versions` has its versions with their reads.
pub(super) fn find_unused(
    versions: &[(&Template, Vec<TemplateRead>)],
    samples: &[Sample],
) -> Vec<Violation> {
    let Some((first, _)) = versions.first() else { return Vec::new() };
    let mut violations = Vec::new();
    let parts = first.defaults.as_map().into_iter().flatten();
    // Parameters are checked by their declaration, with or without a default.
    for (part, entry) in parts.filter(|(part, _)| *part != PART) {
        let looked_at = |(template, reads): &(&Template, Vec<TemplateRead>)| {
            template.uses(part) || reads.iter().any(|read| read.way.first() == Some(part))
        };
        // The template's own name is for who chooses it.
        if part != "template" && !versions.iter().any(looked_at) {
            let trial = Trial { versions, samples, path: vec![part.clone()] };
            if trial.verdict() != Verdict::Used {
                violations.push(unused_default_violation(part, &entry.key));
            }
            continue;
        }
        for (path, key) in leaves(part, &entry.node, &entry.key) {
            let dotted_path = path.join(".");
            if (Trial { versions, samples, path }).verdict() == Verdict::Unread {
                violations.push(unused_default_violation(&dotted_path, &key));
            }
        }
    }
    violations
}

fn unused_default_violation(path: &str, key: &Position) -> Violation {
    Violation::warning("unused-default", format!("no file of the template reads `{path}`"))
        .at(path, Some(key.clone()))
        .expected("without effect")
        .help("remove it, or use it in the template")
}

/// Lists every scalar or list below, with the place of its key.
fn leaves(name: &str, node: &Node, key: &Position) -> Vec<(Vec<String>, Position)> {
    let Some(map) = node.as_map().filter(|map| !map.is_empty()) else {
        return vec![(vec![name.to_owned()], key.clone())];
    };
    let inner_leaves = map.iter().flat_map(|(name, entry)| leaves(name, &entry.node, &entry.key));
    let with_name = |(path, key): (Vec<String>, Position)| {
        (std::iter::once(name.to_owned()).chain(path).collect(), key)
    };
    inner_leaves.map(with_name).collect()
}

/// One default removed.
struct Trial<'t> {
    versions: &'t [(&'t Template, Vec<TemplateRead>)],
    samples: &'t [Sample],
    path: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// No sample shows a difference.
    Unknown,
    /// No file reads the difference.
    Unread,
    Used,
}

impl Trial<'_> {
    fn verdict(&self) -> Verdict {
        let verdicts = self.versions.iter().flat_map(|version| {
            self.samples.iter().map(move |sample| self.of_sample(version, sample))
        });
        verdicts.max().unwrap_or(Verdict::Unknown)
    }

    fn of_sample(
        &self,
        (template, reads): &(&Template, Vec<TemplateRead>),
        sample: &Sample,
    ) -> Verdict {
        let verdicts = sample.targets.iter().filter_map(|target| {
            let before = view(sample, target, template, &template.defaults)?;
            let defaults = remove_default(&template.defaults, &self.path);
            // A default without which the sample is refused is of use.
            let Some(after) = view(sample, target, template, &defaults) else {
                return Some(Verdict::Used);
            };
            let mut changed_ways = Vec::new();
            differences(&before, &after, &mut ViewPath::new(), &mut changed_ways);
            Some(match changed_ways.iter().any(|way| reads.iter().any(|read| covers(read, way))) {
                true => Verdict::Used,
                false if changed_ways.is_empty() => Verdict::Unknown,
                false => Verdict::Unread,
            })
        });
        verdicts.max().unwrap_or(Verdict::Unknown)
    }
}

/// Checks that a read covers the value at that path.
fn covers(read: &TemplateRead, way: &ViewPath) -> bool {
    let alike = |(a, b): (&String, &String)| a == b || a == EACH || b == EACH;
    let common = read.way.iter().zip(way).all(alike);
    common && (read.way.len() >= way.len() || read.whole)
}

/// Copies the same defaults without the one at that path.
fn remove_default(node: &Node, path: &[String]) -> Node {
    let mut node = node.clone();
    if let (Value::Map(map), Some((first, rest))) = (&mut node.value, path.split_first()) {
        if rest.is_empty() {
            map.shift_remove(first);
        } else if let Some(entry) = map.get_mut(first) {
            entry.node = remove_default(&entry.node, rest);
        }
        if map.is_empty() {
            *map = Map::new();
        }
    }
    node
}

/// Collects the paths of the differences of both.
fn differences(before: &Json, after: &Json, way: &mut ViewPath, changed_ways: &mut Vec<ViewPath>) {
    match (before, after) {
        (Json::Object(a), Json::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                let value = |map: &serde_json::Map<String, Json>| map.get(key).cloned();
                way.push(key.clone());
                let (a, b) = (value(a).unwrap_or_default(), value(b).unwrap_or_default());
                differences(&a, &b, way, changed_ways);
                way.pop();
            }
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                way.push(EACH.to_owned());
                differences(a, b, way, changed_ways);
                way.pop();
            }
        }
        _ if before == after => {}
        _ => changed_ways.push(way.clone()),
    }
}
