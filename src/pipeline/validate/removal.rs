//! A deployment that removes much is told: a template, or a part of the WAML, may have gone missing.

use super::stateful::gone;
use super::{Made, Report};
use crate::model::facts::Fact;
use crate::model::violation::Violation;

/// Fewer than this are told only when they keep data, by the rule `stateful`.
const MANY: usize = 5;

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
    let Fact::Known { value: live, .. } = &made.valid.facts().live else { return };
    let live_count = live.objects.len();
    let gone: Vec<String> = gone(&live.objects, made.objects)
        .map(|object| format!("{} `{}`", object.kind, object.name))
        .collect();
    if gone.len() < MANY || gone.len() * 2 <= live_count {
        return;
    }
    let first = gone.get(..MANY).unwrap_or(&gone).join(", ");
    let more = gone.len() - MANY;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message =
        format!("this deployment removes {} of {} objects: {first}{more}", gone.len(), live_count);
    let violation = Violation::warning("removal", message);
    report.say(
        violation.help("look whether the template, or a large part of the WAML, has gone missing"),
    );
}
