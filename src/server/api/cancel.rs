//! `/api/v1/deployments/{id}/cancel`: a deployment that has not begun to push is stopped.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};

use crate::api::deployments::{CancelRequest, DeploymentSummary};
use crate::deployments::locks::NotCancelled;
use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::model::removal::reason;
use crate::server::Shared;
use crate::server::api::apps::unread;
use crate::server::api::idempotency::{RequestKey, answer};
use crate::server::api::path::bad;
use crate::server::api::view::overview;
use crate::server::auth::Caller;
use crate::server::openapi::Operation;
use crate::server::problem::{Kind, Problem};

/// What is said of [`cancel`].
pub(super) fn operation() -> Operation {
    Operation::acts("cancelDeployment", "Ends a deployment whose push has not begun.")
        .takes::<CancelRequest>()
        .gives::<DeploymentSummary>(200, "It is cancelled.")
        .fails(&[Kind::NotFound, Kind::Conflict])
}

/// Ends a deployment that waits, or whose push has not begun.
pub(super) async fn cancel(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    id: Result<Path<String>, PathRejection>,
    ask: Result<Json<CancelRequest>, JsonRejection>,
) -> Result<Json<DeploymentSummary>, Problem> {
    let Path(id) = id.map_err(|_| bad("the path cannot be read"))?;
    let id = DeployId::parse(id).map_err(|error| bad(error.to_string()))?;
    let Json(CancelRequest { reason: text }) = ask.map_err(|error| unread(&error))?;
    let deployments = &shared.state.deployments;
    let found = deployments.store.deployment(&id).await.map_err(|error| unavailable(&error))?;
    let deployment = found.ok_or_else(|| refused(NotCancelled::Unknown(id.clone())))?;
    shared.may_stop(&caller, &deployment).await?;
    let reason = reason(&text).map_err(|error| Problem::new(Kind::Unprocessable, error))?;
    let reply = key.reply(|one: &Deployment| answer(StatusCode::OK, &overview(one.clone())));
    let cancelled = deployments.cancel(&id, reason, caller.by(), &reply).await.map_err(refused)?;
    Ok(Json(overview(cancelled)))
}

fn refused(error: NotCancelled) -> Problem {
    match error {
        NotCancelled::Unknown(_) => Problem::new(Kind::NotFound, error.to_string()),
        NotCancelled::TooLate(detail) => Problem::new(Kind::Conflict, detail),
        NotCancelled::Fault(error) => unavailable(&error),
    }
}

fn unavailable(error: &dyn std::error::Error) -> Problem {
    tracing::error!(%error, "a deployment could not be cancelled");
    Problem::new(Kind::Unavailable, "it cannot be cancelled now; come again")
}
