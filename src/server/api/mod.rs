//! `/api/v1`: what happened, and what people do, as JSON.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};

use crate::server::Shared;
use crate::server::auth::{Door, admitted};
use crate::server::ports::Backend;
use crate::server::problem::Problem;

mod apps; // what people do with an app
mod placed; // what is where
mod deployments; // the handlers
mod audit; // who did what
mod once; // acts, each done once
mod whoami; // who calls
pub(super) mod query; // the list's parameters
mod rollback; // a former revision made live again, and holds
mod view; // deployments as callers see them

/// All routes of the API, behind its tokens.
pub(super) fn routes<B: Backend>(shared: &Arc<Shared<B>>) -> Router<Arc<Shared<B>>> {
    Router::new()
        .route("/deployments", get(deployments::list::<B>))
        .route("/deployments/{id}", get(deployments::one::<B>))
        .route("/apps", get(placed::list::<B>))
        .route("/apps/{target}/{namespace}/{app}/remove", post(apps::remove::<B>))
        .route("/apps/{target}/{namespace}/{app}/rollback", post(rollback::roll_back::<B>))
        .route("/apps/{target}/{namespace}/{app}/hold", post(rollback::hold::<B>))
        .route("/apps/{target}/{namespace}/{app}/release", post(rollback::release::<B>))
        .route("/holds", get(rollback::holds::<B>))
        .route("/audit", get(audit::list::<B>))
        .route("/whoami", get(whoami::whoami))
        .layer(from_fn_with_state(shared.clone(), once::once::<B>))
        .layer(from_fn_with_state(shared.clone(), authenticated::<B>))
}

async fn authenticated<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let request = admitted(&shared, request, Door::Api).await?;
    Ok(next.run(request).await)
}
