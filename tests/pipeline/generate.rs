//! WAMLs of all shapes, made from the format's own JSON Schema.
//!
//! Every key that a section can have is generated because the schema has it: a new part of the
//! format needs nothing here to be tried. [`FITTING`] gives texts that fit a key where any text
//! would rarely do; [`odd`] gives what hardly ever does.

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Map, Value as Json, json};

/// Texts by the key that holds them, so that much of what is generated is valid. A key of an
/// element is looked up by the key of its list too: `service.name`.
const FITTING: &[(&str, &[&str])] = &[
    ("env.name", &["A", "LOG_LEVEL", "DB_HOST", "B2"]),
    (
        "env.value",
        &["", "debug", "true", "0x10", "2026-01-01", "a: b # c", "null", "~", "é \u{1F600}"],
    ),
    ("secret.name", &["db", "api.keys"]),
    ("secret.key", &["password", "tls.crt"]),
    ("secrets.name", &["db", "api.keys", "cache"]),
    ("secrets.mountPath", &["/secrets/a", "/secrets/b", "/var/run/c"]),
    ("service.name", &["web", "admin"]),
    ("ports.name", &["http", "grpc", "metrics"]),
    ("ingress.host", &["a.example.com", "b.example.com"]),
    ("ingress.hostPrefix", &["app", "app-api"]),
    ("paths.path", &["/", "/api", "/api/v1"]),
    ("paths.service", &["web", "admin", "my-app"]),
    ("volumes.name", &["data", "cache"]),
    ("volumes.mountPath", &["/data", "/cache"]),
    ("volumes.size", &["1Gi", "10Gi"]),
    ("volumes.storageClass", &["fast", "standard"]),
    ("probes.path", &["/healthz", "/"]),
    ("liveness.port", &["http", "8000"]),
    ("readiness.port", &["http", "8000"]),
    ("startup.port", &["http", "8000"]),
    ("liveness.path", &["/healthz"]),
    ("readiness.path", &["/ready"]),
    ("startup.path", &["/"]),
    ("grpc.port", &["grpc", "9000"]),
    ("registry", &["ghcr.io", "eu.gcr.io/acme"]),
    ("repository", &["acme/app", "app"]),
    ("command", &["run", "--flag", "$(A)", "a: b"]),
    ("args", &["--port=8000", "-v", "{}"]),
    ("requests.cpu", &["100m", "0.2"]),
    ("requests.memory", &["64Mi", "128Mi"]),
    ("requests.ephemeralStorage", &["100Mi"]),
    ("limits.cpu", &["1", "2"]),
    ("limits.memory", &["512Mi", "1Gi"]),
    ("limits.ephemeralStorage", &["1Gi"]),
    ("maxUnavailable", &["1", "25%", "0"]),
    ("maxSurge", &["1", "50%"]),
    ("minAvailable", &["1", "50%"]),
    ("requestClass", &["critical", "high", "medium", "low"]),
    ("interval", &["30s", "1m"]),
    ("for", &["5m", "1h"]),
    ("schedule", &["*/10 * * * *", "0 3 * * 1-5"]),
    ("timeZone", &["Europe/Berlin", "UTC"]),
    ("roles", &["roles/pubsub.publisher"]),
    ("awsRole", &["arn:aws:iam::123456789012:role/app"]),
    ("vault.paths", &["devx/shared/db"]),
    ("version", &["16", "7"]),
    ("database.version", &["16"]),
    ("redis.version", &["7"]),
    ("tier", &["db-f1-micro"]),
    ("storage", &["10Gi"]),
    ("redis.memory", &["1Gi"]),
    ("slack", &["#squad"]),
    ("versions.name", &["blue", "green"]),
    ("versions.tag", &["1.0", "2.0"]),
    ("placement.cluster", &["t"]),
    ("hosts", &["a.example.com", "b.example.com"]),
    ("match.prefix", &["/", "/new"]),
    ("match.exact", &["/x"]),
    ("targets.version", &["blue", "green"]),
    ("headers#", &["x-user"]),
    ("headers", &["beta"]),
    ("removes.kind", &["PersistentVolumeClaim"]),
    ("removes.name", &["data"]),
    // Keys of free maps.
    ("labels#", &["team", "example.com/tier"]),
    ("labels", &["devx", "a1"]),
    ("annotations#", &["example.com/note", "prometheus.io/scrape"]),
    ("annotations", &["true", "a: b", "{}"]),
    ("alerts#", &["cpuThrottled", "containerRestarts"]),
    ("files#", &["app.conf", "b.yaml"]),
    ("files", &["a=1\nb=2\n", "x: [y]\n"]),
];

/// What hardly fits anywhere: other types, other languages' truths, and texts with a will.
fn odd() -> impl Strategy<Value = Json> {
    select(vec![
        Json::Null,
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("no"),
        json!("a\nb: c"),
        json!("{{ app.name }}"),
        json!("*alias &anchor !!tag"),
        json!("\u{0}\u{1b}[2J\u{feff}"),
        json!("x".repeat(300)),
        json!([]),
        json!({}),
        json!([[{"a": null}]]),
        json!({"name": "x", "nope": 1}),
    ])
}

/// How a WAML is generated.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Of a hundred values, how many are odd.
    pub(super) odd: u32,
    /// Of a hundred optional keys, how many are there.
    pub(super) keys: u32,
}

/// Generates values for the schemas of one document.
#[derive(Clone)]
struct Maker {
    defs: Map<String, Json>,
    style: Style,
}

/// WAMLs for the target `t`.
pub(super) fn waml(templates: Vec<String>, style: Style) -> impl Strategy<Value = Json> {
    let schema = the_deployer::waml::document::json_schema();
    let defs = schema.as_value()["$defs"].as_object().unwrap().clone();
    let maker = Maker { defs, style };
    let section = || maker.section();
    let header = (select(templates), any::<bool>());
    (header, section(), proptest::collection::vec(section(), 0..2)).prop_map(
        |((template, named), deploy, defaults)| {
            let mut document = json!({
                "schema": "2", "name": "App", "slug": "my-app", "owner": "a@b.c",
                "namespace": "devx", "deploy": {"t": deploy},
            });
            if named {
                document["template"] = template.into();
            }
            let defaults = defaults.into_iter().map(|mut section| {
                section["match"] = "*".into();
                section
            });
            document["defaults"] = defaults.collect();
            document
        },
    )
}

impl Maker {
    /// A section with some of its parts; its template is the header's.
    fn section(&self) -> BoxedStrategy<Json> {
        let parts = self.defs["Section"]["properties"].as_object().unwrap();
        let names: Vec<String> = parts.keys().filter(|key| *key != "template").cloned().collect();
        let most = (names.len() * self.style.keys as usize / 100).max(1);
        let all: Vec<(String, BoxedStrategy<Json>)> = names
            .iter()
            .map(|name| (name.clone(), self.value(&parts[name], name, "").boxed()))
            .collect();
        subsequence(all, 0..=most)
            .prop_flat_map(|chosen| {
                let (names, values): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
                values.prop_map(move |values| {
                    Json::Object(names.iter().cloned().zip(values).collect())
                })
            })
            .boxed()
    }

    /// A value for a schema, odd now and then.
    fn value(&self, schema: &Json, key: &str, holder: &str) -> BoxedStrategy<Json> {
        let fitting = self.fitting(schema, key, holder);
        match self.style.odd {
            0 => fitting,
            odd_ones => prop_oneof![100 - odd_ones => fitting, odd_ones => odd()].boxed(),
        }
    }

    fn fitting(&self, schema: &Json, key: &str, holder: &str) -> BoxedStrategy<Json> {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap();
            return self.fitting(&self.defs[name], key, holder);
        }
        for many in ["anyOf", "oneOf"] {
            if let Some(schemas) = schema[many].as_array() {
                let some: Vec<_> = schemas.iter().filter(|s| s["type"] != "null").collect();
                let all = some.into_iter().map(|schema| self.fitting(schema, key, holder));
                return proptest::strategy::Union::new(all).boxed();
            }
        }
        if let Some(texts) = schema["enum"].as_array() {
            return select(texts.iter().filter(|t| !t.is_null()).cloned().collect::<Vec<_>>())
                .boxed();
        }
        if !schema["const"].is_null() {
            return Just(schema["const"].clone()).boxed();
        }
        match kind(schema) {
            "object" => self.object(schema, key),
            "array" => self.list(schema, key),
            "boolean" => any::<bool>().prop_map(Json::from).boxed(),
            "integer" => number(schema, key),
            "number" => select(vec![json!(99.9), json!(0.5), json!(80)]).boxed(),
            _ => text(key, holder),
        }
    }

    fn object(&self, schema: &Json, key: &str) -> BoxedStrategy<Json> {
        let Some(properties) = schema["properties"].as_object() else {
            let keys = texts(&format!("{key}#")).unwrap_or(&["a", "b"]);
            let value = self.value(&schema["additionalProperties"], key, "");
            return proptest::collection::btree_map(select(keys.to_vec()), value, 0..=keys.len())
                .prop_map(|map| {
                    Json::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                })
                .boxed();
        };
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let chance = f64::from(self.style.keys) / 100.0;
        let each: Vec<BoxedStrategy<Option<(String, Json)>>> = properties
            .iter()
            .map(|(name, schema)| {
                let is_required = required.iter().any(|required| required == name);
                let name = name.clone();
                let value = self.value(schema, &name, key);
                let entry = value.prop_map(move |value| (name.clone(), value));
                if is_required {
                    return entry.prop_map(Some).boxed();
                }
                proptest::option::weighted(chance, entry).boxed()
            })
            .collect();
        each.prop_map(|entries| Json::Object(entries.into_iter().flatten().collect())).boxed()
    }

    /// With elements of different names, as far as there are names.
    fn list(&self, schema: &Json, key: &str) -> BoxedStrategy<Json> {
        let items = self.value(&schema["items"], key, key);
        (proptest::collection::vec(items, 1..3), any::<Index>())
            .prop_map(|(mut items, _)| {
                let mut seen = Vec::new();
                items.retain(|item| {
                    let id = ["name", "host", "hostPrefix", "path"].map(|key| item[key].clone());
                    let is_new = !item.is_object() || !seen.contains(&id);
                    seen.push(id);
                    is_new
                });
                Json::Array(items)
            })
            .boxed()
    }
}

/// The type that is not null.
fn kind(schema: &Json) -> &str {
    match &schema["type"] {
        Json::Array(many) => many.iter().filter_map(Json::as_str).find(|k| *k != "null").unwrap(),
        one => one.as_str().unwrap_or("string"),
    }
}

fn number(schema: &Json, key: &str) -> BoxedStrategy<Json> {
    if matches!(key, "number" | "port" | "targetPort" | "servicePort") {
        return select(vec![json!(8000), json!(9000)]).boxed();
    }
    let least = schema["minimum"].as_i64().unwrap_or(0);
    let most = schema["maximum"].as_i64().unwrap_or(1000);
    prop_oneof![9 => least..=most.min(least + 20), 1 => least..=most].prop_map(Json::from).boxed()
}

fn text(key: &str, holder: &str) -> BoxedStrategy<Json> {
    let known = texts(&format!("{holder}.{key}")).or_else(|| texts(key));
    match known {
        Some(texts) => select(texts.to_vec()).prop_map(Json::from).boxed(),
        None => "[a-z][a-z0-9-]{0,8}[a-z0-9]".prop_map(Json::from).boxed(),
    }
}

fn texts(key: &str) -> Option<&'static [&'static str]> {
    FITTING.iter().find(|(name, _)| *name == key).map(|(_, texts)| *texts)
}
