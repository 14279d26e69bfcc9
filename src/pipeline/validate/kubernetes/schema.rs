//! The types of Kubernetes' objects in all known versions, read from `schema.json`; `ci/kubernetes-schema`, which
//! writes it, describes its form.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde_json::Value as Json;

use crate::model::kubernetes::KubernetesVersion;

/// The schema, read at the first use.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let json = serde_json::from_str(include_str!("schema.json")).unwrap_or_default();
    Schema::of(&json).expect("the schema is a file of ours, and a test reads it")
});

/// All kinds, and the types of their parts.
#[derive(Debug)]
pub(super) struct Schema {
    /// The kinds by name: `apps/v1 Deployment`.
    kinds: BTreeMap<String, ResourceKind>,
    objects: Vec<ObjectType>,
}

/// A kind of Kubernetes' own, in one API version.
#[derive(Debug)]
pub(super) struct ResourceKind {
    /// The versions of Kubernetes that have it.
    pub(super) span: Span,
    /// The index of its type; `None` where its fields are not kept.
    index: Option<usize>,
}

/// The fields of an object.
#[derive(Debug)]
pub(super) struct ObjectType {
    /// The fields by name, so that a suggestion is the same each time.
    pub(super) fields: BTreeMap<String, SchemaField>,
    /// The fields that must be there, and in which versions of Kubernetes.
    pub(super) required: Vec<(String, Span)>,
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct SchemaField {
    pub(super) of: Type,
    /// The versions of Kubernetes that have it.
    pub(super) span: Span,
}

/// The versions of Kubernetes that have something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// 0 where it was there before the oldest that is known.
    first: u16,
    /// `None` where the newest that is known still has it.
    last: Option<u16>,
}

/// The type of a field.
#[derive(Debug, PartialEq)]
pub(super) enum Type {
    Text,
    Boolean,
    /// 32 bits.
    Short,
    /// 64 bits.
    Long,
    Number,
    Quantity,
    ShortOrText,
    /// RFC 3339; only the API server writes them, so the form is not looked at.
    Time,
    Any,
    OneOf(Vec<(String, Span)>),
    List(Box<Type>),
    Map(Box<Type>),
    /// An index.
    Object(usize),
}

impl Schema {
    fn of(json: &Json) -> Option<Self> {
        let kinds = json.get("kinds")?.as_object()?.iter();
        let kinds = kinds.map(|(name, kind)| Some((name.clone(), ResourceKind::of(kind)?)));
        let objects = json.get("types")?.as_array()?.iter().map(ObjectType::of);
        Some(Self {
            kinds: kinds.collect::<Option<_>>()?,
            objects: objects.collect::<Option<_>>()?,
        })
    }

    /// Finds the kind, if any version of Kubernetes has it.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<&ResourceKind> {
        self.kinds.get(&format!("{api_version} {kind}"))
    }

    /// Finds the type of a kind's objects, if its fields are kept.
    pub(super) fn of_kind(&self, kind: &ResourceKind) -> Option<&ObjectType> {
        self.object(kind.index?)
    }

    /// Lists the API versions that have the kind in that version of Kubernetes: those of the same
    /// group, else of others.
    pub(super) fn api_versions(
        &self,
        api_version: &str,
        kind: &str,
        version: KubernetesVersion,
    ) -> Vec<&str> {
        let present_kinds =
            self.kinds.iter().filter(|(_, kind_of_object)| kind_of_object.span.contains(version));
        let split_names = present_kinds.filter_map(|(name, _)| name.split_once(' '));
        let versions: Vec<&str> = split_names.filter(|(_, k)| *k == kind).map(|(v, _)| v).collect();
        let same_group =
            versions.iter().copied().filter(|other| group(other) == group(api_version));
        let same_group: Vec<&str> = same_group.collect();
        if same_group.is_empty() { versions } else { same_group }
    }

    /// Checks that some version of Kubernetes has the kind in that group.
    pub(super) fn has_in_group(&self, api_version: &str, kind: &str) -> bool {
        let mut split_names = self.kinds.keys().filter_map(|name| name.split_once(' '));
        split_names.any(|(v, k)| k == kind && group(v) == group(api_version))
    }

    /// Finds the object type that a field refers to.
    pub(super) fn object(&self, index: usize) -> Option<&ObjectType> {
        self.objects.get(index)
    }
}

/// Reads the group of an API version; `None` for the group that has no name.
fn group(api_version: &str) -> Option<&str> {
    api_version.rsplit_once('/').map(|(group, _)| group)
}

impl ResourceKind {
    fn of(json: &Json) -> Option<Self> {
        let [index, first, last] = json.as_array()?.as_slice() else { return None };
        let index = if index.is_null() { None } else { Some(index_of(index)?) };
        Some(Self { index, span: Span::of(first, last)? })
    }
}

impl Span {
    /// Every version.
    const ALWAYS: Self = Self { first: 0, last: None };

    fn of(first: &Json, last: &Json) -> Option<Self> {
        let minor = |json: &Json| u16::try_from(json.as_u64()?).ok();
        let last = if last.is_null() { None } else { Some(minor(last)?) };
        Some(Self { first: minor(first)?, last })
    }

    /// Finds the span of that name among those that are not all versions.
    fn find_by_name(spans: Option<&Json>, name: &str) -> Option<Self> {
        let Some(span) = spans.and_then(|spans| spans.get(name)) else { return Some(Self::ALWAYS) };
        let [first, last] = span.as_array()?.as_slice() else { return None };
        Self::of(first, last)
    }

    /// Checks that this version has it.
    pub(super) fn contains(self, version: KubernetesVersion) -> bool {
        let minor = version.minor();
        self.first <= minor && self.last.is_none_or(|last| minor <= last)
    }

    /// Checks that a newer version than this has it.
    pub(super) fn begins_after(self, version: KubernetesVersion) -> bool {
        version.minor() < self.first
    }

    /// Finds the minor version from which on it is no more; `None` where it has no end.
    pub(super) fn end(self) -> Option<u16> {
        self.last.map(|last| last + 1)
    }
}

/// `it is there since 1.34`
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (0, None) => f.write_str("it is there in all versions"),
            (first, None) => write!(f, "it is there since 1.{first}"),
            (0, Some(last)) => write!(f, "it was there until 1.{last}"),
            (first, Some(last)) if first == last => write!(f, "it is there in 1.{first} only"),
            (first, Some(last)) => write!(f, "it is there from 1.{first} to 1.{last} only"),
        }
    }
}

impl ObjectType {
    fn of(json: &Json) -> Option<Self> {
        let [fields, required, spans @ ..] = json.as_array()?.as_slice() else { return None };
        let [of_fields, of_required] = [spans.first(), spans.get(1)];
        let fields = fields.as_object()?.iter().map(|(name, field_json)| {
            let span = Span::find_by_name(of_fields, name)?;
            Some((name.clone(), SchemaField { of: Type::of(field_json)?, span }))
        });
        let required = required.as_array()?.iter().map(|name| {
            let name = name.as_str()?;
            Some((name.to_owned(), Span::find_by_name(of_required, name)?))
        });
        Some(Self {
            fields: fields.collect::<Option<_>>()?,
            required: required.collect::<Option<_>>()?,
        })
    }
}

impl Type {
    fn of(json: &Json) -> Option<Self> {
        match json {
            Json::Number(_) => Some(Self::Object(index_of(json)?)),
            Json::String(code) => Self::scalar(code),
            Json::Array(parts) => match parts.as_slice() {
                [Json::String(code), rest @ ..] if code == "e" => {
                    Some(Self::OneOf(rest.iter().map(one_text).collect::<Option<_>>()?))
                }
                [Json::String(code), items] if code == "[" => {
                    Some(Self::List(Box::new(Self::of(items)?)))
                }
                [Json::String(code), values] if code == "{" => {
                    Some(Self::Map(Box::new(Self::of(values)?)))
                }
                _ => None,
            },
            Json::Null | Json::Bool(_) | Json::Object(_) => None,
        }
    }

    fn scalar(code: &str) -> Option<Self> {
        Some(match code {
            "s" => Self::Text,
            "b" => Self::Boolean,
            "i" => Self::Short,
            "l" => Self::Long,
            "n" => Self::Number,
            "q" => Self::Quantity,
            "x" => Self::ShortOrText,
            "t" => Self::Time,
            "a" => Self::Any,
            _ => return None,
        })
    }

    /// Names it as a reader calls it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Text | Self::OneOf(_) => "text",
            Self::Boolean => "true or false",
            Self::Short => "a whole number of 32 bits",
            Self::Long => "a whole number",
            Self::Number => "a number",
            Self::Quantity => "a quantity, like `200m` or `256Mi`",
            Self::ShortOrText => "a whole number or text",
            Self::Time => "a time",
            Self::Any => "anything",
            Self::List(_) => "a list",
            Self::Map(_) | Self::Object(_) => "a map",
        }
    }
}

/// Reads a text of an enumeration, with its span where not all versions have it.
fn one_text(json: &Json) -> Option<(String, Span)> {
    match json {
        Json::String(text) => Some((text.clone(), Span::ALWAYS)),
        Json::Array(parts) => match parts.as_slice() {
            [text, first, last] => Some((text.as_str()?.to_owned(), Span::of(first, last)?)),
            _ => None,
        },
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => None,
    }
}

fn index_of(json: &Json) -> Option<usize> {
    usize::try_from(json.as_u64()?).ok()
}
