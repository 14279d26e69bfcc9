//! A deployment that removes much is stopped: a template, or a part of the WAML, may have gone missing.
//!
//! How much that is, the target's policy says. What the section's `removes` names does not count.

use super::stateful::{gone, is_meant};
use super::{Made, Report};
use crate::model::facts::{Fact, LiveObject};
use crate::model::lock::{OnRemoval, RemovalLimit};
use crate::model::violation::Violation;

/// More are not named in the message; the help has them all.
const NAMED: usize = 5;

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
    // What is not known is told by the rule `stateful`, which asks the same.
    let Fact::Known { value: live, .. } = &made.valid.facts().live else { return };
    let live = &live.objects;
    let declared = made.valid.section().removes.as_deref().unwrap_or_default();
    let unsaid = |object: &&LiveObject| !declared.iter().any(|removal| is_meant(removal, object));
    let gone: Vec<&LiveObject> = gone(live, made.objects).filter(unsaid).collect();
    let RemovalLimit { objects, percent, action } = made.valid.target().policies.removals;
    let is_many = gone.len() >= objects as usize;
    if !is_many || gone.len() * 100 <= live.len() * percent as usize {
        return;
    }
    let named: Vec<String> = gone
        .iter()
        .take(NAMED)
        .map(|object| format!("{} `{}`", object.kind, object.name))
        .collect();
    let more = gone.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "this deployment removes {} of {} objects: {}{more}",
        gone.len(),
        live.len(),
        named.join(", ")
    );
    let look = "look whether the template, or a large part of the WAML, has gone missing";
    report.say(match action {
        OnRemoval::Warn => Violation::warning("removal", message).help(look),
        OnRemoval::Stop => {
            let entry =
                |object: &&LiveObject| format!("{{kind: {}, name: {}}}", object.kind, object.name);
            let entries: Vec<String> = gone.iter().map(entry).collect();
            let help = format!(
                "{look}; if they are to go, say so under the target: `removes: [{}]`",
                entries.join(", ")
            );
            Violation::error("removal", message).help(help)
        }
    });
}
