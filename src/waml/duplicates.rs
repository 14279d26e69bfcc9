//! The key that distinguishes the elements of a list, by their type; and the rule that it is unique in a list:
//! otherwise merging would have to choose silently.

use std::collections::HashMap;

use crate::model::violation::{Position, Violation};
use crate::waml::collect;
use crate::waml::confidential::is_confidential;
use crate::waml::node::{Node, Origin, Path, Scalar, Step, Value};
use crate::waml::quote::quote_key;
use crate::waml::schema::{Shape, Shapes};

/// A place in a schema, followed beside a value: it knows the type of the value there.
#[derive(Debug, Clone, Copy)]
pub struct ElementPlace<'s> {
    shapes: &'s Shapes,
    shape: &'s Shape,
}

impl<'s> ElementPlace<'s> {
    pub(super) fn root(shapes: &'s Shapes) -> Self {
        Self { shapes, shape: shapes.root() }
    }

    /// Returns the place under that key.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        let shape = match self.resolve_names() {
            Shape::Object(object) => object.fields.get(key).map(|field| &field.shape),
            Shape::Map { values, .. } => Some(&**values),
            _ => None,
        };
        Self { shape: shape.unwrap_or(&Shape::Any), ..self }
    }

    /// Returns the place of the elements of this list.
    #[must_use]
    pub fn element(self) -> Self {
        let shape = match self.resolve_names() {
            Shape::List(items) => &**items,
            _ => &Shape::Any,
        };
        Self { shape, ..self }
    }

    /// Finds the key that distinguishes the elements of this list; `None` where it is a plain list, or none at all.
    pub fn identity(self) -> Option<ElementIdentity> {
        match self.element().shape {
            Shape::Ref(name) => identity(name),
            _ => None,
        }
    }

    /// Checks that a text is wanted here.
    pub(crate) fn is_text(self) -> bool {
        matches!(self.resolve_names(), Shape::Text(_))
    }

    /// Checks that the schema knows this place.
    pub(crate) fn is_known(self) -> bool {
        !matches!(self.resolve_names(), Shape::Any)
    }

    /// Writes a value for this place and key, where `text` was written as a comment.
    pub(crate) fn example(self, key: &str, text: &str, position: &Position) -> String {
        let word = text.split_whitespace().next().unwrap_or_default().to_owned();
        let origin = Origin { position: position.clone(), layer: "".into() };
        let value = Value::Scalar(Scalar { text: word, quoted: false });
        self.shape.example(self.shapes, key, Some(&Node::new(value, origin)))
    }

    /// Finds the shape behind names and `null`.
    fn resolve_names(self) -> &'s Shape {
        match self.shapes.resolve(self.shape) {
            Shape::Nullable(inner) => self.shapes.resolve(inner),
            shape => shape,
        }
    }
}

/// Finds the identity of a type's values, by its name in the schema, `None` where they have none;
/// see DESIGN, "Merge".
///
/// In a list of such, a later layer's element joins the earlier one of the same identity; others stay
/// apart. By the type, not by the key that holds the list: a list of texts under `paths` is plain.
fn identity(type_name: &str) -> Option<ElementIdentity> {
    match type_name {
        "EnvVar" | "ConfigMapSource" | "Secret" | "Volume" | "Port" | "Link" | "CanaryMetric"
        | "CanaryWebhook" | "ExtraContainer" | "Mount" | "ContainerPort" | "ReleaseJob" => {
            Some(ElementIdentity::Name)
        }
        "Service" => Some(ElementIdentity::NameOrSlug),
        "Ingress" => Some(ElementIdentity::Host),
        "IngressPath" => Some(ElementIdentity::Path),
        "ObjectPatch" => Some(ElementIdentity::KindAndName),
        _ => None,
    }
}

/// The key that distinguishes the elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementIdentity {
    /// `name`.
    Name,
    /// `name`, and the app's slug where there is none.
    NameOrSlug,
    /// `host` or `hostPrefix`.
    Host,
    /// `path`, and `/` where there is none.
    Path,
    /// `kind` and `name`.
    KindAndName,
}

impl ElementIdentity {
    /// Lists the keys that make the identity.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Name | Self::NameOrSlug => &["name"],
            Self::Host => &["host", "hostPrefix"],
            Self::Path => &["path"],
            Self::KindAndName => &["kind", "name"],
        }
    }
}

/// Reads the text that distinguishes an element of such a list; `None` where the element has none.
pub fn read_identity(element: &Node, identity: ElementIdentity, slug: &str) -> Option<String> {
    element.as_map()?;
    let text = |key: &str| element.get(key).and_then(Node::as_text).map(str::to_owned);
    match identity {
        ElementIdentity::Name => text("name"),
        ElementIdentity::NameOrSlug => text("name").or_else(|| Some(slug.to_owned())),
        ElementIdentity::Host => {
            text("host").or_else(|| text("hostPrefix").map(|prefix| format!("{prefix}.")))
        }
        ElementIdentity::Path => text("path").or_else(|| Some("/".to_owned())),
        ElementIdentity::KindAndName => {
            let kind = text("kind")?;
            Some(text("name").map_or_else(|| kind.clone(), |name| format!("{kind} {name}")))
        }
    }
}

/// Refuses lists in which two elements have the same identity.
pub(crate) fn check(root: &mut Node, place: ElementPlace<'_>, violations: &mut Vec<Violation>) {
    let slug = root.get("slug").and_then(Node::as_text).unwrap_or_default().to_owned();
    walk(root, place, &mut Path::root(), &slug, violations);
}

fn walk(
    node: &mut Node,
    place: ElementPlace<'_>,
    path: &mut Path,
    slug: &str,
    violations: &mut Vec<Violation>,
) {
    match &mut node.value {
        Value::Null | Value::Scalar(_) => {}
        Value::Map(map) => {
            for (key, entry) in map.iter_mut() {
                path.0.push(Step::Key(key.as_str().into()));
                walk(&mut entry.node, place.key(key), path, slug, violations);
                path.0.pop();
            }
        }
        Value::List(list) => {
            if let Some(identity) = place.identity() {
                report_duplicate(list, path, identity, slug, violations);
            }
            for (index, node) in list.iter_mut().enumerate() {
                path.0.push(Step::Index(index));
                walk(node, place.element(), path, slug, violations);
                path.0.pop();
            }
        }
    }
}

fn report_duplicate(
    list: &mut [Node],
    path: &Path,
    identity: ElementIdentity,
    slug: &str,
    violations: &mut Vec<Violation>,
) {
    let mut lines: HashMap<String, u32> = HashMap::new();
    for (index, node) in list.iter_mut().enumerate() {
        let Some(id) = read_identity(node, identity, slug) else { continue };
        let line = node.origin.position.line;
        match lines.get(&id) {
            None => drop(lines.insert(id, line)),
            Some(first) => {
                let key = identity.keys().first().copied().unwrap_or("name");
                let (_, place) = node.nearest(&Path::root().key(key));
                let at = path.index(index).key(key);
                let name = id.trim_end_matches('.');
                let name = if is_confidential(path) { quote_key(name) } else { name.into() };
                let violation = Violation::error("unique", format!("`{path}` has `{name}` twice"))
                    .expected("is repeated here")
                    .help(format!("keep one of the two; the first is in line {first}"));
                collect::add(violations, violation.at(at.to_string(), Some(place)));
                node.broken = true;
            }
        }
    }
}
