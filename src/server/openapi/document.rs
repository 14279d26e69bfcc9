//! Renders operations as an `OpenAPI` document, version 3.1 (<https://spec.openapis.org/oas/v3.1.1>). Pure.
//!
//! Its schemas are JSON Schema 2020-12, which 3.1 accepts unchanged.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value as Json, json};

use crate::api::forms::Form;
use crate::api::problem::ProblemBody;
use crate::model::deployment::State;
use crate::server::openapi::operation::{AGENT, Operation, Parameter, ParameterForm, RouteAnswer};
use crate::server::problem::ProblemKind;

/// The status of an answer that the caller has already.
const NOT_MODIFIED: &str = "304";
const SCHEMAS: &str = "/components/schemas";

const ABOUT: &str = "Deployments, apps, revisions, rollbacks, locks and the audit log of \
                     the-deployer. Times are RFC 3339 in UTC. Answers may get new keys; a client \
                     ignores keys that it does not know. Errors are `application/problem+json` \
                     (RFC 9457): `type` is stable and for programs, `detail` is for people.";

/// The problems of every route.
const ANY: &[ProblemKind] = &[
    ProblemKind::BadRequest,
    ProblemKind::Unauthorized,
    ProblemKind::Forbidden,
    ProblemKind::TooMany,
    ProblemKind::Unavailable,
    ProblemKind::Overloaded,
    ProblemKind::TookTooLong,
    ProblemKind::Internal,
];
/// The further problems of a route with a body.
const WITH_BODY: &[ProblemKind] = &[
    ProblemKind::SlowBody,
    ProblemKind::KeyInUse,
    ProblemKind::TooLarge,
    ProblemKind::UnsupportedMediaType,
    ProblemKind::Unprocessable,
    ProblemKind::KeyReused,
];
/// The problems that a public route does not have.
const CALLER_PROBLEMS: &[ProblemKind] =
    &[ProblemKind::Unauthorized, ProblemKind::Forbidden, ProblemKind::TooMany];

/// Renders the document as text that ends with a newline.
pub(super) fn render_document(base: &str, operations: &[Operation]) -> String {
    let mut shapes = Shapes::new();
    let mut paths: BTreeMap<String, Map<String, Json>> = BTreeMap::new();
    for operation in operations {
        let place = paths.entry(format!("{base}{}", operation.path)).or_default();
        place.insert(operation.method.to_owned(), shapes.operation(operation));
    }
    let document = json!({
        "openapi": "3.1.1",
        "info": {"title": "the-deployer", "version": "1", "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": shapes.components(),
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API token of the service's configuration, or a person's GitHub \
                                token.",
            }},
        },
    });
    // Own values have string keys, so they can be written.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// The schemas of types, each described once.
struct Shapes {
    answers: SchemaGenerator,
    requests: SchemaGenerator,
}

impl Shapes {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.definitions_path = SCHEMAS.into();
        });
        // Request types are small, and may differ from answers under the same name.
        let requests =
            settings.clone().for_deserialize().with(|settings| settings.inline_subschemas = true);
        // A key that an older service may omit is still promised by this one.
        let answers =
            settings.for_serialize().with_transform(RecursiveTransform(|schema: &mut Schema| {
                schema.remove("default");
            }));
        Self { answers: answers.into_generator(), requests: requests.into_generator() }
    }

    fn operation(&mut self, operation: &Operation) -> Json {
        let is_read = operation.method == "get" && operation.is_json();
        let Operation { path, id, summary, about, needs, query, headers, body, answers, .. } =
            operation;
        let needed_right = needs.map(|right| match right {
            AGENT => "Needs the token of the cluster's agent.".to_owned(),
            right => format!("Needs the right to `{right}`."),
        });
        let about = [about.map(str::to_owned), needed_right].into_iter().flatten();
        let mut parameters: Vec<Json> =
            in_path(path).map(|name| path_parameter(path, name)).collect();
        parameters.extend(query.iter().map(|item| parameter("query", item)));
        parameters.extend(headers.iter().map(|item| parameter("header", item)));
        let security = needs.map_or_else(|| json!([]), |_| json!([{"token": []}]));
        let mut description = json!({
            "operationId": id,
            "summary": summary,
            "description": about.collect::<Vec<_>>().join("\n\n"),
            "parameters": parameters,
            "responses": self.responses(answers, (needs.is_some(), is_read), body.is_some(), operation.fails),
            "security": security,
        });
        if let (Some(shape), Some(map)) = (body, description.as_object_mut()) {
            let schema = shape(&mut self.requests);
            let content = json!({"application/json": {"schema": schema}});
            map.insert("requestBody".to_owned(), json!({"required": true, "content": content}));
        }
        description
    }

    fn responses(
        &mut self,
        answers: &[RouteAnswer],
        (guarded, is_read): (bool, bool),
        body: bool,
        fails: &[ProblemKind],
    ) -> BTreeMap<String, Json> {
        let of_body = WITH_BODY.iter().filter(|_| body);
        let general = ANY.iter().filter(|kind| guarded || !CALLER_PROBLEMS.contains(kind));
        let mut failures: BTreeMap<u16, Vec<ProblemKind>> = BTreeMap::new();
        for kind in general.chain(of_body).chain(fails) {
            let kinds = failures.entry(kind.status()).or_default();
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
        let failures = failures.into_iter().map(|(status, kinds)| (status, self.failure(&kinds)));
        let failures: Vec<_> = failures.collect();
        let answers = answers.iter().map(|answer| (answer.status, self.answer(answer)));
        let responses =
            answers.chain(failures).map(|(status, description)| (status.to_string(), description));
        let not_modified = json!({"description": "The answer is the same as the one with the `ETag` in \
                                          `If-None-Match`."});
        responses.chain(is_read.then(|| (NOT_MODIFIED.to_owned(), not_modified))).collect()
    }

    fn answer(&mut self, answer: &RouteAnswer) -> Json {
        let RouteAnswer { status: _, about, content } = answer;
        match content {
            None => json!({"description": about}),
            Some((kind, shape)) => {
                let mut content = Map::new();
                content.insert((*kind).to_owned(), json!({"schema": shape(&mut self.answers)}));
                json!({"description": about, "content": content})
            }
        }
    }

    fn failure(&mut self, kinds: &[ProblemKind]) -> Json {
        let describe = |kind: &ProblemKind| format!("`{}`: {}", kind.urn(), kind.documentation().2);
        let about = kinds.iter().map(describe).collect::<Vec<_>>().join("\n\n");
        let schema = self.answers.subschema_for::<ProblemBody>();
        let content = json!({"application/problem+json": {"schema": schema}});
        json!({"description": about, "content": content})
    }

    fn components(&mut self) -> Map<String, Json> {
        self.answers.take_definitions(true)
    }
}

/// Returns the names between braces.
fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(path: &str, name: &str) -> Json {
    let (about, form) = match name {
        "target" => ("The target: one cluster.", Form::TARGET),
        "namespace" => ("The app's namespace.", Form::NAMESPACE),
        "app" => ("The app's slug.", Form::SLUG),
        "cluster" => ("The cluster that the agent is in.", Form::TARGET),
        "pod" => ("The pod's name.", Form::POD),
        "revision" => ("The deploy id that names the revision.", Form::DEPLOY_ID),
        _ if path.starts_with("/deployments/") => ("The deployment's deploy id.", Form::DEPLOY_ID),
        _ => ("The id of the resource.", Form::LOCK_ID),
    };
    json!({
        "name": name, "in": "path", "required": true, "description": about,
        "schema": form.schema(),
    })
}

fn parameter(place: &str, parameter: &Parameter) -> Json {
    let Parameter { name, about, kind, required } = parameter;
    let schema = match kind {
        ParameterForm::Form(form) => form.schema(),
        ParameterForm::Words(words) => json!({"type": "string", "enum": words}),
        ParameterForm::Time => json!({"type": "string", "format": "date-time"}),
        ParameterForm::Number(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        ParameterForm::State => json!({"type": "string", "enum": State::ALL.map(State::as_str)}),
    };
    json!({"name": name, "in": place, "required": required, "description": about, "schema": schema})
}
