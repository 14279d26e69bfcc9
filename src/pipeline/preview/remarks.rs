//! Violations at their lines of the WAML, each once for all targets that it applies to.

use super::{Preview, PreviewEffect, TargetPreview};
use crate::model::preview::Remark;
use crate::model::violation::{Severity, Violation};
use crate::support::markdown::count;
use crate::support::text::truncate_chars;

/// The limit of remarks: GitHub takes 50 with one call, and nobody reads more.
pub(super) const MAX: usize = 50;
/// The limit of a title, below GitHub's 255.
const TITLE: usize = 200;
/// The limit of a message, below GitHub's 64 KB.
const MESSAGE: usize = 2_000;

/// A violation, and the targets that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedViolation<'p> {
    pub(super) violation: &'p Violation,
    pub(super) targets: Vec<&'p str>,
}

/// Collects all violations, errors first, then in the order of the file; each once.
pub(super) fn collect_findings(preview: &Preview) -> Vec<SharedViolation<'_>> {
    let mut shared_violations: Vec<SharedViolation<'_>> = Vec::new();
    for target in &preview.targets {
        for violation in violations(target) {
            let known_violation =
                shared_violations.iter_mut().find(|shared| is_same(shared.violation, violation));
            match known_violation {
                Some(shared) if shared.targets.last() == Some(&target.target.as_str()) => {}
                Some(shared) => shared.targets.push(target.target.as_str()),
                None => {
                    shared_violations
                        .push(SharedViolation { violation, targets: vec![target.target.as_str()] });
                }
            }
        }
    }
    let place = |shared: &SharedViolation<'_>| {
        let at = shared.violation.position.as_ref().map(|p| (p.file.clone(), p.line, p.column));
        (shared.violation.severity, at.is_none(), at)
    };
    shared_violations.sort_by_key(place);
    shared_violations
}

fn violations(target: &TargetPreview) -> impl Iterator<Item = &Violation> {
    let errors: &[Violation] = match &target.outlook {
        PreviewEffect::Refused(errors) => errors,
        PreviewEffect::New(_)
        | PreviewEffect::Changes { .. }
        | PreviewEffect::Same
        | PreviewEffect::Unknown(_) => &[],
    };
    errors.iter().chain(&target.warnings)
}

/// Messages name the target, the host or the derived name: by the text alone, one mistake under
/// `defaults` would be as many as there are targets.
fn is_same(a: &Violation, b: &Violation) -> bool {
    a.rule == b.rule
        && a.severity == b.severity
        && a.position == b.position
        && (a.message == b.message || (a.position.is_some() && a.path == b.path))
}

/// Lists the findings that are at a line of the WAML, which is `file`, or of a file that it names; at most [`MAX`].
pub(super) fn remarks(violations: &[SharedViolation<'_>], file: &str) -> Vec<Remark> {
    let remarks = violations.iter().filter_map(|violation| remark(violation, file));
    remarks.take(MAX).collect()
}

/// Lists the findings at lines of any of a repository's WAMLs.
pub(super) fn of_files(violations: &[SharedViolation<'_>]) -> Vec<Remark> {
    let of_file = |shared: &SharedViolation<'_>| {
        let file = shared.violation.position.as_ref()?.file.clone();
        remark(shared, &file)
    };
    violations.iter().filter_map(of_file).take(MAX).collect()
}

fn remark(shared: &SharedViolation<'_>, file: &str) -> Option<Remark> {
    let SharedViolation { violation, targets } = shared;
    let is_in_commit = |file_name: &str| file_name == file || violation.is_in_extra_file();
    let place = violation.position.as_ref().filter(|place| is_in_commit(&place.file))?;
    let help = violation.help.as_ref().map_or_else(String::new, |help| format!("\n{help}"));
    let kind = match violation.severity {
        Severity::Error => "violation",
        Severity::Warning => "warning",
    };
    Some(Remark {
        file: place.file.to_string(),
        line: place.line.max(1),
        severity: violation.severity,
        title: truncate_chars(&format!("{}: {kind} on {}", violation.rule, on(targets, 3)), TITLE)
            .into_owned(),
        message: truncate_chars(&format!("{}{help}", violation.message), MESSAGE).into_owned(),
    })
}

/// Writes `a, b and 3 targets more`.
pub(super) fn on(targets: &[&str], most: usize) -> String {
    let first_targets: Vec<&str> = targets.iter().take(most).copied().collect();
    let hidden_targets = targets.len().saturating_sub(first_targets.len());
    let names = first_targets.join(", ");
    if hidden_targets > 0 {
        format!("{names} and {} more", count(hidden_targets, "target"))
    } else {
        names
    }
}
