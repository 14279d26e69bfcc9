//! Reads a template's `parameters.yaml`: a small part of JSON Schema, each keyword with the types that it is for.
//!
//! A keyword without effect is refused, because its author would rely on it.

use indexmap::IndexMap;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::model::violation::{Position, Violation};
use crate::waml::collect;
use crate::waml::node::{Node, Path};
use crate::waml::quote::quote;
use crate::waml::suggest;

/// The rule that this module's violations name.
pub(super) const RULE: &str = "parameters";

/// The most schemas of one template, those of properties and elements included.
const MAX_SCHEMAS: usize = 200;
/// The deepest that a schema nests.
const MAX_DEPTH: usize = 5;
/// The most words of one `enum`.
const MAX_WORDS: usize = 100;
/// The longest regular expression, in bytes, as it is written…
const MAX_PATTERN: usize = 256;
/// … and as it is compiled: it is applied to every value at the cost of its size.
const MAX_COMPILED_PATTERN: usize = 64 * 1024;
/// The longest name of a parameter.
const MAX_NAME: usize = 63;
/// The largest whole number that a bound can have: beyond it, not all are numbers of JSON.
const MAX_BOUND: f64 = 9_007_199_254_740_991.0;

/// The file as it is written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ParametersFile {
    /// The parameters, by name.
    pub(super) parameters: IndexMap<String, ParameterSchema>,
    /// The names of the parameters that every WAML has to set.
    pub(super) required: Vec<String>,
    /// The kinds of objects that WAMLs may patch, instead of the usual ones; an empty list: none.
    pub(super) patchable: Option<Vec<String>>,
    /// The kinds of extra objects that WAMLs may bring along, of those that the target takes; an empty list: none.
    pub(super) manifests: Option<Vec<String>>,
}

/// The most kinds that can be patched, or brought along.
const MAX_KINDS: usize = 50;

/// The form of one value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ParameterSchema {
    /// The type of the value.
    #[serde(rename = "type")]
    pub(super) kind: ParameterType,
    /// The meaning, in a sentence.
    #[serde(default)]
    pub(super) description: Option<String>,
    /// The value where a WAML sets none.
    #[serde(default)]
    pub(super) default: Option<Json>,
    /// The only texts.
    #[serde(default, rename = "enum")]
    pub(super) words: Option<Vec<String>>,
    /// The least number.
    #[serde(default)]
    pub(super) minimum: Option<f64>,
    /// The largest number.
    #[serde(default)]
    pub(super) maximum: Option<f64>,
    /// A regular expression that matches somewhere in the text.
    #[serde(default)]
    pub(super) pattern: Option<String>,
    /// The form of a list's elements.
    #[serde(default)]
    pub(super) items: Option<Box<ParameterSchema>>,
    /// The keys of a map.
    #[serde(default)]
    pub(super) properties: Option<IndexMap<String, ParameterSchema>>,
    /// The keys that a map must have.
    #[serde(default)]
    pub(super) required: Option<Vec<String>>,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ParameterType {
    /// Text; every scalar is one, as it is spelled.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// A map with known keys.
    Object,
}

impl ParameterType {
    fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// Writes the schema as the JSON Schema that editors and the reader of WAMLs take.
pub(super) fn json_schema(schema: &ParameterSchema) -> Json {
    let mut json = serde_json::Map::new();
    let mut set = |key: &str, value: Json| drop(json.insert(key.to_owned(), value));
    set("type", schema.kind.as_str().into());
    if let Some(description) = &schema.description {
        set("description", description.as_str().into());
    }
    if let Some(default) = &schema.default {
        set("default", default.clone());
    }
    if let Some(words) = &schema.words {
        set("enum", words.clone().into());
    }
    for (key, bound) in [("minimum", schema.minimum), ("maximum", schema.maximum)] {
        let Some(bound) = bound else { continue };
        let whole = whole_number(bound).filter(|_| schema.kind == ParameterType::Integer);
        set(key, whole.map_or_else(|| bound.into(), Json::from));
    }
    if let Some(pattern) = &schema.pattern {
        set("pattern", pattern.as_str().into());
    }
    if let Some(items) = &schema.items {
        set("items", json_schema(items));
    }
    if let Some(properties) = &schema.properties {
        set("properties", properties_schema(properties));
        set("required", schema.required.clone().unwrap_or_default().into());
        set("additionalProperties", false.into());
    }
    Json::Object(json)
}

pub(super) fn properties_schema(properties: &IndexMap<String, ParameterSchema>) -> Json {
    properties.iter().map(|(name, schema)| (name.clone(), json_schema(schema))).collect()
}

/// Reads a bound of whole numbers; `None` for a fraction, and for one that is no exact number.
fn whole_number(bound: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number of 53 bits")]
    (bound.fract() == 0.0 && bound.abs() <= MAX_BOUND).then_some(bound as i64)
}

/// Compiles a pattern.
///
/// # Errors
/// The problem, as a sentence without its subject's name.
pub(super) fn compile_pattern(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_PATTERN {
        return Err(format!("it has more than {MAX_PATTERN} bytes"));
    }
    let build = RegexBuilder::new(text).size_limit(MAX_COMPILED_PATTERN).build();
    build.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        other => {
            let text = other.to_string();
            let line = text.lines().last().unwrap_or_default().trim();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    })
}

/// Checks what the types of the file do not say; `root` is the file.
pub(super) fn check(file: &ParametersFile, root: &Node, violations: &mut Vec<Violation>) {
    let mut check = FileCheck { root, violations, schemas: 0 };
    let path = Path::root().key("parameters");
    for (name, schema) in &file.parameters {
        check.name(name, &path);
        check.schema(schema, &path.key(name), 1);
    }
    check.required(&file.required, &file.parameters, &Path::root().key("required"));
    check.kinds("patchable", file.patchable.as_deref().unwrap_or_default());
    check.kinds("manifests", file.manifests.as_deref().unwrap_or_default());
}

struct FileCheck<'a> {
    root: &'a Node,
    violations: &'a mut Vec<Violation>,
    schemas: usize,
}

impl FileCheck<'_> {
    fn report(&mut self, path: &Path, message: String, help: &str) {
        let place = self.root.nearest(path).1;
        self.report_at(path, message, help, place);
    }

    fn report_at(&mut self, path: &Path, message: String, help: &str, place: Position) {
        let violation = Violation::error(RULE, message).help(help);
        collect::add(self.violations, violation.at(path.to_string(), Some(place)));
    }

    fn name(&mut self, name: &str, path: &Path) {
        let is_legal = name.len() <= MAX_NAME
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_legal {
            let message = format!("{} is no name of a parameter", quote(name));
            let help = "use up to 63 letters, digits and `_`, and begin with a letter: a template reads it as `parameters.NAME`";
            let entry = self.root.at(path).and_then(Node::as_map).and_then(|map| map.get(name));
            let place = entry.map_or_else(|| self.root.nearest(path).1, |entry| entry.key.clone());
            self.report_at(&path.key(name), message, help, place);
        }
    }

    fn schema(&mut self, schema: &ParameterSchema, path: &Path, depth: usize) {
        self.schemas += 1;
        if self.schemas == MAX_SCHEMAS + 1 {
            let message = format!("there are more than {MAX_SCHEMAS} parameters and parts of them");
            self.report(path, message, "a template with so many is several templates");
        }
        if depth > MAX_DEPTH {
            let message = format!("`{path}` is more than {MAX_DEPTH} levels deep");
            return self.report(path, message, "make several parameters of it");
        }
        self.keywords(schema, path);
        if depth > 1 && schema.default.is_some() {
            let message = format!("`{path}` is a part of a parameter and has a `default`");
            let help = "write it into the `default` of the whole parameter: a WAML's map is merged over it";
            self.report(&path.key("default"), message, help);
        }
        self.words(schema.words.as_deref(), &path.key("enum"));
        self.bounds(schema, path);
        if let Some(Err(problem)) = schema.pattern.as_deref().map(compile_pattern) {
            let path = path.key("pattern");
            let message = format!("`{path}` is not a regular expression: {problem}");
            self.report(&path, message, "it is one of Rust's crate `regex`, as RE2 is: without look-around and back references");
        }
        match (schema.kind, &schema.items, &schema.properties) {
            (ParameterType::Array, None, _) => {
                let message = format!("`{path}` does not say what its elements are");
                self.report(path, message, "add `items: {type: string}`");
            }
            (ParameterType::Object, _, None) => {
                let message = format!("`{path}` does not say which keys it has");
                let help = "add `properties`; for free keys use a list of maps with a `name`";
                self.report(path, message, help);
            }
            _ => {}
        }
        if let Some(items) = &schema.items {
            self.schema(items, &path.key("items"), depth + 1);
        }
        let properties = path.key("properties");
        for (name, schema) in schema.properties.iter().flatten() {
            self.name(name, &properties);
            self.schema(schema, &properties.key(name), depth + 1);
        }
        if let (Some(names), Some(known)) = (&schema.required, &schema.properties) {
            self.required(names, known, &path.key("required"));
        }
    }

    /// Refuses keywords that say nothing about the type.
    fn keywords(&mut self, schema: &ParameterSchema, path: &Path) {
        use ParameterType::{Array, Integer, Number, Object, String};
        let keywords: [(&str, bool, &[ParameterType]); 7] = [
            ("enum", schema.words.is_some(), &[String]),
            ("pattern", schema.pattern.is_some(), &[String]),
            ("minimum", schema.minimum.is_some(), &[Integer, Number]),
            ("maximum", schema.maximum.is_some(), &[Integer, Number]),
            ("items", schema.items.is_some(), &[Array]),
            ("properties", schema.properties.is_some(), &[Object]),
            ("required", schema.required.is_some(), &[Object]),
        ];
        for (keyword, is_set, kinds) in keywords {
            if is_set && !kinds.contains(&schema.kind) {
                let path = path.key(keyword);
                let message = format!(
                    "`{path}` says nothing about a value of the type `{}`",
                    schema.kind.as_str()
                );
                let names = suggest::list(kinds.iter().map(|kind| kind.as_str()));
                self.report(&path, message, &format!("remove it, or use the type {names}"));
            }
        }
    }

    fn words(&mut self, words: Option<&[String]>, path: &Path) {
        let Some(words) = words else { return };
        if words.is_empty() || words.len() > MAX_WORDS {
            let message = format!("`{path}` has {} words", words.len());
            self.report(path, message, &format!("name 1 to {MAX_WORDS} words"));
        }
        let repeated = words
            .iter()
            .enumerate()
            .find(|(at, word)| words.iter().take(*at).any(|other| other == *word));
        if let Some((at, word)) = repeated {
            let message = format!("`{path}` has {} twice", quote(word));
            self.report(&path.index(at), message, "keep one of the two");
        }
    }

    fn bounds(&mut self, schema: &ParameterSchema, path: &Path) {
        for (key, bound) in [("minimum", schema.minimum), ("maximum", schema.maximum)] {
            let is_wrong = schema.kind == ParameterType::Integer
                && bound.is_some_and(|bound| whole_number(bound).is_none());
            if is_wrong {
                let path = path.key(key);
                let message = format!("`{path}` is no whole number");
                self.report(&path, message, "write a whole number, or use the type `number`");
            }
        }
        if let (Some(minimum), Some(maximum)) = (schema.minimum, schema.maximum)
            && minimum > maximum
        {
            let message =
                format!("`{path}` has a `minimum` above its `maximum`, so no number fits");
            self.report(&path.key("minimum"), message, "exchange the two");
        }
    }

    fn kinds(&mut self, key: &str, kinds: &[String]) {
        let path = Path::root().key(key);
        if kinds.len() > MAX_KINDS {
            let message = format!("`{path}` has {} kinds", kinds.len());
            self.report(&path, message, &format!("name at most {MAX_KINDS}"));
        }
        for (at, kind) in kinds.iter().enumerate() {
            let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
                && kind.bytes().all(|b| b.is_ascii_alphanumeric());
            if !is_kind {
                let message = format!("{} is not a kind", quote(kind));
                self.report(&path.index(at), message, "write it as an object does: `Deployment`");
            }
        }
    }

    fn required(
        &mut self,
        names: &[String],
        known: &IndexMap<String, ParameterSchema>,
        path: &Path,
    ) {
        for (at, name) in names.iter().enumerate() {
            if !known.contains_key(name) {
                let message = format!("`{path}` names {}, which is not declared", quote(name));
                let help = suggest::hint(name, known.keys().map(String::as_str));
                self.report(&path.index(at), message, &help);
            }
        }
    }
}
