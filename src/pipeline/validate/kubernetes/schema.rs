//! The types of Kubernetes' objects, read from `schema.json`; its form is told in
//! `ci/kubernetes-schema`, which writes it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value as Json;

/// The schema, read at the first use.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let json = serde_json::from_str(include_str!("schema.json")).unwrap_or_default();
    Schema::of(&json).expect("the schema is a file of ours, and a test reads it")
});

/// All kinds, and the types that they are made of.
#[derive(Debug)]
pub(super) struct Schema {
    /// `apps/v1 Deployment`, to an index.
    kinds: BTreeMap<String, usize>,
    objects: Vec<ObjectType>,
}

/// The fields of an object.
#[derive(Debug)]
pub(super) struct ObjectType {
    /// By name, so that a guess at what was meant is the same each time.
    pub(super) fields: BTreeMap<String, Type>,
    pub(super) required: Vec<String>,
}

/// What a field can be.
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
    OneOf(Vec<String>),
    List(Box<Type>),
    Map(Box<Type>),
    /// An index.
    Object(usize),
}

impl Schema {
    fn of(json: &Json) -> Option<Self> {
        let kinds = json.get("kinds")?.as_object()?.iter();
        let kinds = kinds.map(|(kind, index)| Some((kind.clone(), index_of(index)?)));
        let objects = json.get("types")?.as_array()?.iter().map(ObjectType::of);
        Some(Self {
            kinds: kinds.collect::<Option<_>>()?,
            objects: objects.collect::<Option<_>>()?,
        })
    }

    /// The type of a kind, if it is one that the schema has.
    pub(super) fn kind(&self, version: &str, kind: &str) -> Option<&ObjectType> {
        self.objects.get(*self.kinds.get(&format!("{version} {kind}"))?)
    }

    /// The versions that the kind has in this group, if it is there at all.
    pub(super) fn versions(&self, version: &str, kind: &str) -> Option<Vec<&str>> {
        let group = |version: &str| version.rsplit_once('/').map(|(group, _)| group.to_owned());
        let known = self.kinds.keys().filter_map(|known| known.split_once(' '));
        let same = known.filter(|(v, k)| *k == kind && group(v) == group(version));
        let versions: Vec<&str> = same.map(|(version, _)| version).collect();
        (!versions.is_empty()).then_some(versions)
    }

    /// The object type that a field refers to.
    pub(super) fn object(&self, index: usize) -> Option<&ObjectType> {
        self.objects.get(index)
    }
}

impl ObjectType {
    fn of(json: &Json) -> Option<Self> {
        let [fields, required] = json.as_array()?.as_slice() else { return None };
        let fields = fields.as_object()?.iter();
        let fields = fields.map(|(name, of)| Some((name.clone(), Type::of(of)?)));
        let required = required.as_array()?.iter().map(|name| Some(name.as_str()?.to_owned()));
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
                    let texts = rest.iter().map(|text| Some(text.as_str()?.to_owned()));
                    Some(Self::OneOf(texts.collect::<Option<_>>()?))
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

    /// What a reader calls it.
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

fn index_of(json: &Json) -> Option<usize> {
    usize::try_from(json.as_u64()?).ok()
}
