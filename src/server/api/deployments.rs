//! `/api/v1/deployments` and `/api/v1/deployments/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};

use crate::model::id::DeployId;
use crate::server::Shared;
use crate::server::api::query;
use crate::server::api::view::{Detail, ListView, detail};
use crate::server::ports::{Backend, Fault};
use crate::server::problem::{Kind, Problem};

/// The newest deployments that pass the filters.
pub(super) async fn list<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<ListView>, Problem> {
    let Query(pairs) = pairs.map_err(|_| bad("the query string cannot be read"))?;
    let query = query::read(&pairs).map_err(bad)?;
    let page =
        shared.state.backend.deployments(&query).await.map_err(|error| unavailable(&error))?;
    Ok(Json(page.into()))
}

/// One deployment with its stages, violations and statuses.
pub(super) async fn one<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Detail>, Problem> {
    let Path(id) = id.map_err(|_| bad("the path cannot be read"))?;
    let id = DeployId::parse(id).map_err(|error| bad(error.to_string()))?;
    let found = shared.state.backend.deployment(&id).await.map_err(|error| unavailable(&error))?;
    let (deployment, statuses) = found
        .ok_or_else(|| Problem::new(Kind::NotFound, format!("there is no deployment {id}")))?;
    Ok(Json(detail(deployment, statuses)))
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::BadRequest, detail)
}

fn unavailable(error: &Fault) -> Problem {
    tracing::error!(%error, "deployments could not be read");
    Problem::new(Kind::Unavailable, "deployments cannot be read now; come again")
}
