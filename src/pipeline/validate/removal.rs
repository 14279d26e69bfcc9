//! A deployment that removes much is stopped: a template, or a part of the WAML, may have gone missing.
//!
//! How much that is, the target's policy says. What the section's `removes` names does not count. A help has
//! room for some dozen names: of more, warnings beside the error have the other lines to write.

use super::stateful::{gone, is_meant};
use super::{Made, Report};
use crate::model::facts::{Fact, LiveObject};
use crate::model::lock::{OnRemoval, RemovalLimit};
use crate::model::violation::Violation;

/// More are not named in the message; the helps have them all.
const NAMED: usize = 5;
/// How many bytes of entries one help has: with the words around them it is shown whole.
const LONGEST_LINE: usize = 1600;

const RULE: &str = "removal";

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
    // What is not known is told by the rule `stateful`, which asks the same.
    let Fact::Known { value: live, .. } = &made.valid.facts().live else { return };
    let live = &live.objects;
    let declared = made.valid.section().removes.as_deref().unwrap_or_default();
    let is_undeclared =
        |object: &&LiveObject| !declared.iter().any(|removal| is_meant(removal, object));
    let gone: Vec<&LiveObject> = gone(live, made.objects).filter(is_undeclared).collect();
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
    match action {
        OnRemoval::Warn => report.say(Violation::warning(RULE, message).help(look)),
        OnRemoval::Stop => {
            let lines = lines(&gone);
            let count = lines.len();
            let mut lines = lines.into_iter();
            let first = lines.next().unwrap_or_default();
            let all = if count > 1 {
                format!(" (line 1 of {count}; the warnings beside this have the others)")
            } else {
                String::new()
            };
            let help = format!(
                "{look}; if they are to go, say so under the target: `removes: [{first}]`{all}"
            );
            report.say(Violation::error(RULE, message).help(help));
            for (index, line) in lines.enumerate() {
                let message =
                    format!("what this deployment removes, line {} of {count}", index + 2);
                let help =
                    format!("if these are to go, too, add them to the same `removes`: `{line}`");
                report.say(Violation::warning(RULE, message).help(help));
            }
        }
    }
}

/// The entries of `removes` for all objects, in as few lines as helps have room for.
fn lines(gone: &[&LiveObject]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for LiveObject { kind, name, .. } in gone {
        let entry = format!("{{kind: {kind}, name: {name}}}");
        match lines.last_mut() {
            Some(line) if line.len() + entry.len() < LONGEST_LINE => {
                line.push_str(", ");
                line.push_str(&entry);
            }
            _ => lines.push(entry),
        }
    }
    lines
}
