//! The pods that an object makes, and the images of their containers.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::manifests::object::Object;

/// Replaces the images of all containers by other names of the same images: that by tag and digest for that by tag.
pub(crate) fn rename_images(objects: &mut [Object], names: &BTreeMap<String, String>) {
    if names.is_empty() {
        return;
    }
    let pods = objects.iter_mut().filter_map(|object| pod_spec_mut(&mut object.json));
    let lists = pods.flat_map(|pod| {
        pod.iter_mut().filter(|(key, _)| matches!(key.as_str(), "containers" | "initContainers"))
    });
    let containers = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
    for image in containers.filter_map(|container| container.get_mut("image")) {
        if let Some(name) = image.as_str().and_then(|image| names.get(image)) {
            *image = Json::from(name.as_str());
        }
    }
}

/// Returns the specification of the pods that an object makes, of whatever kind it is.
pub(crate) fn pod_spec(object: &Map<String, Json>) -> Option<&Json> {
    let spec = object.get("spec")?;
    if object.get("kind").and_then(Json::as_str) == Some("Pod") {
        return Some(spec);
    }
    let spec = spec.get("jobTemplate").map_or(Some(spec), |job| job.get("spec"))?;
    spec.get("template")?.get("spec")
}

/// Returns the specification of the pods of a workload, to change it.
fn pod_spec_mut(object: &mut Map<String, Json>) -> Option<&mut Map<String, Json>> {
    let spec = object.get_mut("spec")?;
    let spec = match spec.get("jobTemplate") {
        Some(_) => spec.get_mut("jobTemplate")?.get_mut("spec")?,
        None => spec,
    };
    spec.get_mut("template")?.get_mut("spec")?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_are_renamed_in_every_kind_of_workload_and_others_stay() {
        let pod = |image: &str, tool: &str| {
            json!({"spec": {"containers": [{"name": "a", "image": image}, {"name": "b", "image": "other:1"}],
                            "initContainers": [{"name": "c", "image": tool}]}})
        };
        let object = |spec: Json| {
            let Json::Object(json) = json!({"kind": "X", "spec": spec}) else { unreachable!() };
            Object { source: String::new(), json }
        };
        let written = |image: &str, tool: &str| {
            vec![
                object(json!({"template": pod(image, tool)})),
                object(json!({"jobTemplate": {"spec": {"template": pod(image, tool)}}})),
                object(json!({"ports": [80], "image": "app:1"})),
            ]
        };
        let mut objects = written("app:1", "tool:2");
        let names = [("app:1", "app:1@sha256:aa"), ("tool:2", "tool:2@sha256:bb")];
        let names = names.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        rename_images(&mut objects, &names);
        assert_eq!(objects, written("app:1@sha256:aa", "tool:2@sha256:bb"));
        rename_images(&mut objects, &BTreeMap::new());
        assert_eq!(objects, written("app:1@sha256:aa", "tool:2@sha256:bb"));
    }
}
