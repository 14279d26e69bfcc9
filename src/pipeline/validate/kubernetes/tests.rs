use serde_json::json;

use super::*;
use crate::waml::node::{Map as NodeMap, Node, Origin, Value};

/// What is said of one object.
fn said(object: Json) -> Vec<String> {
    let Json::Object(json) = object else { panic!("no object") };
    let position =
        crate::model::violation::Position { file: "f".into(), line: 1, column: 1, length: 1 };
    let tree = Node::new(Value::Map(NodeMap::new()), Origin { position, layer: "l".into() });
    let mut report = Report { tree: &tree, violations: Vec::new() };
    violations(&Object { source: "f".to_owned(), json }, &mut report);
    report
        .violations
        .iter()
        .map(|v| format!("{} → {}", v.message, v.help.as_deref().unwrap_or_default()))
        .collect()
}

fn deployment(pod: &Json) -> Json {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": pod}},
    })
}

const NONE: [&str; 0] = [];
const HELP: &str = "correct the template, or the value of the WAML that it puts there";

#[test]
fn the_schema_can_be_read_whole() {
    let json: Json = serde_json::from_str(include_str!("schema.json")).unwrap();
    let count = json["types"].as_array().unwrap().len();
    assert!(count > 150 && SCHEMA.object(count - 1).is_some() && SCHEMA.object(count).is_none());
    for kind in ["apps/v1 Deployment", "v1 Service", "batch/v1 CronJob", "v1 PersistentVolumeClaim"]
    {
        let (version, kind) = kind.split_once(' ').unwrap();
        assert!(SCHEMA.kind(version, kind).is_some(), "{kind}");
    }
}

#[test]
fn what_kubernetes_takes_passes() {
    let container = json!({
        "name": "a", "image": "i", "command": ["x"], "env": [{"name": "A", "value": "1"}],
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "0.5", "memory": "1Gi"}, "requests": {"cpu": 1}},
        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
        "lifecycle": null,
    });
    assert_eq!(said(deployment(&json!({"containers": [container]}))), NONE);
    let rollout = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": 7});
    assert_eq!(said(rollout), NONE);
}

#[test]
fn what_kubernetes_refuses_is_told_with_its_path() {
    let of = "Deployment `a`:";
    let cases: [(Json, &str, &str); 10] = [
        (
            json!({"containers": [{"name": "a", "imge": "i"}]}),
            "`spec.template.spec.containers[0]` has no field `imge`",
            "did you mean `image`?",
        ),
        (
            json!({"containers": [{"image": "i"}]}),
            "`spec.template.spec.containers[0]` needs the field `name`",
            HELP,
        ),
        (json!({"containers": null}), "`spec.template.spec` needs the field `containers`", HELP),
        (
            json!({"containers": {"name": "a"}}),
            "`spec.template.spec.containers` must be a list, but is a map",
            HELP,
        ),
        (
            json!({"containers": [], "restartPolicy": "Alway"}),
            "`spec.template.spec.restartPolicy` cannot be `Alway`",
            "use one of `Always`, `OnFailure` and `Never`",
        ),
        (
            json!({"containers": [], "hostNetwork": "yes"}),
            "`spec.template.spec.hostNetwork` must be true or false, but is another text",
            HELP,
        ),
        (
            json!({"containers": [], "priority": 3_000_000_000_u64}),
            "`spec.template.spec.priority` must be a whole number of 32 bits, but is the number 3000000000",
            HELP,
        ),
        (
            json!({"containers": [], "nodeSelector": {"a": true}}),
            "`spec.template.spec.nodeSelector.a` must be text, but is true or false",
            HELP,
        ),
        (
            json!({"containers": [], "overhead": {"cpu": "1 GB"}}),
            "`spec.template.spec.overhead.cpu` must be a quantity, like `200m` or `256Mi`, but is another text",
            HELP,
        ),
        (
            json!({"containers": [7]}),
            "`spec.template.spec.containers[0]` must be a map, but is the number 7",
            HELP,
        ),
    ];
    for (pod, fault, help) in cases {
        assert_eq!(said(deployment(&pod)), [format!("{of} {fault} (template f) → {help}")]);
    }
}

#[test]
fn a_version_that_kubernetes_no_longer_has_is_told() {
    let old = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}});
    assert_eq!(
        said(old),
        [
            "PodDisruptionBudget `a` is of `policy/v1beta1`, which Kubernetes does not have (template f) → use `policy/v1` in the template"
        ]
    );
    assert_eq!(said(json!({"apiVersion": "v1", "kind": "Endpoints"})), NONE);
    assert_eq!(said(json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service"})), NONE);
}

#[test]
fn a_wholly_wrong_object_does_not_flood_its_reader() {
    let many: Vec<Json> = (0..100).map(|_| json!({"name": 1})).collect();
    assert_eq!(said(deployment(&json!({"containers": many}))).len(), MOST);
}
