//! The Pod Security level of the app's namespace: what the cluster would refuse is refused before the push.

use super::{RenderedPlan, RuleReport};
use crate::manifests::pod_security::find_problems;
use crate::manifests::pods::pod_spec;
use crate::model::platform::pod_security::PodSecurityLevel;
use crate::model::violation::Violation;
use crate::waml::node::{Path, is_from_waml};

/// The most faults of one object that are listed: one template makes the same of each container.
const MAX_OF_OBJECT: usize = 8;

pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let valid = plan.valid;
    let namespace = &valid.waml().app.namespace;
    let level = valid.target().platform.pod_security.level_of(namespace);
    if level == PodSecurityLevel::Privileged {
        return;
    }
    let path = Path::root().key("security");
    let is_written = valid.tree().at(&path).is_some_and(is_from_waml);
    for object in plan.objects {
        let Some(spec) = pod_spec(&object.json) else { continue };
        for problem in find_problems(spec, level).into_iter().take(MAX_OF_OBJECT) {
            let message = format!(
                "the namespace `{namespace}` takes no pod of {} `{}`: {problem}",
                object.kind(),
                object.name()
            );
            let help = format!(
                "keep `security` as the template has it, or let an operator give the namespace another level than `{}`",
                level.as_str()
            );
            let violation = Violation::error("pod-security", message)
                .expected("refused by the namespace's level")
                .help(help);
            report.add_or_say(is_written.then_some(&path), violation);
        }
    }
}
