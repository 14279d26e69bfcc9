use serde_json::json;

use super::*;
use crate::waml::node::{Map as NodeMap, Node, Origin, Value};

/// Checks one object for a cluster whose version is not configured.
fn check_object(object: Json) -> Vec<String> {
    check_object_on(None, object)
}

/// Checks an object for the cluster `prod` of that version.
fn check_object_in(version: &str, object: Json) -> Vec<String> {
    check_object_on(KubernetesVersion::parse(version), object)
}

fn check_object_on(version: Option<KubernetesVersion>, object: Json) -> Vec<String> {
    let target = Target { version, ..Target::unconfigured("prod".parse().unwrap()) };
    let Json::Object(json) = object else { panic!("no object") };
    let position =
        crate::model::violation::Position { file: "f".into(), line: 1, column: 1, length: 1 };
    let tree = Node::new(Value::Map(NodeMap::new()), Origin { position, layer: "l".into() });
    let mut report = RuleReport { tree: &tree, violations: Vec::new() };
    violations(&Object::of_template("f", json), Cluster::of(&target), &mut report);
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
    let versions = (KubernetesVersion::OLDEST, KubernetesVersion::NEWEST);
    assert_eq!(json["oldest"], versions.0.minor());
    assert_eq!(json["newest"], versions.1.minor());
    let rule = super::super::RULES.iter().find(|rule| rule.name == RULE).unwrap();
    assert!(rule.source.contains(&format!("{} to {}", versions.0, versions.1)), "{}", rule.source);
    let count = json["types"].as_array().unwrap().len();
    assert!(count > 150 && SCHEMA.object(count - 1).is_some() && SCHEMA.object(count).is_none());
    for kind in ["apps/v1 Deployment", "v1 Service", "batch/v1 CronJob", "v1 PersistentVolumeClaim"]
    {
        let (version, kind) = kind.split_once(' ').unwrap();
        let kind = SCHEMA.kind(version, kind).unwrap_or_else(|| panic!("{kind}"));
        assert!(SCHEMA.of_kind(kind).is_some(), "{version} {kind:?}");
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
    assert_eq!(check_object(deployment(&json!({"containers": [container]}))), NONE);
    let rollout = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": 7});
    assert_eq!(check_object(rollout), NONE);
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
        assert_eq!(check_object(deployment(&pod)), [format!("{of} {fault} (template f) → {help}")]);
    }
}

#[test]
fn a_version_that_kubernetes_no_longer_has_is_told() {
    let old = json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}});
    assert_eq!(
        check_object(old),
        [
            "PodDisruptionBudget `a` is of `policy/v1beta1`, which Kubernetes 1.37, against which `prod` is checked because it has no `version`, does not have: it was there until 1.24 (template f) → use `policy/v1` in the template"
        ]
    );
    assert_eq!(check_object(json!({"apiVersion": "v1", "kind": "Endpoints"})), NONE);
    assert_eq!(
        check_object(json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service"})),
        NONE
    );
}

#[test]
fn a_wholly_wrong_object_does_not_flood_its_reader() {
    let many: Vec<Json> = (0..100).map(|_| json!({"name": 1})).collect();
    assert_eq!(check_object(deployment(&json!({"containers": many}))).len(), MAX);
}

/// Returns a Deployment whose pod has one field more.
fn pod_with(key: &str, value: &Json) -> Json {
    let mut pod = json!({"containers": []});
    pod[key] = value.clone();
    deployment(&pod)
}

const LEAVE_OUT: &str = "leave it out for this cluster: templates see `target.kubernetes.minor`";
const UPGRADE: &str = "once the cluster is upgraded, change its `version` in the configuration";

#[test]
fn a_field_that_the_clusters_version_does_not_have_yet_is_told() {
    let object = || pod_with("hostnameOverride", &json!("a"));
    assert_eq!(
        check_object_in("1.29", object()),
        [format!(
            "Deployment `a`: `spec.template.spec` has no field `hostnameOverride` in Kubernetes 1.29, the version of `prod`: it is there since 1.34 (template f) → {LEAVE_OUT}; {UPGRADE}"
        )]
    );
    for version in ["1.34", "1.37"] {
        assert_eq!(check_object_in(version, object()), NONE, "{version}");
    }
    assert_eq!(check_object_in("1.33", object()).len(), 1);
    assert_eq!(check_object(object()), NONE, "without a version the newest counts");
}

#[test]
fn a_field_that_the_clusters_version_has_no_more_is_told() {
    let object = || pod_with("workloadRef", &json!({"name": "a", "podGroup": "b"}));
    let only = "it is there in 1.35 only (template f)";
    let what = "Deployment `a`: `spec.template.spec` has no field `workloadRef` in Kubernetes";
    assert_eq!(check_object_in("1.35", object()), NONE);
    assert_eq!(
        check_object_in("1.36", object()),
        [format!("{what} 1.36, the version of `prod`: {only} → {LEAVE_OUT}")]
    );
    let newest = "1.37, against which `prod` is checked because it has no `version`";
    let say_so = "if the cluster is older, say so by `clusters[].version` in the configuration";
    assert_eq!(
        check_object(object()),
        [format!("{what} {newest}: {only} → {LEAVE_OUT}; {say_so}")]
    );
    let claim = || {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
            "spec": {"resources": {"claims": [{"name": "x"}], "requests": {"storage": "1Gi"}}},
        })
    };
    assert_eq!(check_object_in("1.26", claim()), NONE);
    let messages = check_object_in("1.29", claim());
    let expected = "`spec.resources` has no field `claims` in Kubernetes 1.29, the version of `prod`: it is there from 1.26 to 1.28 only";
    assert!(messages.len() == 1 && messages[0].contains(expected), "{messages:?}");
}

#[test]
fn a_guess_is_a_field_that_the_version_has() {
    let messages = check_object_in("1.25", pod_with("schedulingGatez", &json!([])));
    assert!(messages[0].contains("has no field `schedulingGatez` (template f)"), "{messages:?}");
    assert!(!messages[0].contains("did you mean"), "{messages:?}");
    let messages = check_object_in("1.26", pod_with("schedulingGatez", &json!([])));
    assert!(messages[0].ends_with("did you mean `schedulingGates`?"), "{messages:?}");
}

#[test]
fn an_api_version_that_the_clusters_version_does_not_have_is_told() {
    let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    let cases = [
        (
            "1.29",
            object("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
            "HorizontalPodAutoscaler `a` is of `autoscaling/v2beta2`, which Kubernetes 1.29, the version of `prod`, does not have: it was there until 1.25 (template f) → use `autoscaling/v1` and `autoscaling/v2` in the template",
        ),
        (
            "1.29",
            object("extensions/v1beta1", "Deployment"),
            "Deployment `a` is of `extensions/v1beta1`, which Kubernetes 1.29, the version of `prod`, does not have: it was there until 1.15 (template f) → use `apps/v1` in the template",
        ),
        (
            "1.30",
            object("resource.k8s.io/v1", "ResourceClaimTemplate"),
            "ResourceClaimTemplate `a` is of `resource.k8s.io/v1`, which Kubernetes 1.30, the version of `prod`, does not have: it is there since 1.34 (template f) → use `resource.k8s.io/v1alpha2` in the template",
        ),
        (
            "1.35",
            object("certificates.k8s.io/v1", "PodCertificateRequest"),
            "PodCertificateRequest `a` is of `certificates.k8s.io/v1`, which Kubernetes 1.35, the version of `prod`, does not have: it is there since 1.37 (template f) → use `certificates.k8s.io/v1beta1` in the template",
        ),
        (
            "1.33",
            object("scheduling.k8s.io/v1beta1", "PodGroup"),
            "PodGroup `a` is of `scheduling.k8s.io/v1beta1`, which Kubernetes 1.33, the version of `prod`, does not have: it is there since 1.37 (template f) → leave it out for this cluster: templates see `target.kubernetes.minor`; once the cluster is upgraded, change its `version` in the configuration",
        ),
        (
            "1.29",
            object("apps/v3", "Deployment"),
            "Deployment `a` is of `apps/v3`, which no version of Kubernetes up to 1.37 has (template f) → use `apps/v1` in the template",
        ),
    ];
    for (version, object, expected) in cases {
        assert_eq!(check_object_in(version, object), [expected]);
    }
    let claims = object("resource.k8s.io/v1", "ResourceClaimTemplate");
    assert_eq!(check_object(claims), NONE, "its fields are not looked at");
    let scaler = json!({
        "apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "a"}},
    });
    assert_eq!(check_object_in("1.25", scaler), NONE);
}

#[test]
fn a_value_and_a_need_are_those_of_the_clusters_version() {
    let tolerations = |operator: &str| pod_with("tolerations", &json!([{"operator": operator}]));
    assert_eq!(check_object_in("1.35", tolerations("Gt")), NONE);
    let messages = check_object_in("1.34", tolerations("Gt"));
    let expected = "`spec.template.spec.tolerations[0].operator` cannot be `Gt` in Kubernetes 1.34, the version of `prod`: it is there since 1.35";
    assert!(messages.len() == 1 && messages[0].contains(expected), "{messages:?}");
    let messages = check_object_in("1.34", tolerations("Exist"));
    assert!(messages[0].ends_with("→ use one of `Exists` and `Equal`"), "{messages:?}");
    let set = || {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"},
            "spec": {"selector": {}, "template": {"spec": {"containers": []}}},
        })
    };
    assert_eq!(check_object_in("1.33", set()), NONE);
    assert_eq!(
        check_object_in("1.32", set()),
        [format!(
            "StatefulSet `a`: `spec` needs the field `serviceName` in Kubernetes 1.32, the version of `prod`: it may be left out since 1.33 (template f) → {HELP}"
        )]
    );
}

#[test]
fn a_condition_of_a_pod_has_a_status_to_compare_with() {
    let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
        "spec": {"podFailurePolicy": {"rules": rules}, "template": {"spec": {"containers": []}}},
    });
    assert_eq!(check_object(job), NONE);
}

#[test]
fn a_version_that_is_not_known_is_judged_by_the_nearest() {
    let object = || pod_with("hostnameOverride", &json!("a"));
    assert_eq!(check_object_in("1.99", object()), NONE);
    assert!(check_object_in("1.9", object())[0].contains("Kubernetes 1.25, the version of `prod`"));
}

fn without_pause(object: &mut Json) {
    let containers = object.pointer_mut("/spec/template/spec/containers");
    for container in containers.and_then(Json::as_array_mut).into_iter().flatten() {
        if container.pointer("/lifecycle/preStop/sleep").is_some() {
            container.as_object_mut().unwrap().remove("lifecycle");
        }
    }
}

fn with_plain_sidecars(object: &mut Json) {
    let init = object.pointer_mut("/spec/template/spec/initContainers");
    let Some(init) = init.and_then(Json::as_array_mut) else { return };
    let is_sidecar =
        |container: &mut Json| container.as_object_mut().unwrap().remove("restartPolicy").is_some();
    let sidecars: Vec<Json> = init.extract_if(.., is_sidecar).collect();
    let containers = object.pointer_mut("/spec/template/spec/containers").unwrap();
    containers.as_array_mut().unwrap().extend(sidecars);
}

/// The recorded objects of the built-in templates, on any platform, are right for every version.
#[test]
fn what_the_built_in_templates_render_is_right_for_every_version() {
    let cases = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pipeline")).unwrap();
    let mut paths: Vec<_> = cases.map(|case| case.unwrap().path().join("expected")).collect();
    let mut judged = 0;
    while let Some(file) = paths.pop() {
        if let Ok(folder) = std::fs::read_dir(&file) {
            paths.extend(folder.map(|entry| entry.unwrap().path()));
            continue;
        }
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let object: Json = serde_yaml::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let (version, kind) =
            (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        judged += u32::from(SCHEMA.kind(version, kind).is_some());
        for version in KubernetesVersion::all_known() {
            let mut object = object.clone();
            // The records are for the newest version: where it is older, the templates leave the pause out.
            if version.minor() < crate::templates::view::pod::SLEEP_SINCE_MINOR {
                without_pause(&mut object);
            }
            if version.minor() < crate::templates::view::containers::SIDECARS_SINCE_MINOR {
                with_plain_sidecars(&mut object);
            }
            assert_eq!(
                check_object_on(Some(version), object),
                NONE,
                "{} {version}",
                file.display()
            );
        }
    }
    assert!(judged > 150, "{judged} objects are too few to be all");
}
