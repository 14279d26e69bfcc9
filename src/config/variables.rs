//! Reads `THE_DEPLOYER_*` variables: each sets one value of the file. Pure.
//!
//! The variables follow from the file's schema, so that the two cannot disagree.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::Schema;
use serde_json::Value as Json;

use crate::config::settings::File;
use crate::model::violation::{Position, Violation};
use crate::support::secret_text::has_credentials;
use crate::waml::node::{Map, MappingEntry, Node, Origin, Path, Scalar, Value};
use crate::waml::suggest;

const PREFIX: &str = "THE_DEPLOYER_";

/// The variables that are read elsewhere: the file's path, and logging.
const OTHERS: [&str; 3] = ["THE_DEPLOYER_CONFIG", "THE_DEPLOYER_LOG", "THE_DEPLOYER_LOG_FORMAT"];

/// A value that a variable can set.
struct Leaf {
    variable: String,
    path: Vec<String>,
    list: bool,
}

/// Sets the values of the variables over those of the file.
///
/// A variable that sets nothing is a violation, unless the configuration names it as the location of a secret. Its
/// value is not shown: it may be a secret under a mistyped name.
pub(super) fn overlay(
    root: &mut Node,
    schema: &Schema,
    variables: &BTreeMap<String, String>,
    violations: &mut Vec<Violation>,
) {
    let leaves = leaves(schema);
    let mut strangers = Vec::new();
    for (name, value) in variables.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        match leaves.iter().find(|leaf| leaf.variable == *name) {
            Some(leaf) => set(root, &leaf.path, value_node(name, value, leaf.list)),
            None if OTHERS.contains(&name.as_str()) || is_kubernetes(name) => {}
            None => strangers.push(name),
        }
    }
    let secret_names = named_as_secrets(root);
    strangers.retain(|name| !secret_names.contains(name));
    violations.extend(strangers.into_iter().map(|name| unknown_variable(name, &leaves)));
}

/// Returns the variables as files that their violations point into; without those whose text may hold a password.
pub(super) fn texts(
    variables: &BTreeMap<String, String>,
) -> impl Iterator<Item = (String, String)> {
    let leaves = leaves(&schemars::schema_for!(File));
    variables
        .iter()
        .filter(move |(name, _)| leaves.iter().any(|leaf| leaf.variable == **name))
        .filter(|(name, value)| *name != "THE_DEPLOYER_STORAGE_URL" && !has_credentials(value))
        .map(|(name, value)| (name.clone(), value.clone()))
}

/// Returns whether Kubernetes sets the variable: it gives every pod the addresses of every Service, including one
/// called `the-deployer`.
fn is_kubernetes(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    rest == "PORT" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_")
}

fn unknown_variable(name: &str, leaves: &[Leaf]) -> Violation {
    let names = leaves.iter().map(|leaf| leaf.variable.as_str());
    let help = match suggest::nearest(name, names) {
        Some(best) => format!("did you mean `{best}`?"),
        None => "it is THE_DEPLOYER_ and the path in capitals, such as THE_DEPLOYER_SERVER_LISTEN"
            .to_owned(),
    };
    let short_name: String = name.chars().take(100).collect();
    Violation::error("unknown-key", format!("the variable {short_name} sets nothing")).help(help)
}

/// Finds every scalar, and every list of texts, that is reached by keys alone.
fn leaves(schema: &Schema) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    walk(schema.as_value(), schema.as_value(), &mut Vec::new(), &mut leaves);
    leaves
}

fn walk(json: &Json, root: &Json, path: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    let json = resolve(json, root);
    if let Some(properties) = json.get("properties").and_then(Json::as_object) {
        for (name, property) in properties {
            path.push(name.clone());
            walk(property, root, path, leaves);
            path.pop();
        }
        return;
    }
    let is = |json: &Json, name: &str| match json.get("type") {
        Some(Json::String(kind)) => kind == name,
        Some(Json::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    };
    let list = is(json, "array");
    let of_texts = json.get("items").is_some_and(|items| is(resolve(items, root), "string"));
    if (list && !of_texts) || is(json, "object") {
        return;
    }
    let variable = format!("{PREFIX}{}", path.join("_").to_uppercase());
    leaves.push(Leaf { variable, path: path.clone(), list });
}

/// Resolves references, and the part that is not null.
fn resolve<'j>(json: &'j Json, root: &'j Json) -> &'j Json {
    if let Some(pointer) = json.get("$ref").and_then(Json::as_str) {
        let target = root.pointer(pointer.trim_start_matches('#'));
        return target.map_or(json, |target| resolve(target, root));
    }
    let options = json.get("anyOf").and_then(Json::as_array);
    let not_null = |json: &&Json| json.get("type").and_then(Json::as_str) != Some("null");
    match options.and_then(|options| options.iter().find(not_null)) {
        Some(option) => resolve(option, root),
        None => json,
    }
}

/// Finds every text under a key `env`.
fn named_as_secrets(root: &Node) -> Vec<String> {
    let mut names = Vec::new();
    root.leaves(&mut Path::root(), &mut |path, node| {
        if path.0.last().is_some_and(|step| step.is_key("env")) {
            names.extend(node.as_text().map(str::to_owned));
        }
    });
    names
}

fn value_node(name: &str, value: &str, list: bool) -> Node {
    let length = u32::try_from(value.chars().count()).unwrap_or(u32::MAX).max(1);
    let file: Arc<str> = name.into();
    let origin = Origin {
        position: Position { file: file.clone(), line: 1, column: 1, length },
        layer: file,
    };
    // Not quoted: a number in a variable is a number.
    let scalar = |text: &str| Value::Scalar(Scalar { text: text.to_owned(), quoted: false });
    let value = if list {
        let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
        Value::List(parts.map(|part| Node::new(scalar(part), origin.clone())).collect())
    } else {
        scalar(value)
    };
    Node::new(value, origin)
}

/// Makes the maps on the way; the parser reports a value that is no map.
fn set(root: &mut Node, path: &[String], leaf: Node) {
    if root.is_null() {
        root.value = Value::Map(Map::new());
    }
    let Value::Map(map) = &mut root.value else { return };
    let key = leaf.origin.position.clone();
    match path {
        [] => {}
        [last] => {
            map.insert(last.clone(), MappingEntry { key, node: leaf });
        }
        [first, rest @ ..] => {
            let empty = || MappingEntry {
                key: key.clone(),
                node: Node::new(Value::Null, leaf.origin.clone()),
            };
            let entry = map.entry(first.clone()).or_insert_with(empty);
            set(&mut entry.node, rest, leaf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_value_of_the_file_has_a_variable() {
        let leaves = leaves(&schemars::schema_for!(File));
        let names: Vec<&str> = leaves.iter().map(|leaf| leaf.variable.as_str()).collect();
        for name in [
            "THE_DEPLOYER_SERVER_LISTEN",
            "THE_DEPLOYER_STORAGE_URL",
            "THE_DEPLOYER_FORGE_GITHUB_API_URL",
            "THE_DEPLOYER_FORGE_GITHUB_TOKEN_FILE",
            "THE_DEPLOYER_FORGE_GITHUB_REPOSITORIES",
            "THE_DEPLOYER_LIMITS_WORKERS",
            "THE_DEPLOYER_TEMPLATES_PATH",
        ] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("THE_DEPLOYER_CLUSTERS")), "{names:?}");
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len(), "no two paths share a variable");
    }
}
