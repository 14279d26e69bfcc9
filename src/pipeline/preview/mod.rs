//! The preview of a pull request: the changes if it were deployed as it is. Pure, from the WAML at its head and the
//! live revisions.
//!
//! ```text
//! of_target (a target) ─▶ TargetPreview ┐
//! of_target (a target) ─▶ TargetPreview ┴▶ Preview ─ text::describe_preview ─▶ PreviewText
//! ```
//!
//! It is rendered with the live release, so that only the WAML and the templates make a difference. A rule about the
//! commit or the moment of a deployment refuses no preview: the stops of a deployment now are a note.

mod details; // the differences, object by object
mod facts; // the facts that a preview uses
pub mod live; // the live release
mod remarks; // violations at their lines
pub mod text; // the text, within GitHub's limits

pub use facts::questions;

use crate::manifests::diff::{Change, compare, objects};
use crate::model::canary::CanaryForecast;
use crate::model::facts::Facts;
use crate::model::id::{AppKey, ImageTag, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::violation::Violation;
use crate::pipeline::render::RenderedManifests;
use crate::pipeline::{Input, plan};
use crate::waml::Waml;

/// The changes of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The WAML's path in the repository.
    pub file: String,
    /// The app at the head.
    pub app: AppKey,
    /// The branch that the pull request is for.
    pub base: String,
    /// The changes on each target, in the order of the WAML.
    pub targets: Vec<TargetPreview>,
    /// The number of further targets that were not checked.
    pub not_looked_at: usize,
    /// The targets that would be left behind.
    pub left: Option<RemainingTargets>,
}

/// The targets that stay deployed though the WAML does not have them any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemainingTargets {
    /// The app, as the base's WAML calls it.
    pub app: AppKey,
    /// The targets that are not under `deploy` any more; all of them when the app has another name.
    pub targets: Vec<TargetName>,
}

/// The changes on one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPreview {
    /// The target.
    pub target: TargetName,
    /// The outlook.
    pub outlook: PreviewEffect,
    /// The tag that is live, and that it was rendered with.
    pub tag: Option<ImageTag>,
    /// The warnings, which would not stop a deployment.
    pub warnings: Vec<Violation>,
    /// The steps and times of a release, where it is a canary.
    pub canary: Option<CanaryForecast>,
    /// The notes: failed lookups, and the stops of a deployment now.
    pub notes: Vec<String>,
}

/// The effect of a deployment of the head on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviewEffect {
    /// The app is not there yet; these objects would be made: `Deployment my-app`.
    New(Vec<String>),
    /// Objects would be others.
    Changes {
        /// The changes, in order.
        changes: Vec<Change>,
        /// The workloads whose pods would be replaced.
        restarts: Vec<String>,
    },
    /// Nothing would change.
    Same,
    /// The WAML breaks rules.
    Refused(Vec<Violation>),
    /// The changes could not be worked out, for this reason.
    Unknown(String),
}

/// Lines around those that differ.
const CONTEXT: usize = 3;

/// Finds the changes on a target, compared with the app's live files there.
pub fn of_target(
    input: &Input,
    facts: &Facts,
    base: &str,
    live: &[ManifestFile],
    tag: Option<ImageTag>,
) -> TargetPreview {
    let (own_facts, mut notes) = facts::own(facts, input.cluster());
    notes.extend(facts::current_violations(input, facts, base));
    let mut canary = None;
    let (outlook, warnings) = match plan(input, &own_facts) {
        Ok(rendered) => {
            let outlook = outlook(&rendered, live);
            canary = rendered.canary;
            (outlook, rendered.warnings)
        }
        Err(rejection) => {
            let violations = rejection.violations.into_iter();
            let (errors, warnings) = violations.partition(Violation::is_error);
            (PreviewEffect::Refused(errors), warnings)
        }
    };
    TargetPreview { target: input.cluster().clone(), outlook, tag, warnings, canary, notes }
}

fn outlook(rendered: &RenderedManifests, live: &[ManifestFile]) -> PreviewEffect {
    if live.is_empty() {
        let new_objects = objects(&rendered.files).unwrap_or_default();
        return PreviewEffect::New(
            new_objects.keys().map(|(kind, _, name)| format!("{kind} {name}")).collect(),
        );
    }
    let (changes, restarts) = compare(live, &rendered.files, CONTEXT);
    if changes.is_empty() {
        return PreviewEffect::Same;
    }
    PreviewEffect::Changes { changes, restarts }
}

/// Finds the targets of the base's WAML that merging would leave behind.
pub fn left(base: &Waml, head: &Waml) -> Option<RemainingTargets> {
    let is_renamed = base.app != head.app;
    let removed_targets = base
        .targets()
        .into_iter()
        .filter(|target| is_renamed || !head.deploy.contains_key(*target));
    let targets: Vec<TargetName> = removed_targets.cloned().collect();
    (!targets.is_empty()).then(|| RemainingTargets { app: base.app.clone(), targets })
}

#[cfg(test)]
mod tests;
