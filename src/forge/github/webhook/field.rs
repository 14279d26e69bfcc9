//! One value of a JSON document, taken leniently: texts, whole numbers and booleans are kept, of
//! everything else only its kind. So a document that is large or of another shape costs no memory, and a
//! value of the wrong kind is named in our words and not quoted in the parser's.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::forge::github::webhook::{Malformed, shown};
use crate::model::id::IdError;

/// What stands in a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Field {
    /// Nothing, or `null`.
    #[default]
    Absent,
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Flag(bool),
    /// Something else, by its kind: `a list`.
    Other(&'static str),
}

impl Field {
    /// The text in it, if there is anything; another kind is an error.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&str>, Malformed> {
        match self {
            Self::Absent => Ok(None),
            Self::Text(text) => Ok(Some(text)),
            Self::Integer(_) => Err(wrong(field, "is a number; a text is expected (quote it)")),
            Self::Flag(_) => Err(wrong(field, "is a boolean; a text is expected (quote it)")),
            Self::Other(kind) => Err(wrong(field, format!("is {kind}; a text is expected"))),
        }
    }

    /// The text that must be there.
    pub(super) fn required(&self, field: &'static str) -> Result<&str, Malformed> {
        self.text(field)?.ok_or_else(|| wrong(field, "is missing"))
    }

    /// The whole number that must be there.
    pub(super) fn integer(&self, field: &'static str) -> Result<i64, Malformed> {
        match self {
            Self::Integer(number) => Ok(*number),
            Self::Absent => Err(wrong(field, "is missing")),
            Self::Text(text) => Err(wrong(field, format!("{} is not a number", shown(text)))),
            Self::Flag(_) => Err(wrong(field, "is a boolean; a number is expected")),
            Self::Other(kind) => Err(wrong(field, format!("is {kind}; a number is expected"))),
        }
    }

    /// Whether it says `true`; nothing else does.
    pub(super) fn is_true(&self) -> bool {
        *self == Self::Flag(true)
    }
}

/// The error for a field.
pub(super) fn wrong(field: &'static str, problem: impl Into<String>) -> Malformed {
    Malformed::Field { field, problem: problem.into() }
}

/// The identifier that a field's text is; `parse` says why it is none.
pub(super) fn id<T>(
    field: &'static str,
    text: &str,
    parse: impl Fn(String) -> Result<T, IdError>,
) -> Result<T, Malformed> {
    parse(text.to_owned()).map_err(|error| wrong(field, error.to_string()))
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Field, E> {
        Ok(Field::Absent)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Field, E> {
        Ok(Field::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Field, E> {
        Ok(Field::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Field, E> {
        Ok(i64::try_from(number).map_or(Field::Other("a number out of range"), Field::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Field, E> {
        Ok(Field::Other("a number that is not whole"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field, E> {
        Ok(Field::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Field, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Other("an object"))
    }
}
