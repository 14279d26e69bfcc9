//! Rendered objects are well formed and in the app's namespace, and none is rendered twice.
//!
//! The last rule: it guards against mistakes of templates, so its violations name the template.

use std::collections::HashSet;

use super::{RenderedPlan, RuleReport, names};
use crate::manifests::files::file_names;
use crate::manifests::object::Object;
use crate::model::id::{AppKey, is_rfc1123_label};
use crate::model::revision::ManifestFile;
use crate::model::stateful::group;
use crate::model::violation::Violation;
use crate::templates::set::Template;
use crate::waml::quote::quote;

const RULE: &str = "rendered";

/// Kinds without a namespace: one app must not change what all share. Kinds that begin with
/// `Cluster` need no entry.
const CLUSTER_SCOPED: &[&str] = &[
    // Kubernetes
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
    // Kinds of operators that many clusters have
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
    "CiliumClusterwideEnvoyConfig",
    "CiliumClusterwideNetworkPolicy",
    "CiliumNode",
    "EC2NodeClass",
    "GatewayClass",
    "GlobalNetworkPolicy",
    "GlobalNetworkSet",
    "NodeClaim",
    "NodePool",
    "VolumeGroupSnapshotClass",
    "VolumeGroupSnapshotContent",
    "VolumeSnapshotClass",
    "VolumeSnapshotContent",
];

/// Kinds that begin with `Cluster` and live in a namespace all the same: databases and the like.
/// Every other `Cluster…` is by custom the form of a kind that is for the whole cluster.
const NAMESPACED: &[&str] = &[
    "Cluster",
    "ClusterClass",
    "ClusterLogForwarder",
    "ClusterLogging",
    "ClusterResourceSet",
    "ClusterResourceSetBinding",
    "ClusterServiceVersion",
];

/// Checks all objects of one deployment.
pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    for (object, violation) in violations(plan.objects, &plan.valid.waml().app, plan.template) {
        match object {
            Some(object) => report.say_of(object, "metadata.name", violation),
            None => report.say(violation),
        }
    }
    for object in plan.objects {
        if let Some(owner) = names::reserved_for(plan, object) {
            let message = format!("has a name that is taken: it is {owner}");
            let violation =
                fault(object, &message, "choose another name for the part that creates it");
            report.say_of(object, "metadata.name", violation);
        }
    }
}

/// Lists what is wrong, with the objects that it is wrong with.
fn violations<'o>(
    objects: &'o [Object],
    app: &AppKey,
    template: &Template,
) -> Vec<(Option<&'o Object>, Violation)> {
    let mut violations = Vec::new();
    if objects.is_empty() {
        let message = format!("the template `{}` renders no object at all", template.id());
        let violation = Violation::error(RULE, message);
        violations.push((None, violation.help("look at the conditions in the template")));
    }
    let mut ids = HashSet::new();
    for (object, file) in objects.iter().zip(file_names(objects, app)) {
        let faults = well_formed(object).or_else(|| check_file_name(object, &file)).into_iter();
        let faults = faults.chain(check_namespace(object, app));
        violations.extend(faults.map(|violation| (Some(object), violation)));
        // `v1` and `v2` of a group are two views of one object.
        let id = (group(object.text(["apiVersion", ""])), object.kind(), object.name());
        if !ids.insert(id) {
            let violation = fault(object, "is rendered twice", "give the second one another name");
            violations.push((Some(object), violation));
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
    // Tools take a list apart, and what is in it would pass by every check here.
    if object.json.get("items").is_some_and(|items| items.is_array() || is_list(object)) {
        return Some(fault(object, "is a list of objects", "render each object by itself"));
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

/// Checks that the object's file can be pushed: its name has those of the kind and of the object in it.
fn check_file_name(object: &Object, file: &str) -> Option<Violation> {
    let (length, most) = (file.len(), ManifestFile::LONGEST_NAME);
    (length > most).then(|| {
        let message = format!("has a name that is too long for its file: {length} bytes of {most}");
        fault(object, &message, "choose a shorter name")
    })
}

fn check_namespace(object: &Object, app: &AppKey) -> Option<Violation> {
    if is_cluster_scoped(object.kind()) {
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

fn is_list(object: &Object) -> bool {
    object.kind().ends_with("List")
}

fn is_cluster_scoped(kind: &str) -> bool {
    CLUSTER_SCOPED.contains(&kind) || (kind.starts_with("Cluster") && !NAMESPACED.contains(&kind))
}

fn fault(object: &Object, message: &str, help: &str) -> Violation {
    let name = quote(object.name());
    let object_text = if object.kind().is_empty() {
        "an object".to_owned()
    } else {
        format!("{} {name}", object.kind())
    };
    Violation::error(RULE, format!("{object_text} {message} ({})", object.source)).help(help)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::model::id::{Namespace, Slug};
    use crate::templates::set::TemplateSet;

    /// Checks objects in the namespace `n`, given by version, kind, and more.
    fn check_objects(objects: &[(&str, &str, Json)]) -> Vec<String> {
        let object = |(version, kind, extra): &(&str, &str, Json)| {
            let mut json = json!({
                "apiVersion": version, "kind": kind,
                "metadata": {"name": "a", "namespace": "n"},
            });
            let extra = extra.as_object().unwrap().clone();
            json.as_object_mut().unwrap().extend(extra);
            Object::of_template("f", json.as_object().unwrap().clone())
        };
        let objects: Vec<Object> = objects.iter().map(object).collect();
        let app =
            AppKey { namespace: Namespace::parse("n").unwrap(), slug: Slug::parse("a").unwrap() };
        let templates = TemplateSet::compile(&crate::templates::sources::built_in()).unwrap();
        let template = templates.iter().next().unwrap();
        violations(&objects, &app, template)
            .into_iter()
            .map(|(_, violation)| violation.message)
            .collect()
    }

    #[test]
    fn a_version_makes_no_other_object() {
        let twice =
            [("autoscaling/v1", "Scaler", json!({})), ("autoscaling/v2", "Scaler", json!({}))];
        assert_eq!(check_objects(&twice), ["Scaler `a` is rendered twice (template f)"]);
        let apart =
            [("v1", "Service", json!({})), ("serving.knative.dev/v1", "Service", json!({}))];
        assert_eq!(check_objects(&apart), Vec::<String>::new());
    }

    #[test]
    fn a_list_is_no_object() {
        for (kind, items) in
            [("List", json!([])), ("ConfigMapList", json!({})), ("ConfigMap", json!([]))]
        {
            let messages = check_objects(&[("v1", kind, json!({"items": items}))]);
            assert_eq!(messages, [format!("{kind} `a` is a list of objects (template f)")]);
        }
        assert_eq!(check_objects(&[("v1", "AccessList", json!({}))]), Vec::<String>::new());
    }

    #[test]
    fn what_all_share_is_left_to_operators() {
        for kind in
            ["ClusterRole", "ClusterSecretStore", "ClusterPolicy", "GatewayClass", "Namespace"]
        {
            let messages = check_objects(&[("x/v1", kind, json!({}))]);
            assert_eq!(messages, [format!("{kind} `a` belongs to the whole cluster (template f)")]);
        }
        assert_eq!(
            check_objects(&[("postgresql.cnpg.io/v1", "Cluster", json!({}))]),
            Vec::<String>::new()
        );
    }
}
