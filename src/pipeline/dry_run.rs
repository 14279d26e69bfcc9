//! DRY RUN: what a deployment would do to a target, compared with what is live there. Pure.
//!
//! All rules run, as for the deployment itself: what it would meet now is in it.

use crate::manifests::diff;
use crate::manifests::diff::Change;
use crate::model::facts::Facts;
use crate::model::revision::{Digest, ManifestFile};
use crate::model::violation::{Rejection, Violation, Violations};
use crate::pipeline::render::Rendered;
use crate::pipeline::{Input, plan};

/// What a deployment would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryRun {
    /// In a word.
    pub outcome: DryRunOutcome,
    /// The template and its version; none where rules refuse it.
    pub template: Option<String>,
    /// Of what would be deployed.
    pub digest: Option<Digest>,
    /// The objects that would not be the same, in order.
    pub changes: Vec<Change>,
    /// The workloads whose pods would be replaced: `Deployment my-app`.
    pub restarts: Vec<String>,
    /// Why it would be refused.
    pub violations: Violations,
    /// What would not stop it.
    pub warnings: Violations,
}

/// What a deployment would come to, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRunOutcome {
    /// It would be deployed, and something would be different.
    Changes,
    /// It would succeed, and nothing would be different.
    Unchanged,
    /// Rules speak against it.
    Refused,
}

/// Lines around those that differ.
const CONTEXT: usize = 3;

/// Plans a deployment and compares it with what the app's `latest` holds there now.
pub fn plan_dry_run(input: &Input, facts: &Facts, live: &[ManifestFile]) -> DryRun {
    match plan(input, facts) {
        Ok(rendered) => planned(rendered, live),
        Err(rejection) => refused(rejection),
    }
}

/// Makes a dry run that rules refuse.
pub fn refused(rejection: Rejection) -> DryRun {
    let (violations, warnings): (Vec<_>, Vec<_>) =
        rejection.violations.into_iter().partition(Violation::is_error);
    DryRun {
        outcome: DryRunOutcome::Refused,
        template: None,
        digest: None,
        changes: Vec::new(),
        restarts: Vec::new(),
        violations: violations.into(),
        warnings: warnings.into(),
    }
}

fn planned(rendered: Rendered, live: &[ManifestFile]) -> DryRun {
    let (changes, restarts) = diff::between(live, &rendered.files, CONTEXT);
    DryRun {
        outcome: if changes.is_empty() { DryRunOutcome::Unchanged } else { DryRunOutcome::Changes },
        template: Some(rendered.template),
        digest: Some(rendered.digest),
        changes,
        restarts,
        violations: Violations::default(),
        warnings: rendered.warnings.into(),
    }
}
