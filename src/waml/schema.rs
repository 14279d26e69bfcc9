//! A JSON Schema prepared for checking: the part of the language that the WAML's types use.
//!
//! It is built from the schemas that `schemars` derives. A keyword that is not understood here would be a check that
//! silently does nothing, so a test looks for such keywords and formats in the schemas.

use indexmap::IndexMap;
use schemars::Schema;
use serde_json::{Map as JsonMap, Value as Json};

use crate::waml::examples;
use crate::waml::node::{MappingEntry, Node, Value};

/// The limit of bytes of a shown line.
const LONGEST_LINE: usize = 160;

/// The form that a value must have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Anything.
    Any,
    /// Text, perhaps of a named format; every scalar passes, its spelling is kept.
    Text(Option<String>),
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer { min: Option<i64>, max: Option<i64> },
    /// A number, fractions allowed.
    Number,
    /// One of these words.
    Choice(Vec<String>),
    /// A sequence.
    List(Box<Shape>),
    /// A mapping with free keys, perhaps of a named format.
    Map { keys: Option<String>, values: Box<Shape> },
    /// A mapping with known keys.
    Object(ObjectShape),
    /// The same, or null.
    Nullable(Box<Shape>),
    /// A named shape.
    Ref(String),
}

/// A mapping with known keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectShape {
    pub(crate) fields: IndexMap<String, KnownKey>,
}

/// One known key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownKey {
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    /// The first line of its documentation.
    pub(crate) description: Option<String>,
}

/// A schema with its named parts.
#[derive(Debug)]
pub(crate) struct Shapes {
    root: Shape,
    named: IndexMap<String, Shape>,
}

impl Shapes {
    pub(crate) fn compile(schema: &Schema) -> Self {
        let json = schema.as_value();
        let definitions = json.get("$defs").and_then(Json::as_object).into_iter().flatten();
        Self {
            root: shape(json),
            named: definitions.map(|(name, json)| (name.clone(), shape(json))).collect(),
        }
    }

    pub(crate) fn root(&self) -> &Shape {
        &self.root
    }

    /// Finds the shape itself, behind any names.
    pub(crate) fn resolve<'a>(&'a self, mut shape: &'a Shape) -> &'a Shape {
        while let Shape::Ref(name) = shape {
            shape = self.named.get(name).unwrap_or(&Shape::Any);
        }
        shape
    }
}

/// A key that belongs further down than it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NestedKey<'s> {
    /// The keys that lead there.
    pub(crate) way: Vec<KeyStep<'s>>,
    /// The key's right name.
    pub(crate) key: &'s str,
    pub(crate) field: &'s KnownKey,
}

/// A key on the way to another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyStep<'s> {
    pub(crate) key: &'s str,
    /// True if it holds a list.
    pub(crate) is_list: bool,
    /// The type of its value, or of the list's elements.
    pub(crate) type_name: &'s str,
}

impl ObjectShape {
    /// Finds the nearest key below whose name is taken by `is_meant`.
    pub(crate) fn find<'s>(
        &'s self,
        is_meant: impl Fn(&str) -> bool,
        shapes: &'s Shapes,
    ) -> Option<NestedKey<'s>> {
        const DEEPEST: usize = 3;
        let mut level: Vec<(Vec<KeyStep<'s>>, &'s Self)> = vec![(Vec::new(), self)];
        for _ in 0..DEEPEST {
            let mut next_level = Vec::new();
            for (way, object) in level {
                for (name, field) in &object.fields {
                    let Some((inner, is_list, type_name)) = field.shape.object(shapes) else {
                        continue;
                    };
                    let mut way = way.clone();
                    way.push(KeyStep { key: name, is_list, type_name });
                    if let Some((key, field)) = inner.fields.iter().find(|(key, _)| is_meant(key)) {
                        return Some(NestedKey { way, key, field });
                    }
                    next_level.push((way, inner));
                }
            }
            level = next_level;
        }
        None
    }
}

impl Shape {
    /// Finds the mapping with known keys that this is, or a list of; whether it is a list, and the
    /// type's name.
    fn object<'s>(&'s self, shapes: &'s Shapes) -> Option<(&'s ObjectShape, bool, &'s str)> {
        let name = self.type_name().unwrap_or_default();
        match shapes.resolve(self) {
            Self::Object(object) => Some((object, false, name)),
            Self::Nullable(inner) => inner.object(shapes),
            Self::List(items) => items.object(shapes).map(|(object, _, name)| (object, true, name)),
            _ => None,
        }
    }

    /// Returns the name of the type at this place.
    pub(crate) fn type_name(&self) -> Option<&str> {
        match self {
            Self::Ref(name) => Some(name),
            Self::Nullable(inner) => inner.type_name(),
            _ => None,
        }
    }

    /// Writes a value under that key, in one line: the written text in the right form, where that can be derived, else
    /// an example.
    pub(crate) fn example(&self, shapes: &Shapes, key: &str, node: Option<&Node>) -> String {
        if let Some(example) = node.and_then(|node| self.correct_value(shapes, key, node)) {
            return example;
        }
        let text = node.and_then(Node::as_text);
        let type_example = self.type_name().and_then(examples::of_type);
        if let Some(example) = type_example {
            return example.to_owned();
        }
        match shapes.resolve(self) {
            Self::Any | Self::Ref(_) | Self::Text(_) => {
                examples::of_key(key).unwrap_or(examples::ELLIPSIS).to_owned()
            }
            Self::Boolean => "true".to_owned(),
            Self::Number => examples::of_key(key).unwrap_or("99.9").to_owned(),
            Self::Integer { min, max } => {
                let digits = text.unwrap_or_default().trim_start();
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                let number = digits.get(..end).and_then(|digits| digits.parse::<i64>().ok());
                let fits =
                    |n: &i64| min.is_none_or(|min| *n >= min) && max.is_none_or(|max| *n <= max);
                let usual = if *max == Some(65_535) { 8000 } else { 3 };
                let usual = || Some(usual).filter(fits);
                number.filter(fits).or_else(usual).or(*min).unwrap_or(1).to_string()
            }
            Self::Choice(words) => words.first().cloned().unwrap_or_default(),
            Self::List(items) => match examples::of_key(key) {
                Some(example) => example.to_owned(),
                None => format!("[{}]", items.example(shapes, "", None)),
            },
            Self::Map { .. } => examples::of_key(key).unwrap_or("{NAME: …}").to_owned(),
            Self::Nullable(inner) => inner.example(shapes, key, node),
            Self::Object(object) => {
                let required = object.fields.iter().filter(|(_, field)| field.required);
                let mut shown_fields: Vec<_> = required.collect();
                if shown_fields.is_empty() {
                    shown_fields.extend(object.fields.first());
                }
                let format_field = |(name, field): (&String, &KnownKey)| {
                    format!("{name}: {}", field.shape.example(shapes, name, None))
                };
                let parts: Vec<String> = shown_fields.into_iter().map(format_field).collect();
                format!("{{{}}}", parts.join(", "))
            }
        }
    }

    /// Writes the written value in the right form; `None` where its meaning is not clear.
    fn correct_value(&self, shapes: &Shapes, key: &str, node: &Node) -> Option<String> {
        let text = node.as_text();
        match (shapes.resolve(self), &node.value) {
            (Self::Nullable(inner), _) => inner.correct_value(shapes, key, node),
            (Self::Object(_), Value::Scalar(_)) => examples::from_text(self.type_name()?, text?),
            (Self::Object(_), Value::Map(_)) => examples::flow(key, node),
            (Self::List(items), Value::Map(map)) => {
                let Self::Object(object) = shapes.resolve(items) else { return None };
                if !map.is_empty() && map.keys().all(|key| object.fields.contains_key(key)) {
                    let line = format!("[{}]", examples::flow("", node)?);
                    let lacks_match =
                        object.fields.contains_key("match") && !map.contains_key("match");
                    let with_match = line.replacen('{', "{match: \"*\", ", 1);
                    return Some(if lacks_match { with_match } else { line });
                }
                let format_entry = |(key, entry): (&String, &MappingEntry)| {
                    examples::from_entry(items.type_name()?, key, &entry.node)
                };
                let entries: Vec<String> = map.iter().map(format_entry).collect::<Option<_>>()?;
                Some(format!("[{}]", entries.join(", "))).filter(|line| line.len() <= LONGEST_LINE)
            }
            (Self::List(items), Value::Scalar(_)) => match shapes.resolve(items) {
                Self::Text(_) => examples::words(key, text?),
                Self::Object(_) => {
                    Some(format!("[{}]", examples::from_text(items.type_name()?, text?)?))
                }
                _ => None,
            },
            (Self::List(items), Value::List(list)) => {
                let items: Option<Vec<String>> =
                    list.iter().map(|item| items.correct_value(shapes, key, item)).collect();
                let items = items.filter(|items| !items.is_empty())?;
                Some(format!("[{}]", items.join(", "))).filter(|line| line.len() <= LONGEST_LINE)
            }
            (Self::Map { .. }, Value::Scalar(_)) if key == "deploy" => {
                Some(format!("{{{}: {{}}}}", examples::format_flow_text("", text?)?))
            }
            (Self::Map { .. }, Value::List(list)) if key == "deploy" => {
                let name = |item: &Node| {
                    Some(format!("{}: {{}}", examples::format_flow_text("", item.as_text()?)?))
                };
                let entries: Vec<String> = list.iter().map(name).collect::<Option<_>>()?;
                Some(format!("{{{}}}", entries.join(", ")))
                    .filter(|line| line.len() <= LONGEST_LINE)
            }
            (Self::Number, Value::Scalar(_)) => examples::decimal(text?),
            (Self::Boolean, Value::Scalar(scalar)) => {
                let word = scalar.text.to_ascii_lowercase();
                let is = |words: &[&str]| words.contains(&word.as_str());
                let is_no = is(&["false", "no", "off", "n", "0"]);
                let is_yes = is(&["true", "yes", "on", "y", "1"]);
                (is_yes || is_no).then(|| is_yes.to_string())
            }
            (Self::Choice(words), Value::Scalar(scalar)) => {
                words.iter().find(|word| **word == scalar.text).cloned()
            }
            (Self::Text(_), Value::Scalar(_)) => examples::format_flow_text(key, text?),
            _ => None,
        }
    }

    /// Names it in a reader's words: `a whole number from 1 to 65535`.
    pub(crate) fn describe_expected(&self, shapes: &Shapes) -> String {
        match shapes.resolve(self) {
            Self::Any | Self::Ref(_) => "a value".to_owned(),
            Self::Text(None) => "text".to_owned(),
            Self::Text(Some(format)) => super::formats::article(format),
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Integer { min: Some(min), max: Some(max) } => {
                format!("a whole number from {min} to {max}")
            }
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Choice(words) if words.len() == 1 => {
                super::suggest::list(words.iter().map(String::as_str))
            }
            Self::Choice(words) => {
                format!("one of {}", super::suggest::list(words.iter().map(String::as_str)))
            }
            Self::List(_) => "a list".to_owned(),
            Self::Map { .. } | Self::Object(_) => "a map".to_owned(),
            Self::Nullable(inner) => inner.describe_expected(shapes),
        }
    }
}

fn shape(json: &Json) -> Shape {
    let Some(schema) = json.as_object() else { return Shape::Any };
    if let Some(name) = schema.get("$ref").and_then(Json::as_str) {
        return Shape::Ref(name.trim_start_matches("#/$defs/").to_owned());
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(key).and_then(Json::as_array) {
            return read_choice(options);
        }
    }
    if let Some(words) = schema.get("enum").and_then(Json::as_array) {
        return choice(words.iter().filter_map(Json::as_str), words.contains(&Json::Null));
    }
    if let Some(word) = schema.get("const").and_then(Json::as_str) {
        return Shape::Choice(vec![word.to_owned()]);
    }
    let types = types(schema);
    let plain = by_type(schema, &types);
    if types.contains(&"null") { Shape::Nullable(Box::new(plain)) } else { plain }
}

/// Reads either a thing or null, or one of several documented words.
fn read_choice(options: &[Json]) -> Shape {
    let null = |json: &&Json| json.get("type").and_then(Json::as_str) == Some("null");
    let nullable = options.iter().any(|json| null(&json));
    let mut rest = options.iter().filter(|json| !null(json)).map(shape);
    let plain = match (rest.next(), rest.next()) {
        (Some(Shape::Choice(mut words)), Some(second)) => {
            for shape in std::iter::once(second).chain(rest) {
                if let Shape::Choice(choices) = shape {
                    words.extend(choices);
                }
            }
            Shape::Choice(words)
        }
        (Some(only), None) => only,
        _ => Shape::Any,
    };
    if nullable { Shape::Nullable(Box::new(plain)) } else { plain }
}

fn choice<'a>(words: impl Iterator<Item = &'a str>, nullable: bool) -> Shape {
    let plain = Shape::Choice(words.map(str::to_owned).collect());
    if nullable { Shape::Nullable(Box::new(plain)) } else { plain }
}

fn types(schema: &JsonMap<String, Json>) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(name)) => vec![name.as_str()],
        Some(Json::Array(many)) => many.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

fn by_type(schema: &JsonMap<String, Json>, types: &[&str]) -> Shape {
    let text = |key: &str| schema.get(key).and_then(Json::as_str).map(str::to_owned);
    let integer_of = |key: &str| schema.get(key).and_then(Json::as_i64);
    // A place that takes text takes every scalar as it is spelled.
    if types.contains(&"string") {
        return Shape::Text(text("format"));
    }
    match types.iter().find(|name| **name != "null") {
        Some(&"boolean") => Shape::Boolean,
        Some(&"integer") => {
            integer(text("format").as_deref(), integer_of("minimum"), integer_of("maximum"))
        }
        Some(&"number") => Shape::Number,
        Some(&"array") => Shape::List(Box::new(schema.get("items").map_or(Shape::Any, shape))),
        Some(&"object") => object(schema),
        _ => Shape::Any,
    }
}

/// Reads the bounds of an integer, whose width `schemars` writes as a format; the bounds of wide
/// ones are left out.
fn integer(format: Option<&str>, min: Option<i64>, max: Option<i64>) -> Shape {
    let widest = match format {
        Some("uint8") => Some(i64::from(u8::MAX)),
        Some("uint16") => Some(i64::from(u16::MAX)),
        Some("uint32") => Some(i64::from(u32::MAX)),
        _ => None,
    };
    Shape::Integer { min, max: max.or(widest) }
}

fn object(schema: &JsonMap<String, Json>) -> Shape {
    let Some(properties) = schema.get("properties").and_then(Json::as_object) else {
        let values = schema.get("additionalProperties").map_or(Shape::Any, shape);
        let keys = schema.get("propertyNames").and_then(|names| names.get("format"));
        let keys = keys.and_then(Json::as_str).map(str::to_owned);
        return Shape::Map { keys, values: Box::new(values) };
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Json::as_array)
        .map(|names| names.iter().filter_map(Json::as_str).collect())
        .unwrap_or_default();
    let field = |(name, json): (&String, &Json)| {
        let description = json.get("description").and_then(Json::as_str);
        let description = description.and_then(|text| text.lines().next()).map(str::to_owned);
        let required = required.contains(&name.as_str());
        (name.clone(), KnownKey { shape: shape(json), required, description })
    };
    Shape::Object(ObjectShape { fields: properties.iter().map(field).collect() })
}

/// Lists the keywords of a schema that this module does not understand, each with its place.
#[cfg(test)]
pub(crate) fn unknown_keywords(schema: &Schema) -> Vec<String> {
    const KNOWN: [&str; 24] = [
        "$schema",
        "$defs",
        "$ref",
        "$id",
        "title",
        "description",
        "default",
        "examples",
        "type",
        "format",
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "items",
        "anyOf",
        "oneOf",
        "enum",
        "const",
        "minimum",
        "maximum",
        "pattern",
        "deprecated",
        "markdownDescription",
    ];
    fn walk(json: &Json, path: &str, unknown: &mut Vec<String>) {
        let Some(map) = json.as_object() else { return };
        for (key, value) in map {
            let key_path = format!("{path}/{key}");
            match key.as_str() {
                "properties" | "$defs" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        walk(value, &format!("{key_path}/{name}"), unknown);
                    }
                }
                "items" | "additionalProperties" | "propertyNames" => {
                    walk(value, &key_path, unknown);
                }
                "anyOf" | "oneOf" => {
                    value
                        .as_array()
                        .into_iter()
                        .flatten()
                        .for_each(|value| walk(value, &key_path, unknown));
                }
                keyword if KNOWN.contains(&keyword) => {}
                _ => unknown.push(key_path),
            }
        }
    }
    let mut unknown = Vec::new();
    walk(schema.as_value(), "", &mut unknown);
    unknown
}
