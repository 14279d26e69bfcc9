//! Several processes of one image: their names, and what they run.

use super::{RuleReport, Subject};
use crate::model::id::is_rfc1123_label;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;

const RULE: &str = "processes";
/// The most processes: each has pods, and all of the app's variables and folders.
pub(super) const MAX_PROCESSES: usize = 16;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let section = subject.section;
    let place = Path::root().key("processes");
    let count = section.processes.as_ref().map_or(0, indexmap::IndexMap::len);
    if count > MAX_PROCESSES {
        let message = format!("an app has at most {MAX_PROCESSES} processes, and this has {count}");
        let violation = Violation::error(RULE, message).expected("too many");
        report.add(&place, violation.help("make some of them an app of their own"));
        return;
    }
    if section.other_processes().next().is_some()
        && section.versions.as_ref().is_some_and(|versions| !versions.is_empty())
    {
        let message = "an app with live versions has one process, `web`";
        let violation = Violation::error(RULE, message).expected("not beside `versions`");
        report.add(&place, violation.help("make the others an app of their own"));
    }
    let is_job = |name: &str| section.jobs.iter().flatten().any(|job| job.name == name);
    for (name, process) in section.other_processes() {
        let path = place.key(name);
        let refusal = if !is_rfc1123_label(name) {
            Some(("not a legal name", "use up to 63 lower-case letters, digits and `-`"))
        } else if is_job(name) || (name == "redis" && section.redis.is_some()) {
            Some(("is taken", "a job, or the app's Redis, has this name: choose another one"))
        } else if name == "primary" && section.canary.is_some() {
            Some(("is taken", "Flagger calls its copy of a canary so: choose another one"))
        } else {
            None
        };
        if let Some((expected, help)) = refusal {
            let message = format!("a process cannot be called {}", quote(name));
            report.add(&path, Violation::error(RULE, message).expected(expected).help(help));
        }
        let is_empty = |words: &Option<Vec<String>>| words.as_ref().is_none_or(Vec::is_empty);
        if is_empty(&process.command) && is_empty(&process.args) && !subject.is_unsure(RULE) {
            let message = format!("the process {} would do what `web` does", quote(name));
            let violation = Violation::error(RULE, message).expected("needs `command` or `args`");
            report.add(&path, violation.help("add `command: [/bin/app, worker]`"));
        }
    }
}
