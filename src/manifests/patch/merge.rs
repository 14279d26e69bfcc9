//! The merge of a patch into an object, as Kubernetes' strategic merge patch does it for its own kinds.
//!
//! Maps merge key by key, and `null` removes a key. Lists whose elements have a key of their own in Kubernetes' API
//! merge by it; others, and all lists of kinds that others define, are replaced. The directives of `kubectl`
//! (`$patch`) are not taken: JSON Patch says the same.

use serde_json::{Map, Value as Json};

use super::PatchError;
use crate::model::stateful::group;
use crate::waml::node::{Path, Step};

/// The lists of Kubernetes' own kinds that merge, with the keys of their elements: `x-kubernetes-patch-merge-key` of
/// its `OpenAPI`. Ports have one key in containers and another in Services.
const MERGED_LISTS: [(&str, &[&str]); 11] = [
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("ports", &["containerPort", "port"]),
    ("volumes", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("imagePullSecrets", &["name"]),
    ("hostAliases", &["ip"]),
    ("topologySpreadConstraints", &["topologyKey"]),
];

/// The groups of Kubernetes' own kinds that have such lists.
const GROUPS: [&str; 5] = ["", "apps", "batch", "autoscaling", "policy"];

/// Checks that a list of an object merges by that key of its elements; without one, that it merges by any.
pub(crate) fn merges_by(api_version: &str, list: &str, by: Option<&str>) -> bool {
    let keys = MERGED_LISTS.iter().find(|(name, _)| *name == list).map(|(_, keys)| *keys);
    GROUPS.contains(&group(api_version))
        && keys.is_some_and(|keys| by.is_none_or(|by| keys.contains(&by)))
}

/// The place of an error in the patch, and the error.
pub(crate) type MergeError = (Path, PatchError);

/// Lays a patch over an object.
///
/// # Errors
/// The first part of the patch that cannot be merged, with its path in the patch.
pub(crate) fn merge_patch<'p>(
    object: &mut Map<String, Json>,
    patch: impl IntoIterator<Item = (&'p String, &'p Json)>,
) -> Result<(), MergeError> {
    let api_version = object.get("apiVersion").and_then(Json::as_str).unwrap_or_default();
    let has_keys = GROUPS.contains(&group(api_version));
    merge_entries(object, patch, has_keys, &mut Path::root())
}

fn merge_entries<'p>(
    map: &mut Map<String, Json>,
    patch: impl IntoIterator<Item = (&'p String, &'p Json)>,
    has_keys: bool,
    place: &mut Path,
) -> Result<(), MergeError> {
    for (key, value) in patch {
        place.0.push(Step::Key(key.as_str().into()));
        if key.starts_with('$') {
            let error = PatchError::new(
                format!("`{place}` is a directive of kubectl"),
                "say it with `operations`: `{op: remove, path: /…}`",
            );
            return Err((place.clone(), error));
        }
        match value {
            Json::Null => drop(map.shift_remove(key)),
            Json::Object(patch) => {
                let entry = map.entry(key.clone()).or_insert(Json::Null);
                if !entry.is_object() {
                    *entry = Json::Object(Map::new());
                }
                if let Json::Object(inner) = entry {
                    merge_entries(inner, patch, has_keys, place)?;
                }
            }
            Json::Array(patch) => {
                let current = map.entry(key.clone()).or_insert_with(|| Json::Array(Vec::new()));
                let merge_key = merge_key(key, current, patch, has_keys);
                match (merge_key, &mut *current) {
                    (Some(merge_key), Json::Array(list)) => {
                        merge_list(list, patch, merge_key, place)?;
                    }
                    _ => *current = Json::Array(patch.clone()),
                }
            }
            other => drop(map.insert(key.clone(), other.clone())),
        }
        place.0.pop();
    }
    Ok(())
}

/// Finds the key by which the elements of a list merge; `None` for a list that is replaced.
fn merge_key(list: &str, current: &Json, patch: &[Json], has_keys: bool) -> Option<&'static str> {
    let (_, keys) = MERGED_LISTS.iter().find(|(name, _)| *name == list).filter(|_| has_keys)?;
    let elements = || current.as_array().into_iter().flatten().chain(patch);
    let is_in_all = |key: &&&str| elements().all(|element| element.get(**key).is_some());
    keys.iter().find(is_in_all).or(keys.first()).copied()
}

fn merge_list(
    list: &mut Vec<Json>,
    patch: &[Json],
    key: &'static str,
    place: &mut Path,
) -> Result<(), MergeError> {
    for (index, element) in patch.iter().enumerate() {
        place.0.push(Step::Index(index));
        let (Some(identity), Json::Object(patch)) = (element.get(key), element) else {
            let help = format!("add the `{key}` of the element that is meant, or of the new one");
            return Err((
                place.clone(),
                PatchError::new(format!("`{place}` has no `{key}`"), help),
            ));
        };
        let at = list.iter().position(|other| other.get(key) == Some(identity));
        let at = at.unwrap_or_else(|| {
            list.push(Json::Object(Map::new()));
            list.len() - 1
        });
        if let Some(Json::Object(map)) = list.get_mut(at) {
            merge_entries(map, patch, true, place)?;
        }
        place.0.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(object: Json, patch: Json) -> Result<Json, String> {
        let (Json::Object(mut object), Json::Object(patch)) = (object, patch) else { panic!() };
        merge_patch(&mut object, &patch)
            .map_err(|(path, error)| format!("{path}: {}", error.message))?;
        Ok(Json::Object(object))
    }

    fn pod(containers: &Json) -> Json {
        json!({"apiVersion": "apps/v1", "spec": {"containers": containers}})
    }

    #[test]
    fn things_with_names_are_merged_by_them_and_other_lists_are_replaced() {
        let before = pod(&json!([
            {"name": "a", "args": ["x", "y"], "env": [{"name": "A", "value": "1"}],
             "ports": [{"containerPort": 80, "name": "http"}],
             "volumeMounts": [{"mountPath": "/a", "name": "v"}]},
        ]));
        let patch = json!({"spec": {"containers": [
            {"name": "a", "args": ["z"], "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}],
             "ports": [{"containerPort": 80, "hostIP": "::1"}],
             "volumeMounts": [{"mountPath": "/b", "name": "v"}]},
            {"name": "b", "image": "x", "env": null},
        ]}});
        let after = pod(&json!([
            {"name": "a", "args": ["z"],
             "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}],
             "ports": [{"containerPort": 80, "name": "http", "hostIP": "::1"}],
             "volumeMounts": [{"mountPath": "/a", "name": "v"}, {"mountPath": "/b", "name": "v"}]},
            {"name": "b", "image": "x"},
        ]));
        assert_eq!(merged(before, patch), Ok(after));
        // The ports of a Service have another key.
        let service = |ports: Json| json!({"apiVersion": "v1", "spec": {"ports": ports}});
        assert_eq!(
            merged(
                service(json!([{"port": 80, "targetPort": "http"}])),
                json!({"spec": {"ports": [{"port": 80, "nodePort": 1}, {"port": 81}]}})
            ),
            Ok(service(json!([{"port": 80, "targetPort": "http", "nodePort": 1}, {"port": 81}])))
        );
    }

    #[test]
    fn null_removes_a_key_and_lists_of_other_kinds_are_replaced() {
        let object = |spec: Json| json!({"apiVersion": "x.io/v1", "spec": spec});
        assert_eq!(
            merged(
                object(json!({"a": 1, "b": {"c": 1, "d": 2}, "env": [{"name": "A"}]})),
                json!({"spec": {"a": null, "b": {"c": null, "e": {"f": null}}, "env": [{"name": "B"}]}})
            ),
            Ok(object(json!({"b": {"d": 2, "e": {}}, "env": [{"name": "B"}]})))
        );
    }

    #[test]
    fn an_element_without_its_key_and_a_directive_are_refused() {
        let patch = json!({"spec": {"containers": [{"image": "x"}]}});
        assert_eq!(
            merged(pod(&json!([{"name": "a"}])), patch),
            Err("spec.containers[0]: `spec.containers[0]` has no `name`".to_owned())
        );
        let patch = json!({"spec": {"$patch": "replace"}});
        assert_eq!(
            merged(pod(&json!([])), patch),
            Err("spec.$patch: `spec.$patch` is a directive of kubectl".to_owned())
        );
    }
}
