//! Rendered objects are well formed, in the app's namespace, and none is there twice.
//!
//! The last rule: it guards against mistakes of templates, so its violations name the template.

use std::collections::HashSet;

use crate::model::id::{AppKey, is_rfc1123_label};
use crate::model::violation::Violation;
use crate::pipeline::render::Object;
use crate::pipeline::templates::Template;

const RULE: &str = "rendered";

/// Kinds without a namespace: one app must not change what all share.
const CLUSTER_SCOPED: [&str; 14] = [
    "Namespace",
    "Node",
    "PersistentVolume",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "StorageClass",
    "IngressClass",
    "PriorityClass",
    "RuntimeClass",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ClusterIssuer",
];

/// Checks all objects of one deployment.
pub(crate) fn check(objects: &[Object], app: &AppKey, template: &Template) -> Vec<Violation> {
    let mut violations = Vec::new();
    if objects.is_empty() {
        let message = format!("the template `{}` renders no object at all", template.id());
        violations
            .push(Violation::error(RULE, message).help("look at the conditions in the template"));
    }
    let mut seen = HashSet::new();
    for object in objects {
        violations.extend(well_formed(object));
        violations.extend(placed(object, app));
        let id = (object.text(["apiVersion", ""]), object.kind(), object.name());
        if !seen.insert(id) {
            violations.push(fault(object, "is rendered twice", "give the second one another name"));
        }
    }
    violations
}

fn well_formed(object: &Object) -> Option<Violation> {
    let legal_kind = |kind: &str| {
        kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    if object.text(["apiVersion", ""]).is_empty() || !legal_kind(object.kind()) {
        return Some(fault(object, "has no `apiVersion` or no `kind`", "add both to the template"));
    }
    // RFC 1123 subdomain, except for Services, whose name is a label.
    let name = object.name();
    let short_enough = name.len() <= if object.kind() == "Service" { 63 } else { 253 };
    if !short_enough || !name.split('.').all(is_rfc1123_label) {
        return Some(fault(
            object,
            "has no legal name",
            "use lower-case letters, digits, `-` and `.`",
        ));
    }
    None
}

fn placed(object: &Object, app: &AppKey) -> Option<Violation> {
    if CLUSTER_SCOPED.contains(&object.kind()) {
        return Some(fault(
            object,
            "belongs to the whole cluster",
            "leave it to the cluster's operators",
        ));
    }
    let namespace = object.text(["metadata", "namespace"]);
    (namespace != app.namespace.as_str()).then(|| {
        let message =
            format!("is in the namespace `{namespace}`, not in the app's, `{}`", app.namespace);
        fault(object, &message, "leave `metadata.namespace` out of the template")
    })
}

fn fault(object: &Object, message: &str, help: &str) -> Violation {
    let name = crate::waml::typed::quoted(object.name());
    let shown = if object.kind().is_empty() {
        "an object".to_owned()
    } else {
        format!("{} {name}", object.kind())
    };
    Violation::error(RULE, format!("{shown} {message} (template {})", object.source)).help(help)
}
