//! Patches that could not be applied; [`crate::pipeline::patches`] applies them.

use super::{RenderedPlan, RuleReport};

pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    for (path, violation) in plan.refused_patches {
        report.add(path, violation.clone());
    }
}
