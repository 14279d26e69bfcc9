//! One Kubernetes object as data: rendered by a template, or read back from a repository.

use serde_json::{Map, Value as Json};

use crate::model::facts::LiveObject;
use crate::model::violation::{Position, Violation};
use crate::waml::node::{Node, Path};
use crate::waml::scalar::read_untyped;
use crate::waml::yaml::Budget;

/// One object, with its file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    /// The file: `template deployment.yaml.tmpl`, `file k8s/dashboard.yaml`.
    pub(crate) source: String,
    pub(crate) json: Map<String, Json>,
    /// The object as a file of the service's repository has it; `None` for what a template renders.
    pub(crate) written: Option<Node>,
}

impl Object {
    /// Makes an object that a template renders.
    pub(crate) fn of_template(file: &str, json: Map<String, Json>) -> Self {
        Self { source: format!("template {file}"), json, written: None }
    }

    /// Finds the place of a field, `spec.replicas`, in the file that a person wrote; of a field that is not in it, that of
    /// what should have it.
    pub(crate) fn position(&self, field: &str) -> Option<Position> {
        let path = Path::parse(field).unwrap_or_default();
        self.written.as_ref().map(|node| node.nearest(&path).1)
    }

    pub(crate) fn text(&self, pointer: [&str; 2]) -> &str {
        let [first, second] = pointer;
        let value = self.json.get(first);
        let value = if second.is_empty() { value } else { value.and_then(|v| v.get(second)) };
        value.and_then(Json::as_str).unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.text(["kind", ""])
    }

    pub(crate) fn name(&self) -> &str {
        self.text(["metadata", "name"])
    }

    /// Returns the name of the object in a cluster.
    pub(crate) fn identity(&self) -> LiveObject {
        LiveObject {
            api_version: self.text(["apiVersion", ""]).to_owned(),
            kind: self.kind().to_owned(),
            name: self.name().to_owned(),
        }
    }
}

/// Limits for what one template file renders to.
pub(crate) const BUDGET: Budget =
    Budget { bytes: 1 << 20, nodes: 100_000, text: 1 << 20, depth: 64 };

/// Reads one document of a rendered file as an object.
pub(crate) fn read_object(source: &str, node: &Node) -> Result<Object, Violation> {
    match read_untyped(node) {
        Json::Object(json) => Ok(Object::of_template(source, json)),
        _ => Err(Violation::error(
            "rendered",
            format!("{source} renders {}, not an object", node.kind()),
        )
        .at("", Some(node.origin.position.clone()))
        .help("a template renders objects with `apiVersion` and `kind`, or nothing")),
    }
}

/// Returns the map under a key, and puts one there where something else is, or nothing.
pub(crate) fn map_or_insert<'a>(
    map: &'a mut Map<String, Json>,
    key: &str,
) -> &'a mut Map<String, Json> {
    let entry = map.entry(key).or_insert_with(|| Json::Object(Map::new()));
    if !entry.is_object() {
        *entry = Json::Object(Map::new());
    }
    entry.as_object_mut().expect("it was made an object the line before")
}

/// Reads the name of an object; `None` where it is none.
pub(crate) fn live_object(json: &Json) -> Option<LiveObject> {
    let text = |pointer: &str| json.pointer(pointer)?.as_str().map(str::to_owned);
    Some(LiveObject {
        api_version: text("/apiVersion")?,
        kind: text("/kind")?,
        name: text("/metadata/name")?,
    })
}
