//! The extractors of routes: the caller, and the values of path, query and body, parsed; or a problem that names the
//! mistake.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::deployments::Deployments;
use crate::model::app_instance::AppInstance;
use crate::model::audit::Principal;
use crate::model::callers::Scope;
use crate::model::id::{
    AppKey, DeployId, IdError, LockId, Namespace, RepoName, RolloutId, Slug, TargetName, TeamName,
};
use crate::server::auth::{BrowserSession, Caller, Resource};
use crate::server::idempotency::RequestKey;
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;
use crate::store::{Reply, StoredAnswer};

/// A request with its authenticated caller.
pub(super) struct AuthenticatedRequest {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Caller,
    /// The session of a browser, if the request has one.
    session: Option<BrowserSession>,
    key: RequestKey,
}

impl FromRequestParts<Arc<Shared>> for AuthenticatedRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Problem> {
        let caller = parts.extensions.get().cloned();
        let detail = "internal error: the route did not authenticate its caller";
        Ok(Self {
            shared: shared.clone(),
            caller: caller.ok_or_else(|| Problem::new(ProblemKind::Internal, detail))?,
            session: parts.extensions.get().cloned(),
            key: parts.extensions.get().cloned().unwrap_or_default(),
        })
    }
}

impl AuthenticatedRequest {
    pub(super) fn deployments(&self) -> &Deployments {
        &self.shared.state.deployments
    }

    /// Returns who may act from a page: the person of the session, or everybody where no token is needed. A password of
    /// HTTP Basic is not enough, because a browser sends it along with any form.
    pub(super) fn actor(&self) -> Option<&Caller> {
        let is_open = self.shared.state.auth.needs_no_token();
        self.session.as_ref().map(|session| &session.caller).or(is_open.then_some(&self.caller))
    }

    /// Returns the principal of the caller's acts.
    pub(super) fn by(&self) -> Principal {
        self.caller.by()
    }

    /// Fails unless the caller has the permission on the resource. Every route calls it first.
    pub(super) async fn authorize(
        &self,
        scope: Scope,
        resource: impl Into<Resource>,
    ) -> Result<(), Problem> {
        self.shared.state.auth.authorize(&self.caller, scope, &resource.into()).await
    }

    /// Fails unless the caller is a member of the team, or an administrator.
    pub(super) async fn require_member(
        &self,
        team: &TeamName,
        repository: &RepoName,
    ) -> Result<(), Problem> {
        self.shared.state.auth.require_member(&self.caller, team, repository).await
    }

    /// Returns whether the caller may see the resource.
    pub(super) async fn can_read(&self, resource: &Resource) -> Result<bool, Problem> {
        self.shared.state.auth.can_read(&self.caller, resource).await
    }

    /// Returns the elements of a list that the caller may see.
    pub(super) async fn filter_visible<T>(
        &self,
        items: Vec<T>,
        resource: impl Fn(&T) -> Resource,
    ) -> Result<Vec<T>, Problem> {
        self.shared.state.auth.filter_visible(&self.caller, items, resource).await
    }

    /// Returns how to build the answer of an act; the answer is stored if the request has an `Idempotency-Key`.
    pub(super) fn reply<T: Clone, A: From<T> + Serialize, const STATUS: u16>(&self) -> Reply<T> {
        let answer = |result: &T| StoredAnswer::new(STATUS, &A::from(result.clone()));
        Reply::new(self.key.0.clone(), answer)
    }
}

/// The resource that a path names.
pub(super) struct PathParam<T>(pub(super) T);

/// A resource that a path can name.
pub(super) trait PathParameter: Sized {
    type Parts: DeserializeOwned + Send;

    fn read(parts: Self::Parts) -> Result<Self, IdError>;
}

impl<T: PathParameter, S: Send + Sync> FromRequestParts<S> for PathParam<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T::Parts>::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|_| bad("the path cannot be read"))?;
        T::read(path).map(Self).map_err(|error| bad(error.to_string()))
    }
}

/// `/deployments/{id}`.
impl PathParameter for DeployId {
    type Parts = String;

    fn read(id: String) -> Result<Self, IdError> {
        Self::parse(id)
    }
}

/// `/locks/{id}`.
impl PathParameter for LockId {
    type Parts = String;

    fn read(id: String) -> Result<Self, IdError> {
        Self::parse(id)
    }
}

/// `/rollouts/{id}`.
impl PathParameter for RolloutId {
    type Parts = String;

    fn read(id: String) -> Result<Self, IdError> {
        Self::parse(id)
    }
}

/// `/clusters/{cluster}`.
impl PathParameter for TargetName {
    type Parts = String;

    fn read(name: String) -> Result<Self, IdError> {
        Self::parse(name)
    }
}

/// `/apps/{target}/{namespace}/{app}`.
impl PathParameter for AppInstance {
    type Parts = (String, String, String);

    fn read((target, namespace, slug): Self::Parts) -> Result<Self, IdError> {
        let app = AppKey { namespace: Namespace::parse(namespace)?, slug: Slug::parse(slug)? };
        Ok(Self { target: TargetName::parse(target)?, app })
    }
}

/// `/apps/{target}/{namespace}/{app}/revisions/{revision}`.
impl PathParameter for (AppInstance, DeployId) {
    type Parts = (String, String, String, String);

    fn read((target, namespace, slug, id): Self::Parts) -> Result<Self, IdError> {
        Ok((AppInstance::read((target, namespace, slug))?, DeployId::parse(id)?))
    }
}

/// The parameters of a query, unchecked.
pub(super) struct QueryPairs(pub(super) Vec<(String, String)>);

impl QueryPairs {
    /// Returns the first value of a parameter; an empty one counts as absent, because forms send empty fields.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(parameter, _)| parameter == name);
        pair.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueryPairs {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(pairs)| Self(pairs)).map_err(|_| bad("the query string cannot be read"))
    }
}

/// A JSON body. Only a body with the media type of JSON is accepted: a web page can send anything else in its visitor's
/// name.
pub(super) struct Payload<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Payload<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let payload = Json::from_request(request, state).await;
        payload.map(|Json(body)| Self(body)).map_err(|error| match error {
            JsonRejection::MissingJsonContentType(_) => {
                Problem::new(ProblemKind::UnsupportedMediaType, "send application/json")
            }
            JsonRejection::JsonDataError(error) => {
                unprocessable(replace_beginning("the JSON is wrong", &error.body_text()))
            }
            JsonRejection::BytesRejection(_) => {
                Problem::new(ProblemKind::TooLarge, "the body is too large, or incomplete")
            }
            rejection => bad(replace_beginning("the body is not JSON", &rejection.body_text())),
        })
    }
}

/// Replaces the beginning of the library's message by the service's own words.
fn replace_beginning(beginning: &str, text: &str) -> String {
    let place = text.split_once(": ").map_or(text, |(_, place)| place);
    format!("{beginning}: {place}")
}

/// Makes the problem of a wrong parameter.
pub(super) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemKind::BadRequest, detail)
}

/// Makes the problem of a request in the right form that cannot be carried out.
pub(super) fn unprocessable(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemKind::Unprocessable, detail)
}

/// Makes the problem of a deployment that does not exist.
pub(super) fn no_deployment(id: &DeployId) -> Problem {
    Problem::new(ProblemKind::NotFound, format!("there is no deployment {id}"))
}

/// Makes the problem of a database that does not answer.
pub(super) fn unavailable(error: &dyn std::error::Error) -> Problem {
    tracing::error!(%error, "deployments could not be read");
    Problem::new(ProblemKind::Unavailable, "deployments cannot be read now; try again later")
}
