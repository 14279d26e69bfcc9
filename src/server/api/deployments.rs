//! `/api/v1/deployments` and `/api/v1/deployments/{id}`.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};

use crate::model::id::DeployId;
use crate::server::Shared;
use crate::server::api::query;
use crate::server::api::view::{Detail, ListView, detail};
use crate::server::auth::Caller;
use crate::server::ports::{Backend, Fault};
use crate::server::problem::{Kind, Problem};

/// The newest deployments that pass the filters.
pub(super) async fn list<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<ListView>, Problem> {
    let Query(pairs) = pairs.map_err(|_| bad("the query string cannot be read"))?;
    let query = query::read(&pairs).map_err(bad)?;
    let mut page =
        shared.state.backend.deployments(&query).await.map_err(|error| unavailable(&error))?;
    page.deployments = shared.seen_deployments(&caller, page.deployments).await?;
    Ok(Json(page.into()))
}

/// One deployment with its stages, violations and statuses.
pub(super) async fn one<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Detail>, Problem> {
    let Path(id) = id.map_err(|_| bad("the path cannot be read"))?;
    let id = DeployId::parse(id).map_err(|error| bad(error.to_string()))?;
    let found = shared.state.backend.deployment(&id).await.map_err(|error| unavailable(&error))?;
    let (deployment, statuses) = found
        .ok_or_else(|| Problem::new(Kind::NotFound, format!("there is no deployment {id}")))?;
    shared.may_see(&caller, &deployment).await?;
    Ok(Json(detail(deployment, statuses)))
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::BadRequest, detail)
}

fn unavailable(error: &Fault) -> Problem {
    tracing::error!(%error, "deployments could not be read");
    Problem::new(Kind::Unavailable, "deployments cannot be read now; come again")
}
