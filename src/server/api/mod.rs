//! `/api/v1`: what happened, as JSON.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;

use crate::server::Shared;
use crate::server::ports::Backend;
use crate::server::problem::Problem;

mod deployments; // the handlers
mod query; // the list's parameters
mod view; // deployments as callers see them

/// All routes of the API, behind its tokens.
pub(super) fn routes<B: Backend>(shared: &Arc<Shared<B>>) -> Router<Arc<Shared<B>>> {
    Router::new()
        .route("/deployments", get(deployments::list::<B>))
        .route("/deployments/{id}", get(deployments::one::<B>))
        .layer(from_fn_with_state(shared.clone(), authenticated::<B>))
}

async fn authenticated<B: Backend>(
    State(shared): State<Arc<Shared<B>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    shared.state.tokens.check(request.headers())?;
    Ok(next.run(request).await)
}
