//! No value of a WAML can break out of its place in a manifest.
//!
//! One field at a time: a field that refuses a text would hide what the others do with it.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use the_deployer::pipeline::render::RenderedManifests;

use super::planned;

/// A WAML in JSON (which is YAML) in which every part is set.
fn calm() -> Json {
    json!({
        "schema": "2", "name": "calm", "slug": "my-app", "owner": "a@b.c",
        "slack": "#calm", "namespace": "devx",
        "links": [{"name": "docs", "url": "https://example.com"}],
        "deploy": {"t": {
            "image": {"registry": "ghcr.io", "repository": "calm/app"},
            "command": ["calm", "calm"],
            "args": ["calm"],
            "env": [{"name": "PLAIN", "value": "calm"},
                    {"name": "SECRET", "secret": {"name": "calm", "key": "calm"}}],
            "secrets": [{"name": "mounted", "mountPath": "/calm"}, {"name": "plain"}],
            "service": [{"ports": [{"name": "http", "number": 8000}]},
                        {"name": "used", "ports": [{"name": "used", "number": 8001}]},
                        {"name": "calm", "ports": [{"name": "calm", "number": 9000, "protocol": "TCP"}]}],
            "ingress": [{"host": "calm.example.com", "paths": [{"path": "/calm", "servicePort": 8001, "service": "used"}]},
                        {"hostPrefix": "calm", "paths": [{"path": "/", "servicePort": 8000}]}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi", "ephemeralStorage": "1Gi"}},
            "scaling": {"replicas": 2, "maxUnavailable": "1", "maxSurge": "1"},
            "autoscaling": {"horizontal": {"maxReplicas": 4, "cpu": {"averageUtilization": 75}}},
            "disruption": {"maxUnavailable": "1"},
            "probes": {"liveness": {"command": ["calm"], "path": null},
                       "readiness": {"path": "/calm", "port": "http"}},
            "volumes": [{"name": "files", "mountPath": "/files", "files": {"calm": "calm"}},
                        {"name": "disk", "mountPath": "/disk", "size": "1Gi", "storageClass": "calm", "accessMode": "ReadWriteMany"}],
            "labels": {"calm": "calm"},
            "annotations": {"calm": "calm"},
        }},
    })
}

/// Where a text is put, and where it must be found again.
struct Field {
    /// In the WAML: a JSON pointer. With `*` at its end, the key of a map's only entry.
    at: &'static str,
    /// As a violation's path begins.
    path: &'static str,
    /// In the manifests: file and JSON pointer; none where it is not to be found as it is.
    found: Option<(&'static str, &'static str)>,
}

const fn field(
    at: &'static str,
    path: &'static str,
    found: Option<(&'static str, &'static str)>,
) -> Field {
    Field { at, path, found }
}

const CONTAINER: &str = "/spec/template/spec/containers/0";

/// Free text: whatever it is, it is rendered.
const FREE: &[Field] = &[
    field("/deploy/t/command/0", "", Some(("deployment.yaml", "C/command/0"))),
    field("/deploy/t/command/1", "", Some(("deployment.yaml", "C/command/1"))),
    field("/deploy/t/args/0", "", Some(("deployment.yaml", "C/args/0"))),
    field("/deploy/t/env/0/value", "", Some(("deployment.yaml", "C/env/0/value"))),
    field(
        "/deploy/t/annotations/calm",
        "",
        Some(("deployment.yaml", "/spec/template/metadata/annotations/calm")),
    ),
    field("/deploy/t/volumes/0/files/calm", "", Some(("configmap.yaml", "/data/calm"))),
    field(
        "/deploy/t/probes/liveness/command/0",
        "",
        Some(("deployment.yaml", "C/livenessProbe/exec/command/0")),
    ),
];

/// Text with rules: it is refused at its place, or rendered.
const RULED: &[Field] = &[
    field("/name", "name", None),
    field("/slug", "slug", None),
    field("/namespace", "namespace", None),
    field("/owner", "owner", None),
    field("/slack", "slack", None),
    field("/links/0/name", "links[0].name", None),
    field("/links/0/url", "links[0].url", None),
    field("/deploy/t/image/registry", "image.registry", None),
    field("/deploy/t/image/repository", "image.repository", None),
    field("/deploy/t/env/0/name", "env[0].name", Some(("deployment.yaml", "C/env/0/name"))),
    field(
        "/deploy/t/env/1/secret/name",
        "env[1].secret.name",
        Some(("deployment.yaml", "C/env/1/valueFrom/secretKeyRef/name")),
    ),
    field(
        "/deploy/t/env/1/secret/key",
        "env[1].secret.key",
        Some(("deployment.yaml", "C/env/1/valueFrom/secretKeyRef/key")),
    ),
    field(
        "/deploy/t/secrets/0/name",
        "secrets[0].name",
        Some(("deployment.yaml", "/spec/template/spec/volumes/0/secret/secretName")),
    ),
    field(
        "/deploy/t/secrets/0/mountPath",
        "secrets[0].mountPath",
        Some(("deployment.yaml", "C/volumeMounts/0/mountPath")),
    ),
    field(
        "/deploy/t/secrets/1/name",
        "secrets[1].name",
        Some(("deployment.yaml", "C/envFrom/0/secretRef/name")),
    ),
    field("/deploy/t/service/2/name", "service[2].name", None),
    field(
        "/deploy/t/service/2/ports/0/name",
        "service[2].ports[0].name",
        Some(("deployment.yaml", "C/ports/2/name")),
    ),
    field("/deploy/t/service/2/ports/0/number", "service[2].ports[0].number", None),
    field("/deploy/t/service/2/ports/0/protocol", "service[2].ports[0].protocol", None),
    field("/deploy/t/ingress/0/host", "ingress[0].host", None),
    field("/deploy/t/ingress/0/paths/0/path", "ingress[0].paths[0].path", None),
    field("/deploy/t/ingress/0/paths/0/service", "ingress[0].paths[0]", None),
    field("/deploy/t/ingress/1/hostPrefix", "ingress[1].hostPrefix", None),
    field(
        "/deploy/t/resources/requests/cpu",
        "resources.requests.cpu",
        Some(("deployment.yaml", "C/resources/requests/cpu")),
    ),
    field(
        "/deploy/t/resources/limits/memory",
        "resources.limits.memory",
        Some(("deployment.yaml", "C/resources/limits/memory")),
    ),
    field("/deploy/t/resources/limits/ephemeralStorage", "resources.limits", None),
    field("/deploy/t/scaling/maxSurge", "scaling.maxSurge", None),
    field("/deploy/t/scaling/maxUnavailable", "scaling.maxUnavailable", None),
    field("/deploy/t/scaling/replicas", "scaling.replicas", None),
    field("/deploy/t/disruption/maxUnavailable", "disruption.maxUnavailable", None),
    field(
        "/deploy/t/probes/readiness/path",
        "probes.readiness.path",
        Some(("deployment.yaml", "C/readinessProbe/httpGet/path")),
    ),
    field("/deploy/t/probes/readiness/port", "probes.readiness.port", None),
    field(
        "/deploy/t/labels/calm",
        "labels.calm",
        Some(("deployment.yaml", "/spec/template/metadata/labels/calm")),
    ),
    field("/deploy/t/volumes/0/name", "volumes[0].name", None),
    field(
        "/deploy/t/volumes/0/mountPath",
        "volumes[0].mountPath",
        Some(("deployment.yaml", "C/volumeMounts/1/mountPath")),
    ),
    field("/deploy/t/volumes/0/files/*", "volumes[0].files", None),
    field("/deploy/t/volumes/1/name", "volumes[1].name", None),
    field(
        "/deploy/t/volumes/1/size",
        "volumes[1].size",
        Some(("persistentvolumeclaim.yaml", "/spec/resources/requests/storage")),
    ),
    field(
        "/deploy/t/volumes/1/storageClass",
        "volumes[1].storageClass",
        Some(("persistentvolumeclaim.yaml", "/spec/storageClassName")),
    ),
    field("/deploy/t/volumes/1/accessMode", "volumes[1].accessMode", None),
    field("/deploy/t/labels/*", "labels", None),
    field("/deploy/t/annotations/*", "annotations", None),
];

impl Field {
    /// The WAML with the text in this one field.
    fn put(&self, text: &str) -> Json {
        let mut waml = calm();
        match self.at.strip_suffix("/*") {
            Some(map) => *waml.pointer_mut(map).unwrap() = json!({text: "calm"}),
            None => *waml.pointer_mut(self.at).unwrap() = json!(text),
        }
        waml
    }

    fn is_key(&self) -> bool {
        self.at.ends_with('*')
    }
}

/// Kinds, and in each object the path of everything that has no parts. Where a key is under
/// attack, those of labels, annotations and files are counted and not named.
pub(super) fn shape(rendered: &RenderedManifests, keys: bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in &rendered.files {
        let kind = file.name.split(['-', '.']).next().unwrap();
        paths(&object(&file.bytes), kind, keys, &mut found);
    }
    found.sort();
    found
}

/// JSON is YAML, but for a few characters that YAML wants escaped.
pub(super) fn yaml(waml: &Json) -> String {
    let escaped = |c: char| match c {
        ' '..='~' => c.to_string(),
        c => format!("\\U{:08X}", u32::from(c)),
    };
    waml.to_string().chars().map(escaped).collect()
}

pub(super) fn object(bytes: &[u8]) -> Json {
    serde_yaml::from_slice(bytes).unwrap()
}

fn paths(value: &Json, path: &str, keys: bool, out: &mut Vec<String>) {
    let maps = ["/labels", "/annotations", "/data"];
    let free = !keys && maps.iter().any(|map| path.ends_with(map));
    match value {
        Json::Array(list) => {
            list.iter().enumerate().for_each(|(n, v)| paths(v, &format!("{path}/{n}"), keys, out));
        }
        Json::Object(map) => map.iter().for_each(|(key, v)| {
            paths(v, &format!("{path}/{}", if free { "*" } else { key }), keys, out);
        }),
        _ => out.push(path.to_owned()),
    }
}

static CALM: LazyLock<RenderedManifests> =
    LazyLock::new(|| planned(calm().to_string().as_bytes(), None).unwrap());

fn check(field: &Field, hostile: &str, must_render: bool) -> Result<(), TestCaseError> {
    let about = format!("{hostile:?} in {}", field.at);
    let rendered = match planned(yaml(&field.put(hostile)).as_bytes(), None) {
        Ok(rendered) => rendered,
        Err(rejection) => {
            prop_assert!(!must_render, "{} is refused: {:?}", about, rejection.violations);
            let at_field =
                |path: &str| path.strip_prefix("deploy.t.").unwrap_or(path).starts_with(field.path);
            let told = rejection.violations.iter().any(|violation| at_field(&violation.path));
            prop_assert!(told, "{} is refused elsewhere: {:?}", about, rejection.violations);
            return Ok(());
        }
    };
    let keys = !field.is_key();
    prop_assert_eq!(shape(&rendered, keys), shape(&CALM, keys), "{} changed the shape", about);
    if let Some((name, pointer)) = field.found {
        let file = rendered.files.iter().find(|file| file.name == name).unwrap();
        let pointer =
            pointer.replacen("C/", &format!("{CONTAINER}/"), usize::from(pointer.starts_with('C')));
        let object = object(&file.bytes);
        prop_assert_eq!(object.pointer(&pointer), Some(&json!(hostile)), "{}", about);
    }
    Ok(())
}

pub(super) const HOSTILE: &[&str] = &[
    "a\nprivileged: true",
    "a\n---\nkind: ClusterRole",
    "\"",
    "'",
    "\\",
    "a\"}]",
    "{{ app.slug }}",
    "{% raw %}",
    "${HOME}",
    "`",
    "- x",
    "? x",
    "&a",
    "*a",
    "!!python/object",
    "#",
    "a: b",
    "a #b",
    "|",
    ">",
    "\t",
    "on",
    "~",
    "null",
    "1_000",
    "0x1F",
    "2024-01-01",
    "é",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "\u{1f600}",
    "\u{7f}",
    " a ",
    "<<",
    "=",
    "%YAML 1.1",
    "a\r\nb",
    "\n",
    "\n\n  a",
    "true",
    "",
    "`) || Host(`evil.example.com",
    "../../etc",
    "-1",
    "1e99",
];

#[test]
fn free_text_is_always_rendered_as_it_is() {
    for field in FREE {
        for hostile in HOSTILE {
            check(field, hostile, true).unwrap();
        }
    }
}

#[test]
fn other_text_is_refused_at_its_place_or_changes_nothing_else() {
    for field in RULED {
        for hostile in HOSTILE {
            check(field, hostile, false).unwrap();
        }
    }
}

#[test]
fn lines_do_not_get_into_names() {
    for field in RULED.iter().filter(|field| field.at.ends_with("ame") || field.is_key()) {
        let waml = yaml(&field.put("a\nprivileged: true"));
        assert!(planned(waml.as_bytes(), None).is_err(), "{}", field.at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_stays_where_it_is_put(
        index in 0..FREE.len() + RULED.len(),
        hostile in "[\\PC\\n\\t\"'\\\\:#{}\\[\\]&*!|>%@`-]{1,40}",
    ) {
        let field = FREE.iter().chain(RULED).nth(index).unwrap();
        check(field, &hostile, index < FREE.len())?;
    }
}
