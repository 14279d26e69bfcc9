//! Reads Flagger's Canary from a manifest: which Service and workload Flagger takes over, and what it makes of them.

use serde_json::{Map, Value as Json};

use crate::model::facts::{LiveCanary, LiveObject};

/// Reads a Canary; `None` of every other object.
pub(crate) fn read_canary(object: &Map<String, Json>) -> Option<LiveCanary> {
    object.get("kind").filter(|kind| *kind == "Canary")?;
    let group = object.get("apiVersion")?.as_str()?.split('/').next()?;
    let spec = object.get("spec")?;
    let name = object.get("metadata")?.get("name")?.as_str()?;
    let workload = spec.get("targetRef")?.get("name")?.as_str()?;
    let service = spec.pointer("/service/name").and_then(Json::as_str).unwrap_or(workload);
    let provider = spec.get("provider").and_then(Json::as_str).unwrap_or_default();
    (group == "flagger.app").then(|| LiveCanary {
        name: name.to_owned(),
        service: service.to_owned(),
        workload: workload.to_owned(),
        by_gateway: provider.starts_with("gatewayapi"),
    })
}

/// Lists what Flagger makes of a canary: its Services, and the copy of its workload and of its autoscaler.
pub(crate) fn created_objects(canary: LiveCanary) -> Vec<LiveObject> {
    let created = |api_version: &str, kind: &str, name: String| LiveObject {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name,
    };
    let LiveCanary { service, workload, .. } = canary;
    vec![
        created("v1", "Service", format!("{service}-primary")),
        created("v1", "Service", format!("{service}-canary")),
        created("v1", "Service", service),
        created("autoscaling/v2", "HorizontalPodAutoscaler", format!("{workload}-primary")),
        created("apps/v1", "Deployment", format!("{workload}-primary")),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: &Json) -> Option<LiveCanary> {
        read_canary(json.as_object().unwrap())
    }

    #[test]
    fn a_canary_names_what_flagger_takes_over() {
        let canary = |spec: Json| json!({"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "metadata": {"name": "a"}, "spec": spec});
        let plain = read(&canary(json!({"targetRef": {"name": "a"}}))).unwrap();
        assert_eq!((&*plain.service, plain.by_gateway), ("a", false), "the workload's name");
        let spec = json!({
            "provider": "gatewayapi:v1", "targetRef": {"name": "a"}, "service": {"name": "web"},
        });
        let gateway = read(&canary(spec)).unwrap();
        assert_eq!((&*gateway.service, gateway.by_gateway), ("web", true));
        let names: Vec<String> = created_objects(gateway).iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "Service web-primary",
                "Service web-canary",
                "Service web",
                "HorizontalPodAutoscaler a-primary",
                "Deployment a-primary",
            ]
        );
        for other in [
            canary(json!({})),
            json!({"apiVersion": "x.io/v1", "kind": "Canary", "metadata": {"name": "a"}, "spec": {"targetRef": {"name": "a"}}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}),
        ] {
            assert_eq!(read(&other), None, "{other}");
        }
    }
}
