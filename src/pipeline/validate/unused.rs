//! What the WAML sets is used by the template: a warning, so that nothing is ignored in silence.

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::node::{Path, is_from_waml};

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (part, entry) in subject.tree.as_map().into_iter().flatten() {
        // For the rules, not for templates.
        let is_ours = matches!(part.as_str(), "template" | "removes");
        if is_ours || subject.template.uses(part) || !is_from_waml(&entry.node) {
            continue;
        }
        let message = format!("the template `{}` makes nothing of `{part}`", subject.template.id());
        let violation = Violation::warning("unused", message)
            .expected("without effect")
            .help(format!("remove `{part}`, or use a template that knows it"));
        report.add(&Path::root().key(part), violation);
    }
}
