//! The names that exist for every template, whatever its samples: the top of the view, the keys of a section, and the
//! view's values on targets with different platforms.

use serde_json::Value as Json;

use crate::model::facts::Facts;
use crate::model::platform::Platform;
use crate::model::target::Clusters;
use crate::model::template::{TemplateFile, TemplateSources};
use crate::pipeline::check::{facts, sample, view_with};
use crate::templates::lint::shape::ViewShape;
use crate::templates::parameters;
use crate::templates::set::TemplateSet;
use crate::waml::section::Section;

/// The least that a WAML can say.
const LEAST: &str = r#"
schema: "2"
name: x
slug: x
owner: x@example.com
namespace: x
deploy: {x: {}}
"#;

/// Settings of which the view has more than the WAML.
const MAX: &str = r#"
schema: "2"
name: x
slug: x
owner: x@example.com
namespace: x
deploy:
  x:
    image: {registry: example.com, repository: x/x}
    service: [{ports: [{name: http, number: 80}]}]
    ingress: [{hostPrefix: x, port: 80, cache: {maxAge: 60}}]
    env: [{name: TOKEN, secret: {name: api, key: token}}]
    secrets: [{name: mounted, mountPath: /run/x}]
    vault: {paths: [x/x]}
    volumes:
    - {name: disk, mountPath: /a, size: 1Gi, accessMode: ReadWriteMany}
    - {name: files, mountPath: /b, files: {x: x}}
    lifecycle: {preStop: {command: [x]}}
    ports: [{name: metrics, number: 81}]
    monitoring: {port: metrics, intervalSeconds: 15}
    initContainers: [{name: first, args: [x]}]
    sidecars: [{name: beside, image: "x/x:1"}]
    jobs: [{name: before, args: [x]}]
    processes: {beside: {args: [x], ports: [{name: own, number: 82}], monitoring: {port: own, intervalSeconds: 15}}}
    slo: {requestClass: high}
    alerts: {memoryNearLimit: {threshold: 0.9}}
    canary:
      interval: 1m
      threshold: 5
      stepWeight: 10
      metrics: [{name: own, query: x, thresholdRange: {max: 1}}]
"#;

/// Settings that cannot be beside a canary.
const WITHOUT_CANARY: [&str; 2] = [
    r"
    scaling: {keda: {maxReplicas: 2, triggers: [{type: x, metadata: {x: x}}]}}
",
    r"
    service: [{ports: [{name: http, number: 80}]}]
    ingress: [{hostPrefix: x}]
    versions: [{name: v1, tag: 1.0.0, replicas: 2}, {name: v2, tag: 2.0.0, replicas: 2}]
    traffic:
      http:
      - match: [{prefix: /, headers: {x-user: beta}}]
        targets: [{version: v2}]
      - targets: [{version: v1, weight: 90}, {version: v2, weight: 10}]
",
];

const WITH_STORES: &str = r#"
    database: {engine: postgres, version: "16", tier: db-custom-1-3840, storage: 10Gi}
    redis: {version: "7.2", memory: 1Gi, persistent: true}
    iam: {roles: [roles/pubsub.publisher]}
"#;

/// The platforms of the tried targets, beside the default one.
const PLATFORMS: [&str; 2] = [
    r#"{
        "secrets": {"delivery": "external-secrets"},
        "cloud": {
            "provider": "gcp", "gcp": {"project": "x-project", "region": "europe-west3", "network": "x"},
            "database": "cloudsql", "redis": "memorystore"
        },
        "canary": {"prometheus": "http://prometheus.monitoring:9090"},
        "monitoring": {"monitor_labels": {"release": "x"}}
    }"#,
    r#"{
        "secrets": {
            "delivery": "vault-secrets-operator", "vault": {"namespace": "x", "connection": "x/x"}
        },
        "cloud": {
            "provider": "gcp", "gcp": {"project": "x-project", "region": "europe-west3"},
            "database": "cloudsql", "redis": "in-cluster"
        }
    }"#,
];

pub(super) fn shape() -> ViewShape {
    let mut shape = ViewShape::default();
    shape.add_schema(&[], &section_schema());
    shape.add_schema(&["target", "platform"], &schemars::schema_for!(Platform).to_value());
    views().into_iter().flatten().for_each(|view| shape.add(&view));
    shape
}

/// Returns the schema of a section without the parameters: which there are is the template's to say.
fn section_schema() -> Json {
    let mut schema = schemars::schema_for!(Section).to_value();
    if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
        properties.remove(parameters::PART);
    }
    schema
}

/// Collects what templates see of each of these WAMLs; `None` for one that is refused.
fn views() -> Vec<Option<Json>> {
    let stores = format!("{}{}", MAX.trim_end(), WITH_STORES.trim_end());
    let on_platforms = PLATFORMS.iter().map(|platform| view(&stores, &on(platform)?));
    let without_canary = WITHOUT_CANARY.iter().map(|settings| {
        let text = format!("{}{}", LEAST.trim_end().trim_end_matches(" {x: {}}"), "\n  x:");
        view(&format!("{text}{settings}"), &facts())
    });
    let first = [view(LEAST, &facts()), view(MAX, &facts())];
    first.into_iter().chain(on_platforms).chain(without_canary).collect()
}

fn on(platform: &str) -> Option<Facts> {
    let platform: Platform = serde_json::from_str(platform).ok()?;
    Some(Facts { clusters: Clusters::Any(Box::new(platform)), ..facts() })
}

/// Builds the view by a template that makes nothing; it reads what only such a template sees that uses it.
fn view(text: &str, facts: &Facts) -> Option<Json> {
    let file =
        |path: &str, text: &str| TemplateFile { path: path.to_owned(), text: text.to_owned() };
    let sources = TemplateSources {
        files: vec![
            file("backend-default/defaults.yaml", ""),
            file(
                "backend-default/latest/x.yaml.tmpl",
                "{% if versions or scaledObject %}{% endif %}",
            ),
        ],
        ..TemplateSources::default()
    };
    let templates = TemplateSet::compile(&sources).ok()?;
    let sample = sample("backend-default", &file("x.yaml", text), &mut Vec::new())?;
    let (template, target) = (templates.iter().next()?, sample.targets.first()?);
    view_with(&sample, target, template, &template.defaults, facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_of_them_is_seen() {
        let views = views();
        assert_eq!(views.len(), 2 + PLATFORMS.len() + WITHOUT_CANARY.len());
        assert!(
            views.iter().all(Option::is_some),
            "{:?}",
            views.iter().map(Option::is_some).collect::<Vec<_>>()
        );
        let is_seen = |path: &str| views.iter().flatten().any(|view| view.pointer(path).is_some());
        for path in [
            "/slo/groups",
            "/canary/metricTemplates/0/query",
            "/database/cloudsql/instance",
            "/redis/memorystore/network",
            "/redis/cluster/disk",
            "/iam/grants/0/role",
            "/vault/policy/name",
            "/delivery/external/0/name",
            "/delivery/static/0/name",
            "/delivery/vault/namespace",
        ] {
            assert!(is_seen(path), "{path}");
        }
    }
}
