//! The commit is on a branch that the target takes: a feature branch does not reach production.

use super::unknown::{self, Wanted};
use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::support::globs::Globs;
use crate::waml::suggest;
use crate::waml::typed::quoted;

const RULE: &str = "branch";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(globs) = subject.cluster.and_then(|target| target.policies.branches.as_deref()) else {
        return;
    };
    let what = "whether the commit is on a branch that the target takes";
    let wanted = Wanted { rule: RULE, what, path: None };
    let Some(found) = unknown::known(&subject.facts.branches, &wanted, subject, report) else {
        return;
    };
    let allowed = Globs::parse_readable(globs);
    if found.iter().any(|branch| allowed.is_match(branch)) {
        return;
    }
    let age = unknown::age(&subject.facts.branches, subject);
    let on = match found.as_slice() {
        [] => "on none of the branches".to_owned(),
        [one] => format!("on {}, which is none of the branches", quoted(one)),
        [one, ..] => format!("on {} and others, none of them one of the branches", quoted(one)),
    };
    let commit = subject.release.commit.short();
    let target = subject.target;
    let message = format!("the commit {commit} is {on} that `{target}` takes{age}");
    let list = suggest::list(globs.iter().map(String::as_str));
    let help = format!("`{target}` takes {list}: merge the commit there and deploy it again");
    report.say(Violation::error(RULE, message).help(help));
}
