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

/// Returns the specification of the pods that an object makes, by its kind: a field that its kind does not have leads
/// nowhere.
pub(crate) fn pod_spec(object: &Map<String, Json>) -> Option<&Json> {
    value_at(object, keys_to_spec(object).iter().copied())
}

/// Returns the annotations of the pods that an object makes.
pub(crate) fn pod_annotations(object: &Map<String, Json>) -> Option<&Map<String, Json>> {
    let (_spec, template) = keys_to_spec(object).split_last()?;
    let keys = template.iter().copied().chain(["metadata", "annotations"]);
    value_at(object, keys)?.as_object()
}

fn value_at(
    object: &Map<String, Json>,
    mut keys: impl Iterator<Item = &'static str>,
) -> Option<&Json> {
    let first = object.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.get(key))
}

/// Lists the containers of a pod, of all its kinds.
pub(crate) fn containers(pod_spec: &Json) -> impl Iterator<Item = &Json> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().filter_map(|list| pod_spec.get(list)?.as_array()).flatten()
}

/// Returns the same specification, to change it.
fn pod_spec_mut(object: &mut Map<String, Json>) -> Option<&mut Map<String, Json>> {
    let mut keys = keys_to_spec(object).iter();
    let first = object.get_mut(*keys.next()?)?;
    keys.try_fold(first, |value, key| value.get_mut(*key))?.as_object_mut()
}

/// Returns the keys that lead to the specification of pods.
fn keys_to_spec(object: &Map<String, Json>) -> &'static [&'static str] {
    match object.get("kind").and_then(Json::as_str) {
        Some("CronJob") => &["spec", "jobTemplate", "spec", "template", "spec"],
        Some("Pod") => &["spec"],
        _ => &["spec", "template", "spec"],
    }
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
        let object = |kind: &str, spec: Json| {
            let Json::Object(json) = json!({"kind": kind, "spec": spec}) else { unreachable!() };
            Object::of_template("", json)
        };
        let written = |image: &str, tool: &str| {
            vec![
                object("Deployment", json!({"template": pod(image, tool)})),
                object("CronJob", json!({"jobTemplate": {"spec": {"template": pod(image, tool)}}})),
                object("Service", json!({"ports": [80], "image": "app:1"})),
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

    #[test]
    fn a_field_that_a_kind_does_not_have_leads_to_no_other_pods() {
        let own = json!({"containers": [{"name": "own"}]});
        let strange = json!({"spec": {"template": {"spec": {"containers": []}}}});
        let spec = json!({"template": {"spec": own}, "jobTemplate": strange});
        for (kind, expected) in
            [("Deployment", Some(&own)), ("Job", Some(&own)), ("Pod", Some(&spec))]
        {
            let object = json!({"kind": kind, "spec": spec});
            assert_eq!(pod_spec(object.as_object().unwrap()), expected, "{kind}");
        }
        let object = json!({"kind": "CronJob", "spec": spec});
        let of_jobs = pod_spec(object.as_object().unwrap()).unwrap();
        assert_eq!(containers(of_jobs).count(), 0);
        assert_eq!(pod_spec(json!({"kind": "Service"}).as_object().unwrap()), None);
    }
}
