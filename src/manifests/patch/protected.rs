//! What a patch leaves as it was rendered: the name of an object, what the-deployer and Argo CD read, the image and the
//! identity of pods, and what gives pods rights on their node.
//!
//! It compares the object before and after, so that it does not matter how a patch was written.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::PatchError;
use crate::manifests::RESERVED_KEYS;
use crate::manifests::pods::{containers, pod_spec};

/// Kinds that a WAML can patch unless the template says otherwise: workloads and what belongs to them alone. Routes,
/// certificates, identities, secrets, stores and network policies are not among them: rules judge those by the
/// settings, and other teams depend on them.
pub(crate) const PATCHABLE: [&str; 8] = [
    "ConfigMap",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "Service",
    "StatefulSet",
];

/// Parts of any object that stay, as JSON Pointers.
const FIXED_FIELDS: [&str; 8] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/generateName",
    "/metadata/namespace",
    "/metadata/finalizers",
    "/metadata/ownerReferences",
    "/status",
];

/// Parts of some kinds that stay, each with what says it instead.
const FIXED_FIELDS_BY_KIND: [(&[&str], &str, &str); 9] = [
    (SCALED, "/spec/replicas", "set `scaling.replicas`"),
    (SCALED, "/spec/selector", "Kubernetes cannot change it"),
    (&["Service"], "/spec/selector", "it leads to the app's pods"),
    (&["Service"], "/spec/type", "an `ingress` makes the app reachable from elsewhere"),
    (&["Service"], "/spec/externalName", "an `ingress` makes the app reachable from elsewhere"),
    (&["Service"], "/spec/externalIPs", "an `ingress` makes the app reachable from elsewhere"),
    (&["Service"], "/spec/clusterIP", "it is the cluster's to choose"),
    (&["PodDisruptionBudget"], "/spec/selector", "it is that of the app's pods"),
    (&["HorizontalPodAutoscaler"], "/spec/scaleTargetRef", "it scales the app's own workload"),
];

const SCALED: &[&str] = &["Deployment", "StatefulSet", "DaemonSet"];

/// Finds what must not have changed and has.
pub(crate) fn find_change(
    before: &Map<String, Json>,
    after: &Map<String, Json>,
) -> Option<PatchError> {
    let kind = before.get("kind").and_then(Json::as_str).unwrap_or_default();
    let is_other = |pointer: &str| at(before, pointer) != at(after, pointer);
    if let Some(pointer) = FIXED_FIELDS.iter().find(|pointer| is_other(pointer)) {
        let help = "leave it out: it is what the object is known by";
        return Some(PatchError::new(format!("a patch cannot change `{}`", dotted(pointer)), help));
    }
    let by_kind = FIXED_FIELDS_BY_KIND.iter().filter(|(kinds, ..)| kinds.contains(&kind));
    if let Some((_, pointer, help)) = by_kind.into_iter().find(|(_, pointer, _)| is_other(pointer))
    {
        return Some(PatchError::new(
            format!("a patch cannot change `{}`", dotted(pointer)),
            *help,
        ));
    }
    let (old, new) = (reserved_values(before), reserved_values(after));
    if let Some((path, _)) = old.symmetric_difference(&new).next() {
        let message = format!("a patch cannot change `{path}`, which is set by the-deployer");
        return Some(PatchError::new(message, "leave it out, or use a key with another prefix"));
    }
    if SCALED.contains(&kind) && !has_selected_labels(after) {
        let help = "leave the labels that `spec.selector` names as they are";
        return Some(PatchError::new("the pods would not have the labels that select them", help));
    }
    pods_change(pod_spec(before), pod_spec(after))
}

/// Checks that the pods of a workload have the labels by which it knows them.
fn has_selected_labels(workload: &Map<String, Json>) -> bool {
    let labels = at(workload, "/spec/template/metadata/labels");
    let selected = at(workload, "/spec/selector/matchLabels").and_then(Json::as_object);
    let is_there =
        |(key, value): (&String, &Json)| labels.and_then(|labels| labels.get(key)) == Some(value);
    selected.into_iter().flatten().all(is_there)
}

fn at<'a>(object: &'a Map<String, Json>, pointer: &str) -> Option<&'a Json> {
    let (first, rest) = pointer.get(1..)?.split_once('/').unwrap_or((pointer.get(1..)?, ""));
    let value = object.get(first)?;
    if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// Collects the labels and annotations with reserved keys, of the object and of its pods, by their paths.
fn reserved_values(object: &Map<String, Json>) -> BTreeSet<(String, String)> {
    fn walk(map: &Map<String, Json>, path: &str, values: &mut BTreeSet<(String, String)>) {
        for (key, value) in map {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{key}");
            match value {
                Json::Object(entries) if matches!(key.as_str(), "labels" | "annotations") => {
                    let is_reserved =
                        |key: &str| RESERVED_KEYS.iter().any(|prefix| key.starts_with(prefix));
                    let reserved = entries.iter().filter(|(key, _)| is_reserved(key));
                    values.extend(reserved.map(|(k, v)| (format!("{path}.{k}"), v.to_string())));
                }
                Json::Object(inner) => walk(inner, &path, values),
                Json::Array(list) => {
                    for inner in list.iter().filter_map(Json::as_object) {
                        walk(inner, &path, values);
                    }
                }
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
            }
        }
    }
    let mut values = BTreeSet::new();
    walk(object, "", &mut values);
    values
}

fn pods_change(before: Option<&Json>, after: Option<&Json>) -> Option<PatchError> {
    let no_pods = Json::Null;
    let (before, after) = (before.unwrap_or(&no_pods), after.unwrap_or(&no_pods));
    for key in ["serviceAccountName", "serviceAccount", "nodeName"] {
        if before.get(key) != after.get(key) {
            let message = format!("a patch cannot change `{key}` of pods");
            return Some(PatchError::new(
                message,
                "leave it out: it is the identity of the app's pods",
            ));
        }
    }
    for container in containers(before) {
        let name = container.get("name");
        let patched = containers(after).find(|other| other.get("name") == name);
        let name = name.and_then(Json::as_str).unwrap_or_default();
        let Some(patched) = patched else {
            let message = format!("a patch cannot remove or rename the container `{name}`");
            return Some(PatchError::new(message, "change it, or add another one beside it"));
        };
        if patched.get("image") != container.get("image") {
            let message = format!("a patch cannot change the image of the container `{name}`");
            let help = "the image is that of the release: set `image` in the WAML";
            return Some(PatchError::new(message, help));
        }
    }
    let (old, new) = (node_rights(before), node_rights(after));
    let right = new.difference(&old).next()?;
    let message = format!("a patch cannot give pods a right on their node: {right}");
    Some(PatchError::new(
        message,
        "leave it out; what an app needs of its node is the template's to give",
    ))
}

/// Lists what Kubernetes' Pod Security Standard `baseline` refuses of a pod, but for what `security` in a WAML says.
fn node_rights(spec: &Json) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    let is_true = |value: Option<&Json>| value.and_then(Json::as_bool) == Some(true);
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        if is_true(spec.get(key)) {
            rights.insert(format!("`{key}`"));
        }
    }
    for volume in spec.get("volumes").and_then(Json::as_array).into_iter().flatten() {
        if let Some(host_path) = volume.get("hostPath") {
            rights.insert(format!("a volume with `hostPath` ({host_path})"));
        }
    }
    add_context_rights("the pod", spec.get("securityContext"), &mut rights);
    for container in containers(spec) {
        let name = container.get("name").and_then(Json::as_str).unwrap_or_default();
        let owner = format!("the container `{name}`");
        add_context_rights(&owner, container.get("securityContext"), &mut rights);
        for port in container.get("ports").and_then(Json::as_array).into_iter().flatten() {
            if let Some(port) = port.get("hostPort").filter(|port| port.as_u64() != Some(0)) {
                rights.insert(format!("`hostPort` {port} of {owner}"));
            }
        }
    }
    rights
}

fn add_context_rights(owner: &str, context: Option<&Json>, rights: &mut BTreeSet<String>) {
    let Some(context) = context else { return };
    if context.get("privileged").and_then(Json::as_bool) == Some(true) {
        rights.insert(format!("`privileged` of {owner}"));
    }
    for key in ["procMount", "seLinuxOptions", "sysctls"] {
        if let Some(value) = context.get(key) {
            rights.insert(format!("`{key}` of {owner} ({value})"));
        }
    }
    let host_process = context.pointer("/windowsOptions/hostProcess").and_then(Json::as_bool);
    if host_process == Some(true) {
        rights.insert(format!("`hostProcess` of {owner}"));
    }
    let profile = context.pointer("/appArmorProfile/type").and_then(Json::as_str);
    if profile == Some("Unconfined") {
        rights.insert(format!("`appArmorProfile` of {owner}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Json {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n", "labels": {"app.kubernetes.io/name": "a"}},
            "spec": {"replicas": 2, "template": {
                "metadata": {"annotations": {"the-deployer.dev/files": "x"}},
                "spec": {"serviceAccountName": "a", "containers": [{"name": "a", "image": "i:1"}]},
            }},
        })
    }

    /// Sets one place of the Deployment to a value, and says what is wrong with that.
    fn refusal(pointer: &str, value: Json) -> String {
        let before = deployment();
        let mut after = before.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let holder = after.pointer_mut(parent).unwrap();
        match holder {
            Json::Array(list) => list[key.parse::<usize>().unwrap()] = value,
            holder => drop(holder.as_object_mut().unwrap().insert(key.replace("~1", "/"), value)),
        }
        let (before, after) = (before.as_object().unwrap(), after.as_object().unwrap());
        find_change(before, after).map_or_else(String::new, |error| error.message)
    }

    #[test]
    fn the_rest_of_an_object_can_change() {
        for (pointer, value) in [
            ("/metadata/annotations", json!({"example.com/a": "b"})),
            ("/spec/strategy", json!({"type": "Recreate"})),
            ("/spec/template/spec/hostAliases", json!([{"ip": "::1", "hostnames": ["a"]}])),
            (
                "/spec/template/spec/containers",
                json!([{"name": "b", "image": "x"}, {"name": "a", "image": "i:1"}]),
            ),
            ("/spec/template/spec/volumes", json!([{"name": "v", "emptyDir": {}}])),
        ] {
            assert_eq!(refusal(pointer, value), "", "{pointer}");
        }
    }

    #[test]
    fn what_others_rely_on_cannot() {
        for (pointer, value, expected) in [
            ("/kind", json!("StatefulSet"), "`kind`"),
            ("/metadata/name", json!("b"), "`metadata.name`"),
            ("/metadata/namespace", json!("other"), "`metadata.namespace`"),
            ("/metadata/finalizers", json!(["x/y"]), "`metadata.finalizers`"),
            (
                "/metadata/labels/app.kubernetes.io~1name",
                json!("b"),
                "metadata.labels.app.kubernetes.io/name",
            ),
            ("/metadata/labels", json!({}), "metadata.labels.app.kubernetes.io/name"),
            (
                "/metadata/annotations",
                json!({"argocd.argoproj.io/hook": "Sync"}),
                "argocd.argoproj.io/hook",
            ),
            ("/spec/template/metadata/annotations", json!({}), "the-deployer.dev/files"),
            ("/spec/replicas", json!(3), "`spec.replicas`"),
            ("/spec/selector", json!({}), "`spec.selector`"),
            ("/spec/template/spec/serviceAccountName", json!("other"), "`serviceAccountName`"),
            (
                "/spec/template/spec/containers/0",
                json!({"name": "a", "image": "i:2"}),
                "the image of the container `a`",
            ),
            ("/spec/template/spec/containers", json!([]), "remove or rename the container `a`"),
            ("/spec/template/spec/hostNetwork", json!(true), "`hostNetwork`"),
            (
                "/spec/template/spec/volumes",
                json!([{"name": "v", "hostPath": {"path": "/"}}]),
                "`hostPath`",
            ),
            (
                "/spec/template/spec/initContainers",
                json!([{"name": "i", "securityContext": {"privileged": true}}]),
                "`privileged` of the container `i`",
            ),
            (
                "/spec/template/spec/containers/0",
                json!({"name": "a", "image": "i:1", "ports": [{"hostPort": 80}]}),
                "`hostPort` 80",
            ),
            ("/spec/template/spec/securityContext", json!({"sysctls": []}), "`sysctls` of the pod"),
        ] {
            let message = refusal(pointer, value);
            assert!(message.contains(expected), "{pointer}: {message}");
        }
    }
}
