//! No lock stops the deployment.

use super::unknown::{self, Wanted};
use super::{Report, Subject};
use crate::model::lock::{Lock, LockScope};
use crate::model::violation::Violation;

const RULE: &str = "locks";
const UNLOCK: &str =
    "unlock it: `bart locks` shows its id, `bart unlock ID --reason TEXT` takes it away";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let wanted = Wanted { rule: RULE, what: "whether a lock stops this", path: None };
    let Some(locks) = unknown::known(&subject.facts.locks, &wanted, subject, report) else {
        return;
    };
    for lock in locks.iter().filter(|lock| stops(lock, subject)) {
        report.say(stopped(lock));
    }
}

/// Whether the lock is for this deployment and has not run out.
fn stops(lock: &Lock, subject: &Subject<'_>) -> bool {
    let is_for = match &lock.scope {
        LockScope::Everything => true,
        LockScope::Target(target) => target == subject.target,
        LockScope::Owner(owner) => owner.eq_ignore_ascii_case(&subject.waml.owner),
        LockScope::App(target, app) => target == subject.target && *app == subject.waml.app,
    };
    is_for && lock.until.is_none_or(|until| until > subject.facts.taken_at)
}

fn stopped(lock: &Lock) -> Violation {
    let what = match &lock.scope {
        LockScope::Everything => "everything".to_owned(),
        LockScope::Target(target) => format!("`{target}`"),
        LockScope::Owner(owner) => format!("every app of {owner}"),
        LockScope::App(target, app) => format!("`{app}` on `{target}`"),
    };
    let Lock { scope: _, reason, by, since, until } = lock;
    let until_text = until.map_or("until it is unlocked".to_owned(), |until| {
        format!("until {}", until.strftime("%F %H:%M UTC"))
    });
    let message = format!(
        "{what} is locked by {by} since {}, {until_text}: {reason}",
        since.strftime("%F %H:%M UTC"),
    );
    let help = match until {
        Some(_) => format!("deploy again after that, or ask {by} to {UNLOCK}"),
        None => format!("ask {by} to {UNLOCK}"),
    };
    Violation::error(RULE, message).help(help)
}
