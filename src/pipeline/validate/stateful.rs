//! A deployment removes nothing that keeps data without saying so.
//!
//! What `latest` holds on the target is compared with what was rendered. Argo CD prunes what is
//! gone, and with a volume claim or a database goes what is in it. Saying so is
//! `removes: [{kind, name}]` in the section; once the object is gone the entry means nothing, and
//! a warning asks for it to be taken out, lest it lets a later object of that name go too.

use super::{Made, Report, unknown};
use crate::manifests::object::Object;
use crate::model::facts::{Fact, LiveApp, LiveObject};
use crate::model::stateful::{group, keeps_data};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::section::Removal;
use crate::waml::typed::quoted;

const RULE: &str = "stateful";

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
    let declared = made.valid.section().removes.as_deref().unwrap_or_default();
    let LiveApp { objects: live, staying, .. } = match &made.valid.facts().live {
        Fact::NotAsked => return,
        Fact::Known { value, .. } => value,
        Fact::Missing { why } => {
            let what = "what this deployment would remove";
            let target = Some(made.valid.target());
            return report.say(unknown::missing(RULE, what, why, target));
        }
    };
    for object in gone(live, made.objects).filter(|o| keeps_data(&o.api_version, &o.kind)) {
        if !declared.iter().any(|removal| is_meant(removal, object)) {
            report.say(undeclared(object, staying.contains(object)));
        }
    }
    for (index, removal) in declared.iter().enumerate() {
        let is_gone = gone(live, made.objects).any(|object| is_meant(removal, object));
        if !is_gone {
            let still =
                made.objects.iter().any(|o| o.kind() == removal.kind && o.name() == removal.name);
            report.add(&Path::root().key("removes").index(index), idle(removal, still));
        }
    }
}

/// What is live and was not rendered; an object is the same in any version of its group.
pub(super) fn gone<'a>(
    live: &'a [LiveObject],
    objects: &'a [Object],
) -> impl Iterator<Item = &'a LiveObject> {
    live.iter().filter(|live| {
        !objects.iter().any(|object| {
            object.kind() == live.kind
                && object.name() == live.name
                && group(object.text(["apiVersion", ""])) == group(&live.api_version)
        })
    })
}

pub(super) fn is_meant(removal: &Removal, object: &LiveObject) -> bool {
    removal.kind == object.kind && removal.name == object.name
}

/// `stays`: Argo CD is told to leave it in the cluster.
fn undeclared(object: &LiveObject, stays: bool) -> Violation {
    let LiveObject { api_version: _, kind, name } = object;
    let message = if stays {
        format!(
            "this deployment would take {kind} `{name}` out of the manifests: Argo CD leaves it in the cluster, \
             and the data in it is no app's"
        )
    } else {
        format!("this deployment would remove {kind} `{name}`, and the data in it")
    };
    Violation::error(RULE, message).help(format!(
        "put back what makes it; if it is to go, say so under the target: `removes: [{{kind: {kind}, name: {name}}}]`"
    ))
}

fn idle(removal: &Removal, still: bool) -> Violation {
    let shown = format!("{} {}", removal.kind, quoted(&removal.name));
    let (message, help) = if still {
        (
            format!("{shown} is still rendered, so nothing removes it"),
            "take away what makes it, or this entry",
        )
    } else {
        (
            format!("there is no {shown} to remove"),
            "take this entry out: it has done its work, or has the wrong name",
        )
    };
    Violation::warning(RULE, message).expected("removes nothing").help(help)
}
