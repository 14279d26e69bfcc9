//! As much of JSON Schema as the document of the API has. A word that it does not know fails, and so
//! does a key that the schema does not have: nothing passes unseen.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

/// Everything that is wrong with a value.
pub(super) fn wrong(value: &Json, schema: &Json, document: &Json) -> Vec<String> {
    judged(value, schema, document).wrong
}

/// What a value has of the document's named schemas that is neither null nor empty: `Name.key`.
pub(super) fn seen(value: &Json, schema: &Json, document: &Json) -> BTreeSet<String> {
    judged(value, schema, document).seen
}

fn judged<'d>(value: &Json, schema: &Json, document: &'d Json) -> Check<'d> {
    let mut check = Check { document, wrong: Vec::new(), seen: BTreeSet::new() };
    check.value(value, schema, ("$", ""));
    check
}

struct Check<'d> {
    document: &'d Json,
    wrong: Vec<String>,
    seen: BTreeSet<String>,
}

/// Where a value is, and the name of its schema, if that has one.
type Place<'p> = (&'p str, &'p str);

impl Check<'_> {
    fn value(&mut self, value: &Json, schema: &Json, place: Place<'_>) {
        let Some(words) = schema.as_object() else {
            assert_eq!(*schema, true, "a schema is a map, or anything goes");
            return;
        };
        for (word, means) in words {
            let fine = match word.as_str() {
                "$ref" => self.reference(value, means, place.0),
                "properties" => self.properties(value, means, words.contains_key("type"), place),
                "items" => self.items(value, means, place.0),
                "anyOf" => self.passes(value, means, place) > 0,
                "oneOf" => self.passes(value, means, place) == 1,
                "not" => !wrong(value, means, self.document).is_empty(),
                word => holds(value, word, means),
            };
            if !fine {
                self.wrong.push(format!("{}: {word} {means}: {value}", place.0));
            }
        }
    }

    fn reference(&mut self, value: &Json, means: &Json, at: &str) -> bool {
        let pointer = means.as_str().unwrap().strip_prefix('#').unwrap();
        let target = self.document.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
        let name = pointer.strip_prefix("/components/schemas/").unwrap();
        self.value(value, target, (at, name));
        true
    }

    /// What has no type of its own is a condition on some keys of many.
    fn properties(&mut self, value: &Json, means: &Json, all: bool, (at, name): Place<'_>) -> bool {
        let known = means.as_object().unwrap();
        for (key, inner) in value.as_object().into_iter().flatten() {
            let Some(schema) = known.get(key) else {
                if all {
                    self.wrong.push(format!("{at}.{key} is not in the document"));
                }
                continue;
            };
            let is_empty = inner.as_array().is_some_and(Vec::is_empty) || *inner == json!("");
            if !name.is_empty() && !inner.is_null() && !is_empty {
                self.seen.insert(format!("{name}.{key}"));
            }
            self.value(inner, schema, (&format!("{at}.{key}"), ""));
        }
        true
    }

    fn items(&mut self, value: &Json, means: &Json, at: &str) -> bool {
        for (n, inner) in value.as_array().into_iter().flatten().enumerate() {
            self.value(inner, means, (&format!("{at}[{n}]"), ""));
        }
        true
    }

    /// How many of the schemas the value is right by.
    fn passes(&mut self, value: &Json, schemas: &Json, place: Place<'_>) -> usize {
        let mut passes = 0;
        for schema in schemas.as_array().unwrap() {
            let mut check =
                Check { document: self.document, wrong: Vec::new(), seen: BTreeSet::new() };
            check.value(value, schema, place);
            if check.wrong.is_empty() {
                passes += 1;
                self.seen.extend(check.seen);
            }
        }
        passes
    }
}

/// Whether a value is right by a word that looks no deeper.
fn holds(value: &Json, word: &str, means: &Json) -> bool {
    let text = || value.as_str();
    let is_long = |holds: fn(u64, u64) -> bool| {
        text().is_none_or(|text| holds(text.chars().count() as u64, means.as_u64().unwrap()))
    };
    let has_items = |holds: fn(u64, u64) -> bool| {
        value.as_array().is_none_or(|all| holds(all.len() as u64, means.as_u64().unwrap()))
    };
    let is_large = |holds: fn(i64, i64) -> bool| {
        value.as_i64().is_none_or(|number| holds(number, means.as_i64().unwrap()))
    };
    match word {
        "description" | "default" | "title" => true,
        "type" => match means {
            Json::Array(all) => all.iter().any(|one| has_type(value, one.as_str().unwrap())),
            one => has_type(value, one.as_str().unwrap()),
        },
        "enum" => means.as_array().unwrap().contains(value),
        "const" => value == means,
        "format" => text().is_none_or(|text| has_format(text, means.as_str().unwrap())),
        "pattern" => text()
            .is_none_or(|text| regex::Regex::new(means.as_str().unwrap()).unwrap().is_match(text)),
        "minLength" => is_long(|long, least| long >= least),
        "maxLength" => is_long(|long, most| long <= most),
        "minItems" => has_items(|many, least| many >= least),
        "maxItems" => has_items(|many, most| many <= most),
        "minimum" => is_large(|large, least| large >= least),
        "maximum" => is_large(|large, most| large <= most),
        "required" => {
            let mut names = means.as_array().unwrap().iter();
            value.is_null() || names.all(|name| value.get(name.as_str().unwrap()).is_some())
        }
        "additionalProperties" => {
            let is_of_type = |one: &Json| has_type(one, means["type"].as_str().unwrap());
            means.is_boolean() || value.as_object().is_none_or(|map| map.values().all(is_of_type))
        }
        other => panic!("the validator does not know `{other}`"),
    }
}

fn has_type(value: &Json, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
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
    let document = json!({"components": {"schemas": {
        "Inner": {"type": "string", "enum": ["a", "b"]},
        "Outer": {
            "type": "object",
            "properties": {
                "inner": {"anyOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
                "many": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            },
            "required": ["inner"],
            "anyOf": [{"properties": {"many": {"maxItems": 2}}}],
        },
    }}});
    let schema = json!({"$ref": "#/components/schemas/Outer"});
    let errors = |value: Json| wrong(&value, &schema, &document).len();
    assert_eq!(errors(json!({"inner": "a", "many": [1, 2]})), 0);
    assert_eq!(errors(json!({"inner": null})), 0);
    for bad in [
        json!({}),
        json!([]),
        json!({"inner": "c"}),
        json!({"inner": "a", "many": [0]}),
        json!({"inner": "a", "many": [1, 2, 3]}),
        json!({"inner": "a", "many": "1"}),
        json!({"inner": "a", "more": 1}),
    ] {
        assert!(errors(bad.clone()) > 0, "{bad}");
    }
    let seen = |value: Json| seen(&value, &schema, &document).into_iter().collect::<Vec<_>>();
    assert_eq!(seen(json!({"inner": "a", "many": [1]})), ["Outer.inner", "Outer.many"]);
    assert_eq!(seen(json!({"inner": null, "many": []})), Vec::<String>::new());
}
