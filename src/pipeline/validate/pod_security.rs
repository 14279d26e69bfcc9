//! The Pod Security level of the app's namespace: what the cluster would refuse is refused before the push.

use super::{RenderedPlan, RuleReport};
use crate::manifests::object::Object;
use crate::manifests::pod_security::find_problems;
use crate::model::platform::pod_security::PodSecurityLevel;
use crate::model::violation::Violation;
use crate::waml::node::{Node, Path, is_from_waml};

/// The most faults of one object that are listed: one template makes the same of each container.
const MAX_OF_OBJECT: usize = 8;

pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let valid = plan.valid;
    let (namespace, target) = (&valid.waml().app.namespace, valid.target());
    let level = target.platform.pod_security.level_of(namespace);
    if level == PodSecurityLevel::Privileged {
        return;
    }
    let security = Path::root().key("security");
    let is_written = valid.tree().at(&security).is_some_and(is_from_waml);
    for object in plan.objects {
        let problems = find_problems(&object.json, level, target.kubernetes());
        for problem in problems.into_iter().take(MAX_OF_OBJECT) {
            let (path, remedy) = match &problem.annotation {
                Some(key) => (
                    find_annotation(valid.tree(), object, key),
                    "remove the annotation, or name `runtime/default` or `localhost/PROFILE`",
                ),
                None => {
                    (is_written.then(|| security.clone()), "keep `security` as the template has it")
                }
            };
            let message = format!(
                "the namespace `{namespace}` takes no pod of {} `{}`: {}",
                object.kind(),
                object.name(),
                problem.message
            );
            let help = format!(
                "{remedy}, or let an operator give the namespace another level than `{}`",
                level.as_str()
            );
            let violation = Violation::error("pod-security", message)
                .expected("refused by the namespace's level")
                .help(help);
            report.add_or_say(path.as_ref(), violation);
        }
    }
}

/// Finds where the settings have an annotation of an object's pods: in the last patch of the object that writes it, else
/// among `annotations`; `None` where the template has it.
fn find_annotation(tree: &Node, object: &Object, key: &str) -> Option<Path> {
    let pointer_end = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    let patches = Path::root().key("patches");
    let mut place = None;
    for (n, patch) in tree.at(&patches).and_then(Node::as_list).into_iter().flatten().enumerate() {
        let mut path = patches.index(n);
        // The source of an object names the patches that were applied to it.
        if object.source.contains(&format!("`{path}`")) {
            patch.leaves(&mut path, &mut |path, leaf| {
                let is_pointer = || leaf.as_text().is_some_and(|text| text.ends_with(&pointer_end));
                if path.last_key() == key || (path.last_key() == "path" && is_pointer()) {
                    place = Some(path.clone());
                }
            });
        }
    }
    let setting = Path::root().key("annotations").key(key);
    place.or_else(|| tree.at(&setting).is_some().then_some(setting))
}
