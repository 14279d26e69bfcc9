//! The published JSON Schemas of CDEvents, and as much of a validator as they need. A word that it
//! does not know fails, so that nothing passes unseen.

use serde_json::Value as Json;

const SCHEMAS: [(&str, &str); 9] = [
    ("pipelinerun.queued", include_str!("cdevents/pipelinerunqueued.json")),
    ("pipelinerun.started", include_str!("cdevents/pipelinerunstarted.json")),
    ("pipelinerun.finished", include_str!("cdevents/pipelinerunfinished.json")),
    ("taskrun.started", include_str!("cdevents/taskrunstarted.json")),
    ("taskrun.finished", include_str!("cdevents/taskrunfinished.json")),
    ("service.deployed", include_str!("cdevents/servicedeployed.json")),
    ("service.upgraded", include_str!("cdevents/serviceupgraded.json")),
    ("service.rolledback", include_str!("cdevents/servicerolledback.json")),
    ("service.removed", include_str!("cdevents/serviceremoved.json")),
];

const CUSTOM: &str = include_str!("cdevents/custom.json");

/// Checks the `CDEvent` in a `CloudEvent` against the schema of its type, and the two against each other.
pub(crate) fn assert_conforms(event: &Json) {
    let data = &event["data"];
    let named = event["type"].as_str().unwrap();
    let schema = SCHEMAS.iter().find(|(kind, _)| named == format!("dev.cdevents.{kind}.0.3.0"));
    // CDEvents has no word for rollouts: they are custom events of its form.
    let schema = match schema {
        Some((_, schema)) => schema,
        None if named.starts_with("dev.cdeventsx.thedeployer-rollout.") => CUSTOM,
        None => panic!("{named} is no known type"),
    };
    let schema: Json = serde_json::from_str(schema).unwrap();
    let mut wrong = Vec::new();
    validate(data, &schema, "data", &mut wrong);
    assert!(wrong.is_empty(), "{}\n{event:#}", wrong.join("\n"));
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["dataschema"], schema["$id"]);
    for (outer, inner) in [
        ("id", &data["context"]["id"]),
        ("source", &data["context"]["source"]),
        ("type", &data["context"]["type"]),
        ("time", &data["context"]["timestamp"]),
        ("subject", &data["subject"]["id"]),
    ] {
        assert_eq!(event[outer], *inner, "{outer}");
    }
}

fn validate(value: &Json, schema: &Json, at: &str, wrong: &mut Vec<String>) {
    for (word, means) in schema.as_object().unwrap() {
        let fine = match word.as_str() {
            "$schema" | "$id" | "default" | "contentEncoding" => true,
            "type" => has_type(value, means.as_str().unwrap()),
            "minLength" => {
                value.as_str().unwrap().chars().count() as u64 >= means.as_u64().unwrap()
            }
            "enum" => means.as_array().unwrap().contains(value),
            "format" => has_format(value.as_str().unwrap(), means.as_str().unwrap()),
            "required" => means
                .as_array()
                .unwrap()
                .iter()
                .all(|name| value.get(name.as_str().unwrap()).is_some()),
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
                *means == true || value.as_object().unwrap().keys().all(is_known)
            }
            "pattern" => {
                let text = value.as_str().unwrap();
                regex::Regex::new(means.as_str().unwrap()).unwrap().is_match(text)
            }
            // Nothing that is sent has links.
            "$ref" => false,
            "properties" => {
                for (name, inner) in means.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        validate(value, inner, &format!("{at}.{name}"), wrong);
                    }
                }
                true
            }
            "oneOf" => {
                let passes = |one: &&Json| {
                    let mut wrong = Vec::new();
                    validate(value, one, at, &mut wrong);
                    wrong.is_empty()
                };
                means.as_array().unwrap().iter().filter(passes).count() == 1
            }
            other => panic!("the validator does not know `{other}`"),
        };
        if !fine {
            wrong.push(format!("{at}: {word} {means}: {value}"));
        }
    }
}

fn has_type(value: &Json, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "string" => value.is_string(),
        other => panic!("the validator does not know the type {other}"),
    }
}

fn has_format(text: &str, name: &str) -> bool {
    match name {
        "uri" => text.parse::<reqwest::Url>().is_ok(),
        "uri-reference" => !text.contains(char::is_whitespace),
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        other => panic!("the validator does not know the format {other}"),
    }
}

#[test]
fn the_validator_refuses_what_does_not_conform() {
    let schema: Json = serde_json::from_str(SCHEMAS[2].1).unwrap();
    let good = serde_json::json!({
        "context": {"specversion": "0.5.1", "id": "a", "source": "https://d", "timestamp": "2026-01-01T00:00:00Z",
            "type": "dev.cdevents.pipelinerun.finished.0.3.0"},
        "subject": {"id": "a", "content": {"outcome": "success", "uri": "https://d/a"}},
        "customData": {"a": 1},
    });
    let check = |json: &Json| {
        let mut wrong = Vec::new();
        validate(json, &schema, "data", &mut wrong);
        wrong.len()
    };
    assert_eq!(check(&good), 0);
    for (place, value) in [
        ("/context/type", "dev.cdevents.pipelinerun.queued.0.3.0".into()),
        ("/context/timestamp", "yesterday".into()),
        ("/subject/content/outcome", "fine".into()),
        ("/subject/content/uri", "no address".into()),
        ("/subject/id", "".into()),
        ("/customData", 7.into()),
        ("/subject/content", serde_json::json!({"url": "https://d"})),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        assert!(check(&bad) > 0, "{place}");
    }
}
