//! The check of a set of templates: it renders the set's own samples, as a deployment would, and finds unknown names
//! and unused defaults that the samples do not reach.
//!
//! Pure, as the stages are; `the-deployer templates check` shows the report.

mod everywhere; // what there is whatever the samples
mod defaults; // what is there and not read
mod parameters; // … of what the template declares

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value as Json;

use crate::model::facts::Facts;
use crate::model::id::{CommitSha, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::target::Clusters;
use crate::model::template::{TemplateFile, TemplateSources};
use crate::model::violation::{Position, Rejection, Violation, distinct, sort};
use crate::pipeline::{default, merge, planned, validate};
use crate::templates::lint::reads::{self, TemplateRead};
use crate::templates::lint::shape::ViewShape;
use crate::templates::lint::undefined;
use crate::templates::parameters::PART;
use crate::templates::set::{Template, TemplateSet};
use crate::templates::{engine, view as views};
use crate::waml::Waml;
use crate::waml::node::Node;

/// The result of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[must_use = "a report is for telling"]
pub struct CheckReport {
    /// Each version of each template, by name.
    pub templates: Vec<CheckedTemplate>,
    /// The violations and warnings, in the order of the files.
    pub violations: Vec<Violation>,
}

impl CheckReport {
    /// Checks that the set can be used.
    pub fn passes(&self) -> bool {
        !self.violations.iter().any(Violation::is_error)
    }
}

/// One version of a template, as far as its samples go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedTemplate {
    /// `backend-default@latest`
    pub template: String,
    /// The number of its files.
    pub files: usize,
    /// The number of its samples.
    pub samples: usize,
    /// The targets of all samples: how often it was rendered.
    pub targets: usize,
    /// The objects that came of it.
    pub objects: usize,
    /// The parameters that it declares.
    pub parameters: Vec<String>,
}

/// A WAML to try a template with.
pub(super) struct Sample {
    waml: Waml,
    /// The beginning of its file.
    place: Position,
    /// The targets for which it is accepted.
    pub(super) targets: Vec<TargetName>,
    release: Release,
}

/// Compiles a set of templates and tries it.
///
/// # Errors
/// When it cannot be compiled: then there is nothing to try.
pub fn templates(sources: &TemplateSources) -> Result<CheckReport, Rejection> {
    let compiled = TemplateSet::compile(sources)?;
    let mut by_name: BTreeMap<&str, Vec<&Template>> = BTreeMap::new();
    for template in compiled.iter() {
        by_name.entry(template.name.as_str()).or_default().push(template);
    }
    let mut report = CheckReport { templates: Vec::new(), violations: Vec::new() };
    for (name, versions) in by_name {
        check_template(name, &versions, sources, &mut report);
    }
    let violations = report.violations.into_iter().map(engine::for_operators);
    report.violations = distinct(violations);
    sort(&mut report.violations);
    Ok(report)
}

fn check_template(
    name: &str,
    versions: &[&Template],
    sources: &TemplateSources,
    report: &mut CheckReport,
) {
    let mut samples = samples(name, sources, &mut report.violations);
    let mut shape = everywhere::shape();
    if let Some(template) = versions.first() {
        shape.add_schema(&[PART], &template.parameters.json_schema());
    }
    for template in versions {
        let template_report =
            render_samples(template, &mut samples, &mut shape, &mut report.violations);
        report.templates.push(template_report);
    }
    let texts = texts(sources);
    let reads: Vec<(&Template, Vec<TemplateRead>)> = versions
        .iter()
        .map(|template| {
            (*template, reads::collect_reads(&template.files, &texts).into_iter().collect())
        })
        .collect();
    for (_, reads) in &reads {
        report.violations.extend(undefined::find_undefined(reads, &shape, &texts));
    }
    report.violations.extend(defaults::find_unused(&reads, &samples));
    report.violations.extend(parameters::find_unused(&reads));
}

fn samples(name: &str, sources: &TemplateSources, violations: &mut Vec<Violation>) -> Vec<Sample> {
    let folder = format!("{name}/samples/");
    let files: Vec<&TemplateFile> =
        sources.files.iter().filter(|file| file.path.starts_with(&folder)).collect();
    if files.is_empty() {
        let message =
            format!("the template `{name}` has no sample, so nothing was rendered with it");
        let help = format!("add a WAML as apps/{folder}minimal.yaml that deploys with it");
        violations.push(Violation::warning("samples", message).help(help));
    }
    files.into_iter().filter_map(|file| sample(name, file, violations)).collect()
}

fn sample(name: &str, file: &TemplateFile, violations: &mut Vec<Violation>) -> Option<Sample> {
    let waml = match Waml::parse(&file.path, file.text.as_bytes()) {
        Ok(waml) => waml,
        Err(rejection) => {
            violations.extend(rejection.violations);
            return None;
        }
    };
    let place = Position { file: Arc::from(file.path.as_str()), line: 1, column: 1, length: 1 };
    let targets: Vec<TargetName> = waml.targets().into_iter().cloned().collect();
    if targets.is_empty() {
        let message = "the sample has no target under `deploy`, so nothing was rendered with it";
        let violation = Violation::error("samples", message).at("deploy", Some(place));
        violations.push(violation.help("add one: `deploy: {sample: {}}`"));
        return None;
    }
    for target in &targets {
        let Ok(merged) = merge::layers(&waml, target) else { continue };
        let template_name = merged.template().split('@').next().unwrap_or_default();
        if template_name != name {
            let message = format!(
                "the sample is in the folder of `{name}` and deploys with `{template_name}`"
            );
            let violation =
                Violation::error("samples", message).at("template", Some(place.clone()));
            violations.push(violation.help(format!("write `template: {name}` in it, or move it")));
            return None;
        }
    }
    let release = Release {
        repository: RepoName::parse(format!("local/{}", waml.app.slug)).ok()?,
        app: None,
        commit: CommitSha::parse("0".repeat(40)).ok()?,
        tag: ImageTag::parse("sample").ok()?,
    };
    Some(Sample { waml, place, targets, release })
}

/// Renders every sample for every target, as the service does, and keeps the views.
fn render_samples(
    template: &Template,
    samples: &mut [Sample],
    shape: &mut ViewShape,
    violations: &mut Vec<Violation>,
) -> CheckedTemplate {
    let mut template_report = CheckedTemplate {
        template: template.id(),
        files: template.files.len(),
        samples: samples.len(),
        targets: 0,
        objects: 0,
        parameters: template.parameters.names().map(str::to_owned).collect(),
    };
    for sample in samples {
        for target in sample.targets.clone() {
            let Ok(merged) = merge::layers(&sample.waml, &target) else { continue };
            if is_pinned_elsewhere(merged.template(), template) {
                continue;
            }
            template_report.targets += 1;
            match planned(merged, None, template, &sample.release, &facts(), &mut |_| {}) {
                Ok(rendered) => {
                    template_report.objects += rendered.files.len();
                    violations.extend(fill_positions(rendered.warnings, &sample.place));
                }
                Err(rejection) => {
                    violations.extend(fill_positions(rejection.violations, &sample.place));
                }
            }
            if let Some(view) = view(sample, &target, template, &template.defaults) {
                shape.add(&view);
            }
        }
    }
    template_report
}

/// Puts violations of a sample as a whole at its beginning, so that one knows which it is.
fn fill_positions(violations: Vec<Violation>, place: &Position) -> impl Iterator<Item = Violation> {
    violations.into_iter().map(|violation| match violation.position {
        Some(_) => violation,
        None => Violation { position: Some(place.clone()), ..violation },
    })
}

/// Checks that the sample is for another version of the template than this one.
fn is_pinned_elsewhere(template_reference: &str, template: &Template) -> bool {
    template_reference
        .split_once('@')
        .is_some_and(|(_, version)| version != template.version.as_str())
}

/// Returns facts without any lookup: rules are checked against no cluster in particular.
fn facts() -> Facts {
    Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, Clusters::any())
}

/// Builds the view of a sample with these defaults; `None` where the sample is refused.
fn view(
    sample: &Sample,
    target: &TargetName,
    template: &Template,
    defaults: &Node,
) -> Option<Json> {
    view_with(sample, target, template, defaults, &facts())
}

fn view_with(
    sample: &Sample,
    target: &TargetName,
    template: &Template,
    defaults: &Node,
    facts: &Facts,
) -> Option<Json> {
    let merged = merge::layers(&sample.waml, target).ok()?;
    if is_pinned_elsewhere(merged.template(), template) {
        return None;
    }
    let complete = default::fill(merged, defaults);
    let valid = validate::run_rules(complete, template, &sample.release, facts).ok()?;
    Some(Json::Object(views::build_context(valid.view_input())))
}

/// Collects the texts of all files by the engine's names.
fn texts(sources: &TemplateSources) -> HashMap<String, &str> {
    let shared = sources.components.iter();
    let shared =
        shared.map(|file| (format!("{}{}", engine::COMPONENTS, file.path), file.text.as_str()));
    let own_files = sources.files.iter().filter(|file| file.path.ends_with(engine::SUFFIX));
    own_files.map(|file| (file.path.clone(), file.text.as_str())).chain(shared).collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
