//! HTTP: events in, answers out.
//!
//! ```text
//! POST /webhooks/github           signature ─▶ event ─▶ Deployments::accept ─▶ 202
//! GET  / /deployments/{id}        pages                  (a token as password)
//! GET  /api/v1/deployments[/{id}] what happened          (bearer token, if one is configured)
//! GET  /api/v1/apps[/…]           what is where          (the same)
//! POST /api/v1/apps/…/remove      what people do         (the same)
//! GET  /api/v1/openapi.json       all of these, for programs
//! GET  /healthz /readyz /metrics  alive? ready? numbers
//! ```
//!
//! Decides who may: beyond that a route reads what it was asked, calls a use case of
//! [`Deployments`](crate::deployments::Deployments) or reads its store, and writes the answer. Every error is an
//! `application/problem+json`; no log line carries a body or a secret.

pub mod problem; // errors as callers see them
mod limits; // how much is taken at once
pub mod auth; // who may call, and what they may do
pub mod deliveries; // what became of webhooks
mod body_budget; // how many bodies are read at once
mod state; // what the routes share

pub mod serve; // listening and stopping
mod socket; // one client's socket
pub mod connections; // which connections are open
pub mod descriptors; // how many files may be open
mod middleware; // what happens around every request

mod webhook; // /webhooks/github
mod routes; // /api/v1
mod call; // what a route is given: the caller, and what stands in path, query and body
mod query; // the parameters of lists
mod idempotency; // acts, each done once
mod conditional; // what callers have already, and compression
mod openapi; // the contract of the API
mod pages; // / and /deployments/{id}
mod probes; // /healthz, /readyz, /metrics

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::server::limits::Class;
pub use crate::server::limits::ServerLimits;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::server::query::fuzz as fuzz_query;
pub(crate) use crate::server::state::ServerState;
use crate::server::state::Shared;
pub use crate::server::state::Webhook;

/// All routes.
pub(crate) fn router(state: ServerState) -> Router {
    let shared = Arc::new(Shared::new(state));
    let webhooks = Router::new().route("/webhooks/github", post(webhook::github));
    let api = Router::new().nest(routes::BASE, routes::routes(&shared));
    let ready = Router::new().route("/readyz", get(probes::readyz));
    let working = middleware::timed(webhooks, &shared)
        .merge(middleware::bounded(api, &shared, Class::Api))
        .merge(middleware::bounded(pages::routes(&shared), &shared, Class::Page))
        .merge(middleware::bounded(ready, &shared, Class::Readiness));
    let routes = Router::new()
        .route("/healthz", get(probes::healthz))
        .route("/metrics", get(probes::metrics))
        .merge(working)
        .nest(routes::BASE, routes::streams(&shared))
        .fallback(problem::unknown_route)
        .method_not_allowed_fallback(problem::unknown_method)
        .with_state(shared.clone());
    middleware::around(routes, &shared)
}
