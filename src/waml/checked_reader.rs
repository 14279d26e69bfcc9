//! Reads a [`Node`] as a Rust type, by the type's own JSON Schema.
//!
//! The schema that editors complete with is the one that is checked here, so the two cannot
//! disagree. All violations are found in one pass, each at its place; what is wrong is marked
//! broken, and the rest is still read. Where text is wanted the spelling is kept.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::model::violation::{Position, Rejection, Violation, sort};
use crate::support::secret_name::is_secret_name;
use crate::support::secret_text::is_random;
use crate::waml::collect;
use crate::waml::confidential::{is_confidential, may_repeat};
use crate::waml::duplicates::ElementPlace;
use crate::waml::examples;
use crate::waml::node::{Map, MappingEntry, Node, Path, Scalar, Step, Value};
use crate::waml::quote::{quote, quoted_name};
use crate::waml::scalar::{self, ScalarError, read_untyped};
use crate::waml::schema::{KnownKey, NestedKey, ObjectShape, Shape, Shapes};
use crate::waml::suggest;
use crate::waml::yaml::{self, Budget};

/// The rule that this module's violations name.
pub const RULE: &str = "schema";

/// Reads a whole file as a `T`.
///
/// # Errors
/// Every violation of YAML and of the type's schema, in the order of the file.
pub fn read<T: JsonSchema + DeserializeOwned>(file_name: &str, text: &str) -> Result<T, Rejection> {
    let mut violations = Vec::new();
    let value = yaml::parse(file_name, text.as_bytes(), &Budget::default(), &mut violations)
        .and_then(|mut node| Reader::<T>::new().read(&mut node, &Path::root(), &mut violations));
    sort(&mut violations);
    match value {
        Some(value) if violations.is_empty() => Ok(value),
        _ => Err(Rejection { violations }),
    }
}

/// Reads nodes as a `T`; made once, used often.
#[derive(Debug)]
pub struct Reader<T> {
    shapes: Shapes,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T: JsonSchema> Reader<T> {
    /// Takes the type's schema.
    pub fn new() -> Self {
        Self::from_schema(&schemars::schema_for!(T))
    }

    /// Takes a schema made by hand for the type.
    pub fn from_schema(schema: &schemars::Schema) -> Self {
        Self { shapes: Shapes::compile(schema), of: std::marker::PhantomData }
    }

    /// Returns the place of the whole, from which others are reached.
    pub fn place(&self) -> ElementPlace<'_> {
        ElementPlace::root(&self.shapes)
    }

    /// Checks the node, marks wrong values as broken, and returns the rest as JSON.
    pub fn check(
        &self,
        node: &mut Node,
        path: &Path,
        violations: &mut Vec<Violation>,
    ) -> Option<Json> {
        let mut walk = Walk { shapes: &self.shapes, violations };
        walk.value(node, self.shapes.root(), path)
    }
}

impl<T: JsonSchema> Default for Reader<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: JsonSchema + DeserializeOwned> Reader<T> {
    /// Checks the node and reads it; wrong values are left out where the type allows that.
    pub fn read(&self, node: &mut Node, path: &Path, violations: &mut Vec<Violation>) -> Option<T> {
        let before = violations.len();
        let json = self.check(node, path, violations)?;
        match serde_json::from_value(json) {
            Ok(value) => Some(value),
            // It was told already, with its place.
            Err(_) if node.has_broken() || violations.len() > before => None,
            Err(error) => {
                let message = format!("cannot be read: {error}");
                let place = Some(node.origin.position.clone());
                violations.push(Violation::error(RULE, message).at(path.to_string(), place));
                None
            }
        }
    }
}

/// A mapping with known keys, and what its type is called.
#[derive(Debug, Clone, Copy)]
struct NamedObject<'a> {
    object: &'a ObjectShape,
    type_name: &'a str,
}

struct Walk<'a> {
    shapes: &'a Shapes,
    violations: &'a mut Vec<Violation>,
}

impl Walk<'_> {
    /// Reads the JSON of a node of that shape; `None` when it is broken.
    fn value(&mut self, node: &mut Node, declared: &Shape, path: &Path) -> Option<Json> {
        if node.broken {
            return None;
        }
        let shape = self.shapes.resolve(declared);
        let result = match (shape, &mut node.value) {
            (Shape::Nullable(_), Value::Null) => return Some(Json::Null),
            (Shape::Nullable(inner), _) => return self.value(node, inner, path),
            (Shape::Object(object), Value::Map(map)) => {
                let mapping =
                    NamedObject { object, type_name: declared.type_name().unwrap_or_default() };
                let json = self.object(map, mapping, path, &node.origin.position);
                node.broken = json.is_none();
                return json;
            }
            (Shape::Map { keys, values }, Value::Map(map)) => {
                return Some(self.map(map, keys.as_deref(), values, path));
            }
            (Shape::List(items), Value::List(list)) => return Some(self.list(list, items, path)),
            (Shape::Any, _) => return Some(read_untyped(node)),
            (_, Value::Scalar(scalar)) => scalar_json(scalar, shape),
            (_, Value::Null) => Err(ScalarError::with_example("is empty")),
            (_, Value::List(_) | Value::Map(_)) => {
                Err(ScalarError::with_example(&format!("is {}", node.kind())))
            }
        };
        match result {
            Ok(json) => Some(json),
            Err(ScalarError { why, help }) => {
                let help = if help.is_empty() { self.line(declared, path, node) } else { help };
                self.report_scalar_error(node, shape, path, ScalarError { why, help });
                None
            }
        }
    }

    /// Names the right form, with a line to write.
    fn line(&self, declared: &Shape, path: &Path, node: &Node) -> String {
        let key = path.last_key();
        let expected = declared.describe_expected(self.shapes);
        let value =
            declared.example(self.shapes, key, Some(node).filter(|_| may_repeat(node, path)));
        let suffix = if declared.type_name() == Some("Image") && node.as_text().is_some() {
            "; the tag comes with each deployment"
        } else {
            ""
        };
        match path.0.last() {
            Some(Step::Key(_)) => format!("write {expected}: `{key}: {value}`{suffix}"),
            Some(Step::Index(_)) => format!("write {expected}: `- {value}`"),
            None => format!("write {expected}"),
        }
    }

    /// Reads the JSON of a mapping; `None` where a required key is missing or broken; what is there
    /// is checked all the same.
    fn object(
        &mut self,
        map: &mut Map,
        mapping: NamedObject<'_>,
        path: &Path,
        place: &Position,
    ) -> Option<Json> {
        let NamedObject { object, type_name } = mapping;
        let mut json = serde_json::Map::new();
        // `{A: b}` where `{name: A, value: b}` is meant: one mistake, told at the key.
        let is_entry = type_name == "EnvVar" && map.len() == 1;
        let mut is_told = false;
        let mut before: Option<(String, String)> = None;
        for (key, entry) in map.iter_mut().filter(|(_, entry)| !entry.node.broken) {
            let Some(field) = object.fields.get(key) else {
                entry.node.broken = true;
                let fields = object.fields.keys().map(String::as_str);
                let help = if is_entry && suggest::nearest(key, fields).is_none() {
                    is_told = true;
                    examples::from_entry(type_name, key, &entry.node)
                        .map(|line| format!("write `- {line}`"))
                } else {
                    split_number(before.as_ref(), key, &entry.node)
                };
                let help =
                    help.unwrap_or_else(|| self.suggest_key(&path.key(key), &entry.node, mapping));
                self.unknown_key(key, entry, path, help);
                continue;
            };
            let digits = |text: &&str| text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
            let number = entry.node.as_text().filter(digits);
            before = number.map(|text| (key.clone(), text.to_owned()));
            if let Some(value) = self.value(&mut entry.node, &field.shape, &path.key(key)) {
                json.insert(key.clone(), value);
            }
        }
        let mut complete = true;
        // A key that was misspelled is not reported as missing, too.
        let misspelled = |name: &str| {
            let mut unknown = map.keys().filter(|key| !object.fields.contains_key(*key));
            let fields = || object.fields.keys().map(String::as_str);
            unknown.any(|key| suggest::nearest(key, fields()) == Some(name))
        };
        for (name, field) in object.fields.iter().filter(|(_, field)| field.required) {
            complete &= json.contains_key(name);
            if !map.contains_key(name) && !misspelled(name) && !is_told {
                self.missing(name, field, path, place);
            }
        }
        // A file that lacks something is still read as far as it goes.
        (complete || path.0.is_empty()).then_some(Json::Object(json))
    }

    fn map(&mut self, map: &mut Map, keys: Option<&str>, values: &Shape, path: &Path) -> Json {
        let mut json = serde_json::Map::new();
        for (key, entry) in map.iter_mut() {
            if let Some(Err(rule)) = keys.map(|format| super::formats::check(format, key)) {
                let key_text = if is_confidential(path) { quoted_name(key) } else { quote(key) };
                let message = format!("the key {key_text} is not well formed");
                let violation =
                    Violation::error(RULE, message).expected("not well formed").help(rule);
                let violation = violation.at(path.key(key).to_string(), Some(entry.key.clone()));
                collect::add(self.violations, violation);
                // The value below is checked all the same.
                entry.node.broken = false;
                self.value(&mut entry.node, values, &path.key(key));
                entry.node.broken = true;
                continue;
            }
            if let Some(value) = self.value(&mut entry.node, values, &path.key(key)) {
                json.insert(key.clone(), value);
            }
        }
        Json::Object(json)
    }

    fn list(&mut self, list: &mut [Node], items: &Shape, path: &Path) -> Json {
        let read_item =
            |(index, node): (usize, &mut Node)| self.value(node, items, &path.index(index));
        Json::Array(list.iter_mut().enumerate().filter_map(read_item).collect())
    }

    fn report_scalar_error(
        &mut self,
        node: &mut Node,
        shape: &Shape,
        path: &Path,
        misread: ScalarError,
    ) {
        node.broken = true;
        let value_text = match node.as_text() {
            Some(text) if may_quote(text, self.shapes.resolve(shape), path) => quote(text),
            Some(_) | None => "this".to_owned(),
        };
        let name = match path.0.last() {
            Some(_) => format!("`{path}`"),
            None => "the file".to_owned(),
        };
        let expected = shape.describe_expected(self.shapes);
        let message = format!("{name} must be {expected}, but {value_text} {}", misread.why);
        let place = Some(node.origin.position.clone());
        let violation = Violation::error(RULE, message).expected(format!("expected {expected}"));
        collect::add(self.violations, violation.help(misread.help).at(path.to_string(), place));
    }

    fn unknown_key(&mut self, key: &str, entry: &MappingEntry, path: &Path, help: String) {
        let subject = if path.0.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
        let key_text = if is_confidential(path) { quoted_name(key) } else { quote(key) };
        let message = format!("{subject} has no key {key_text}");
        let violation = Violation::error("unknown-key", message).expected("unknown key").help(help);
        let violation = violation.at(path.key(key).to_string(), Some(entry.key.clone()));
        collect::add(self.violations, violation);
    }

    /// Finds the key that was meant, or the place where it belongs.
    fn suggest_key(&self, path: &Path, node: &Node, mapping: NamedObject<'_>) -> String {
        const FEW: usize = 6;
        const HEAD_KEYS: [&str; 7] =
            ["name", "slug", "owner", "slack", "namespace", "links", "notify"];
        let Some(Step::Key(key)) = path.0.last() else { return String::new() };
        let key = &**key;
        let NamedObject { object, type_name } = mapping;
        let is_section = matches!(type_name, "Section" | "DefaultsEntry");
        let fields = || object.fields.keys().map(String::as_str);
        let is_slip = |other: &str| suggest::nearest(key, [other]).is_some();
        if type_name == "Image" && key == "tag" {
            return "remove it: the tag comes with each deployment".to_owned();
        }
        let preferred = || examples::preferred_spelling(key, node.as_text());
        if let Some(line) = preferred().filter(|_| is_section) {
            return format!("it belongs further down: `{line}`");
        }
        if is_section && HEAD_KEYS.contains(&key) {
            let value = examples::flow(key, node).unwrap_or_else(|| examples::ELLIPSIS.to_owned());
            return format!("it belongs to the top of the file: `{key}: {value}`");
        }
        // The right word further down is more likely than another word here.
        let exact = object.find(|other| other == key, self.shapes);
        let is_near = |best: &&str| exact.is_none() || suggest::distance(key, best) <= 1;
        if let Some(best) = suggest::nearest(key, fields()).filter(is_near) {
            return format!("did you mean `{best}`?");
        }
        // A slip of a short word could be any word.
        let near = || object.find(is_slip, self.shapes).filter(|_| key.len() > 4);
        if let Some(deeper) = exact.or_else(near) {
            let node = Some(node).filter(|_| may_repeat(node, path));
            return format!("it belongs further down: `{}`", self.whole_line(&deeper, node));
        }
        if object.fields.len() <= FEW {
            return format!("use one of {}", suggest::list(fields()));
        }
        "remove it, or look for the right word in the documentation of this file".to_owned()
    }

    /// Writes the key in its right place, with the keys that must be beside it.
    fn whole_line(&self, deeper: &NestedKey<'_>, node: Option<&Node>) -> String {
        let NestedKey { way, key, field } = deeper;
        let value = field.shape.example(self.shapes, key, node);
        let mut line = format!("{key}: {value}");
        let mut inner_key = *key;
        for step in way.iter().rev() {
            let other_entries = examples::required_siblings(step.type_name, inner_key);
            let inner =
                other_entries.map_or_else(|| line.clone(), |entries| format!("{entries}, {line}"));
            line = if step.is_list {
                format!("{}: [{{{inner}}}]", step.key)
            } else {
                format!("{}: {{{inner}}}", step.key)
            };
            inner_key = step.key;
        }
        line
    }

    fn missing(&mut self, name: &str, field: &KnownKey, path: &Path, place: &Position) {
        let holder = if path.0.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
        let description =
            field.description.as_deref().map_or_else(String::new, |d| format!(": {d}"));
        let violation = Violation::error(RULE, format!("`{name}` is missing from {holder}"))
            .expected(format!("needs `{name}`"))
            .help(format!("add `{name}`{description}"));
        let violation = violation.at(path.key(name).to_string(), Some(place.clone()));
        collect::add(self.violations, violation);
    }
}

/// Finds a number that a comma splits: `availability: 99,9` in a flow map is the key `availability`
/// and the key `9`.
fn split_number(before: Option<&(String, String)>, key: &str, node: &Node) -> Option<String> {
    let (name, integer_part) = before?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let part = key.trim_end_matches('%');
    (digits(integer_part) && digits(part) && node.is_null() && integer_part.len() + part.len() <= 12).then(|| {
        format!("the comma begins another key; write a decimal point: `{name}: {integer_part}.{part}`")
    })
}

/// Reads the JSON of a scalar of that shape. A misread value without a help is helped by a line to
/// write.
fn scalar_json(scalar: &Scalar, shape: &Shape) -> Result<Json, ScalarError> {
    let showing = |misread: ScalarError| ScalarError { help: String::new(), ..misread };
    match shape {
        Shape::Text(_) if scalar.text.contains('\0') => Err(ScalarError {
            why: "has a NUL in it, which ends a text for every program".to_owned(),
            help: "remove it; what is binary goes into a file in the image, or in base64"
                .to_owned(),
        }),
        Shape::Text(format) => {
            match format.as_deref().map(|f| super::formats::check(f, &scalar.text)) {
                Some(Err(rule)) => {
                    Err(ScalarError { why: "is not well formed".to_owned(), help: rule })
                }
                _ => Ok(Json::String(scalar.text.clone())),
            }
        }
        Shape::Boolean => scalar::boolean(scalar).map(Json::Bool).map_err(showing),
        Shape::Integer { min, max } => {
            scalar::integer(scalar).and_then(|n| check_bounds(n, *min, *max)).map_err(|misread| {
                let is_bare = misread.help == "write digits only";
                if is_bare { showing(misread) } else { misread }
            })
        }
        Shape::Number => scalar::number(scalar).map(Json::from).map_err(|misread| {
            let is_bare = misread.why == "is not a number" || scalar.quoted;
            if is_bare { showing(misread) } else { misread }
        }),
        Shape::Choice(words) if words.contains(&scalar.text) => {
            Ok(Json::String(scalar.text.clone()))
        }
        Shape::Choice(words) => Err(ScalarError {
            why: "is not one of the allowed words".to_owned(),
            help: suggest::hint(&scalar.text, words.iter().map(String::as_str)),
        }),
        Shape::Any
        | Shape::Ref(_)
        | Shape::Nullable(_)
        | Shape::Object(_)
        | Shape::Map { .. }
        | Shape::List(_) => Err(ScalarError::with_example("is a single value")),
    }
}

/// Checks that a wrong text may be quoted: not at a place for secrets, unless it was meant as a word or a number that
/// the schema knows.
fn may_quote(text: &str, shape: &Shape, path: &Path) -> bool {
    let is_named_after_one = || is_secret_name(path.last_key()) || path.last_key() == "value";
    match shape {
        Shape::Boolean | Shape::Integer { .. } | Shape::Number | Shape::Choice(_) => {
            !is_confidential(path) || !(is_named_after_one() || is_random(text))
        }
        Shape::Nullable(inner) => may_quote(text, inner, path),
        Shape::Any
        | Shape::Text(_)
        | Shape::List(_)
        | Shape::Map { .. }
        | Shape::Object(_)
        | Shape::Ref(_) => !is_confidential(path),
    }
}

fn check_bounds(n: i64, min: Option<i64>, max: Option<i64>) -> Result<Json, ScalarError> {
    if min.is_none_or(|min| n >= min) && max.is_none_or(|max| n <= max) {
        return Ok(Json::from(n));
    }
    let help = match (min, max) {
        (Some(min), Some(max)) => format!("write a number from {min} to {max}"),
        (Some(min), None) => format!("write {min} or more"),
        (_, Some(max)) => format!("write {max} or less"),
        (None, None) => String::new(),
    };
    Err(ScalarError { why: "is out of range".to_owned(), help })
}
