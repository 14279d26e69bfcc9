//! The schedule parses and matches some day, its time zone exists, and a template of jobs has one.

use std::sync::LazyLock;

use jiff::tz::TimeZoneDatabase;

use super::{RuleReport, Subject, schedule};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::suggest;

/// The names that the bundled tz database has: the same on every machine.
static ZONES: LazyLock<Vec<String>> = LazyLock::new(|| {
    TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_owned()).collect()
});

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let cron = subject.section.cron.as_ref();
    let path = Path::root().key("cron");
    match cron.and_then(|cron| cron.schedule.as_deref()) {
        Some(text) => {
            if let Err(fault) = schedule::check(text) {
                let violation = Violation::error("cron", fault.message).expected("no schedule");
                report.add(&path.key("schedule"), violation.help(fault.help));
            }
        }
        None if cron.is_some() || is_for_jobs(subject) => {
            let message =
                format!("`{}` runs on a schedule, and there is none", subject.template.id());
            let violation = Violation::error("cron", message).expected("needs `cron.schedule`");
            let help = "add `cron: {schedule: \"30 4 * * *\"}`: each day at 4:30";
            report.add(&path, violation.help(help));
        }
        None => {}
    }
    if let Some(zone) = cron.and_then(|cron| cron.time_zone.as_deref()) {
        time_zone(zone, &path.key("timeZone"), report);
    }
}

/// Returns true for a template of jobs: its `defaults.yaml` has `cron`.
pub(super) fn is_for_jobs(subject: &Subject<'_>) -> bool {
    subject.template.uses("cron") && subject.template.defaults.get("cron").is_some()
}

/// Checks the time zone. Kubernetes distinguishes case here, and does not take `Local`.
fn time_zone(zone: &str, path: &Path, report: &mut RuleReport<'_>) {
    if ZONES.iter().any(|name| name == zone) {
        return;
    }
    let violation = Violation::error("cron", format!("there is no time zone {}", quote(zone)))
        .expected("no such time zone");
    let help = match suggest::nearest(zone, ZONES.iter().map(String::as_str)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "use a name of the tz database, such as `Europe/Berlin` or `UTC`".to_owned(),
    };
    report.add(path, violation.help(help));
}
