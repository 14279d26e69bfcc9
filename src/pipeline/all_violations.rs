//! All violations of a file at once, also where a name is wrong on which everything else depends: the app's, the
//! target's, the template's.
//!
//! A violation beside such a name must be wrong whatever was meant. So a file without a legal app is checked under a
//! placeholder name; and where the target or the template is not known, each known one is tried, and the violations of
//! all of them are shown.

use jiff::Timestamp;

use crate::model::facts::Facts;
use crate::model::id::{CommitSha, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::target::Clusters;
use crate::model::violation::{Rejection, Violation, distinct, sort};
use crate::pipeline::merge::Merged;
use crate::pipeline::{default, merge, validate};
use crate::templates::set::{Template, TemplateSet};
use crate::waml::Waml;

/// The limit of pairs of a target and a template: each costs as much as a plan, which is about a millisecond.
const MAX_PAIRS: usize = 60;
/// The limit of tried targets, or of templates for one target.
const MAX: usize = 20;

/// Finds all violations of a file without a legal app, of which `draft` has the readable part; for one target, or for
/// all that it names.
pub fn of_unnamed(
    rejection: Rejection,
    draft: Option<&Waml>,
    target: Option<&TargetName>,
    templates: &TemplateSet,
    clusters: &Clusters,
) -> Rejection {
    let Some(draft) = draft else { return rejection };
    let targets = tried_targets(draft, target, templates);
    let violations =
        targets.into_iter().flat_map(|target| of_draft(draft, target, templates, clusters));
    merged_with(rejection, violations)
}

/// Lists the targets of a draft that are tried: the one that is meant, else as many as may be.
pub fn tried_targets<'w>(
    draft: &'w Waml,
    target: Option<&'w TargetName>,
    templates: &TemplateSet,
) -> Vec<&'w TargetName> {
    if let Some(target) = target {
        return vec![target];
    }
    let has_template = |target: &&TargetName| {
        merge::layers(draft, target).is_ok_and(|merged| merged.choose_template(templates).is_ok())
    };
    let mut targets = draft.targets();
    targets.truncate(MAX);
    // Where the template is not known, each target is tried with every template.
    let templates_per_target =
        if targets.iter().all(has_template) { 1 } else { templates.iter().take(MAX).count() };
    targets.truncate((MAX_PAIRS / templates_per_target.max(1)).max(1));
    targets
}

/// Finds everything that is wrong with a draft for one target, on those clusters.
pub fn of_draft(
    draft: &Waml,
    target: &TargetName,
    templates: &TemplateSet,
    clusters: &Clusters,
) -> Vec<Violation> {
    of_target(draft, target, templates, &facts_without_lookups(clusters))
}

/// Completes the rejection of a target that is not under `deploy` with the violations that all targets there share.
pub(super) fn beside_target(
    rejection: Rejection,
    waml: &Waml,
    templates: &TemplateSet,
    clusters: &Clusters,
) -> Rejection {
    let facts = facts_without_lookups(clusters);
    let tried = tried_targets(waml, None, templates).into_iter();
    let violations = tried.map(|target| of_target(waml, target, templates, &facts));
    merged_with(rejection, common(violations))
}

/// Completes the rejection of a template that does not exist with the violations by all existing ones.
pub(super) fn beside_template(
    rejection: Rejection,
    merged: &Merged<'_>,
    templates: &TemplateSet,
    clusters: &Clusters,
) -> Rejection {
    let violations = by_each_template(merged, templates, &facts_without_lookups(clusters));
    merged_with(rejection, violations)
}

fn of_target(
    waml: &Waml,
    target: &TargetName,
    templates: &TemplateSet,
    facts: &Facts,
) -> Vec<Violation> {
    let merged = match merge::layers(waml, target) {
        Ok(merged) => merged,
        Err(rejection) => return rejection.violations,
    };
    match merged.choose_template(templates) {
        Ok(template) => by_template(merged, &template, facts),
        Err(rejection) => {
            let violations = by_each_template(&merged, templates, facts);
            merged_with(rejection, violations).violations
        }
    }
}

fn by_each_template(merged: &Merged<'_>, templates: &TemplateSet, facts: &Facts) -> Vec<Violation> {
    let tried = templates.iter().take(MAX);
    common(tried.map(|template| by_template(merged.clone(), template, facts)))
}

/// Lists the violations of the settings, without any lookup.
fn by_template(merged: Merged<'_>, template: &Template, facts: &Facts) -> Vec<Violation> {
    let complete = default::fill(merged, &template.defaults);
    match validate::run_rules(complete, template, &placeholder_release(), facts) {
        Ok(valid) => valid.warnings().to_vec(),
        Err(rejection) => rejection.violations,
    }
}

/// Finds the violations that are in all of them, in the order of the first.
fn common(mut lists: impl Iterator<Item = Vec<Violation>>) -> Vec<Violation> {
    let Some(mut common) = lists.next() else { return Vec::new() };
    for violations in lists {
        common.retain(|violation| violations.contains(violation));
    }
    common
}

/// Completes the rejection with more violations, each once and all in order.
pub fn merged_with(rejection: Rejection, more: impl IntoIterator<Item = Violation>) -> Rejection {
    let mut violations = distinct(rejection.violations.into_iter().chain(more));
    sort(&mut violations);
    Rejection { violations }
}

fn facts_without_lookups(clusters: &Clusters) -> Facts {
    Facts::without_lookups(Timestamp::UNIX_EPOCH, clusters.clone())
}

/// Returns a release that no rule refuses.
fn placeholder_release() -> Release {
    Release {
        repository: RepoName::parse("owner/app").expect("two words are a repository"),
        app: None,
        commit: CommitSha::parse("0".repeat(40)).expect("forty digits are a commit id"),
        tag: ImageTag::parse("tag").expect("a word is a tag"),
    }
}
