//! The shape of a `deployment` event, as far as it is used. Everything else GitHub sends, now or
//! later, is skipped unread.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::forge::github::webhook::Malformed;
use crate::forge::github::webhook::field::{Field, wrong};

/// GitHub's own bound for a login is 39; a person of an Enterprise has an underscore and more.
const LOGIN_CHARACTERS: usize = 60;

/// The event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Body {
    pub(super) action: Field,
    pub(super) deployment: Option<Deployment>,
    pub(super) repository: Option<Repository>,
    pub(super) sender: Option<User>,
}

/// `deployment` of the event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Deployment {
    pub(super) id: Field,
    pub(super) sha: Field,
    #[serde(rename = "ref")]
    pub(super) git_ref: Field,
    pub(super) task: Field,
    pub(super) environment: Field,
    pub(super) description: Field,
    pub(super) creator: Option<User>,
    pub(super) payload: Payload,
    pub(super) production_environment: Field,
    pub(super) created_at: Field,
    pub(super) repository_url: Field,
}

/// `repository` of the event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Repository {
    pub(super) id: Field,
    pub(super) full_name: Field,
    pub(super) owner: Option<User>,
    /// In pushes.
    pub(super) pushed_at: Field,
}

/// A user, by login.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) id: Field,
    pub(super) login: Field,
    /// `User`, `Bot` or `Organization`.
    #[serde(rename = "type")]
    pub(super) kind: Field,
}

/// What the creator of the deployment put into it. GitHub hands it on as it came: an object, a
/// text, or nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Payload {
    /// Nothing that we can use.
    #[default]
    Absent,
    /// An object's `tag`, and the `actor` who started the program that asked.
    Object { tag: Field, actor: Field },
    /// A text; it may be JSON again.
    Text(String),
}

impl Body {
    /// Reads an event; only its outer shape can be wrong, fields are judged when they are used.
    pub(super) fn read(document: &[u8]) -> Result<Self, Malformed> {
        shape(document)
    }
}

/// Reads the outer shape of any event.
pub(super) fn shape<'d, T: Deserialize<'d>>(document: &'d [u8]) -> Result<T, Malformed> {
    serde_json::from_slice(document).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        // The parser's own text quotes values; a place is enough.
        match error.classify() {
            serde_json::error::Category::Data => Malformed::Shape { line, column },
            _ => Malformed::NotJson { line, column },
        }
    })
}

impl Payload {
    /// Whether its creator meant to name a tag, be it a legal one or not.
    pub(super) fn names_a_tag(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Object { tag, .. } => *tag != Field::Absent,
            Self::Text(text) => Self::in_text(text).map_or(true, |(tag, _)| tag != Field::Absent),
        }
    }

    /// The tag that the creator of the deployment named, if any.
    pub(super) fn tag(&self) -> Result<Option<String>, Malformed> {
        let field = "deployment.payload.tag";
        match self {
            Self::Absent => Ok(None),
            Self::Object { tag, .. } => Ok(tag.text(field)?.map(str::to_owned)),
            Self::Text(text) => Self::in_text(text)?.0.text(field).map(|t| t.map(str::to_owned)),
        }
    }

    /// The login that the creator of the deployment named as the person behind it, if it has the form of
    /// one. What is none is nobody's: a deployment does not fail for it.
    pub(super) fn actor(&self) -> Option<String> {
        let named = match self {
            Self::Absent => None,
            Self::Object { actor, .. } => Some(actor.clone()),
            Self::Text(text) => Self::in_text(text).ok().map(|(_, actor)| actor),
        };
        let Some(Field::Text(login)) = named else { return None };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        ((1..=LOGIN_CHARACTERS).contains(&login.len()) && login.chars().all(legal)).then_some(login)
    }

    /// Tools that post forms send the object as JSON in a text; a text of another kind is for people.
    fn in_text(text: &str) -> Result<(Field, Field), Malformed> {
        if !text.trim_start().starts_with('{') {
            return Ok((Field::Absent, Field::Absent));
        }
        match serde_json::from_str(text) {
            Ok(Self::Object { tag, actor }) => Ok((tag, actor)),
            Ok(Self::Absent | Self::Text(_)) => Ok((Field::Absent, Field::Absent)),
            Err(_) => {
                Err(wrong("deployment.payload", "begins like JSON and is not; fix or drop it"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PayloadVisitor)
    }
}

struct PayloadVisitor;

impl<'de> Visitor<'de> for PayloadVisitor {
    type Value = Payload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Payload, E> {
        Ok(Payload::Absent)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Payload, E> {
        Ok(Payload::Absent)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Payload, E> {
        Ok(Payload::Absent)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Payload, E> {
        Ok(Payload::Absent)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Payload, E> {
        Ok(Payload::Absent)
    }

    fn visit_str<E>(self, text: &str) -> Result<Payload, E> {
        Ok(Payload::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Payload, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Payload::Absent)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Payload, A::Error> {
        let (mut tag, mut actor) = (Field::Absent, Field::Absent);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tag" => tag = map.next_value()?,
                "actor" => actor = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Payload::Object { tag, actor })
    }
}
