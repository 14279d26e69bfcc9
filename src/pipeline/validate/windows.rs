//! The target is open: the windows of its policy allow a deployment now.

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::model::window::{self, Opening, Weekly};

const RULE: &str = "windows";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let windows = subject.cluster.map_or(&[][..], |target| &target.policies.windows);
    if windows.is_empty() {
        return;
    }
    // The configuration was refused if one cannot be read. Whoever brings one all the same must
    // not find the door open.
    let read: Result<Vec<Weekly>, _> = windows.iter().map(Weekly::parse).collect();
    let opening = match read {
        Ok(read) => window::at(&read, subject.facts.taken_at),
        Err(error) => {
            let message = format!("a window of `{}` cannot be read: {error}", subject.target);
            return report.say(Violation::error(RULE, message).help("tell the operator"));
        }
    };
    let Opening::Closed { reason, next } = opening else { return };
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let message = format!("`{}` takes no deployments at this time{why}", subject.target);
    let help = match next {
        Some(next) => {
            format!("deploy again from {} on", next.strftime("%A, %F %H:%M %Z"))
        }
        None => "no time of the week is open: ask the operator".to_owned(),
    };
    report.say(Violation::error(RULE, message).help(help));
}
