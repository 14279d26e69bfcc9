//! A deployment removes no object that keeps data, and not many objects at once, unless the WAML says so: a template,
//! or a part of the WAML, may be missing.
//!
//! The live objects on the target are compared with the rendered ones. Argo CD prunes the missing ones, and with a
//! volume claim or a database goes its data. The WAML says so with `removes: [{kind, name}]` in the section; once the
//! object is gone the entry means nothing, and a warning asks to remove it, lest it lets a later object of that name go
//! too.

use super::{RenderedPlan, RuleReport, unknown};
use crate::manifests::object::Object;
use crate::model::facts::{Fact, LiveApp, LiveObject};
use crate::model::lock::{OnRemoval, RemovalLimit};
use crate::model::stateful::keeps_data;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section::Removal;

/// More are not named in the message; the helps have them all.
const MAX_NAMES: usize = 5;
/// The limit of bytes of entries in one help: with the words around them it is shown whole.
const LONGEST_LINE: usize = 1600;

/// Stops a deployment that removes many objects without naming them. The target's policy sets the number. A help has
/// room for some dozen names: with more, warnings beside the error have the other lines to write.
pub(super) fn check_count(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    // The rule `stateful` reports a fact that is not known.
    let Fact::Known { value: live, .. } = &plan.valid.facts().live else { return };
    let live = &live.objects;
    let declared = plan.valid.section().removes.as_deref().unwrap_or_default();
    let is_undeclared =
        |object: &&LiveObject| !declared.iter().any(|removal| is_meant(removal, object));
    let removed_objects: Vec<&LiveObject> =
        find_removed(live, plan.objects).filter(is_undeclared).collect();
    let RemovalLimit { objects, percent, action } = plan.valid.target().policies.removals;
    let is_many = removed_objects.len() >= objects as usize;
    if !is_many || removed_objects.len() * 100 <= live.len() * percent as usize {
        return;
    }
    let names: Vec<String> = removed_objects
        .iter()
        .take(MAX_NAMES)
        .map(|object| format!("{} `{}`", object.kind, object.name))
        .collect();
    let hidden = removed_objects.len().saturating_sub(MAX_NAMES);
    let ending = if hidden > 0 { format!(" and {hidden} more") } else { String::new() };
    let message = format!(
        "this deployment removes {} of {} objects: {}{ending}",
        removed_objects.len(),
        live.len(),
        names.join(", ")
    );
    let look = "check whether the template, or a large part of the WAML, is missing";
    match action {
        OnRemoval::Warn => report.say(Violation::warning("removal", message).help(look)),
        OnRemoval::Stop => {
            let lines = lines(&removed_objects);
            let count = lines.len();
            let mut lines = lines.into_iter();
            let first = lines.next().unwrap_or_default();
            let continuation = if count > 1 {
                format!(" (line 1 of {count}; the warnings beside this have the others)")
            } else {
                String::new()
            };
            let help = format!(
                "{look}; if they are to go, say so under the target: `removes: [{first}]`{continuation}"
            );
            report.say(Violation::error("removal", message).help(help));
            for (index, line) in lines.enumerate() {
                let message =
                    format!("what this deployment removes, line {} of {count}", index + 2);
                let help =
                    format!("if these are to go, too, add them to the same `removes`: `{line}`");
                report.say(Violation::warning("removal", message).help(help));
            }
        }
    }
}

/// Writes the entries of `removes` for all objects, in as few lines as helps have room for.
fn lines(removed_objects: &[&LiveObject]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for LiveObject { kind, name, .. } in removed_objects {
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

/// Refuses to remove what keeps data, unless it is named.
pub(super) fn stateful(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let declared = plan.valid.section().removes.as_deref().unwrap_or_default();
    let LiveApp { objects: live, staying, .. } = match &plan.valid.facts().live {
        Fact::NotAsked => return,
        Fact::Known { value, .. } => value,
        Fact::Missing { why } => {
            let what = "what this deployment would remove";
            let target = Some(plan.valid.target());
            return report.say(unknown::unknown_fact("stateful", what, why, target));
        }
    };
    for object in find_removed(live, plan.objects).filter(|o| keeps_data(&o.api_version, &o.kind)) {
        if !declared.iter().any(|removal| is_meant(removal, object)) {
            report.say(describe_undeclared(object, staying.contains(object)));
        }
    }
    for (path, removal) in Path::root().each("removes", &plan.valid.section().removes) {
        let is_gone = find_removed(live, plan.objects).any(|object| is_meant(removal, object));
        if !is_gone {
            let still =
                plan.objects.iter().any(|o| o.kind() == removal.kind && o.name() == removal.name);
            report.add(&path, idle_removal(removal, still));
        }
    }
}

/// Finds the live objects that were not rendered; an object is the same in any version of its group.
fn find_removed<'a>(
    live: &'a [LiveObject],
    objects: &[Object],
) -> impl Iterator<Item = &'a LiveObject> {
    let rendered: Vec<LiveObject> = objects.iter().map(Object::identity).collect();
    live.iter().filter(move |live| !rendered.iter().any(|object| object.is_same(live)))
}

fn is_meant(removal: &Removal, object: &LiveObject) -> bool {
    removal.kind == object.kind && removal.name == object.name
}

/// Describes an object that is removed without an entry. `stays` says that Argo CD leaves it in the cluster.
fn describe_undeclared(object: &LiveObject, stays: bool) -> Violation {
    let LiveObject { api_version: _, kind, name } = object;
    let message = if stays {
        format!(
            "this deployment would take {kind} `{name}` out of the manifests: Argo CD leaves it in the cluster, \
             and the data in it then belongs to no app"
        )
    } else {
        format!("this deployment would remove {kind} `{name}`, and the data in it")
    };
    Violation::error("stateful", message).help(format!(
        "put back the part that creates it; if it is to go, say so under the target: `removes: [{{kind: {kind}, name: {name}}}]`"
    ))
}

fn idle_removal(removal: &Removal, still: bool) -> Violation {
    let object_text = format!("{} {}", removal.kind, quote(&removal.name));
    let (message, help) = if still {
        (
            format!("{object_text} is still rendered, so nothing removes it"),
            "remove the part that creates it, or remove this entry",
        )
    } else {
        (
            format!("there is no {object_text} to remove"),
            "remove this entry: the object is gone already, or the name is wrong",
        )
    };
    Violation::warning("stateful", message).expected("removes nothing").help(help)
}
