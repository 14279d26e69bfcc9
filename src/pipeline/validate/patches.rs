//! Patches that could not be applied, and extra manifests that cannot be used; [`crate::pipeline::patches`] and
//! [`crate::pipeline::extra_objects`] read them.

use super::{RenderedPlan, RuleReport};

pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    for (path, violation) in plan.refused_patches {
        report.add(path, violation.clone());
    }
}

pub(super) fn check_files(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    for (path, violation) in plan.refused_files {
        report.add_or_say(path.as_ref(), violation.clone());
    }
}
