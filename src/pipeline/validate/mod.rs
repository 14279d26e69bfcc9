//! VALIDATE: all rules run, and every violation is told, each at its place.
//!
//! One rule a file; [`RULES`] is the list. What a rule must know of the world stands in
//! [`Facts`], so rules are pure. A value that was already reported as broken is not reported
//! again by a rule that stumbles over it.

mod autoscaling;
mod cron;
mod database;
mod delivery;
mod disruption;
mod env;
mod iam;
mod image;
mod ingress;
mod labels;
mod names;
mod numbers;
mod ports;
mod probes;
pub mod quantity;
mod redis;
pub mod rendered;
mod resources;
mod routes;
mod scaling;
mod schedule;
mod target;
mod unused;
mod vault;
mod volumes;

use crate::model::facts::Facts;
use crate::model::release::Release;
use crate::model::target::Target;
use crate::model::violation::{Position, Rejection, Severity, Violation, sort};
use crate::pipeline::default::Complete;
use crate::pipeline::templates::Template;
use crate::waml::Waml;
use crate::waml::node::{Node, Path};
use crate::waml::section::Section;

pub use numbers::NumberOrPercent;

/// One rule: its stable name, what it checks, and the check.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// As it stands in a violation.
    pub name: &'static str,
    /// What it checks, in one sentence.
    pub about: &'static str,
    check: Check,
}

#[derive(Debug, Clone, Copy)]
enum Check {
    /// Done where the file is read; the violations come with the WAML.
    Reading,
    /// Done where the template is chosen.
    Choosing,
    /// On the complete settings.
    Settings(fn(&Subject<'_>, &mut Report<'_>)),
    /// On the rendered objects.
    Objects,
}

/// Every rule, in the order in which they run.
pub const RULES: &[Rule] = &[
    Rule {
        name: "yaml",
        about: "The file is one YAML document within its limits, no key twice.",
        check: Check::Reading,
    },
    Rule {
        name: "schema",
        about: "Every value has the type that the schema gives it.",
        check: Check::Reading,
    },
    Rule {
        name: "unknown-key",
        about: "Every key is one that the schema knows.",
        check: Check::Reading,
    },
    Rule {
        name: "unique",
        about: "No list has two things of the same name.",
        check: Check::Reading,
    },
    Rule { name: "template", about: "The template and its version exist.", check: Check::Choosing },
    Rule {
        name: "target",
        about: "The target is under `deploy` and known to the configuration.",
        check: Check::Settings(target::check),
    },
    Rule {
        name: "names",
        about: "Names, and names made from them, are legal in Kubernetes.",
        check: Check::Settings(names::check),
    },
    Rule {
        name: "labels",
        about: "Labels and annotations are legal in Kubernetes, and not ours.",
        check: Check::Settings(labels::check),
    },
    Rule {
        name: "image",
        about: "The image has a name that a registry can have.",
        check: Check::Settings(image::check),
    },
    Rule {
        name: "ports",
        about: "Every port has a number, and no two of the app's ports clash.",
        check: Check::Settings(ports::check),
    },
    Rule {
        name: "ingress",
        about: "Hosts and paths are legal, and every path leads to a port of a service.",
        check: Check::Settings(ingress::check),
    },
    Rule {
        name: "routes",
        about: "Two addresses do not take each other's requests, and the target can route and cache as is asked.",
        check: Check::Settings(routes::check),
    },
    Rule {
        name: "probes",
        about: "Probes use ports that the app has, and numbers that Kubernetes takes.",
        check: Check::Settings(probes::check),
    },
    Rule {
        name: "resources",
        about: "Quantities parse, and requests are within limits.",
        check: Check::Settings(resources::check),
    },
    Rule {
        name: "scaling",
        about: "A rolling update can make progress.",
        check: Check::Settings(scaling::check),
    },
    Rule {
        name: "autoscaling",
        about: "The autoscaler's numbers fit, and what it measures is requested.",
        check: Check::Settings(autoscaling::check),
    },
    Rule {
        name: "disruption",
        about: "Nodes can be drained without taking the app away.",
        check: Check::Settings(disruption::check),
    },
    Rule {
        name: "env",
        about: "Environment variables have legal names and one source, and secrets legal keys.",
        check: Check::Settings(env::check),
    },
    Rule {
        name: "volumes",
        about: "Volumes have a folder of their own, are one thing, and disks are shared only if they can be.",
        check: Check::Settings(volumes::check),
    },
    Rule {
        name: "cron",
        about: "The schedule is one that Kubernetes takes and that comes, and its time zone exists.",
        check: Check::Settings(cron::check),
    },
    Rule {
        name: "vault",
        about: "What is asked for in Vault has a legal path, and is the app's to read.",
        check: Check::Settings(vault::check),
    },
    Rule {
        name: "delivery",
        about: "How secrets reach pods on the target can do what the app wants of it.",
        check: Check::Settings(delivery::check),
    },
    Rule {
        name: "iam",
        about: "Rights in the cloud are well formed, not over everything, and to be had on the target.",
        check: Check::Settings(iam::check),
    },
    Rule {
        name: "database",
        about: "A database has a version, a size and a tier that exist, on a target that has databases.",
        check: Check::Settings(database::check),
    },
    Rule {
        name: "redis",
        about: "A Redis has a version and a size that exist, on a target that has any.",
        check: Check::Settings(redis::check),
    },
    Rule {
        name: "unused",
        about: "What the WAML sets is used by the template (a warning).",
        check: Check::Settings(unused::check),
    },
    Rule {
        name: "rendered",
        about: "Rendered objects are well formed, in the app's namespace, and none is there twice.",
        check: Check::Objects,
    },
];

/// What the rules look at.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) waml: &'a Waml,
    pub(crate) target: &'a crate::model::id::TargetName,
    pub(crate) section: &'a Section,
    pub(crate) tree: &'a Node,
    pub(crate) template: &'a Template,
    pub(crate) facts: &'a Facts,
}

/// Collects violations, each at the place of a path.
pub(crate) struct Report<'a> {
    tree: &'a Node,
    violations: Vec<Violation>,
}

impl Report<'_> {
    /// Adds a violation about the value at that path of the complete settings.
    pub(crate) fn add(&mut self, path: &Path, violation: Violation) {
        if !self.tree.nearest(path).0.has_broken() {
            let place = self.place(path);
            self.violations.push(violation.at(path.to_string(), Some(place)));
        }
    }

    /// Where the developer can do something about it: what holds a default value, if they wrote
    /// that, else the default itself.
    fn place(&self, path: &Path) -> Position {
        let written = &self.tree.origin.position.file;
        let holders = (1..=path.0.len()).rev().filter_map(|n| path.0.get(..n));
        holders
            .map(|steps| self.tree.nearest(&Path(steps.to_vec())).1)
            .find(|place| place.file == *written)
            .unwrap_or_else(|| self.tree.nearest(path).1)
    }

    /// Adds a violation about something else, at a place of its own.
    pub(crate) fn add_at(&mut self, path: &str, place: Position, violation: Violation) {
        self.violations.push(violation.at(path, Some(place)));
    }
}

/// Settings that keep every rule. Made by [`all`] and by nothing else.
#[derive(Debug, Clone)]
#[must_use = "valid settings are for rendering"]
pub struct Valid<'a> {
    waml: &'a Waml,
    target: Target,
    section: Section,
    release: &'a Release,
    warnings: Vec<Violation>,
}

impl<'a> Valid<'a> {
    /// The WAML that they were made of.
    pub fn waml(&self) -> &'a Waml {
        self.waml
    }

    /// Where they will be deployed.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The settings.
    pub fn section(&self) -> &Section {
        &self.section
    }

    /// What will be deployed.
    pub fn release(&self) -> &'a Release {
        self.release
    }

    /// What a reader should know, and what stops nothing.
    pub fn warnings(&self) -> &[Violation] {
        &self.warnings
    }
}

/// Runs all rules.
///
/// # Errors
/// Every violation, those of reading the file included.
pub fn all<'a>(
    complete: Complete<'a>,
    template: &Template,
    release: &'a Release,
    facts: &Facts,
) -> Result<Valid<'a>, Rejection> {
    let Complete { waml, target, mut tree } = complete;
    let mut violations = waml.violations.clone();
    tree.drop_broken_elements();
    let section =
        Section::reader().read(&mut tree, &Path::root(), &mut violations).unwrap_or_default();
    let subject =
        Subject { waml, target: &target, section: &section, tree: &tree, template, facts };
    violations.extend(settings(&subject));
    sort(&mut violations);
    let stops = violations.iter().any(|violation| violation.severity == Severity::Error);
    match facts.clusters.find(&target) {
        Some(target) if !stops => {
            Ok(Valid { waml, target, section, release, warnings: violations })
        }
        _ => Err(Rejection { violations }),
    }
}

fn settings(subject: &Subject<'_>) -> Vec<Violation> {
    let mut report = Report { tree: subject.tree, violations: Vec::new() };
    for rule in RULES {
        match rule.check {
            Check::Settings(check) => check(subject, &mut report),
            Check::Reading | Check::Choosing | Check::Objects => {}
        }
    }
    report.violations
}

/// Whether anything in the value was written in the WAML rather than in a template's defaults.
fn is_from_waml(node: &Node) -> bool {
    let mut found = false;
    node.leaves(&mut Path::root(), &mut |_, leaf| {
        found |= !leaf.origin.layer.ends_with("/defaults.yaml");
    });
    found
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
