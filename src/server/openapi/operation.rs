//! What is said of one route: what it takes, what it gives, how it fails.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::api::forms::Form;
use crate::server::problem::Kind;

/// What a route does, for who writes a client.
pub(crate) struct Operation {
    /// Its name in generated clients.
    pub(super) id: &'static str,
    /// One sentence.
    pub(super) summary: &'static str,
    /// What else there is to know.
    pub(super) about: Option<&'static str>,
    /// Which right it needs: `read`, `deploy`, `admin`; none, where anybody may call it.
    pub(super) needs: Option<&'static str>,
    pub(super) query: &'static [Parameter],
    pub(super) headers: &'static [Parameter],
    pub(super) body: Option<Shape>,
    pub(super) answers: Vec<Answer>,
    /// How it fails beside what any route does.
    pub(super) fails: &'static [Kind],
}

/// A parameter of the query, or a header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) about: &'static str,
    /// What it may be.
    pub(crate) kind: Is,
    /// Whether nothing can be answered without it.
    pub(crate) required: bool,
}

/// What a parameter may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Is {
    /// A text of that form.
    Form(Form),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A moment, as RFC 3339 writes it.
    Time,
    /// A whole number from the first to the second.
    Number(i64, i64),
    /// A state of a deployment.
    State,
}

impl Parameter {
    /// A text of that form.
    pub(crate) const fn text(name: &'static str, form: Form, about: &'static str) -> Self {
        Self::of(name, Is::Form(form), about)
    }

    /// Something else.
    pub(crate) const fn of(name: &'static str, kind: Is, about: &'static str) -> Self {
        Self { name, about, kind, required: false }
    }

    /// The same, which must be there.
    pub(crate) const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

/// Any act may be repeated under a name.
const ONCE: &[Parameter] = &[Parameter::text(
    "Idempotency-Key",
    Form::KEY,
    "New for each act, up to 100 visible characters. For 24 hours a repeat with it does nothing, and \
     gets the answer that the first one got.",
)];

/// Makes the schema of a type.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// One way in which a route answers.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    /// The type of the content, and its shape; none where there is no content.
    pub(super) content: Option<(&'static str, Shape)>,
}

impl Operation {
    /// An operation that needs the right to read.
    pub(crate) fn reads(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            about: None,
            needs: Some("read"),
            query: &[],
            headers: &[],
            body: None,
            answers: Vec::new(),
            fails: &[],
        }
    }

    /// One that needs the right to deploy.
    pub(crate) fn acts(id: &'static str, summary: &'static str) -> Self {
        Self { needs: Some("deploy"), headers: ONCE, ..Self::reads(id, summary) }
    }

    /// The same for what concerns many apps.
    pub(crate) fn admin(self) -> Self {
        Self { needs: Some("admin"), ..self }
    }

    /// One that anybody may call.
    pub(crate) fn open(id: &'static str, summary: &'static str) -> Self {
        Self { needs: None, ..Self::reads(id, summary) }
    }

    /// Whether it answers with JSON, and so can be asked whether that has changed.
    pub(super) fn is_json(&self) -> bool {
        self.answers
            .iter()
            .any(|one| one.content.is_some_and(|(kind, _)| kind == "application/json"))
    }

    /// With more to know.
    pub(crate) fn about(self, text: &'static str) -> Self {
        Self { about: Some(text), ..self }
    }

    /// With these in the query.
    pub(crate) fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    /// With these headers.
    pub(crate) fn headers(self, headers: &'static [Parameter]) -> Self {
        Self { headers, ..self }
    }

    /// Takes a body.
    pub(crate) fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    /// Answers with JSON.
    pub(crate) fn gives<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answers::<T>(status, about, "application/json")
    }

    /// Answers with a stream of events.
    pub(crate) fn streams<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answers::<T>(status, about, "text/event-stream")
    }

    fn answers<T: JsonSchema>(
        mut self,
        status: u16,
        about: &'static str,
        content_type: &'static str,
    ) -> Self {
        let content: Option<(_, Shape)> = Some((content_type, SchemaGenerator::subschema_for::<T>));
        self.answers.push(Answer { status, about, content });
        self
    }

    /// Answers without content.
    pub(crate) fn ends(mut self, status: u16, about: &'static str) -> Self {
        self.answers.push(Answer { status, about, content: None });
        self
    }

    /// Fails in these ways, too.
    pub(crate) fn fails(self, fails: &'static [Kind]) -> Self {
        Self { fails, ..self }
    }
}
