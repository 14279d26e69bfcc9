//! Jobs before a release: their names, and what they run.

use super::{RuleReport, Subject, containers};
use crate::model::id::is_rfc1123_label;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    if !containers::is_short("jobs", subject.section.jobs.as_deref(), "jobs", report) {
        return;
    }
    for (path, job) in Path::root().each("jobs", &subject.section.jobs) {
        if !is_rfc1123_label(&job.name) {
            let message = format!("{} is not a legal name of a job", quote(&job.name));
            let violation = Violation::error("jobs", message).expected("not a legal name");
            let help = "use up to 63 lower-case letters, digits and `-`";
            report.add(&path.key("name"), violation.help(help));
        }
        let is_empty = |words: &Option<Vec<String>>| words.as_ref().is_none_or(Vec::is_empty);
        if is_empty(&job.command) && is_empty(&job.args) && !subject.is_unsure("jobs") {
            let message =
                format!("the job {} would run the app itself, which never ends", quote(&job.name));
            let violation = Violation::error("jobs", message).expected("needs `command` or `args`");
            report.add(&path, violation.help("add `command: [/bin/app, migrate]`"));
        }
    }
}
