//! What stands in a path, and bodies and queries as they come: read, or a problem that says what is
//! wrong.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};

use crate::model::id::{AppKey, DeployId, IdError, Namespace, Slug, TargetName};
use crate::model::placed::Spot;
use crate::server::problem::{Kind, Problem};

/// What is in a path.
pub(super) type InPath<T> = Result<Path<T>, PathRejection>;
/// What is in a query.
pub(super) type InQuery = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// `/apps/{target}/{namespace}/{app}`
pub(super) fn spot(path: InPath<(String, String, String)>) -> Result<Spot, Problem> {
    let Path((target, namespace, slug)) = path.map_err(|_| unreadable())?;
    app(target, namespace, slug).map_err(|error| bad(error.to_string()))
}

/// `/apps/{target}/{namespace}/{app}/revisions/{revision}`
pub(super) fn revision(
    path: InPath<(String, String, String, String)>,
) -> Result<(Spot, DeployId), Problem> {
    let Path((target, namespace, slug, id)) = path.map_err(|_| unreadable())?;
    let spot = app(target, namespace, slug).map_err(|error| bad(error.to_string()))?;
    Ok((spot, DeployId::parse(id).map_err(|error| bad(error.to_string()))?))
}

/// `/deployments/{id}`
pub(super) fn deployment(path: InPath<String>) -> Result<DeployId, Problem> {
    let Path(id) = path.map_err(|_| unreadable())?;
    DeployId::parse(id).map_err(|error| bad(error.to_string()))
}

/// The parameters of a query.
pub(super) fn pairs(query: InQuery) -> Result<Vec<(String, String)>, Problem> {
    query.map(|Query(pairs)| pairs).map_err(|_| bad("the query string cannot be read"))
}

fn app(target: String, namespace: String, slug: String) -> Result<Spot, IdError> {
    let app = AppKey { namespace: Namespace::parse(namespace)?, slug: Slug::parse(slug)? };
    Ok(Spot { target: TargetName::parse(target)?, app })
}

fn unreadable() -> Problem {
    bad("the path cannot be read")
}

/// A parameter is wrong.
pub(super) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::BadRequest, detail)
}

/// There is no such deployment.
pub(super) fn no_deployment(id: &DeployId) -> Problem {
    Problem::new(Kind::NotFound, format!("there is no deployment {id}"))
}

/// The database does not answer.
pub(super) fn unavailable(error: &dyn std::error::Error) -> Problem {
    tracing::error!(%error, "deployments could not be read");
    Problem::new(Kind::Unavailable, "deployments cannot be read now; come again")
}
