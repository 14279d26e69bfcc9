//! A JSON Schema as Markdown: a table for each map, in the order in which a reader meets them.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

/// The parts of the schema that are maps with known keys, each a heading and a table.
pub(super) fn markdown(schema: &Json) -> String {
    let mut out = String::new();
    let mut waiting = vec![("The file".to_owned(), schema)];
    let mut seen: Vec<String> = Vec::new();
    while !waiting.is_empty() {
        let (name, part) = waiting.remove(0);
        object(&name, part, schema, &mut out);
        for (name, next) in named_within(part, schema) {
            if !seen.contains(&name) {
                seen.push(name.clone());
                waiting.push((name, next));
            }
        }
    }
    out.trim_end().to_owned() + "\n"
}

fn object(name: &str, part: &Json, schema: &Json, out: &mut String) {
    let Some(properties) = part["properties"].as_object() else { return };
    let described = if name == "The file" { "" } else { text(part, "description") };
    write!(out, "### {name}\n\n").unwrap();
    if !described.is_empty() {
        write!(out, "{described}\n\n").unwrap();
    }
    let all = &schema["$defs"]["Section"]["properties"];
    let is_section = |key: &String| name != "Section" && all.get(key).is_some();
    let flattened =
        all.as_object().is_some_and(|all| all.keys().all(|k| properties.contains_key(k)));
    out.push_str("| key | value | |\n|---|---|---|\n");
    for (key, value) in properties.iter().filter(|(key, _)| !(flattened && is_section(key))) {
        row(key, value, required(part, key), schema, out);
    }
    if flattened && name != "Section" {
        out.push_str("| | | and every key of a [Section](#section) |\n");
    }
    out.push('\n');
}

fn row(key: &str, value: &Json, required: bool, schema: &Json, out: &mut String) {
    let needed = if required { " **Required.**" } else { "" };
    let about = text(value, "description").replace('\n', " ").replace('|', "\\|");
    writeln!(out, "| `{key}` | {} | {about}{needed} |", kind(value, schema)).unwrap();
}

fn required(part: &Json, key: &str) -> bool {
    part["required"].as_array().is_some_and(|all| all.iter().any(|name| name == key))
}

fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    json[key].as_str().unwrap_or_default()
}

/// What stands behind a key, in words.
fn kind(json: &Json, schema: &Json) -> String {
    if let Some((name, target)) = reference(json, schema) {
        return match words(target) {
            Some(words) => words,
            None if target["properties"].is_object() => {
                format!("[{name}](#{})", name.to_lowercase())
            }
            None => kind(target, schema),
        };
    }
    if let Some(options) = json["anyOf"].as_array() {
        let mut some = options.iter().filter(|option| option["type"] != "null");
        return some.next().map_or(String::new(), |option| kind(option, schema));
    }
    words(json).unwrap_or_else(|| by_type(json, schema))
}

fn by_type(json: &Json, schema: &Json) -> String {
    let types: Vec<&str> = match &json["type"] {
        Json::Array(all) => all.iter().filter_map(Json::as_str).filter(|t| *t != "null").collect(),
        one => one.as_str().into_iter().collect(),
    };
    match types.first().copied() {
        Some("array") => format!("list of {}", kind(&json["items"], schema)),
        Some("object") if json["additionalProperties"].is_object() => {
            let by = text(&json["propertyNames"], "format");
            let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
            format!("map{by} of {}", kind(&json["additionalProperties"], schema))
        }
        Some("object") => "map".to_owned(),
        Some("integer") => match (json["minimum"].as_i64(), json["maximum"].as_i64()) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            _ => "whole number".to_owned(),
        },
        Some("string") => match text(json, "format") {
            "" => "text".to_owned(),
            format => format!("text: {format}"),
        },
        Some(other) => other.to_owned(),
        None => "any value".to_owned(),
    }
}

/// `"a"`, `"b"`: where only some words are allowed.
fn words(json: &Json) -> Option<String> {
    let one_of = json["oneOf"].as_array().into_iter().flatten();
    let consts = one_of.chain([json]).filter_map(|option| option["const"].as_str());
    let enums = json["enum"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let all: Vec<String> = consts.chain(enums).map(|word| format!("`{word}`")).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn reference<'a>(json: &Json, schema: &'a Json) -> Option<(String, &'a Json)> {
    let name = json["$ref"].as_str()?.strip_prefix("#/$defs/")?;
    Some((name.to_owned(), &schema["$defs"][name]))
}

/// The named parts that a part leads to, in its order.
fn named_within<'a>(part: &Json, schema: &'a Json) -> Vec<(String, &'a Json)> {
    match part {
        Json::Object(map) => match reference(part, schema) {
            Some(named) => vec![named],
            None => children(map).flat_map(|child| named_within(child, schema)).collect(),
        },
        Json::Array(list) => list.iter().flat_map(|child| named_within(child, schema)).collect(),
        _ => Vec::new(),
    }
}

fn children(map: &Map<String, Json>) -> impl Iterator<Item = &Json> {
    map.iter().filter(|(key, _)| *key != "$defs").map(|(_, value)| value)
}
