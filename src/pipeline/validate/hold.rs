//! Nobody is held from deploying the app to the target, as automation is after a rollback.

use super::unknown::{self, Wanted};
use super::{Report, Subject};
use crate::model::rollback::{Hold, Holds};
use crate::model::violation::Violation;

const RULE: &str = "hold";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let wanted = Wanted { rule: RULE, what: "whether a hold stops this", path: None };
    let Some(hold) = unknown::known(&subject.facts.hold, &wanted, subject, report) else { return };
    let holds = subject.cluster.map(|target| target.policies.holds).unwrap_or_default();
    if let Some(hold) = hold
        && stops(hold, holds, subject)
    {
        report.say(stopped(hold, holds, subject));
    }
}

/// Automation is stopped; a person, too, who deploys again what was rolled back from.
fn stops(hold: &Hold, holds: Holds, subject: &Subject<'_>) -> bool {
    match holds {
        Holds::Off => false,
        Holds::Everybody => true,
        Holds::Automation => subject.facts.automatic || is_bad(hold, subject),
    }
}

/// Whether it is the release that was rolled back from.
fn is_bad(hold: &Hold, subject: &Subject<'_>) -> bool {
    hold.away.as_ref().is_some_and(|away| away == subject.release)
}

fn stopped(hold: &Hold, holds: Holds, subject: &Subject<'_>) -> Violation {
    let Hold { target, app, by, reason, since, rollback, away, to } = hold;
    let since = since.strftime("%F %H:%M UTC");
    let message = match (rollback, away, to) {
        (Some(_), Some(away), Some(to)) => format!(
            "{by} rolled `{app}` on `{target}` back from {} to {to}, {since}: {reason}",
            away.tag
        ),
        (Some(_), _, Some(to)) => {
            format!("{by} rolled `{app}` on `{target}` back to {to}, {since}: {reason}")
        }
        _ => format!("`{app}` on `{target}` is held by {by} since {since}: {reason}"),
    };
    let release = "release the hold with `bart unhold`";
    let help = match holds {
        Holds::Automation if is_bad(hold, subject) => {
            format!("deploy another release, or {release} to deploy this one all the same")
        }
        Holds::Automation | Holds::Off => {
            format!("a person may deploy a newer release, which ends the hold; or {release}")
        }
        Holds::Everybody => release.to_owned(),
    };
    Violation::error(RULE, message).help(help)
}
