//! Rendered objects of Kubernetes' own kinds are what its API server takes: no field that it does
//! not know, none missing, each of its type.
//!
//! By the schema of Kubernetes' own `OpenAPI`, made ready by `ci/kubernetes-schema`. Kinds that
//! others define are not looked at here.

mod schema;

use serde_json::{Map, Value as Json};

use self::schema::{ObjectType, SCHEMA, Type};
use super::quantity::Quantity;
use super::{Made, Report};
use crate::model::violation::Violation;
use crate::pipeline::render::Object;
use crate::waml::suggest;
use crate::waml::typed::quoted;

const RULE: &str = "kubernetes";

/// So many faults of one object are told; who has more looks at the template anyway.
const MOST: usize = 10;

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
    for object in made.objects {
        violations(object, report);
    }
}

fn violations(object: &Object, report: &mut Report<'_>) {
    let version = object.text(["apiVersion", ""]);
    let Some(kind) = SCHEMA.kind(version, object.kind()) else {
        if let Some(versions) = SCHEMA.versions(version, object.kind()) {
            report.say(gone(object, version, &versions));
        }
        return;
    };
    let mut walk = Walk { faults: Vec::new() };
    walk.object(&object.json, kind, &mut String::new());
    for (path, fault) in walk.faults {
        let message = format!(
            "{} {}: {} {} (template {})",
            object.kind(),
            quoted(object.name()),
            shown(&path),
            fault.what,
            object.source
        );
        let help = fault.help.unwrap_or_else(|| {
            "correct the template, or the value of the WAML that it puts there".to_owned()
        });
        report.say(Violation::error(RULE, message).help(help));
    }
}

/// An API version of a group that is Kubernetes' own, with a kind that has others there.
fn gone(object: &Object, version: &str, versions: &[&str]) -> Violation {
    let message = format!(
        "{} {} is of {}, which Kubernetes does not have (template {})",
        object.kind(),
        quoted(object.name()),
        quoted(version),
        object.source
    );
    let versions = suggest::list(versions.iter().copied());
    Violation::error(RULE, message).help(format!("use {versions} in the template"))
}

fn shown(path: &str) -> String {
    if path.is_empty() { "the object".to_owned() } else { format!("`{path}`") }
}

/// What is wrong at a path.
struct Fault {
    what: String,
    help: Option<String>,
}

struct Walk {
    faults: Vec<(String, Fault)>,
}

impl Walk {
    fn object(&mut self, json: &Map<String, Json>, of: &ObjectType, path: &mut String) {
        for (key, value) in json {
            let Some(field) = of.fields.get(key) else {
                let near = suggest::nearest(key, of.fields.keys().map(String::as_str));
                let help = near.map(|near| format!("did you mean `{near}`?"));
                self.fault(path, format!("has no field {}", quoted(key)), help);
                continue;
            };
            if !value.is_null() {
                self.within(path, key, |walk, path| walk.value(value, field, path));
            }
        }
        for key in &of.required {
            if json.get(key).is_none_or(Json::is_null) {
                self.fault(path, format!("needs the field `{key}`"), None);
            }
        }
    }

    fn value(&mut self, json: &Json, of: &Type, path: &mut String) {
        match (of, json) {
            (_, Json::Null) | (Type::Any, _) => {}
            (Type::Object(index), Json::Object(map)) => {
                if let Some(object) = SCHEMA.object(*index) {
                    self.object(map, object, path);
                }
            }
            (Type::List(items), Json::Array(list)) => {
                for (index, item) in list.iter().enumerate() {
                    let before = path.len();
                    path.push_str(&format!("[{index}]"));
                    self.value(item, items, path);
                    path.truncate(before);
                }
            }
            (Type::Map(values), Json::Object(map)) => {
                for (key, value) in map {
                    self.within(path, key, |walk, path| walk.value(value, values, path));
                }
            }
            (Type::OneOf(texts), Json::String(text)) => {
                if !texts.contains(text) {
                    let list = suggest::list(texts.iter().map(String::as_str));
                    let what = format!("cannot be {}", quoted(text));
                    self.fault(path, what, Some(format!("use one of {list}")));
                }
            }
            (of, json) if is_scalar(of, json) => {}
            (of, json) => {
                let what = format!("must be {}, but is {}", of.name(), kind(json));
                self.fault(path, what, None);
            }
        }
    }

    fn within(&mut self, path: &mut String, key: &str, then: impl FnOnce(&mut Self, &mut String)) {
        let before = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        then(self, path);
        path.truncate(before);
    }

    fn fault(&mut self, path: &str, what: String, help: Option<String>) {
        if self.faults.len() < MOST {
            self.faults.push((path.to_owned(), Fault { what, help }));
        }
    }
}

fn is_scalar(of: &Type, json: &Json) -> bool {
    let is_integer = |json: &Json| json.is_i64() || json.is_u64();
    let is_short = |json: &Json| json.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
    match of {
        Type::Text | Type::Time => json.is_string(),
        Type::Boolean => json.is_boolean(),
        Type::Short => is_short(json),
        Type::Long => is_integer(json),
        Type::Number => json.is_number(),
        Type::ShortOrText => is_short(json) || json.is_string(),
        Type::Quantity => json.is_number() || json.as_str().is_some_and(is_quantity),
        Type::Any => true,
        Type::OneOf(_) | Type::List(_) | Type::Map(_) | Type::Object(_) => false,
    }
}

/// Ours know no sign; Kubernetes' may have one.
fn is_quantity(text: &str) -> bool {
    Quantity::parse(text.strip_prefix(['+', '-']).unwrap_or(text)).is_some()
}

fn kind(json: &Json) -> String {
    match json {
        Json::Null => "nothing".to_owned(),
        Json::Bool(_) => "true or false".to_owned(),
        Json::Number(number) => format!("the number {number}"),
        // It may be a secret.
        Json::String(_) => "another text".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a map".to_owned(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
