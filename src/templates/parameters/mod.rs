//! The parameters of a template: what WAMLs that use it can set beyond the keys of every WAML.
//!
//! A template declares them in its `parameters.yaml`. A WAML sets them under `parameters` of a section; there they are
//! merged like everything else. The declared schema is checked by the reader that checks the WAML itself, so that
//! messages, places and suggestions are the same.

mod file; // parameters.yaml

use std::fmt::Write as _;
use std::sync::LazyLock;

use indexmap::IndexMap;
use regex::Regex;
use schemars::Schema;
use serde_json::{Value as Json, json};

use crate::model::violation::{Position, Violation};
use crate::templates::parameters::file::{ParameterSchema, ParametersFile, RULE};
use crate::waml::checked_reader::Reader;
use crate::waml::collect;
use crate::waml::node::{Map, MappingEntry, Node, Path, Value};
use crate::waml::quote::quote;
use crate::waml::suggest;
use crate::waml::yaml::{self, Budget};

/// The name of the file in a template's folder.
pub(crate) const FILE: &str = "parameters.yaml";

/// The part of a section, and of a template's variables, that has the parameters.
pub(crate) const PART: &str = "parameters";

/// The longest text that is matched with a pattern: names, addresses and the like are shorter.
const MAX_MATCHED_TEXT: usize = 4096;

static FILE_READER: LazyLock<Reader<ParametersFile>> = LazyLock::new(Reader::new);

/// The declared parameters of a template.
#[derive(Debug, Default)]
pub struct TemplateParameters {
    rules: IndexMap<String, ValueRule>,
    required: Vec<String>,
    /// The JSON Schema of the properties, by name.
    properties: serde_json::Map<String, Json>,
    /// `None` without parameters.
    reader: Option<Reader<Json>>,
    /// The `default`s, by name.
    defaults: Map,
    patchable: Option<Vec<String>>,
    manifests: Option<Vec<String>>,
    /// The place of the key `parameters` in the file.
    place: Option<Position>,
}

/// The part of a schema that the reader of WAMLs does not check.
#[derive(Debug)]
struct ValueRule {
    key: Option<Position>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    pattern: Option<Regex>,
    items: Option<Box<ValueRule>>,
    properties: IndexMap<String, ValueRule>,
    /// A number with bounds of its own: those of whole numbers are in the reader.
    is_number: bool,
}

impl TemplateParameters {
    /// Reads a `parameters.yaml`; `path` is its name for violations. What is wrong is added to them.
    pub(crate) fn parse(path: &str, text: &str, violations: &mut Vec<Violation>) -> Self {
        let before = violations.len();
        let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_empty) {
            return Self::default();
        }
        let root = yaml::parse(path, text.as_bytes(), &Budget::default(), violations);
        let Some(mut root) = root else { return Self::default() };
        let file = FILE_READER.read(&mut root, &Path::root(), violations);
        for violation in violations.iter_mut().skip(before) {
            explain_unknown_keyword(violation);
        }
        let Some(file) = file else { return Self::default() };
        file::check(&file, &root, violations);
        if violations.len() > before {
            return Self::default();
        }
        let parameters = Self::of_file(&file, &root);
        parameters.check_defaults(violations);
        parameters
    }

    fn of_file(file: &ParametersFile, root: &Node) -> Self {
        let written = root.as_map().and_then(|map| map.get(PART));
        let written_parameters = written.and_then(|entry| entry.node.as_map());
        let entry_of = |name: &str| written_parameters.and_then(|map| map.get(name));
        let Json::Object(properties) = file::properties_schema(&file.parameters) else {
            return Self::default();
        };
        let schema =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
        let default_of = |name: &String| {
            let default = entry_of(name)?.node.as_map()?.get("default")?;
            Some((name.clone(), default.clone()))
        };
        let rule = |(name, schema): (&String, &ParameterSchema)| {
            let key = entry_of(name).map(|entry| entry.key.clone());
            (name.clone(), ValueRule { key, ..ValueRule::of_schema(schema) })
        };
        Self {
            rules: file.parameters.iter().map(rule).collect(),
            required: file.required.clone(),
            properties,
            reader: Schema::try_from(schema).ok().map(|schema| Reader::from_schema(&schema)),
            defaults: file
                .parameters
                .keys()
                .filter_map(default_of)
                .filter(|(_, entry)| !entry.node.is_null())
                .collect(),
            patchable: file.patchable.clone(),
            manifests: file.manifests.clone(),
            place: written.map(|entry| entry.key.clone()),
        }
    }

    fn check_defaults(&self, violations: &mut Vec<Violation>) {
        let Some(mut node) = self.default_node() else { return };
        let mut of_defaults = Vec::new();
        self.check(&mut node, &mut of_defaults);
        for violation in of_defaults {
            let path = violation.path.clone();
            let position = violation.position.clone();
            let parts = path.strip_prefix("parameters.").unwrap_or(&path);
            let end = parts.find(['.', '[']).unwrap_or(parts.len());
            let (name, rest) = parts.split_at(end);
            collect::add(
                violations,
                violation.at(format!("parameters.{name}.default{rest}"), position),
            );
        }
    }

    /// Returns the defaults as the value of a section's `parameters`; `None` without any.
    pub(crate) fn default_node(&self) -> Option<Node> {
        let first = self.defaults.values().next()?;
        Some(Node::new(Value::Map(self.defaults.clone()), first.node.origin.clone()))
    }

    /// Returns the defaults as an entry of a template's defaults; `None` without any.
    pub(crate) fn default_entry(&self) -> Option<MappingEntry> {
        Some(MappingEntry { key: self.place.clone()?, node: self.default_node()? })
    }

    /// Lists the names of the parameters, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.rules.keys().map(String::as_str)
    }

    /// Lists the kinds of objects that WAMLs may patch; `None` where the template leaves it at the usual ones.
    pub(crate) fn patchable(&self) -> Option<&[String]> {
        self.patchable.as_deref()
    }

    /// Lists the kinds of extra objects that WAMLs may bring along; `None` where the template leaves it to the target.
    pub(crate) fn extra_kinds(&self) -> Option<&[String]> {
        self.manifests.as_deref()
    }

    /// Lists the names of the parameters that every WAML has to set.
    pub(crate) fn required(&self) -> impl Iterator<Item = &str> {
        self.required.iter().map(String::as_str)
    }

    /// Returns the place where a parameter is declared.
    pub(crate) fn place_of(&self, name: &str) -> Option<&Position> {
        self.rules.get(name)?.key.as_ref()
    }

    /// Returns the meaning of a parameter, if the file says it.
    pub(crate) fn description(&self, name: &str) -> Option<&str> {
        self.properties.get(name)?.get("description")?.as_str()
    }

    /// Returns the JSON Schema of each parameter, by name.
    pub fn properties(&self) -> &serde_json::Map<String, Json> {
        &self.properties
    }

    /// Returns the JSON Schema of the whole: a map with the parameters.
    pub fn json_schema(&self) -> Json {
        json!({
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": false,
        })
    }

    /// Reads the parameters of complete settings: each of its declared type, null where it is not set. What is wrong
    /// is marked broken.
    pub(crate) fn read(
        &self,
        template: &str,
        tree: &mut Node,
        violations: &mut Vec<Violation>,
    ) -> IndexMap<String, Json> {
        let mut values: IndexMap<String, Json> =
            self.rules.keys().map(|name| (name.clone(), Json::Null)).collect();
        let Value::Map(map) = &mut tree.value else { return values };
        let Some(node) = map.get_mut(PART).map(|entry| &mut entry.node) else { return values };
        if node.broken {
            return values;
        }
        self.refuse_unknown(template, node, violations);
        if let Some(Json::Object(read_values)) = self.check(node, violations) {
            values.extend(read_values);
        }
        values
    }

    fn refuse_unknown(&self, template: &str, node: &mut Node, violations: &mut Vec<Violation>) {
        let Value::Map(map) = &mut node.value else { return };
        for (name, entry) in map.iter_mut().filter(|(name, _)| !self.rules.contains_key(*name)) {
            let message = format!("the template `{template}` has no parameter {}", quote(name));
            let help = if self.rules.is_empty() {
                "remove it: the template declares no parameters".to_owned()
            } else {
                suggest::hint(name, self.names())
            };
            let violation =
                Violation::error(RULE, message).expected("no such parameter").help(help);
            let path = Path::root().key(PART).key(name).to_string();
            collect::add(violations, violation.at(path, Some(entry.key.clone())));
            entry.node.broken = true;
        }
    }

    /// Checks the values by the schemas, and reads them as their types.
    fn check(&self, node: &mut Node, violations: &mut Vec<Violation>) -> Option<Json> {
        let path = Path::root().key(PART);
        let mut of_values = Vec::new();
        let json =
            self.reader.as_ref().and_then(|reader| reader.check(node, &path, &mut of_values));
        if let Value::Map(map) = &mut node.value {
            for (name, entry) in map.iter_mut() {
                if let Some(rule) = self.rules.get(name) {
                    rule.check(&mut entry.node, &path.key(name), &mut of_values);
                }
            }
        }
        for violation in of_values {
            collect::add(violations, Violation { rule: RULE.into(), ..violation });
        }
        json
    }
}

impl ValueRule {
    fn of_schema(schema: &ParameterSchema) -> Self {
        let is_number = schema.kind == file::ParameterType::Number;
        let properties = schema.properties.iter().flatten();
        Self {
            key: None,
            minimum: schema.minimum.filter(|_| is_number),
            maximum: schema.maximum.filter(|_| is_number),
            pattern: schema.pattern.as_deref().and_then(|text| file::compile_pattern(text).ok()),
            items: schema.items.as_deref().map(|items| Box::new(Self::of_schema(items))),
            properties: properties
                .map(|(name, part)| (name.clone(), Self::of_schema(part)))
                .collect(),
            is_number,
        }
    }

    fn check(&self, node: &mut Node, path: &Path, violations: &mut Vec<Violation>) {
        if node.broken {
            return;
        }
        match &mut node.value {
            Value::Scalar(scalar) => {
                let Some((message, expected, help)) = self.problem(&scalar.text, path) else {
                    return;
                };
                let violation = Violation::error(RULE, message).expected(expected).help(help);
                let place = Some(node.origin.position.clone());
                collect::add(violations, violation.at(path.to_string(), place));
                node.broken = true;
            }
            Value::List(list) => {
                let Some(rule) = &self.items else { return };
                for (index, element) in list.iter_mut().enumerate() {
                    rule.check(element, &path.index(index), violations);
                }
            }
            Value::Map(map) => {
                for (key, entry) in map.iter_mut() {
                    if let Some(rule) = self.properties.get(key) {
                        rule.check(&mut entry.node, &path.key(key), violations);
                    }
                }
            }
            Value::Null => {}
        }
    }

    /// Finds what is wrong with a scalar: the message, what was expected, and the way out. The value is not quoted:
    /// what a company keeps in a parameter is not known.
    fn problem(&self, text: &str, path: &Path) -> Option<(String, &'static str, String)> {
        if let Some(pattern) = &self.pattern {
            if text.len() > MAX_MATCHED_TEXT {
                let message = format!("`{path}` has {} bytes", text.len());
                return Some((
                    message,
                    "too long",
                    format!("write at most {MAX_MATCHED_TEXT} bytes"),
                ));
            }
            return (!pattern.is_match(text)).then(|| {
                let message = format!("`{path}` does not have the form that the template asks for");
                (
                    message,
                    "has another form",
                    format!("write a text that matches `{}`", pattern.as_str()),
                )
            });
        }
        let number: f64 = text.parse().ok().filter(|_| self.is_number)?;
        let is_within = self.minimum.is_none_or(|minimum| number >= minimum)
            && self.maximum.is_none_or(|maximum| number <= maximum);
        (!is_within).then(|| {
            let mut help = "write a number".to_owned();
            for (word, bound) in [("from", self.minimum), ("to", self.maximum)] {
                if let Some(bound) = bound {
                    write!(help, " {word} {bound}").expect("a text takes every text");
                }
            }
            (format!("`{path}` is out of range"), "out of range", help)
        })
    }
}

/// Says which keywords there are where another one of JSON Schema was used.
fn explain_unknown_keyword(violation: &mut Violation) {
    let is_vague = violation.help.as_deref().is_some_and(|help| !help.starts_with("did you mean"));
    if violation.rule == "unknown-key" && is_vague && violation.path.contains('.') {
        violation.help = Some(
            "remove it: a parameter has `type`, `description`, `default`, `enum`, `minimum`, `maximum`, `pattern`, \
             `items`, `properties` and `required`, and nothing else of JSON Schema"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests;
