//! As much of JSON Schema as the document of the API has. A word that it does not know fails, and so
//! does a key that the schema does not have: nothing passes unseen.

use serde_json::Value as Json;

/// Everything that is wrong with a value.
pub(super) fn wrong(value: &Json, schema: &Json, document: &Json) -> Vec<String> {
    let mut wrong = Vec::new();
    check(value, schema, document, "$", &mut wrong);
    wrong
}

fn check(value: &Json, schema: &Json, document: &Json, at: &str, wrong: &mut Vec<String>) {
    let Some(words) = schema.as_object() else {
        assert_eq!(*schema, true, "a schema is a map, or anything goes");
        return;
    };
    for (word, means) in words {
        let fine = match word.as_str() {
            "description" | "default" | "title" => true,
            "$ref" => {
                let pointer = means.as_str().unwrap().strip_prefix('#').unwrap();
                let target = document.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
                check(value, target, document, at, wrong);
                true
            }
            "type" => match means {
                Json::Array(all) => all.iter().any(|one| has_type(value, one.as_str().unwrap())),
                one => has_type(value, one.as_str().unwrap()),
            },
            "enum" => means.as_array().unwrap().contains(value),
            "const" => value == means,
            "format" => value.as_str().is_none_or(|text| has_format(text, means.as_str().unwrap())),
            "pattern" => value.as_str().is_none_or(|text| {
                regex::Regex::new(means.as_str().unwrap()).unwrap().is_match(text)
            }),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= means.as_u64().unwrap()),
            "maxLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 <= means.as_u64().unwrap()),
            "minItems" => {
                value.as_array().is_none_or(|all| all.len() as u64 >= means.as_u64().unwrap())
            }
            "maxItems" => {
                value.as_array().is_none_or(|all| all.len() as u64 <= means.as_u64().unwrap())
            }
            "minimum" => value.as_i64().is_none_or(|number| number >= means.as_i64().unwrap()),
            "maximum" => value.as_i64().is_none_or(|number| number <= means.as_i64().unwrap()),
            "required" => {
                let names = means.as_array().unwrap().iter();
                value.is_null()
                    || names.clone().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                let known = means.as_object().unwrap();
                for (name, inner) in value.as_object().into_iter().flatten() {
                    match known.get(name) {
                        Some(schema) => {
                            check(inner, schema, document, &format!("{at}.{name}"), wrong);
                        }
                        None => wrong.push(format!("{at}.{name} is not in the document")),
                    }
                }
                true
            }
            "items" => {
                for (n, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(inner, means, document, &format!("{at}[{n}]"), wrong);
                }
                true
            }
            "anyOf" | "oneOf" => {
                let passes = |one: &&Json| super::schema::wrong(value, one, document).is_empty();
                means.as_array().unwrap().iter().any(|one| passes(&one))
            }
            "additionalProperties" => means.is_boolean(),
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
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the validator does not know the type {other}"),
    }
}

fn has_format(text: &str, name: &str) -> bool {
    match name {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "int64" | "uint64" | "uint32" | "uint16" | "uint" => true,
        other => panic!("the validator does not know the format {other}"),
    }
}

#[test]
fn what_does_not_conform_is_found() {
    let document = serde_json::json!({"components": {"schemas": {
        "Inner": {"type": "string", "enum": ["a", "b"]},
    }}});
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "inner": {"anyOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
            "many": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
        "required": ["inner"],
    });
    let errors = |value: Json| wrong(&value, &schema, &document).len();
    assert_eq!(errors(serde_json::json!({"inner": "a", "many": [1, 2]})), 0);
    assert_eq!(errors(serde_json::json!({"inner": null})), 0);
    for bad in [
        serde_json::json!({}),
        serde_json::json!([]),
        serde_json::json!({"inner": "c"}),
        serde_json::json!({"inner": "a", "many": [0]}),
        serde_json::json!({"inner": "a", "many": "1"}),
        serde_json::json!({"inner": "a", "more": 1}),
    ] {
        assert!(errors(bad.clone()) > 0, "{bad}");
    }
}
