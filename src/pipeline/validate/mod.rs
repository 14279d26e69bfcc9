//! The validate stage: all rules run, and every violation is reported, each at its place.
//!
//! [`RULES`] is the list; a file has rules about one subject. Facts that a rule needs are in [`Facts`], so rules are
//! pure; `unknown` decides about failed lookups. A value with a violation of its form is not reported again by a rule
//! that reads it.

pub mod list; // all rules
mod access; // owner, branch, team, locks, holds, windows
mod alerts;
mod autoscaling;
mod canary; // a new release's traffic
mod collision;
mod containers; // … beside the app's own
mod cron;
mod disks;
mod env;
mod hosts;
mod iam;
mod ignored;
mod image;
mod ingress;
mod jobs; // before a release
mod kubernetes;
mod labels;
mod monitoring; // the app's own metrics
mod names; // … and those of Kubernetes and of the platform
mod parameters; // of the template
mod patches; // … and extra manifests that cannot be used
mod plaintext;
mod pods; // rights, life, nodes
mod pod_security; // the level of the namespace
mod ports; // … and gRPC's
mod process_plan; // the rules of pods for each process
mod processes; // of one image
mod probes;
mod removal; // objects that keep data, and many objects at once
mod rendered;
mod resources;
mod rollouts; // named in the WAML
mod routes;
mod scaling; // … disruption, replicas
mod schedule;
mod secrets; // … Vault, delivery
mod slo;
mod stores; // databases, Redis
mod traffic; // versions
mod versions; // placement, and who gets which requests
mod version_paths; // below those of an `Ingress`
mod unknown; // failed lookups
mod volumes;

use list::RuleCheck;

use crate::manifests::object::Object;
use crate::model::facts::{Fact, Facts, LiveReplicas};
use crate::model::fleet::FleetPlace;
use crate::model::id::TargetName;
use crate::model::release::Release;
use crate::model::target::{Clusters, Target};
use crate::model::violation::{Position, Rejection, Violation, sort};
use crate::pipeline::default::Complete;
use crate::pipeline::patches::PatchViolation;
use crate::policy::PolicyInput;
use crate::templates::set::Template;
use crate::templates::view::versions::{self as versions_view, LiveVersion};
use crate::templates::view::{self, ProcessSettings, ViewInput};
use crate::traffic::plan::VersionSpec;
use crate::waml::confidential::hide_secrets;
use crate::waml::node::{Node, Path, template_of_layer};
use crate::waml::section::Section;
use crate::waml::{Waml, collect};

// The rules of form, for those who look things up by these names.
pub(crate) use crate::model::id::is_rfc1123_subdomain as is_secret;
pub(crate) use crate::model::secret_key::is_secret_key;
pub(crate) use image::{is_image, other_images, pinned_images};
pub(crate) use ingress::is_host;

use process_plan::ProcessPlan;

pub use kubernetes::unavailable_kinds;
pub use list::{RULES, Rule, RuleStage, Weight};

/// The input of the rules.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) waml: &'a Waml,
    pub(crate) target: &'a TargetName,
    /// The configuration of the target; `None` for an unknown one.
    pub(crate) cluster: Option<&'a Target>,
    /// The cluster among those of its fleet; `None` for an unknown target.
    pub(crate) fleet: Option<&'a FleetPlace>,
    pub(crate) section: &'a Section,
    pub(crate) tree: &'a Node,
    pub(crate) template: &'a Template,
    pub(crate) release: &'a Release,
    pub(crate) facts: &'a Facts,
}

impl Subject<'_> {
    /// Writes ` (the default of …)` for a value that the WAML does not have: its reader would look for it in vain.
    pub(crate) fn default_of(&self, path: &Path) -> String {
        let layer = self.tree.at(path).map(|node| node.origin.layer.as_ref());
        let template = layer.and_then(template_of_layer);
        template.map_or_else(String::new, |name| format!(" (the default of `{name}`)"))
    }

    /// Checks that the named part of the settings has a reported violation: a part that seems to be missing may be in
    /// it.
    pub(crate) fn is_unsure(&self, part: &str) -> bool {
        let misspelled =
            || self.tree.as_map().into_iter().flatten().any(|(_, entry)| entry.node.broken);
        self.tree.get(part).map_or_else(misspelled, Node::has_broken)
    }
}

/// The input of the last rules: the rendered objects and their settings.
#[derive(Debug)]
pub(crate) struct RenderedPlan<'a> {
    pub(crate) objects: &'a [Object],
    pub(crate) valid: &'a Valid<'a>,
    pub(crate) template: &'a Template,
    /// The workloads that keep the live number of pods, because their autoscaler is new.
    pub(crate) kept_replicas: &'a [LiveReplicas],
    /// The patches that could not be applied.
    pub(crate) refused_patches: &'a [PatchViolation],
    /// What is wrong with files that `manifests` names.
    pub(crate) refused_files: &'a [(Option<Path>, Violation)],
}

/// Collects violations, each at the place of a path.
pub(crate) struct RuleReport<'a> {
    tree: &'a Node,
    violations: Vec<Violation>,
}

impl RuleReport<'_> {
    /// Adds a violation about the value at that path of the complete settings.
    pub(crate) fn add(&mut self, path: &Path, violation: Violation) {
        if !self.tree.nearest(path).0.has_broken() {
            let place = self.place(path);
            collect::add(&mut self.violations, violation.at(path.to_string(), Some(place)));
        }
    }

    /// Finds where the developer can do something about it: what holds a default value, if they
    /// wrote that, else the default itself.
    fn place(&self, path: &Path) -> Position {
        let file = &self.tree.origin.position.file;
        let holders = (1..=path.0.len()).rev().filter_map(|n| path.0.get(..n));
        holders
            .map(|steps| self.tree.nearest(&Path(steps.to_vec())).1)
            .find(|place| place.file == *file)
            .unwrap_or_else(|| self.tree.nearest(path).1)
    }

    /// Adds a violation about the value at that path; without a path one that has no place.
    pub(crate) fn add_or_say(&mut self, path: Option<&Path>, violation: Violation) {
        match path {
            Some(path) => self.add(path, violation),
            None => self.say(violation),
        }
    }

    /// Adds a violation that has its place already, or none.
    pub(crate) fn say(&mut self, violation: Violation) {
        collect::add(&mut self.violations, violation);
    }

    /// Adds a violation about a field of an object, `spec.replicas`: at its place, where a person wrote the object.
    pub(crate) fn say_of(&mut self, object: &Object, field: &str, violation: Violation) {
        match object.position(field) {
            Some(place) => self.say(violation.in_extra_file(Some(place))),
            None => self.say(violation),
        }
    }

    /// Adds a violation about a value of the file outside of its sections.
    pub(crate) fn add_to_file(&mut self, waml: &Waml, path: &Path, violation: Violation) {
        self.add_at(&path.to_string(), waml.root.nearest(path).1, violation);
    }

    /// Adds a violation about something else, at a place of its own.
    pub(crate) fn add_at(&mut self, path: &str, place: Position, violation: Violation) {
        collect::add(&mut self.violations, violation.at(path, Some(place)));
    }
}

/// Settings that keep every rule. Made by [`run_rules`] and by nothing else.
#[derive(Debug, Clone)]
#[must_use = "valid settings are for rendering"]
pub struct Valid<'a> {
    waml: &'a Waml,
    target: Target,
    fleet: FleetPlace,
    /// True if the template renders versions.
    has_versions: bool,
    section: Section,
    tree: Node,
    /// The processes beside the one that the app's Services lead to.
    processes: Vec<ProcessSettings>,
    release: &'a Release,
    facts: &'a Facts,
    warnings: Vec<Violation>,
}

impl<'a> Valid<'a> {
    /// Returns the WAML that the settings were made of.
    pub fn waml(&self) -> &'a Waml {
        self.waml
    }

    /// Returns where the settings will be deployed.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the settings.
    pub fn section(&self) -> &Section {
        &self.section
    }

    /// Returns the settings with every value's place.
    pub fn tree(&self) -> &Node {
        &self.tree
    }

    /// Returns the facts.
    pub fn facts(&self) -> &'a Facts {
        self.facts
    }

    /// Returns what will be deployed.
    pub fn release(&self) -> &'a Release {
        self.release
    }

    /// Collects the input of a template's view.
    pub(crate) fn view_input(&self) -> ViewInput<'_> {
        ViewInput {
            waml: self.waml,
            section: &self.section,
            tree: &self.tree,
            target: &self.target,
            release: self.release,
            is_new: matches!(&self.facts.live, Fact::Known { value, .. } if value.objects.is_empty()),
            fleet: &self.fleet,
            has_versions: self.has_versions,
            processes: &self.processes,
        }
    }

    /// Lists the app's live versions on this cluster, in the order of the WAML.
    pub(crate) fn versions(&self) -> Vec<VersionSpec> {
        if !self.has_versions {
            return Vec::new();
        }
        let app = &self.waml.app;
        let spec = |live: LiveVersion<'_>| {
            let scaled = self.section.is_autoscaled();
            let pods = live.replicas.filter(|_| !scaled);
            VersionSpec {
                name: live.version.name.clone(),
                image: versions_view::image_of(live.version, &self.section, self.release),
                pods: [(self.target.name.clone(), pods)].into(),
            }
        };
        let live = versions_view::live_versions(&self.section, app, &self.fleet);
        live.into_iter().map(spec).collect()
    }

    /// Returns the warnings, which stop nothing.
    pub fn warnings(&self) -> &[Violation] {
        &self.warnings
    }
}

/// Runs all rules.
///
/// # Errors
/// Every violation, those of reading the file included.
pub fn run_rules<'a>(
    complete: Complete<'a>,
    template: &Template,
    release: &'a Release,
    facts: &'a Facts,
) -> Result<Valid<'a>, Rejection> {
    let Complete { waml, target, fleet, mut tree, processes } = complete;
    let mut violations = waml.violations.clone();
    tree.drop_broken_elements();
    let mut section =
        Section::reader().read(&mut tree, &Path::root(), &mut violations).unwrap_or_default();
    section.parameters = Some(template.parameters.read(&template.id(), &mut tree, &mut violations));
    let processes = ProcessPlan::of(&mut section, &mut tree, &processes, waml.app.slug.as_str());
    let cluster = facts.clusters.find(&target).filter(|_| {
        // A placeholder name may be that of a cluster which was not meant.
        !waml.is_misnamed(&target) || matches!(facts.clusters, Clusters::Any(_))
    });
    let fleet = fleet.or_else(|| cluster.as_ref().map(FleetPlace::of_target));
    let subject = Subject {
        waml,
        target: &target,
        cluster: cluster.as_ref(),
        fleet: fleet.as_ref(),
        section: &section,
        tree: &tree,
        template,
        release,
        facts,
    };
    violations.extend(settings(&subject));
    processes.check(&subject, &mut violations);
    sort(&mut violations);
    hide_secrets(&mut violations, &tree);
    let stops = violations.iter().any(Violation::is_error);
    match cluster.zip(fleet) {
        Some((target, fleet)) if !stops => Ok(Valid {
            waml,
            target,
            fleet,
            has_versions: template.uses("versions"),
            section,
            tree,
            processes: processes.settings,
            release,
            facts,
            warnings: violations,
        }),
        _ => Err(Rejection { violations }),
    }
}

fn settings(subject: &Subject<'_>) -> Vec<Violation> {
    let mut report = RuleReport { tree: subject.tree, violations: Vec::new() };
    for rule in RULES {
        match rule.check {
            RuleCheck::Settings(check) | RuleCheck::Facts(check) => check(subject, &mut report),
            RuleCheck::Reading | RuleCheck::Choosing | RuleCheck::Objects(_) => {}
        }
    }
    report.violations
}

/// Runs the rules on rendered objects; the warnings that are there already stay.
///
/// # Errors
/// Every violation, warnings too.
pub(crate) fn objects(rendered_plan: &RenderedPlan<'_>) -> Result<Vec<Violation>, Rejection> {
    let mut report = RuleReport {
        tree: &rendered_plan.valid.tree,
        violations: rendered_plan.valid.warnings.clone(),
    };
    for rule in RULES {
        match rule.check {
            RuleCheck::Objects(check) => check(rendered_plan, &mut report),
            RuleCheck::Reading
            | RuleCheck::Choosing
            | RuleCheck::Settings(_)
            | RuleCheck::Facts(_) => {}
        }
    }
    let plan = || PolicyInput {
        view: view::build_context(rendered_plan.valid.view_input()),
        settings: view::settings(rendered_plan.valid.section()),
        objects: rendered_plan.objects,
    };
    for (path, violation) in
        rendered_plan.template.policies.violations(&rendered_plan.valid.target().name, plan)
    {
        report.add_or_say(path, violation);
    }
    let mut violations = report.violations;
    sort(&mut violations);
    hide_secrets(&mut violations, &rendered_plan.valid.tree);
    if violations.iter().any(Violation::is_error) {
        return Err(Rejection { violations });
    }
    Ok(violations)
}

#[cfg(test)]
mod tests;
