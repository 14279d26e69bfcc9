//! Every setting of the WAML has an effect; those without one get a warning.

use super::{RuleReport, Subject};
use crate::model::violation::Violation;
use crate::pipeline::effect::{find_overridden, without_effect};
use crate::waml::node::{Path, is_from_waml};

/// Reports values in whose stead others count.
pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    for value in without_effect(subject.section, subject.tree) {
        let message = format!("`{}` does nothing: {}", value.path, value.why);
        let violation = Violation::warning("ignored", message).expected("without effect");
        report.add(&value.path, violation.help(value.help));
    }
    for (path, place) in subject.waml.overridden(find_overridden) {
        let message =
            format!("`{path}` does nothing: every target that it is for has another value");
        let violation = Violation::warning("ignored", message)
            .expected("overridden everywhere")
            .help("remove it; `bart explain` shows what is in its stead");
        report.add_at(&path.to_string(), place.clone(), violation);
    }
}

/// Reports parts that the template does not use.
pub(super) fn check_unused(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    for (part, entry) in subject.tree.as_map().into_iter().flatten() {
        // For the rules, not for templates.
        let is_ours = matches!(
            part.as_str(),
            "template" | "removes" | "parameters" | "patches" | "manifests"
        );
        let is_used = match part.as_str() {
            // It is in the routes of the one and the backends of the other.
            "traffic" => ["versions", "ingress"].iter().all(|part| subject.template.uses(part)),
            // The rule `autoscaling` refuses it where the number of pods is the template's.
            "autoscaling" => {
                ["autoscaling", "scaling"].iter().any(|part| subject.template.uses(part))
            }
            part => subject.template.uses(part),
        };
        if is_ours || is_used || !is_from_waml(&entry.node) {
            continue;
        }
        let message = format!("the template `{}` does not use `{part}`", subject.template.id());
        let violation = Violation::warning("unused", message)
            .expected("without effect")
            .help(format!("remove `{part}`, or use a template that uses it"));
        report.add(&Path::root().key(part), violation);
    }
}
