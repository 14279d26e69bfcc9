//! Routes with their descriptions: the input, the answers and the problems. A route without a description is not one of
//! the [`Routes`], so neither exists without the other.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::api::forms::Form;
use crate::server::problem::ProblemKind;

/// Routes with their descriptions. A description applies to the route before it.
pub(crate) struct Routes<S> {
    pub(crate) router: Router<S>,
    pub(crate) operations: Vec<Operation>,
}

/// A route without a description.
#[must_use = "without what it does there is no route"]
pub(crate) struct UndescribedRoute<S> {
    routes: Routes<S>,
    method: &'static str,
    path: String,
    route: MethodRouter<S>,
}

/// The description of a route, for authors of clients.
pub(crate) struct Operation {
    /// The method: `get` or `post`.
    pub(super) method: &'static str,
    pub(super) path: String,
    /// Its name in generated clients.
    pub(super) id: &'static str,
    /// One sentence.
    pub(super) summary: &'static str,
    /// The further explanation.
    pub(super) about: Option<&'static str>,
    /// The right that it needs: `read`, `deploy`, `admin` or [`AGENT`]; `None` for a public route.
    pub(super) needs: Option<&'static str>,
    pub(super) query: &'static [Parameter],
    pub(super) headers: &'static [Parameter],
    pub(super) body: Option<SchemaMaker>,
    pub(super) answers: Vec<RouteAnswer>,
    /// The problems beyond those of every route.
    pub(super) fails: &'static [ProblemKind],
}

/// A parameter of the query, or a header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    /// Its name.
    pub(crate) name: &'static str,
    /// The description.
    pub(crate) about: &'static str,
    /// The form of its values.
    pub(crate) kind: ParameterForm,
    /// True if the request is refused without it.
    pub(crate) required: bool,
}

/// The form of a parameter's values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ParameterForm {
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
    /// Makes a parameter with a text of that form.
    pub(crate) const fn text(name: &'static str, form: Form, about: &'static str) -> Self {
        Self::new(name, ParameterForm::Form(form), about)
    }

    /// Makes a parameter of any form.
    pub(crate) const fn new(name: &'static str, kind: ParameterForm, about: &'static str) -> Self {
        Self { name, about, kind, required: false }
    }

    /// Returns the parameter as a required one.
    pub(crate) const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

/// The right to report what happens in a cluster, which its agent alone has.
pub(super) const AGENT: &str = "report";

/// The header by which any act may be repeated.
const IDEMPOTENCY_KEY: &[Parameter] = &[Parameter::text(
    "Idempotency-Key",
    Form::KEY,
    "A new key for each act, up to 100 visible characters. For 24 hours a repeat with the same key \
     does nothing, and gets the answer to the first request.",
)];

/// Makes the schema of a type.
pub(super) type SchemaMaker = fn(&mut SchemaGenerator) -> Schema;

/// One answer of a route.
pub(super) struct RouteAnswer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    /// The content type and the schema; `None` without content.
    pub(super) content: Option<(&'static str, SchemaMaker)>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new() -> Self {
        Self { router: Router::new(), operations: Vec::new() }
    }

    pub(crate) fn get<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
    ) -> UndescribedRoute<S> {
        UndescribedRoute { routes: self, method: "get", path: path.to_owned(), route: get(handler) }
    }

    pub(crate) fn post<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
    ) -> UndescribedRoute<S> {
        UndescribedRoute {
            routes: self,
            method: "post",
            path: path.to_owned(),
            route: post(handler),
        }
    }

    fn say(mut self, say: impl FnOnce(&mut Operation)) -> Self {
        if let Some(last) = self.operations.last_mut() {
            say(last);
        }
        self
    }

    /// Requires the right to administer.
    pub(crate) fn admin(self) -> Self {
        self.say(|operation| operation.needs = Some("admin"))
    }

    /// Adds a further explanation.
    pub(crate) fn about(self, text: &'static str) -> Self {
        self.say(|operation| operation.about = Some(text))
    }

    /// Sets the parameters of the query.
    pub(crate) fn query(self, query: &'static [Parameter]) -> Self {
        self.say(|operation| operation.query = query)
    }

    /// Sets the headers.
    pub(crate) fn headers(self, headers: &'static [Parameter]) -> Self {
        self.say(|operation| operation.headers = headers)
    }

    /// Sets the type of the body.
    pub(crate) fn takes<T: JsonSchema>(self) -> Self {
        self.say(|operation| operation.body = Some(SchemaGenerator::subschema_for::<T>))
    }

    /// Adds an answer with JSON.
    pub(crate) fn gives<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        let content: (_, SchemaMaker) = ("application/json", SchemaGenerator::subschema_for::<T>);
        self.say(|operation| {
            operation.answers.push(RouteAnswer { status, about, content: Some(content) });
        })
    }

    /// Adds an answer with a stream of events.
    pub(crate) fn streams<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        let content: (_, SchemaMaker) = ("text/event-stream", SchemaGenerator::subschema_for::<T>);
        self.say(|operation| {
            operation.answers.push(RouteAnswer { status, about, content: Some(content) });
        })
    }

    /// Adds an answer without content.
    pub(crate) fn ends(self, status: u16, about: &'static str) -> Self {
        self.say(|operation| operation.answers.push(RouteAnswer { status, about, content: None }))
    }

    /// Adds problems.
    pub(crate) fn fails(self, fails: &'static [ProblemKind]) -> Self {
        self.say(|operation| operation.fails = fails)
    }
}

impl<S: Clone + Send + Sync + 'static> UndescribedRoute<S> {
    /// Describes a route that needs the right to read.
    pub(crate) fn reads(self, id: &'static str, summary: &'static str) -> Routes<S> {
        self.add_operation(id, summary, Some("read"), &[])
    }

    /// Describes a route that needs the right to deploy.
    pub(crate) fn acts(self, id: &'static str, summary: &'static str) -> Routes<S> {
        self.add_operation(id, summary, Some("deploy"), IDEMPOTENCY_KEY)
    }

    /// Describes a route for the agent of a cluster, which has a token of its own.
    pub(crate) fn reports(self, id: &'static str, summary: &'static str) -> Routes<S> {
        self.add_operation(id, summary, Some(AGENT), &[])
    }

    /// Describes a public route.
    pub(crate) fn open(self, id: &'static str, summary: &'static str) -> Routes<S> {
        self.add_operation(id, summary, None, &[])
    }

    fn add_operation(
        self,
        id: &'static str,
        summary: &'static str,
        needs: Option<&'static str>,
        headers: &'static [Parameter],
    ) -> Routes<S> {
        let Self { mut routes, method, path, route } = self;
        routes.router = routes.router.route(&path, route);
        routes.operations.push(Operation {
            method,
            path,
            id,
            summary,
            about: None,
            needs,
            query: &[],
            headers,
            body: None,
            answers: Vec::new(),
            fails: &[],
        });
        routes
    }
}

impl Operation {
    /// Returns whether the operation answers with JSON, and so supports conditional requests.
    pub(super) fn is_json(&self) -> bool {
        self.answers
            .iter()
            .any(|answer| answer.content.is_some_and(|(kind, _)| kind == "application/json"))
    }
}
