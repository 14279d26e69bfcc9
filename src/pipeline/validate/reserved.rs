//! Names that belong to Kubernetes, to the platform or to its operators are not an app's.
//!
//! An app in `kube-system`, or one whose service account is `default`, would act with rights that were
//! given to somebody else. The same list bounds the cluster's AppProject (`manifests/argocd/project.rs`), and what a
//! rollback brings back (`deployments/rollback`).

use super::{Made, Report, Subject};
use crate::manifests::object::Object;
use crate::model::namespaces::NamespaceRefusal;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::waml::node::Path;

const RULE: &str = "reserved";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    // Without the target, the rule `target` says so.
    let Some(target) = subject.cluster else { return };
    // A name that stands in for another is none that somebody wrote.
    let app = &subject.waml.app;
    if subject.waml.has_own_namespace()
        && let Some(violation) = namespace(app.namespace.as_str(), target)
    {
        add(subject, "namespace", violation, report);
    }
    // The kinds that carry the slug as their name.
    let of_slug =
        if subject.waml.has_own_slug() { &["ServiceAccount", "Service"][..] } else { &[] };
    for kind in of_slug.iter().copied() {
        if let Some(owner) = target.owner_of_object(&app.namespace, kind, app.slug.as_str()) {
            let violation = taken("slug", app.slug.as_str(), kind, owner);
            return add(subject, "slug", violation, report);
        }
    }
    for (index, service) in subject.section.service.iter().flatten().enumerate() {
        let Some(name) = &service.name else { continue };
        if let Some(owner) = target.owner_of_object(&app.namespace, "Service", name) {
            let path = Path::root().key("service").index(index).key("name");
            report.add(&path, taken("name", name, "Service", owner));
        }
    }
}

/// The same of what a template makes of it.
pub(super) fn of_object(made: &Made<'_>, object: &Object) -> Option<&'static str> {
    let namespace = &made.valid.waml().app.namespace;
    made.valid.target().owner_of_object(namespace, object.kind(), object.name())
}

fn namespace(name: &str, target: &Target) -> Option<Violation> {
    let NamespaceRefusal { message, expected, help, .. } = target.refuse_namespace(name)?;
    Some(Violation::error(RULE, message).expected(expected).help(help))
}

fn taken(what: &str, name: &str, kind: &str, owner: &str) -> Violation {
    let message = format!("the {what} `{name}` would make the {kind} `{name}`, {owner}");
    Violation::error(RULE, message).expected("is taken").help("choose another name")
}

fn add(subject: &Subject<'_>, key: &str, violation: Violation, report: &mut Report<'_>) {
    let (_, place) = subject.waml.root.nearest(&Path::root().key(key));
    report.add_at(key, place, violation);
}
