//! `/api/v1/deployments`, one of them, and what happened to it in order.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};

use crate::api::deployments::{DeploymentDetail, DeploymentLog, DeploymentPage, LogLine};
use crate::server::api::path::{self, InPath, InQuery};
use crate::server::api::query;
use crate::server::auth::Caller;
use crate::server::openapi::Operation;
use crate::server::pages::story;
use crate::server::pages::story::Line;
use crate::server::problem::{Kind, Problem};
use crate::server::{Shared, pages};

/// What is said of [`list`].
pub(super) fn list_operation() -> Operation {
    Operation::reads("listDeployments", "Deployments, newest first.")
        .query(query::DEPLOYMENTS)
        .gives::<DeploymentPage>(200, "One page.")
}

/// The newest deployments that pass the filters.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    pairs: InQuery,
) -> Result<Json<DeploymentPage>, Problem> {
    let query = query::read(&path::pairs(pairs)?).map_err(path::bad)?;
    let query::DeploymentsQuery { filter, before, limit } = query;
    let store = &shared.state.deployments.store;
    let page = store.deployments(&filter, before.as_ref(), limit).await;
    let mut page = page.map_err(|error| path::unavailable(&error))?;
    page.deployments = shared.seen_deployments(&caller, page.deployments).await?;
    Ok(Json(page.into()))
}

/// What is said of [`one`].
pub(super) fn one_operation() -> Operation {
    Operation::reads("getDeployment", "A deployment with all that is known of it.")
        .gives::<DeploymentDetail>(200, "The deployment.")
        .fails(&[Kind::NotFound])
}

/// One deployment with its stages, violations, statuses and changes.
pub(in crate::server) async fn one(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    id: InPath<String>,
) -> Result<Json<DeploymentDetail>, Problem> {
    let id = path::deployment(id)?;
    let deployments = &shared.state.deployments;
    let found = deployments.deployment(&id).await.map_err(|error| path::unavailable(&error))?;
    let (deployment, statuses) = found.ok_or_else(|| path::no_deployment(&id))?;
    shared.may_see(&caller, &deployment).await?;
    let changes = deployments.changes(&deployment).await;
    Ok(Json(DeploymentDetail::new(deployment, statuses, deployments.page_of(&id), changes)))
}

/// What is said of [`log`].
pub(super) fn log_operation() -> Operation {
    Operation::reads("getDeploymentLog", "What happened to a deployment, in order, for people.")
        .gives::<DeploymentLog>(200, "The log so far.")
        .fails(&[Kind::NotFound])
}

/// What happened to one deployment, in order.
pub(super) async fn log(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    id: InPath<String>,
) -> Result<Json<DeploymentLog>, Problem> {
    let id = path::deployment(id)?;
    let found =
        shared.state.deployments.log(&id).await.map_err(|error| path::unavailable(&error))?;
    let log = pages::record(&shared, found.ok_or_else(|| path::no_deployment(&id))?);
    shared.may_see(&caller, &log.deployment).await?;
    let line = |Line { at, text }| LogLine { at, text };
    Ok(Json(DeploymentLog { lines: story::lines(&log).into_iter().map(line).collect() }))
}
