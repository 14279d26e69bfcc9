//! The dry run: the changes of a deployment on a target, compared with the live revision. Pure.
//!
//! All rules run, as for the deployment itself, so its violations are those of a deployment now.

use crate::manifests::diff;
use crate::manifests::diff::Change;
use crate::manifests::parse::versions::{LiveVersionManifest, read_versions};
use crate::model::canary::CanaryForecast;
use crate::model::facts::Facts;
use crate::model::id::TargetName;
use crate::model::revision::{Digest, ManifestFile};
use crate::model::violation::{Rejection, Violation, Violations};
use crate::pipeline::render::RenderedManifests;
use crate::pipeline::{Input, plan};
use crate::traffic::plan::{VersionSpec, plan_versions};

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// The outcome, in a word.
    pub outcome: DryRunOutcome,
    /// The template and its version; none where rules refuse it.
    pub template: Option<String>,
    /// The digest of the revision that would be deployed.
    pub digest: Option<Digest>,
    /// The objects that would not be the same, in order.
    pub changes: Vec<Change>,
    /// The workloads whose pods would be replaced: `Deployment my-app`.
    pub restarts: Vec<String>,
    /// The steps and times of the release, where it is a canary.
    pub canary: Option<CanaryForecast>,
    /// The steps from the live versions to those that should be: `v1 on prod-1: 10 → 7 pods`.
    pub steps: Vec<String>,
    /// The violations that would stop the deployment.
    pub violations: Violations,
    /// The warnings, which would not stop it.
    pub warnings: Violations,
}

/// The outcome of a dry run, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRunOutcome {
    /// The deployment would succeed, and change something.
    Changes,
    /// The deployment would succeed, and change nothing.
    Unchanged,
    /// Rules speak against it.
    Refused,
}

/// Lines around those that differ.
const CONTEXT: usize = 3;

/// Plans a deployment and compares it with the app's live files on the target.
pub fn plan_dry_run(input: &Input, facts: &Facts, live: &[ManifestFile]) -> DryRun {
    match plan(input, facts) {
        Ok(rendered) => planned(rendered, live),
        Err(rejection) => refuse(rejection),
    }
}

/// Makes a dry run that rules refuse.
pub fn refuse(rejection: Rejection) -> DryRun {
    let (violations, warnings): (Vec<_>, Vec<_>) =
        rejection.violations.into_iter().partition(Violation::is_error);
    DryRun {
        outcome: DryRunOutcome::Refused,
        template: None,
        digest: None,
        changes: Vec::new(),
        restarts: Vec::new(),
        canary: None,
        steps: Vec::new(),
        violations: violations.into(),
        warnings: warnings.into(),
    }
}

fn planned(rendered: RenderedManifests, live: &[ManifestFile]) -> DryRun {
    let (changes, restarts) = diff::compare(live, &rendered.files, CONTEXT);
    DryRun {
        outcome: if changes.is_empty() { DryRunOutcome::Unchanged } else { DryRunOutcome::Changes },
        template: Some(rendered.template),
        digest: Some(rendered.digest),
        changes,
        restarts,
        canary: rendered.canary,
        steps: steps(&rendered.target.name, live, &rendered.versions),
        violations: Violations::default(),
        warnings: rendered.warnings.into(),
    }
}

/// Writes the steps from the live versions of a target to the next ones.
fn steps(target: &TargetName, live: &[ManifestFile], next: &[VersionSpec]) -> Vec<String> {
    let spec = |version: LiveVersionManifest| VersionSpec {
        name: version.version,
        image: version.image,
        pods: [(target.clone(), version.replicas)].into(),
    };
    let former: Vec<VersionSpec> = read_versions(live).into_iter().map(spec).collect();
    plan_versions(&former, next).steps.iter().map(ToString::to_string).collect()
}
