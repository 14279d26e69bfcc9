//! No value of a WAML can break out of its place in a manifest.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::planned;

/// A WAML in JSON (which is YAML) with a marker in every place that takes text.
fn waml(mark: &dyn Fn(&str) -> String) -> Json {
    json!({
        "schema": "2", "name": mark("name"), "slug": "my-app", "owner": "a@b.c",
        "slack": mark("slack"), "namespace": "devx",
        "links": [{"name": mark("link"), "url": "https://example.com"}],
        "deploy": {"t": {
            "image": {"registry": mark("registry"), "repository": mark("repository")},
            "command": [mark("command"), mark("command2")],
            "args": [mark("arg")],
            "env": [{"name": "PLAIN", "value": mark("env")},
                    {"name": "SECRET", "secret": {"name": mark("secret"), "key": mark("key")}}],
            "secrets": [{"name": "s", "mountPath": format!("/x{}", mark("mount").replace([':', '\u{0}'], ""))}],
            "service": [{"ports": [{"name": "http", "number": 8000}]}],
            "probes": {"liveness": {"command": [mark("probe")], "path": null},
                       "readiness": {"path": mark("path")}},
            "annotations": {"note": mark("annotation")},
        }},
    })
}

/// Every text in a value, with the path to it.
fn texts(value: &Json, path: &str, out: &mut Vec<(String, String)>) {
    match value {
        Json::String(text) => out.push((path.to_owned(), text.clone())),
        Json::Array(list) => {
            for (n, v) in list.iter().enumerate() {
                texts(v, &format!("{path}/{n}"), out);
            }
        }
        Json::Object(map) => map.iter().for_each(|(k, v)| texts(v, &format!("{path}/{k}"), out)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// The shape of what is rendered: every path, without the values.
type Texts = Vec<(String, String)>;

fn shape(hostile: &str) -> Option<(Vec<String>, Texts)> {
    let text = waml(&|_| hostile.to_owned()).to_string();
    let rendered = planned(text.as_bytes(), None).ok()?;
    let mut found = Vec::new();
    for file in rendered.files {
        let object: Json = serde_yaml::from_slice(&file.bytes).unwrap();
        texts(&object, &file.name, &mut found);
    }
    Some((found.iter().map(|(path, _)| path.clone()).collect(), found))
}

fn check(hostile: &str) -> Result<(), TestCaseError> {
    let (calm, _) = shape("calm").unwrap();
    // A value that a rule refuses renders nothing at all: that is fine too.
    let Some((paths, found)) = shape(hostile) else { return Ok(()) };
    prop_assert_eq!(&paths, &calm, "{:?} changed the shape", hostile);
    let at = |end: &str| {
        found.iter().find(|(path, _)| path.ends_with(end)).map(|(_, text)| text.as_str())
    };
    prop_assert_eq!(at("containers/0/command/0"), Some(hostile));
    prop_assert_eq!(at("containers/0/env/0/value"), Some(hostile));
    prop_assert_eq!(at("secretKeyRef/key"), Some(hostile));
    prop_assert_eq!(at("template/metadata/annotations/note"), Some(hostile));
    prop_assert_eq!(at("readinessProbe/httpGet/path"), Some(hostile));
    Ok(())
}

#[test]
fn the_usual_attacks_stay_where_they_are_put() {
    for hostile in [
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
    ] {
        check(hostile).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_stays_where_it_is_put(hostile in "[\\PC\\n\\t\"'\\\\:#{}\\[\\]&*!|>%@`-]{1,40}") {
        check(&hostile)?;
    }
}
