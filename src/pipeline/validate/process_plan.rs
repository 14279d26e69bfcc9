//! The settings of each of several processes, and the rules of pods for each of them.

use std::collections::HashSet;

use super::list::RuleCheck;
use super::processes::MAX_PROCESSES;
use super::{RULES, RuleReport, Subject};
use crate::model::violation::Violation;
use crate::pipeline::processes::{ProcessLayer, settings_of, with_web};
use crate::templates::view::ProcessSettings;
use crate::waml::collect;
use crate::waml::node::{Node, Path};
use crate::waml::section::Section;
use crate::waml::section_processes::WEB;

/// The rules that each process keeps by itself.
const RULES_OF_PODS: [&str; 13] = [
    "autoscaling",
    "containers",
    "delivery",
    "disruption",
    "env",
    "lifecycle",
    "monitoring",
    "ports",
    "probes",
    "resources",
    "scaling",
    "scheduling",
    "volumes",
];

/// The processes of an app with their settings.
#[derive(Debug, Default)]
pub(super) struct ProcessPlan {
    /// The settings of each process other than `web`.
    pub(super) settings: Vec<ProcessSettings>,
    layers: Vec<ProcessLayer>,
}

impl ProcessPlan {
    /// Makes the settings of each process, and lays what `web` says over those of the app.
    pub(super) fn of(
        section: &mut Section,
        tree: &mut Node,
        layers: &[ProcessLayer],
        slug: &str,
    ) -> Self {
        if layers.is_empty() || layers.len() > MAX_PROCESSES {
            return Self::default();
        }
        let parameters = section.parameters.clone();
        let read = |mut tree: Node| {
            tree.drop_broken_elements();
            // What is wrong with a value is reported where the process has it.
            let reading = Section::reader().read(&mut tree, &Path::root(), &mut Vec::new());
            (Section { parameters: parameters.clone(), ..reading.unwrap_or_default() }, tree)
        };
        let others = layers.iter().filter(|layer| layer.name != WEB);
        let settings = others.map(|layer| {
            let (section, tree) = read(settings_of(tree, layer, slug));
            ProcessSettings { name: layer.name.clone(), section, tree }
        });
        let settings = settings.collect();
        if let Some(with_web) = with_web(tree, layers, slug) {
            (*section, *tree) = read(with_web);
        }
        Self { settings, layers: layers.to_vec() }
    }

    /// Adds what the rules of pods say of each process, and names the places of processes in all violations.
    pub(super) fn check(&self, subject: &Subject<'_>, violations: &mut Vec<Violation>) {
        if let Some(web) = self.layers.iter().find(|layer| layer.name == WEB) {
            for violation in &mut *violations {
                name_place(violation, web);
            }
            // What `web` says is among the app's settings too.
            let mut reported = HashSet::new();
            violations.retain(|violation| reported.insert(violation.to_string()));
        }
        for process in &self.settings {
            let ProcessSettings { name, section, tree } = process;
            let subject = Subject { section, tree, ..*subject };
            let mut report = RuleReport { tree, violations: Vec::new() };
            for rule in RULES.iter().filter(|rule| RULES_OF_PODS.contains(&rule.name)) {
                if let RuleCheck::Settings(check) = rule.check {
                    check(&subject, &mut report);
                }
            }
            let layer = self.layers.iter().find(|layer| layer.name == *name);
            for mut violation in report.violations {
                // The same value of the app is wrong for each of its processes.
                let is_same = |other: &Violation| {
                    (&other.rule, &other.position, &other.message)
                        == (&violation.rule, &violation.position, &violation.message)
                };
                if violations.iter().any(is_same) {
                    continue;
                }
                if let Some(layer) = layer {
                    name_place(&mut violation, layer);
                }
                collect::add(violations, violation);
            }
        }
    }
}

/// Writes the path of a value as the WAML has it, where a process says the value.
fn name_place(violation: &mut Violation, layer: &ProcessLayer) {
    let path = Path::parse(&violation.path).filter(|path| !path.0.is_empty());
    if path.is_some_and(|path| layer.node.at(&path).is_some()) {
        violation.path = format!("processes.{}.{}", layer.name, violation.path);
    }
}
