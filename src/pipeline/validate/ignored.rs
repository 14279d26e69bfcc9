//! Nothing that is written is without effect in silence.

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::pipeline::effect::{find_overridden, without_effect};

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for one in without_effect(subject.section, subject.tree) {
        let message = format!("`{}` does nothing: {}", one.path, one.why);
        let violation = Violation::warning("ignored", message).expected("without effect");
        report.add(&one.path, violation.help(one.help));
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
