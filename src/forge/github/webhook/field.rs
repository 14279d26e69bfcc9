//! One value of a JSON document, read leniently: texts, whole numbers and booleans are kept, of everything else only
//! its kind. So a document that is large or of another shape costs no memory, and the message about a value of the
//! wrong kind does not quote the parser.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::event::{UnusedPart, WebhookEvent};
use crate::model::id::IdError;

/// The reason why a signed delivery cannot be used. No variant carries more of the body than a short, escaped piece of
/// the one field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedPayload {
    /// The body is a form without the field `payload`.
    #[error("the form has no field `payload`")]
    NoPayloadField,
    /// The body is not JSON.
    #[error("the body is not JSON: it breaks off or is wrong at line {line}, column {column}")]
    NotJson {
        /// Line of the first mistake, from 1.
        line: usize,
        /// The column of the fault.
        column: usize,
    },
    /// The body is JSON, but not an object as GitHub sends it.
    #[error("the body has not the shape of a deployment event (line {line}, column {column})")]
    Shape {
        /// Line of the value that is out of place, from 1.
        line: usize,
        /// The column of the fault.
        column: usize,
    },
    /// One value is missing or of another kind than expected.
    #[error("{field}: {problem}")]
    Field {
        /// The field's path in the event: `deployment.environment`.
        field: &'static str,
        /// The fault of the value.
        problem: String,
    },
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum PayloadField {
    /// The field is missing, or `null`.
    #[default]
    Absent,
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Flag(bool),
    /// An object; of it what a deployment's payload may name.
    Object(Box<DeploymentFields>),
    /// A value of another kind, by its name: `a list`.
    Other(&'static str),
}

/// The largest description of a rollout, in bytes of JSON.
pub(super) const MAX_ROLLOUT_BYTES: usize = 64 * 1024;

/// The fields of a deployment's payload that the service knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DeploymentFields {
    pub(super) tag: PayloadField,
    pub(super) actor: PayloadField,
    pub(super) app: PayloadField,
    /// The value under `rollout`, as JSON; of one that is too large only the beginning.
    pub(super) rollout: Option<String>,
}

impl PayloadField {
    /// Returns the text in it, if there is one; another kind is an error.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&str>, MalformedPayload> {
        match self {
            Self::Absent => Ok(None),
            Self::Text(text) => Ok(Some(text)),
            Self::Integer(_) => {
                Err(field_error(field, "is a number; a text is expected (quote it)"))
            }
            Self::Flag(_) => Err(field_error(field, "is a boolean; a text is expected (quote it)")),
            Self::Object(_) => Err(field_error(field, "is an object; a text is expected")),
            Self::Other(kind) => Err(field_error(field, format!("is {kind}; a text is expected"))),
        }
    }

    /// Returns the text, which must be there.
    pub(super) fn required_text(&self, field: &'static str) -> Result<&str, MalformedPayload> {
        self.text(field)?.ok_or_else(|| field_error(field, "is missing"))
    }

    /// Returns the identifier, which must be there; the error of `parse` is the problem.
    pub(super) fn id<T>(
        &self,
        field: &'static str,
        parse: impl Fn(String) -> Result<T, IdError>,
    ) -> Result<T, MalformedPayload> {
        id(field, self.required_text(field)?, parse)
    }

    /// Returns the name of a branch, a tag or a commit, which must be there, of at most so many bytes.
    pub(super) fn reference(
        &self,
        field: &'static str,
        most: usize,
        what: &str,
    ) -> Result<String, MalformedPayload> {
        let text = self.required_text(field)?;
        if text.is_empty() || text.len() > most || text.chars().any(char::is_control) {
            return Err(field_error(field, format!("{} is not a {what}", quote_text(text))));
        }
        Ok(text.to_owned())
    }

    /// Returns the whole number, which must be there.
    pub(super) fn integer(&self, field: &'static str) -> Result<i64, MalformedPayload> {
        match self {
            Self::Integer(number) => Ok(*number),
            Self::Absent => Err(field_error(field, "is missing")),
            Self::Text(text) => {
                Err(field_error(field, format!("{} is not a number", quote_text(text))))
            }
            Self::Flag(_) => Err(field_error(field, "is a boolean; a number is expected")),
            Self::Object(_) => Err(field_error(field, "is an object; a number is expected")),
            Self::Other(kind) => {
                Err(field_error(field, format!("is {kind}; a number is expected")))
            }
        }
    }

    /// Returns whether it says `true`; nothing else does.
    pub(super) fn is_true(&self) -> bool {
        *self == Self::Flag(true)
    }
}

pub(super) fn ignore(why: UnusedPart, reason: String) -> WebhookEvent {
    WebhookEvent::Ignored { why, reason }
}

/// Quotes a foreign text for a message: escaped, and cut after 60 characters.
pub(super) fn quote_text(text: &str) -> String {
    let mut escaped = text.chars().flat_map(char::escape_debug);
    let shortened: String = escaped.by_ref().take(60).collect();
    let ellipsis = if escaped.next().is_some() { "…" } else { "" };
    format!("\"{shortened}\"{ellipsis}")
}

/// Builds the error for a field.
pub(super) fn field_error(field: &'static str, problem: impl Into<String>) -> MalformedPayload {
    MalformedPayload::Field { field, problem: problem.into() }
}

/// Returns the identifier of a field's text; the error of `parse` is the problem.
pub(super) fn id<T>(
    field: &'static str,
    text: &str,
    parse: impl Fn(String) -> Result<T, IdError>,
) -> Result<T, MalformedPayload> {
    parse(text.to_owned()).map_err(|error| field_error(field, error.to_string()))
}

impl<'de> Deserialize<'de> for PayloadField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = PayloadField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<PayloadField, E> {
        Ok(PayloadField::Absent)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<PayloadField, E> {
        Ok(PayloadField::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<PayloadField, E> {
        Ok(PayloadField::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<PayloadField, E> {
        Ok(i64::try_from(number)
            .map_or(PayloadField::Other("a number out of range"), PayloadField::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<PayloadField, E> {
        Ok(PayloadField::Other("a number that is not whole"))
    }

    fn visit_str<E>(self, text: &str) -> Result<PayloadField, E> {
        Ok(PayloadField::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PayloadField, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(PayloadField::Other("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PayloadField, A::Error> {
        let mut fields = DeploymentFields::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tag" => fields.tag = map.next_value()?,
                "actor" => fields.actor = map.next_value()?,
                "app" => fields.app = map.next_value()?,
                "rollout" => {
                    let json: Option<Box<RawValue>> = map.next_value()?;
                    let bounded = |json: Box<RawValue>| {
                        json.get().chars().take(MAX_ROLLOUT_BYTES + 1).collect()
                    };
                    fields.rollout = json.map(bounded);
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(PayloadField::Object(Box::new(fields)))
    }
}
